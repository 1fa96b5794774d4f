-- For an alert: the counts of one day's last good sync.
SELECT
    STRING_AGG(FORMAT('{} {}', c.received, c.set_name), ', ' ORDER BY c.set_name DESC),
    ANY_VALUE(s.rows_added), ANY_VALUE(s.rows_changed), ANY_VALUE(s.rows_removed)
FROM ops.syncs AS s LEFT JOIN ops.sync_sets AS c USING (snapshot_date, landing)
WHERE s.outcome = 'synced' AND s.snapshot_date = $day
GROUP BY s.landing
ORDER BY s.landing DESC LIMIT 1
