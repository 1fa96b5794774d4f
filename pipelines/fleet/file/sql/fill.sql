-- Fills a table of the fleet's file from the institutions' parts.
INSERT INTO {{ into }} BY NAME
SELECT
    institution,
    {% for c in columns %}
    TRY_CAST({{ c.name }} AS {{ c.type }}) AS {{ c.name }}{{ "," if not loop.last }}
    {% endfor %}
FROM read_parquet({{ source }}, union_by_name = true, hive_partitioning = false)
