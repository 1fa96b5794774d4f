-- For an alert: what readers have, from the last good sync.
SELECT s.snapshot_date, STRING_AGG(FORMAT('{} {}', c.received, c.set_name), ', ' ORDER BY c.set_name DESC)
FROM ops.syncs AS s LEFT JOIN ops.sync_sets AS c USING (snapshot_date, landing)
WHERE s.outcome = 'synced'
GROUP BY s.snapshot_date, s.landing
ORDER BY s.snapshot_date DESC, s.landing DESC LIMIT 1
