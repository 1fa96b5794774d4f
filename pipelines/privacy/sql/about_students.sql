-- Subject: every table and view that has rows about single students, with its columns, and what it and they mean.
WITH relations AS (
    SELECT database_name, schema_name, table_name, comment FROM duckdb_tables() WHERE NOT internal
    UNION ALL
    SELECT database_name, schema_name, view_name, comment FROM duckdb_views() WHERE NOT internal
)
SELECT
    c.schema_name, c.table_name, ANY_VALUE(r.comment) AS meaning,
    LIST((c.column_name, c.data_type, COALESCE(c.comment, '')) ORDER BY c.column_index) AS columns
FROM duckdb_columns() AS c INNER JOIN relations AS r USING (database_name, schema_name, table_name)
WHERE NOT c.internal AND c.database_name = current_database()
GROUP BY c.schema_name, c.table_name
-- By its own column, or as the records of a set are named where several sets are.
HAVING BOOL_OR(c.column_name = $key) OR (BOOL_OR(c.column_name = 'id') AND BOOL_OR(c.column_name = 'set_name'))
ORDER BY c.schema_name, c.table_name
