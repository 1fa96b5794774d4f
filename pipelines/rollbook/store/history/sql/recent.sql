-- The touched records' runs of {{ table.name }} from their last statement before a day on: it is still valid on the day.
WITH reach AS (
    SELECT t.id, COALESCE(MAX(s.first_day), $since) AS first_day
    FROM touched AS t
    LEFT JOIN spans.{{ table.name }} AS s
        ON s.{{ table.parent_key }} = t.id AND s.first_day < $since AND s.span_state <> 'not_stated'
    GROUP BY t.id
)
SELECT s.*
FROM spans.{{ table.name }} AS s
INNER JOIN reach AS r ON r.id = s.{{ table.parent_key }} AND s.first_day >= r.first_day
