-- What each record stated about {{ table.name }} per landed day: its rows, an empty list, nothing (not_stated), or that
-- it is absent.
{% macro without_values() -%}
{%- for c in table.versioned -%}
{{ "o.id AS " ~ c.name if c.name == table.parent_key else "CAST(NULL AS " ~ c.type ~ ") AS " ~ c.name }}
{{- ", " if not loop.last }}{% endfor -%}
{%- endmacro %}
SELECT {{ m.names(table.versioned, "t.") }}, 'stated' AS span_state, t.snapshot_date FROM ({{ rows }}) AS t
UNION ALL
SELECT {{ without_values() }}, 'not_stated', o.snapshot_date
FROM ({{ observed }}) AS o
WHERE o.set_name = '{{ table.set }}' AND {{ m.says_nothing("o", table) }}
UNION ALL
SELECT {{ without_values() }}, 'absent', o.snapshot_date
FROM ({{ observed }}) AS o
WHERE o.set_name = '{{ table.set }}' AND o.state = 'absent'
{% if table.may_be_unstated and not table.is_list %}
UNION ALL
SELECT {{ without_values() }}, 'empty', o.snapshot_date
FROM ({{ observed }}) AS o
WHERE o.set_name = '{{ table.set }}' AND o.state = 'empty' AND o.table_name = '{{ table.name }}'
{% elif table.is_list %}
UNION ALL
SELECT {{ without_values() }}, 'empty', o.snapshot_date
FROM ({{ observed }}) AS o
LEFT JOIN ({{ observed }}) AS q
    ON q.set_name = o.set_name AND q.id = o.id AND q.snapshot_date = o.snapshot_date
    AND {{ m.says_nothing("q", table) }}
LEFT JOIN (SELECT DISTINCT {{ table.parent_key }} AS id, snapshot_date FROM ({{ rows }}) AS t) AS r
    ON r.id = o.id AND r.snapshot_date = o.snapshot_date
WHERE o.set_name = '{{ table.set }}' AND o.state = 'stated' AND q.id IS NULL AND r.id IS NULL
{% endif %}
