-- One table's rows of a day: those of each record's latest statement that states the table.
WITH latest AS (
    SELECT s.id, MAX(s.ord) AS ord
    FROM seen AS s
    WHERE s.state = 'stated' AND NOT EXISTS (
        SELECT 1 FROM seen AS q
        WHERE q.id = s.id AND q.ord = s.ord AND q.state = 'not_stated' AND q.table_name = '{{ table.name }}'
    )
    GROUP BY s.id
)
SELECT {{ m.names(table.columns, "r.") }}
FROM ({{ rows }}) AS r INNER JOIN latest AS s ON s.id = r.{{ table.parent_key }} AND s.ord = r.ord
ORDER BY {{ m.names(table.key) }}
