-- The records whose stated rows of {{ table.name }} differ from the current ones: added, removed or changed rows.
WITH stating AS (
    SELECT id FROM {{ observed }} AS o WHERE set_name = '{{ table.set }}' AND id IS NOT NULL
    GROUP BY id HAVING NOT BOOL_OR({{ m.says_nothing("o", table) }})
),
new AS (SELECT {{ m.names(columns) }} FROM {{ new }}),
known AS (SELECT {{ m.names(columns) }} FROM {{ current }} WHERE {{ table.parent_key }} IN (SELECT id FROM stating))
SELECT {{ table.parent_key }} FROM (FROM new EXCEPT FROM known)
UNION
SELECT {{ table.parent_key }} FROM (FROM known EXCEPT FROM new)
