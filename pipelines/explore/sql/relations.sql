-- Explore: the readable views and tables of the published file, views first, with their comments.
SELECT schema_name, name, comment
FROM (
    SELECT schema_name, view_name AS name, comment, 0 AS place FROM duckdb_views() WHERE NOT internal
    UNION ALL
    SELECT schema_name, table_name, comment, 1 FROM duckdb_tables() WHERE NOT internal
)
WHERE schema_name IN ('main', 'history', 'snapshots', 'ops')
ORDER BY LIST_POSITION(['main', 'history', 'snapshots', 'ops'], schema_name), place, name
