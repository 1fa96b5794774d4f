-- Explore: the readable views and tables of the published file, views first, with their comments and columns.
WITH relations AS (
    SELECT schema_name, view_name AS table_name, comment, 0 AS place
    FROM duckdb_views() WHERE NOT internal AND database_name = $file
    UNION ALL
    SELECT schema_name, table_name, comment, 1
    FROM duckdb_tables() WHERE NOT internal AND database_name = $file
)
SELECT
    CASE WHEN r.schema_name = 'main' THEN r.table_name ELSE CONCAT(r.schema_name, '.', r.table_name) END,
    ANY_VALUE(r.comment),
    LIST((c.column_name, c.data_type, COALESCE(c.comment, '')) ORDER BY c.column_index)
FROM relations AS r INNER JOIN duckdb_columns() AS c USING (schema_name, table_name)
WHERE NOT c.internal AND c.database_name = $file AND r.schema_name IN ('main', 'history', 'snapshots', 'ops')
GROUP BY r.schema_name, r.table_name, r.place
ORDER BY LIST_POSITION(['main', 'history', 'snapshots', 'ops'], r.schema_name), r.place, r.table_name
