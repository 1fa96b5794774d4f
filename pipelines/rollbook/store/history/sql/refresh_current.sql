-- Bring the touched records' current rows of {{ table.name }} up to their open versions; equal rows stay.
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
WHERE w.{{ table.parent_key }} IS NULL OR h.{{ table.parent_key }} IS NULL OR {{ m.differ(table.tracked, "w", "h") }};

DELETE FROM main.{{ table.name }} AS m USING current_changes AS x
WHERE {{ m.same(table.key, "m", "x") }} AND x.change <> 'added';

INSERT INTO main.{{ table.name }} BY NAME
SELECT {{ m.names(table.versioned) }} FROM current_changes WHERE change <> 'removed'
