-- The tables as they are in a file: comments, and columns in order with their types and comments.
SELECT c.schema_name, c.table_name, t.comment, c.column_name, c.data_type, c.comment
FROM duckdb_columns() AS c INNER JOIN duckdb_tables() AS t USING (database_name, schema_name, table_name)
WHERE c.database_name = current_database()
ORDER BY c.column_index
