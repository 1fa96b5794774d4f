-- The CREATE TABLE statements of a database.
SELECT schema_name, table_name, sql FROM duckdb_tables() WHERE database_name = $database ORDER BY table_oid
