-- Each column of each table of the published file, largest tables first.
SELECT c.schema_name || '.' || c.table_name AS name, c.column_name
FROM duckdb_columns() AS c
INNER JOIN duckdb_tables() AS t
    ON t.database_name = c.database_name AND t.schema_name = c.schema_name AND t.table_name = c.table_name
WHERE c.database_name = 'named'
ORDER BY t.estimated_size DESC, name
