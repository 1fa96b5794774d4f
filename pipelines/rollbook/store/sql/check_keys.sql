-- How many keys of {{ table.name }} are not unique.
{% if since %}
--
-- Only records whose versions begin or end since a day, and a sample: the rest is unchanged since its own check.
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
