-- The fleet's page: how many records each institution's newest sync refused, if any.
SELECT institution, snapshot_date, rejected
FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY institution ORDER BY snapshot_date DESC, landing DESC) AS from_last
    FROM ops.syncs WHERE outcome = 'synced'
)
WHERE from_last = 1 AND rejected > 0
ORDER BY rejected DESC, institution
LIMIT 100
