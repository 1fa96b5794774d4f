-- The runs of {{ table.name }} from the whole lake: consecutive landed days on which a record stated the same.
--
-- Rows are wide and days are many, so a record's statement on a day is first hashed (a list regardless of its order).
-- The rows themselves are then read only for the days on which a run begins.
WITH days AS (
    SELECT
        snapshot_date, ROW_NUMBER() OVER (ORDER BY snapshot_date) AS ord,
        CASE WHEN snapshot_date < MAX(snapshot_date) OVER () THEN snapshot_date END AS last_day
    FROM spans.days
),
observed AS NOT MATERIALIZED ({{ observations }}),
signed AS (
    SELECT {{ table.parent_key }}, snapshot_date,
    {% if table.is_list %}
        BIT_XOR(HASH({{ m.names(table.versioned) }}, span_state)) AS digest FROM observed GROUP BY {{ table.parent_key }}, snapshot_date
    {% else %}
        HASH({{ m.names(table.versioned) }}, span_state) AS digest FROM observed
    {% endif %}
),
marked AS (
    SELECT
        s.{{ table.parent_key }}, d.snapshot_date, d.ord, d.last_day,
        LAG(d.ord) OVER w = d.ord - 1 AND LAG(s.digest) OVER w = s.digest AS goes_on,
        LEAD(d.ord) OVER w = d.ord + 1 AND LEAD(s.digest) OVER w = s.digest AS is_followed
    FROM signed AS s INNER JOIN days AS d ON d.snapshot_date = s.snapshot_date
    WINDOW w AS (PARTITION BY s.{{ table.parent_key }} ORDER BY d.ord)
),
edges AS (
    SELECT *, LEAD(last_day) OVER (PARTITION BY {{ table.parent_key }} ORDER BY ord) AS end_day
    FROM marked WHERE goes_on IS NOT TRUE OR is_followed IS NOT TRUE
),
runs AS (
    SELECT
        {{ table.parent_key }}, snapshot_date AS first_day,
        CASE WHEN is_followed THEN end_day ELSE last_day END AS last_day
    FROM edges WHERE goes_on IS NOT TRUE
)
SELECT {{ m.names(table.versioned, "o.") }}, o.span_state, r.first_day, r.last_day
FROM runs AS r
INNER JOIN observed AS o
    ON o.{{ table.parent_key }} = r.{{ table.parent_key }} AND o.snapshot_date = r.first_day
