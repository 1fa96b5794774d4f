-- The changes of {{ table.name }}: one row per changed field, and one each for added, removed and returned.
{% set ids %}
{%- for key in change_keys %}{{ key if key in table.key else "CAST(NULL AS BIGINT)" }} AS {{ key }}, {% endfor -%}
{% endset %}
WITH
{% if touched %}
-- The touched records' versions from a day on, and the version before it per key.
kept AS (
    SELECT * FROM history.{{ table.name }}
    WHERE {{ table.parent_key }} IN (SELECT id FROM touched)
    QUALIFY COALESCE(LEAD(valid_from) OVER (PARTITION BY {{ m.names(table.key) }} ORDER BY valid_from), $since) >= $since
),
{% else %}
kept AS (SELECT * FROM history.{{ table.name }}),
{% endif %}
versions AS (
    SELECT
        k.*,
        LAG(valid_to) OVER w AS before_to, LAG(valid_from) OVER w AS before_from, LEAD(valid_from) OVER w AS after_from
        {% for c in table.tracked %}
        , LAG({{ c.name }}) OVER w AS previous_{{ c.name }}
        {% endfor %}
    FROM kept AS k
    WINDOW w AS (PARTITION BY {{ m.names(table.key) }} ORDER BY valid_from)
),
all_changes AS (
    SELECT
        valid_from AS snapshot_date, '{{ table.name }}' AS table_name, {{ ids }}
        CASE WHEN before_from IS NULL THEN 'added' ELSE 'returned' END AS change,
        CAST(NULL AS VARCHAR) AS column_name, CAST(NULL AS VARCHAR) AS old_value, CAST(NULL AS VARCHAR) AS new_value
    FROM versions WHERE before_from IS NULL OR before_to < valid_from
    UNION ALL
    SELECT valid_to, '{{ table.name }}', {{ ids }} 'removed', NULL, NULL, NULL
    FROM versions WHERE valid_to IS NOT NULL AND (after_from IS NULL OR after_from > valid_to)
    {% for c in table.tracked %}
    UNION ALL
    SELECT
        valid_from, '{{ table.name }}', {{ ids }} 'changed', '{{ c.name }}',
        CAST(previous_{{ c.name }} AS VARCHAR), CAST({{ c.name }} AS VARCHAR)
    FROM versions WHERE before_to = valid_from AND {{ c.name }} IS DISTINCT FROM previous_{{ c.name }}
    {% endfor %}
)
SELECT * FROM all_changes
{% if touched %}
WHERE snapshot_date >= $since
{% endif %}
