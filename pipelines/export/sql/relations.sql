-- The names of all tables and views in a published file.
SELECT schema_name, table_name FROM duckdb_tables() WHERE NOT internal
UNION ALL
SELECT schema_name, view_name FROM duckdb_views() WHERE NOT internal
