-- One table's rows of a day: those of each record's latest statement that states the table. {% if refused %}A value that
-- was refused there is the last one that was not. {% endif %}A service may list a record once for each entry of its list,
-- as a join gives it: the entries of all its rows in that walk are joined.

WITH stating AS (
    SELECT s.id, s.ord, s.part
    FROM seen AS s
    WHERE s.state = 'stated' AND NOT EXISTS (
        SELECT 1 FROM seen AS q
        WHERE q.id = s.id AND q.ord = s.ord AND q.state = 'not_stated' AND q.table_name = '{{ table.name }}'
    )
),
{% if refused %}
refused AS (
    SELECT id, entry, ord, LIST(column_name) AS columns
    FROM ({{ refused }}) WHERE table_name = '{{ table.name }}'
    GROUP BY id, entry, ord
),
stated AS (
    SELECT r.*, COALESCE(f.columns, []) AS refused_columns
    FROM ({{ rows }}) AS r SEMI JOIN stating AS s ON s.id = r.{{ table.parent_key }} AND s.ord = r.ord
    LEFT JOIN refused AS f
        ON f.id = r.{{ table.parent_key }} AND f.ord = r.ord
        AND f.entry IS NOT DISTINCT FROM {{ "r." ~ table.key[1] if table.is_list else "NULL" }}
),
folded AS (
    SELECT
        {{ m.names(table.key) }}, MAX(ord) AS ord, ARG_MAX(part, ord) AS part
        {%- for c in table.columns if c.name not in table.key %},
        ARG_MAX_NULL({{ c.name }}, ord) FILTER (NOT LIST_CONTAINS(refused_columns, '{{ c.name }}')) AS {{ c.name }}
        {%- endfor %}

    FROM stated GROUP BY {{ m.names(table.key) }}
),
{% endif %}
latest AS (SELECT id, MAX(ord) AS ord, ARG_MAX(part, ord) AS part FROM stating GROUP BY id)
SELECT {{ m.names(table.columns, "r.") }}
FROM {{ "folded" if refused else "(" ~ rows ~ ")" }} AS r
INNER JOIN latest AS s
    ON s.id = r.{{ table.parent_key }} AND {{ "s.part = r.part" if table.is_list else "s.ord = r.ord" }}
{% if table.is_list %}
QUALIFY ROW_NUMBER() OVER (PARTITION BY {{ m.names(table.key, "r.") }} ORDER BY r.ord DESC) = 1
{% endif %}
ORDER BY {{ m.names(table.key) }}
