-- Replace the delta records' runs of {{ table.name }} around one day by `pieces`: up to the day before, the day itself,
-- from the day after on; merged where they are alike.
{% if is_forgotten %}
-- The day is forgotten: the runs before and after it adjoin; if no day follows, the run before it becomes open.
{% endif %}
{% set reaches_a_neighbour %}
first_day <= COALESCE($after, $day) AND (last_day IS NULL OR last_day >= COALESCE($before, $day))
{%- endset %}
CREATE OR REPLACE TEMP TABLE pieces AS
WITH near AS (
    SELECT s.* FROM spans.{{ table.name }} AS s SEMI JOIN delta ON delta.id = s.{{ table.parent_key }}
    WHERE {{ reaches_a_neighbour }}
),
pieces AS (
    SELECT
        {{ m.names(table.versioned) }}, span_state, first_day,
        {% if is_forgotten %}
        CASE WHEN $after IS NULL THEN NULL ELSE CAST($before AS DATE) END AS last_day,
        {% else %}
        CAST($before AS DATE) AS last_day,
        {% endif %}
        1 AS place
    FROM near WHERE first_day <= $before AND (last_day IS NULL OR last_day >= $before)
    {% if not is_forgotten %}
    UNION ALL
    SELECT {{ m.names(table.versioned, "o.") }}, o.span_state, $day, CASE WHEN $after IS NULL THEN NULL ELSE $day END, 2
    FROM observations AS o SEMI JOIN delta ON delta.id = o.{{ table.parent_key }}
    {% endif %}
    UNION ALL
    SELECT {{ m.names(table.versioned) }}, span_state, CAST($after AS DATE), last_day, {{ 2 if is_forgotten else 3 }}
    FROM near WHERE first_day <= $after AND (last_day IS NULL OR last_day >= $after)
),
shared AS (
    SELECT {{ table.parent_key }} AS id FROM pieces GROUP BY 1 HAVING COUNT(DISTINCT place) > 1
),
signed AS (
    SELECT
        p.{{ table.parent_key }} AS id, p.place,
        ANY_VALUE(p.first_day) AS first_day, ANY_VALUE(p.last_day) AS last_day,
        LIST_SORT(LIST(ROW({{ m.names(table.versioned) }}, span_state))) AS stated
    FROM pieces AS p SEMI JOIN shared ON shared.id = p.{{ table.parent_key }}
    GROUP BY ALL
),
marked AS (
    SELECT
        *,
        CASE WHEN LAG(place) OVER w = place - 1 AND LAG(stated) OVER w = stated THEN 0 ELSE 1 END AS starts
    FROM signed WINDOW w AS (PARTITION BY id ORDER BY place)
),
numbered AS (
    SELECT *, SUM(starts) OVER (PARTITION BY id ORDER BY place ROWS UNBOUNDED PRECEDING) AS run FROM marked
),
joined AS (
    SELECT
        id, MIN(place) AS place, MIN(first_day) AS first_day,
        CASE WHEN COUNT(last_day) = COUNT(*) THEN MAX(last_day) END AS last_day
    FROM numbered GROUP BY id, run
)
SELECT {{ m.names(table.versioned) }}, span_state, j.first_day, j.last_day
FROM pieces AS p INNER JOIN joined AS j ON j.id = p.{{ table.parent_key }} AND j.place = p.place
UNION ALL
SELECT {{ m.names(table.versioned) }}, span_state, first_day, last_day
FROM pieces AS p ANTI JOIN shared ON shared.id = p.{{ table.parent_key }};

DELETE FROM spans.{{ table.name }}
WHERE {{ table.parent_key }} IN (SELECT id FROM delta) AND {{ reaches_a_neighbour }};

INSERT INTO spans.{{ table.name }} FROM pieces
