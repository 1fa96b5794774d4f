-- The spans of {{ table }}'s changed keys around one day: what led up to it, the day itself, what follows, joined where alike.
CREATE OR REPLACE TEMP TABLE pieces AS
WITH near AS (
    SELECT s.* FROM spans.{{ table }} AS s SEMI JOIN delta ON delta.id = s.{{ parent }}
    WHERE s.first_day <= COALESCE($after, $day)
      AND (s.last_day IS NULL OR s.last_day >= COALESCE($before, $day))
),
pieces AS (
    SELECT {{ columns }}, span_state, first_day, {{ until }} AS last_day, 1 AS place
    FROM near WHERE first_day <= $before AND (last_day IS NULL OR last_day >= $before)
    UNION ALL
    SELECT {{ columns }}, span_state, $day, CASE WHEN $after IS NULL THEN NULL ELSE $day END, 2
    FROM new_rows SEMI JOIN delta ON delta.id = new_rows.{{ parent }}
    UNION ALL
    SELECT {{ columns }}, span_state, CAST($after AS DATE), last_day, {{ follows }}
    FROM near WHERE first_day <= $after AND (last_day IS NULL OR last_day >= $after)
),
shared AS (
    SELECT {{ parent }} AS id FROM pieces GROUP BY 1 HAVING COUNT(DISTINCT place) > 1
),
signed AS (
    SELECT
        p.{{ parent }} AS id, p.place, ANY_VALUE(p.first_day) AS first_day, ANY_VALUE(p.last_day) AS last_day,
        LIST_SORT(LIST(ROW({{ content }}, span_state))) AS said
    FROM pieces AS p SEMI JOIN shared ON shared.id = p.{{ parent }}
    GROUP BY ALL
),
marked AS (
    SELECT
        *,
        CASE WHEN LAG(place) OVER w = place - 1 AND LAG(said) OVER w = said THEN 0 ELSE 1 END AS starts
    FROM signed WINDOW w AS (PARTITION BY id ORDER BY place)
),
numbered AS (SELECT *, SUM(starts) OVER (PARTITION BY id ORDER BY place ROWS UNBOUNDED PRECEDING) AS run FROM marked),
joined AS (
    SELECT
        id, MIN(place) AS place, MIN(first_day) AS first_day,
        CASE WHEN COUNT(last_day) = COUNT(*) THEN MAX(last_day) END AS last_day
    FROM numbered GROUP BY id, run
)
SELECT {{ columns }}, span_state, j.first_day, j.last_day
FROM pieces AS p INNER JOIN joined AS j ON j.id = p.{{ parent }} AND j.place = p.place
UNION ALL
SELECT {{ columns }}, span_state, first_day, last_day
FROM pieces AS p ANTI JOIN shared ON shared.id = p.{{ parent }}
