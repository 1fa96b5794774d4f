-- The staged rows of {{ relation }} of a set's landings, each with the landing, the part (a walk, or the searches) and the
-- position `ord` among the set's rows.
{% for s in staged %}
SELECT * EXCLUDE seq, seq + {{ s.offset }} AS ord, {{ s.landing }} AS landing, {{ loop.index }} AS part
FROM read_parquet({{ s.file(relation) }}, hive_partitioning = false)
{{ "UNION ALL" if not loop.last }}
{% endfor %}
