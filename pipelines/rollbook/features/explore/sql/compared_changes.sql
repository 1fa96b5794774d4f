-- Explore: what changed between two days, by kind; fields in the words of their columns' comments.
SELECT
    c.table_name, c.column_name, c.change, COUNT(*) AS how_often,
    COALESCE(RTRIM(SPLIT_PART(ANY_VALUE(f.comment), ';', 1), '.'), 'The whole record') AS field
FROM changes_between($before, $day) AS c
LEFT JOIN duckdb_columns() AS f
    ON f.database_name = $file AND f.schema_name = 'main' AND f.table_name = c.table_name AND f.column_name = c.column_name
GROUP BY c.table_name, c.column_name, c.change
ORDER BY how_often DESC, c.table_name, c.column_name, c.change LIMIT 62
