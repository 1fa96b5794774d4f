-- The rows of {{ table.name }} before a day, as the history has them{{ "; what is `seen` of the day counts as before, too" if seen }}.
SELECT {{ m.names(columns) }} FROM {{ history }} AS h
WHERE h.valid_from < {{ day }} AND COALESCE(h.valid_to, DATE 'infinity') >= {{ day }}
{% if seen %}
    AND h.{{ table.parent_key }} NOT IN (
        SELECT id FROM {{ observed }} AS o WHERE set_name = '{{ table.set }}' AND id IS NOT NULL
        GROUP BY id HAVING NOT BOOL_OR({{ m.says_nothing("o", table) }})
    )
UNION ALL
SELECT {{ m.names(columns) }} FROM {{ seen }}
{% endif %}
