-- How the touched records' current rows of {{ table.name }} differ from their open versions.
CREATE OR REPLACE TEMP TABLE current_changes AS
WITH wanted AS (
    SELECT {{ m.names(table.versioned) }} FROM history.{{ table.name }}
    WHERE valid_to IS NULL AND {{ table.parent_key }} IN (SELECT id FROM touched)
),
had AS (
    SELECT {{ m.names(table.versioned) }} FROM main.{{ table.name }}
    WHERE {{ table.parent_key }} IN (SELECT id FROM touched)
)
SELECT
    {% for c in table.versioned %}
    {{ "COALESCE(w." ~ c.name ~ ", h." ~ c.name ~ ") AS " ~ c.name if c.name in table.key else "w." ~ c.name }},
    {% endfor %}
    CASE
        WHEN h.{{ table.parent_key }} IS NULL THEN 'added'
        WHEN w.{{ table.parent_key }} IS NULL THEN 'removed'
        ELSE 'changed'
    END AS change
FROM wanted AS w FULL JOIN had AS h ON {{ m.same(table.key, "w", "h") }}
WHERE w.{{ table.parent_key }} IS NULL OR h.{{ table.parent_key }} IS NULL OR {{ m.differ(table.tracked, "w", "h") }}
