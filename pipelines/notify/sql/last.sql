-- For an alert: what readers have, by the last good sync.
SELECT snapshot_date, students, classes FROM ops.syncs
WHERE outcome = 'synced'
ORDER BY snapshot_date DESC, landing DESC LIMIT 1
