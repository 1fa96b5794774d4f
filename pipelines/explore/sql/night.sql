-- Explore: the newest night and its outcome.
SELECT snapshot_date, CASE WHEN outcome = 'synced' AND NOT proven THEN 'unproven' ELSE outcome END, said
FROM main.sync_log ORDER BY snapshot_date DESC LIMIT 1
