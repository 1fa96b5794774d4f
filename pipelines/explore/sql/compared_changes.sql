-- Explore: what changed between two days, counted by table and column, the most frequent first.
SELECT
    REPLACE(table_name, '_', ' ') AS what,
    COALESCE(REPLACE(column_name, '_', ' '), 'the whole record') AS detail,
    change,
    COUNT(*) AS how_often
FROM changes_between($before, $day)
GROUP BY ALL
ORDER BY how_often DESC, what, detail, change LIMIT $most
