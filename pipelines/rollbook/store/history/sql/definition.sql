-- The history of {{ table.name }}: a slowly changing dimension, type 2. This is the definition (G7).
--
-- It reads runs of landed days on which a record stated the same: span_state, first_day and last_day (NULL: until the
-- newest landed day), with the values. Each landed day by itself is such a run, too.
--
-- Gaps and islands: statements are numbered per record; a row that repeats the tracked values of the record's previous
-- statement continues a version, any other row begins one.
WITH
-- Runs of landed days on which a record was observed.
seen AS (
    SELECT DISTINCT {{ table.parent_key }} AS id, first_day,
        COALESCE(last_day, (SELECT MAX(snapshot_date) FROM spans.days)) AS last_day,
        span_state <> 'not_stated' AS is_statement
    FROM {{ runs }}
),
-- Every landed day, with the first later one on which the set was proven complete.
days AS (
    SELECT
        d.snapshot_date AS day,
        MIN(CASE WHEN p.day IS NOT NULL THEN d.snapshot_date END) OVER (
            ORDER BY d.snapshot_date ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
        ) AS next_proven
    FROM spans.days AS d
    LEFT JOIN spans.proven AS p ON p.day = d.snapshot_date AND p.set_name = '{{ table.set }}'
),
-- A run without a statement still shows that the record exists, so it delays an absence.
observed AS (
    SELECT id, first_day, last_day, LEAD(first_day) OVER (PARTITION BY id ORDER BY first_day) AS next_seen
    FROM seen
),
-- A record is stated absent on the first proven day that did not show it.
statements AS (
    SELECT id, first_day AS day FROM seen WHERE is_statement
    UNION ALL
    SELECT o.id, d.next_proven
    FROM observed AS o INNER JOIN days AS d ON d.day = o.last_day
    WHERE d.next_proven IS NOT NULL AND (o.next_seen IS NULL OR d.next_proven < o.next_seen)
),
ordered AS (
    SELECT
        id, day,
        ROW_NUMBER() OVER (PARTITION BY id ORDER BY day) AS n,
        LEAD(day) OVER (PARTITION BY id ORDER BY day) AS next_day
    FROM statements
),
present AS (
    SELECT {{ m.names(table.versioned, "r.") }}, o.day, o.n, o.next_day
    FROM {{ runs }} AS r INNER JOIN ordered AS o ON o.id = r.{{ table.parent_key }} AND o.day = r.first_day
    WHERE r.span_state = 'stated'
),
marked AS (
    SELECT
        p.*,
        CASE
            WHEN LAG(n) OVER w = n - 1
            {% for c in table.tracked %}
                AND {{ c.name }} IS NOT DISTINCT FROM LAG({{ c.name }}) OVER w
            {% endfor %}
            THEN 0 ELSE 1
        END AS starts
    FROM present AS p
    WINDOW w AS (PARTITION BY {{ m.names(table.key) }} ORDER BY n)
),
numbered AS (
    SELECT
        m.*,
        SUM(starts) OVER (PARTITION BY {{ m.names(table.key) }} ORDER BY n ROWS UNBOUNDED PRECEDING) AS version
    FROM marked AS m
),
validity AS (
    SELECT
        {{ m.names(table.key) }}, version, MIN(day) AS valid_from,
        CASE WHEN COUNT(next_day) = COUNT(*) THEN MAX(next_day) END AS valid_to
    FROM numbered
    GROUP BY {{ m.names(table.key) }}, version
)
SELECT {{ m.names(table.versioned, "n.") }}, v.valid_from, v.valid_to
FROM numbered AS n INNER JOIN validity AS v ON {{ m.same(table.key, "n", "v") }} AND n.version = v.version
WHERE n.starts = 1
