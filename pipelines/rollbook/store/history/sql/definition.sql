-- The history of {{ table.name }}: a slowly changing dimension, type 2. This is the definition (G7).
--
-- Gaps and islands: statements are numbered per record; a row that repeats the tracked values of the record's previous
-- statement continues a version, any other row begins one.
-- With many institutions (`scope`), each has its own records and days. Only SQL that all engines share is used.
WITH
{% if lake %}
-- Each landed day by itself.
seen AS (
    SELECT DISTINCT {{ scope.id }}{{ table.parent_key }} AS id, snapshot_date AS first_day, snapshot_date AS last_day,
        span_state <> 'not_stated' AS is_statement
    FROM ({{ observations }}) AS o
),
stated AS (SELECT *, snapshot_date AS first_day FROM ({{ rows }}) AS t),
{% else %}
{% if touched %}
-- The touched records' runs from their last statement before a day on: that statement is still valid on the day.
reach AS (
    SELECT t.id, COALESCE(MAX(s.first_day), $since) AS first_day
    FROM touched AS t
    LEFT JOIN spans.{{ table.name }} AS s
        ON s.{{ table.parent_key }} = t.id AND s.first_day < $since AND s.span_state <> 'not_stated'
    GROUP BY t.id
),
recent AS MATERIALIZED (
    SELECT s.*
    FROM spans.{{ table.name }} AS s
    INNER JOIN reach AS r ON r.id = s.{{ table.parent_key }} AND s.first_day >= r.first_day
),
{% endif %}
{% set runs = "recent" if touched else "spans." ~ table.name %}
newest AS (SELECT {{ scope.id }}MAX(snapshot_date) AS newest_day FROM spans.days{{ scope.grouped }}),
-- Runs of landed days on which a record was observed with the same statement.
seen AS (
    SELECT DISTINCT {{ scope.of("s") }}s.{{ table.parent_key }} AS id, s.first_day,
        COALESCE(s.last_day, newest.newest_day) AS last_day, s.span_state <> 'not_stated' AS is_statement
    FROM {{ runs }} AS s {{ scope.beside("newest", "s") }}
),
stated AS (SELECT * FROM {{ runs }} WHERE span_state = 'stated'),
{% endif %}
-- Every landed day, with the first later one on which the set was proven complete.
days AS (
    SELECT
        {{ scope.of("d") }}d.snapshot_date AS day,
        MIN(CASE WHEN p.day IS NOT NULL THEN d.snapshot_date END) OVER (
            {{ scope.within("d") }}ORDER BY d.snapshot_date ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
        ) AS next_proven
    FROM spans.days AS d
    LEFT JOIN spans.proven AS p ON {{ scope.same("p", "d") }}p.day = d.snapshot_date AND p.set_name = '{{ table.set }}'
),
-- A run without a statement still shows that the record exists, so it delays an absence.
runs AS (
    SELECT
        {{ scope.id }}id, first_day, last_day, is_statement,
        LEAD(first_day) OVER (PARTITION BY {{ scope.id }}id ORDER BY first_day) AS next_seen
    FROM seen
),
-- A record is stated absent on the first proven day that did not show it.
statements AS (
    SELECT {{ scope.id }}id, first_day AS day FROM seen WHERE is_statement
    UNION ALL
    SELECT {{ scope.of("r") }}r.id, d.next_proven
    FROM runs AS r INNER JOIN days AS d ON {{ scope.same("d", "r") }}d.day = r.last_day
    WHERE d.next_proven IS NOT NULL AND (r.next_seen IS NULL OR d.next_proven < r.next_seen)
),
ordered AS (
    SELECT
        {{ scope.id }}id, day,
        ROW_NUMBER() OVER (PARTITION BY {{ scope.id }}id ORDER BY day) AS n,
        LEAD(day) OVER (PARTITION BY {{ scope.id }}id ORDER BY day) AS next_day
    FROM statements
),
present AS (
    SELECT {{ scope.of("s") }}{{ m.names(table.versioned, "s.") }}, o.day, o.n, o.next_day
    FROM stated AS s INNER JOIN ordered AS o ON {{ scope.same("o", "s") }}o.id = s.{{ table.parent_key }} AND o.day = s.first_day
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
    WINDOW w AS (PARTITION BY {{ scope.id }}{{ m.names(table.key) }} ORDER BY n)
),
numbered AS (
    SELECT
        m.*,
        SUM(starts) OVER (PARTITION BY {{ scope.id }}{{ m.names(table.key) }} ORDER BY n ROWS UNBOUNDED PRECEDING) AS version
    FROM marked AS m
),
validity AS (
    SELECT
        {{ scope.id }}{{ m.names(table.key) }}, version, MIN(day) AS valid_from,
        CASE WHEN COUNT(next_day) = COUNT(*) THEN MAX(next_day) END AS valid_to
    FROM numbered
    GROUP BY {{ scope.id }}{{ m.names(table.key) }}, version
)
SELECT {{ scope.of("n") }}{{ m.names(table.versioned, "n.") }}, v.valid_from, v.valid_to
FROM numbered AS n INNER JOIN validity AS v ON {{ scope.same("n", "v") }}{{ m.same(table.key, "n", "v") }} AND n.version = v.version
WHERE n.starts = 1
