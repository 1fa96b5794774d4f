-- {{ into }} for the pseudonymous file: adjacent versions that differ only in personal columns are merged.
--
-- Two adjacent versions that look the same would reveal that a name or an address changed.
INSERT INTO {{ into }}
WITH marked AS (
    SELECT
        *,
        COALESCE(LAG(valid_to) OVER w = valid_from, FALSE)
        {% for column in kept %}
        AND LAG({{ column.name }}) OVER w IS NOT DISTINCT FROM {{ column.name }}
        {% endfor %}
        AS goes_on
    FROM named.{{ into }}
    WINDOW w AS (PARTITION BY {{ m.names(key) }} ORDER BY valid_from)
),
numbered AS (
    SELECT *, COUNT(*) FILTER (NOT goes_on) OVER (PARTITION BY {{ m.names(key) }} ORDER BY valid_from) AS number
    FROM marked
),
joined AS (
    SELECT
        {{ m.names(key) }}, number,
        {% for column in kept %}
        ANY_VALUE({{ column.name }}) AS {{ column.name }},
        {% endfor %}
        MIN(valid_from) AS valid_from,
        CASE WHEN COUNT(valid_to) = COUNT(*) THEN MAX(valid_to) END AS valid_to
    FROM numbered
    GROUP BY {{ m.names(key) }}, number
)
SELECT {{ values | join(", ") }}
FROM joined AS t
{% if order %}
LEFT JOIN private.codes AS c ON c.id = t.{{ student }}
ORDER BY {{ order | join(", ") }}
{% else %}
ORDER BY {{ m.names(key) }}, valid_from
{% endif %}
