-- For the demo: the result of each night.
SELECT snapshot_date, outcome, proven, students, classes, rows_added, rows_changed, rows_removed
FROM sync_log ORDER BY snapshot_date
