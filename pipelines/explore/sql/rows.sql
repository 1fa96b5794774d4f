-- Explore: the rows of a table or view that match a filter, sorted: all of them, or a page with the total count.
{% macro fits() -%}
{% if filtered and comparison == "contains" %}
WHERE CONTAINS(LOWER(CAST({{ filtered }} AS VARCHAR)), LOWER($value))
{% elif filtered and comparison == "is" %}
WHERE CAST({{ filtered }} AS VARCHAR) = $value
{% elif filtered and comparison == "is not" %}
WHERE CAST({{ filtered }} AS VARCHAR) IS DISTINCT FROM $value
{% elif filtered and comparison == "is at least" %}
WHERE {{ filtered }} >= TRY_CAST($value AS {{ kind }})
{% elif filtered and comparison == "is at most" %}
WHERE {{ filtered }} <= TRY_CAST($value AS {{ kind }})
{% elif filtered and comparison == "is empty" %}
WHERE {{ filtered }} IS NULL
{% elif filtered and comparison == "is not empty" %}
WHERE {{ filtered }} IS NOT NULL
{% endif %}
{%- endmacro %}
{% if whole %}
SELECT * FROM {{ relation }}
{% else %}
SELECT *, (SELECT COUNT(*) FROM {{ relation }} {{ fits() }}) AS total FROM {{ relation }}
{% endif %}
{{ fits() }}
{% if sorted_by %}
ORDER BY {{ sorted_by }}{{ " DESC" if descending }} NULLS LAST
{% endif %}
{% if not whole %}
LIMIT $most OFFSET $skip
{% endif %}
