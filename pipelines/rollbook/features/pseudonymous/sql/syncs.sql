-- ops.syncs for the pseudonymous file: without reasons, byte counts and changes of personal columns only.
--
-- One changed row in a night without a listed change would reveal that a name or address changed. All such changes of a
-- day are subtracted from its last sync, no matter which sync made them; the others' counts are NULL.
INSERT INTO ops.syncs BY NAME
WITH unseen AS (
    SELECT snapshot_date, COUNT(*) AS row_count
    FROM (
        SELECT snapshot_date
        FROM named.main.changes
        WHERE change = 'changed' AND table_name IN ({{ tables | join(", ") }})
        GROUP BY snapshot_date, table_name, {{ m.names(change_keys) }}
        HAVING BOOL_AND({{ personal }})
    )
    GROUP BY snapshot_date
),
last AS (
    SELECT snapshot_date, MAX(landing) AS landing FROM named.ops.syncs WHERE outcome = 'synced' GROUP BY snapshot_date
)
SELECT
    s.* REPLACE (
        CASE WHEN s.reason <> '' THEN 'the reason is left out of this file' ELSE s.reason END AS reason,
        NULL AS bytes_received,
        CASE WHEN l.landing IS NOT NULL THEN s.rows_added END AS rows_added,
        CASE WHEN l.landing IS NOT NULL THEN GREATEST(s.rows_changed - COALESCE(u.row_count, 0), 0) END AS rows_changed,
        CASE WHEN l.landing IS NOT NULL THEN s.rows_removed END AS rows_removed
    )
FROM named.ops.syncs AS s
LEFT JOIN last AS l ON l.snapshot_date = s.snapshot_date AND l.landing = s.landing
LEFT JOIN unseen AS u ON u.snapshot_date = s.snapshot_date
