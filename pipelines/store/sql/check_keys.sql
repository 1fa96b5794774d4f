-- How many keys stand twice in {{ table.name }}.
{% if since %}
--
-- Of the records whose versions begin or end since a day, and of some others: the rest is as it was when it was checked.
{% endif %}
SELECT COUNT(*) FROM (
    SELECT 1 FROM main.{{ table.name }} AS t
    {% if since %}
    WHERE {{ some }} OR t.{{ table.parent_key }} IN (
        SELECT {{ table.parent_key }} FROM history.{{ table.name }} WHERE valid_from >= $since OR valid_to >= $since
    )
    {% endif %}
    GROUP BY {{ m.names(table.key) }} HAVING COUNT(*) > 1
)
