-- The history of {{ table.name }}: a slowly changing dimension, type 2. This is the definition (G7).
--
-- It reads runs of landed days on which a record stated the same: span_state, first_day and last_day (NULL: until the
-- newest landed day), with the values. Each landed day by itself is such a run, too.
--
-- Gaps and islands: statements are numbered per record; a row that repeats the tracked values of the record's previous
-- statement continues a version, any other row begins one.
WITH
-- That a record is absent is a statement, too (G2). A day that says nothing of a record changes nothing.
statements AS (
    SELECT DISTINCT {{ table.parent_key }} AS id, first_day AS day FROM {{ runs }} WHERE span_state <> 'not_stated'
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
