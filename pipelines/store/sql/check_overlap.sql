-- How many versions of {{ table.name }} overlap with the next one of their key, or end before they begin.
SELECT COUNT(*) FROM (
    SELECT valid_from, valid_to, LEAD(valid_from) OVER (PARTITION BY {{ m.names(table.key) }} ORDER BY valid_from) AS next_from
    FROM history.{{ table.name }}
)
WHERE valid_to <= valid_from OR next_from < valid_to OR (valid_to IS NULL AND next_from IS NOT NULL)
