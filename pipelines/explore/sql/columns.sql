-- Explore: the columns of a table or view, in order, with their meanings.
SELECT column_name, data_type, comment
FROM duckdb_columns()
WHERE NOT internal AND schema_name = $schema_name AND table_name = $table_name
ORDER BY column_index
