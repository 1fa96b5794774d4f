-- How many versions of {{ table.name }} overlap with the next one of their key, or end before they begin.
{% if since %}
--
-- Only records whose versions begin or end since a day, and a sample: the rest is unchanged since its own check.
{% endif %}
WITH examined AS (
    SELECT {{ m.names(table.key) }}, valid_from, valid_to FROM history.{{ table.name }} AS h
    {% if since %}
    WHERE {{ some }} OR h.{{ table.parent_key }} IN (
        SELECT {{ table.parent_key }} FROM history.{{ table.name }} WHERE valid_from >= $since OR valid_to >= $since
    )
    {% endif %}
),
several AS (SELECT {{ m.names(table.key) }} FROM examined GROUP BY ALL HAVING COUNT(*) > 1),
followed AS (
    SELECT
        valid_from, valid_to,
        LEAD(valid_from) OVER (PARTITION BY {{ m.names(table.key) }} ORDER BY valid_from) AS next_from
    FROM examined AS e SEMI JOIN several AS s ON {{ m.same(table.key, "e", "s") }}
)
SELECT
    (SELECT COUNT(*) FROM examined WHERE valid_to <= valid_from)
    + (SELECT COUNT(*) FROM followed WHERE next_from < valid_to OR (valid_to IS NULL AND next_from IS NOT NULL))
