-- sync_log: One row per night since the first sync: its outcome, in words. The last sync of a night counts.
-- key: snapshot_date
--
-- A night's rows are counted against what readers had when it was decided on. Those of an approved night, the only one of
-- its date that counts, are against the landed day before it: one approval may merge many nights.
--
--   snapshot_date   The night, by the date of its snapshot.
--   outcome         synced, held, failed, discarded, or missing when there was no sync.
--   description     What happened, in words.
--   syncs           Syncs of that date.
--   proven          Whether every set was proven complete; if not, nothing was removed.
--   students        Different student records received.
--   classes         Different class records received.
--   rows_added      Rows added, over all tables.
--   rows_changed    Rows changed in a tracked column, over all tables.
--   rows_removed    Rows removed, over all tables.
--   rejected        Records refused; see ops.rejects.
--   started_at      When the sync began, UTC.
--   seconds         How long it took.
WITH nights AS (
    SELECT CAST(UNNEST(GENERATE_SERIES(MIN(snapshot_date), MAX(snapshot_date), INTERVAL 1 DAY)) AS DATE) AS snapshot_date
    FROM ops.syncs
),
received AS (
    SELECT
        snapshot_date, landing,
        -- As a sum they would be HUGEINT, which Power BI cannot read.
        CAST(COALESCE(SUM(COALESCE(records, received)) FILTER (set_name = 'students'), 0) AS BIGINT) AS students,
        CAST(COALESCE(SUM(COALESCE(records, received)) FILTER (set_name = 'classes'), 0) AS BIGINT) AS classes
    FROM ops.syncs LEFT JOIN ops.sync_sets USING (snapshot_date, landing)
    GROUP BY snapshot_date, landing
),
decided AS (
    SELECT *, COUNT(*) OVER (PARTITION BY snapshot_date) AS syncs
    FROM ops.syncs INNER JOIN received USING (snapshot_date, landing)
    -- A discarded sync is the night's outcome only if all of the night's syncs were discarded.
    QUALIFY ROW_NUMBER() OVER (PARTITION BY snapshot_date ORDER BY outcome = 'discarded', landing DESC) = 1
),
approved AS (
    SELECT snapshot_date FROM ops.syncs SEMI JOIN spans.days USING (snapshot_date)
    WHERE outcome = 'synced' GROUP BY snapshot_date HAVING COUNT(*) = 1 AND MAX(verdict) = 'approved'
),
merged AS (
    SELECT
        a.snapshot_date,
        COUNT(*) FILTER (c.change IN ('added', 'returned')) AS rows_added,
        COUNT(DISTINCT (c.table_name, {{ m.names(change_keys, "c.") }})) FILTER (c.change = 'changed') AS rows_changed,
        COUNT(*) FILTER (c.change = 'removed') AS rows_removed
    FROM approved AS a LEFT JOIN main.changes AS c ON c.snapshot_date = a.snapshot_date
    GROUP BY a.snapshot_date
),
last AS (
    SELECT
        d.* REPLACE (
            COALESCE(m.rows_added, d.rows_added) AS rows_added,
            COALESCE(m.rows_changed, d.rows_changed) AS rows_changed,
            COALESCE(m.rows_removed, d.rows_removed) AS rows_removed
        )
    FROM decided AS d LEFT JOIN merged AS m USING (snapshot_date)
)
SELECT
    n.snapshot_date,
    COALESCE(s.outcome, 'missing') AS outcome,
    CONCAT_WS(
        ' ',
        CASE
            WHEN s.outcome IS NULL THEN 'No sync: nothing was landed, and the service keeps no history.'
            WHEN s.outcome = 'held' THEN FORMAT('Held: {}. Readers kept what was published before.', s.reason)
            WHEN s.outcome = 'discarded' THEN FORMAT('Discarded: {}. It counts for nothing.', s.reason)
            WHEN s.outcome = 'failed' THEN FORMAT('Failed: {}. Readers kept what was published before.', s.reason)
            ELSE FORMAT('Synced {:,} students and {:,} classes: ', s.students, s.classes)
                || CASE WHEN s.rows_added + s.rows_changed + s.rows_removed = 0 THEN 'nothing changed.'
                ELSE FORMAT(
                    '{:,} rows added, {:,} changed, {:,} removed.', s.rows_added, s.rows_changed, s.rows_removed
                ) END
        END,
        CASE WHEN s.verdict = 'approved' THEN 'It was held, and approved by a person.' END,
        CASE WHEN s.verdict = 'unproven' THEN FORMAT('Unproven: {}.', s.reason) END,
        CASE WHEN s.rejected > 0 THEN FORMAT('{:,} refused; see ops.rejects.', s.rejected) END,
        CASE WHEN s.found_by_search > 0 THEN FORMAT('{:,} seemed gone and were found.', s.found_by_search) END,
        CASE WHEN s.syncs > 1 THEN FORMAT('It was sync {} of that date.', s.syncs) END
    ) AS description,
    COALESCE(s.syncs, 0) AS syncs,
    s.proven,
    s.students,
    s.classes,
    s.rows_added,
    s.rows_changed,
    s.rows_removed,
    s.rejected,
    s.started_at,
    ROUND(EPOCH(s.finished_at) - EPOCH(s.started_at), 1) AS seconds
FROM nights AS n LEFT JOIN last AS s USING (snapshot_date)
ORDER BY n.snapshot_date
