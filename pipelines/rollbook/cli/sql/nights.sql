-- What was synced, night by night?
SELECT
    snapshot_date AS night, outcome, proven, students, classes,
    rows_added AS added, rows_changed AS changed, rows_removed AS removed
FROM sync_log ORDER BY snapshot_date
