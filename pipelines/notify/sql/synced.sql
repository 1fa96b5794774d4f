-- For an alert: what the last good sync of one day brought.
SELECT students, classes, rows_added, rows_changed, rows_removed FROM ops.syncs
WHERE outcome = 'synced' AND snapshot_date = $day
ORDER BY landing DESC LIMIT 1
