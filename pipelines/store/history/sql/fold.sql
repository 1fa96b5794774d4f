-- History of {{ table }}: what each key stated, day by day, folded into versions. This is the definition (G7).
--
-- seen(id, first_day, last_day, is_statement): the runs of landed days on which a record was observed alike; a run
--     that is no statement (the record silent here, or refused) says nothing, yet keeps an absence from being read in.
-- days(day, next_proven): every landed day, with the first later one on which the set was proven complete.
-- stated(..., first_day): the rows that each statement holds.
WITH seen AS ({{ seen }}),
days AS ({{ days }}),
stated AS ({{ stated }}),
runs AS (
    SELECT id, first_day, last_day, is_statement, LEAD(first_day) OVER (PARTITION BY id ORDER BY first_day) AS next_seen
    FROM seen
),
-- A record is stated absent on the first proven day that did not show it.
statements AS (
    SELECT id, first_day AS day FROM seen WHERE is_statement
    UNION ALL
    SELECT r.id, d.next_proven
    FROM runs AS r INNER JOIN days AS d ON d.day = r.last_day
    WHERE d.next_proven IS NOT NULL AND (r.next_seen IS NULL OR d.next_proven < r.next_seen)
),
ordered AS (
    SELECT
        id, day,
        ROW_NUMBER() OVER (PARTITION BY id ORDER BY day) AS n,
        LEAD(day) OVER (PARTITION BY id ORDER BY day) AS next_day
    FROM statements
),
present AS (
    SELECT {{ present }}, o.day, o.n, o.next_day
    FROM stated AS s INNER JOIN ordered AS o ON o.id = s.{{ parent }} AND o.day = s.first_day
),
marked AS (
    SELECT
        p.*,
        CASE WHEN LAG(n) OVER w = n - 1{{ unchanged }} THEN 0 ELSE 1 END AS starts
    FROM present AS p
    WINDOW w AS (PARTITION BY {{ key }} ORDER BY n)
),
numbered AS (
    SELECT m.*, SUM(starts) OVER (PARTITION BY {{ key }} ORDER BY n ROWS UNBOUNDED PRECEDING) AS version FROM marked AS m
),
spans AS (
    SELECT
        {{ key }}, version, MIN(day) AS valid_from,
        CASE WHEN COUNT(next_day) = COUNT(*) THEN MAX(next_day) END AS valid_to
    FROM numbered
    GROUP BY {{ key }}, version
)
SELECT {{ columns }}, v.valid_from, v.valid_to
FROM numbered AS n INNER JOIN spans AS v ON {{ same_key }} AND n.version = v.version
WHERE n.starts = 1
