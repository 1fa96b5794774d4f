-- The query nodes and table functions in DuckDB's syntax tree of a query.
SELECT
    LIST(atom ->> '$') FILTER (key = 'type' AND SUFFIX(atom ->> '$', '_NODE')),
    LIST(LOWER(atom ->> '$')) FILTER (key = 'function_name' AND SUFFIX(path, '.function'))
FROM json_tree(json_serialize_sql($query))
