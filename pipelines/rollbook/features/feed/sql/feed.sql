-- The rows of {{ table.name }} that are not as in the published file, a row per key: the current rows, and those whose
-- past alone was corrected, on days from $since on.
INSERT INTO ops.feed BY NAME
WITH differing AS (
    SELECT
        {% for key in table.key %}
        COALESCE(n.{{ key }}, b.{{ key }}) AS {{ key }},
        {% endfor %}
        CASE
            WHEN b.{{ table.parent_key }} IS NULL THEN 'added'
            WHEN n.{{ table.parent_key }} IS NULL THEN 'removed'
            ELSE 'changed'
        END AS change
    FROM main.{{ table.name }} AS n
    FULL JOIN published.main.{{ table.name }} AS b ON {{ m.same(table.key, "n", "b") }}
    WHERE n.{{ table.parent_key }} IS NULL OR b.{{ table.parent_key }} IS NULL
        OR {{ m.differ(table.columns | rejectattr("name", "in", table.key), "n", "b") }}
)
{% macro recent(file) -%}
SELECT {{ m.names(table.versioned) }}, valid_from, valid_to FROM {{ file }}history.{{ table.name }}
WHERE $since IS NULL OR valid_to IS NULL OR valid_to >= $since
{%- endmacro %}
SELECT $number AS number, '{{ table.name }}' AS table_name, {{ m.names(table.key) }}, change FROM differing
{% if is_past %}
UNION ALL
SELECT DISTINCT $number, '{{ table.name }}', {{ m.names(table.key) }}, 'corrected'
FROM (
    ({{ recent("") }} EXCEPT {{ recent("published.") }})
    UNION ALL
    ({{ recent("published.") }} EXCEPT {{ recent("") }})
)
ANTI JOIN differing USING ({{ m.names(table.key) }})
{% endif %}
