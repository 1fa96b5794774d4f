-- The records whose statements about {{ table.name }} on one day differ from their runs.
WITH old AS (
    SELECT * FROM spans.{{ table.name }} WHERE first_day <= $day AND (last_day IS NULL OR last_day >= $day)
)
SELECT DISTINCT COALESCE(n.{{ table.parent_key }}, o.{{ table.parent_key }}) AS id
FROM observations AS n FULL JOIN old AS o ON {{ m.alike(table.key, "n", "o") }}
WHERE n.{{ table.parent_key }} IS NULL OR o.{{ table.parent_key }} IS NULL OR n.span_state <> o.span_state
    OR {{ m.differ(table.tracked, "n", "o") }}
