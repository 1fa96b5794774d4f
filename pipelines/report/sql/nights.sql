-- For the morning page: the last nights and their outcomes, newest first.
SELECT
    snapshot_date, CASE WHEN outcome = 'synced' AND NOT proven THEN 'unproven' ELSE outcome END,
    said, seconds, students, classes
FROM main.sync_log ORDER BY snapshot_date DESC LIMIT {{ most }}
