-- What was synced, night by night?
SELECT snapshot_date AS night, outcome, proven, students, classes, rows_added, rows_changed, rows_removed
FROM sync_log ORDER BY snapshot_date
