-- In how many current rows of {{ table.name }} the total falls far; and per measure, how many rows have it, and how many
-- would lose it.
--
-- Where a total falls to half or less, a term has begun, and counts begin again with it, except what outlasts terms. A total
-- of 0 says nothing about a record's other measures, so such rows are left out. Without a total, each measure is judged
-- by itself.
{% macro has(c, of) -%}
{% if c.type == "BOOLEAN" %}COALESCE({{ of }}.{{ c.name }}, FALSE)
{%- elif c.type == "DATE" or c.measure == "down" %}{{ of }}.{{ c.name }} IS NOT NULL
{%- else %}COALESCE({{ of }}.{{ c.name }}, 0) <> 0{% endif %}
{%- endmacro %}
WITH totals AS (
    {% if total %}
    SELECT
        c.{{ table.parent_key }}, c.{{ total }} AS total,
        COALESCE(c.{{ total }} > 0 AND 2 * n.{{ total }} <= c.{{ total }}, FALSE) AS begins_again
    FROM {{ current_totals }} AS c LEFT JOIN {{ new_totals }} AS n USING ({{ table.parent_key }})
    {% else %}
    SELECT {{ table.parent_key }}, NULL AS total, FALSE AS begins_again FROM {{ current }}
    {% endif %}
)
SELECT
    COUNT(*) FILTER (t.begins_again){% for c in measures %},
    COUNT(*) FILTER ({{ has(c, "c") }}),
    COUNT(*) FILTER ({{ has(c, "c") }} AND NOT ({{ has(c, "n") }})
        {%- if not c.outlasts_terms %} AND t.begins_again IS NOT TRUE{% endif %})
    {%- endfor %}

FROM {{ current }} AS c
INNER JOIN {{ new }} AS n USING ({{ table.parent_key }})
LEFT JOIN totals AS t USING ({{ table.parent_key }})
WHERE t.total IS NULL OR t.total > 0
