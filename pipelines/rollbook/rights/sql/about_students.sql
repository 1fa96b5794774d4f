-- Subject: every table and view with rows about single students, its columns, and the comments on both.
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
-- It has the key itself, or names records of several sets by `set_name` and `id`.
HAVING BOOL_OR(c.column_name = $key) OR (BOOL_OR(c.column_name = 'id') AND BOOL_OR(c.column_name = 'set_name'))
ORDER BY c.schema_name, c.table_name
