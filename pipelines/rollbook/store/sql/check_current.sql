-- How many sampled records have current rows in {{ table.name }} that differ from their open versions.
WITH current_rows AS (SELECT {{ m.names(table.versioned) }} FROM main.{{ table.name }} WHERE {{ some }}),
open_versions AS (SELECT {{ m.names(table.versioned) }} FROM history.{{ table.name }} WHERE valid_to IS NULL AND {{ some }})
SELECT COUNT(DISTINCT COALESCE(c.{{ table.parent_key }}, o.{{ table.parent_key }}))
FROM current_rows AS c FULL JOIN open_versions AS o ON {{ m.same(table.key, "c", "o") }}
WHERE c.{{ table.parent_key }} IS NULL OR o.{{ table.parent_key }} IS NULL OR {{ m.differ(table.tracked, "c", "o") }}
