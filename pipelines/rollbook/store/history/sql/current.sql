-- The current rows of {{ table.name }}: the open versions, with the untracked values stated last.
SELECT
    {{ scope.of("h") }}
    {%- for c in table.columns %}
    {{ "h" if c in table.versioned else "u" }}.{{ c.name }}{{ "," if not loop.last }}
    {%- endfor %}

FROM history.{{ table.name }} AS h
{% if table.untracked %}
LEFT JOIN untracked_values AS u ON {{ scope.same("u", "h") }}{{ m.same(table.key, "u", "h") }}
{% endif %}
WHERE h.valid_to IS NULL
