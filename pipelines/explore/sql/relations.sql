-- Explore: what can be read in the published file, views first, with what a row is; bookkeeping is left out.
SELECT schema_name, name, comment
FROM (
    SELECT schema_name, view_name AS name, comment, 0 AS place FROM duckdb_views() WHERE NOT internal
    UNION ALL
    SELECT schema_name, table_name, comment, 1 FROM duckdb_tables() WHERE NOT internal
)
WHERE schema_name IN ('main', 'history', 'snapshots', 'ops')
ORDER BY LIST_POSITION(['main', 'history', 'snapshots', 'ops'], schema_name), place, name
