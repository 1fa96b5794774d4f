-- In how many current rows of {{ table.name }} the total falls; and per measure, how many rows have it, and how many
-- would lose it although their total stays.
--
-- A total of 0 says nothing about a record's other measures, so such rows are left out.
{% macro has(c, of) -%}
{% if c.type == "BOOLEAN" %}COALESCE({{ of }}.{{ c.name }}, FALSE)
{%- elif c.type == "DATE" or c.measure == "down" %}{{ of }}.{{ c.name }} IS NOT NULL
{%- else %}COALESCE({{ of }}.{{ c.name }}, 0) <> 0{% endif %}
{%- endmacro %}
WITH totals AS (
    SELECT c.{{ table.parent_key }}, COALESCE(n.{{ total }} < c.{{ total }}, FALSE) AS falls
    FROM {{ current_totals }} AS c LEFT JOIN {{ new_totals }} AS n USING ({{ table.parent_key }})
    WHERE c.{{ total }} > 0
)
SELECT
    COUNT(*) FILTER (t.falls){% for c in measures %},
    COUNT(*) FILTER ({{ has(c, "c") }}), COUNT(*) FILTER (NOT t.falls AND {{ has(c, "c") }} AND NOT ({{ has(c, "n") }}))
    {% endfor %}
FROM {{ current }} AS c
INNER JOIN {{ new }} AS n USING ({{ table.parent_key }})
INNER JOIN totals AS t USING ({{ table.parent_key }})
