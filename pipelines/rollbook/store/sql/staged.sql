-- The staged rows of {{ relation }} of a set's landings, each with the landing, the part (a walk, or the searches) and the
-- position `ord` among the set's rows.
--
-- A landing that `states` nothing more only lists records: each counts as refused. By the state, since DuckDB 2.0.0 also
-- returns other rows for `table_name IS NULL` from files that pyarrow wrote without a dictionary.
{% for s in staged %}
SELECT * EXCLUDE seq {{ "REPLACE ('rejected' AS state)" if is_observed and not s.states }},
    seq + {{ s.offset }} AS ord, {{ s.landing }} AS landing, {{ loop.index }} AS part
FROM read_parquet({{ s.file(relation) }}, hive_partitioning = false)
{% if not s.states %}
WHERE {{ "state <> 'not_stated'" if is_observed else "FALSE" }}
{% endif %}
{{ "UNION ALL" if not loop.last }}
{% endfor %}
