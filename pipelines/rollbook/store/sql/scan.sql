-- Rows of {{ relation }} on some days of the lake; a column that older files lack is NULL.
--
-- The day is from the path of each file, which ends with snapshot_date=2026-11-20/part-0.parquet. Not by Hive
-- partitioning, which also reads the folders above the lake: below name=Zed, all students would be called Zed.
-- union_by_name makes DuckDB open every file first; files of one schema are opened in turn.
SELECT
    {% for column, stored in columns %}
    CAST({{ column.name if stored else "NULL" }} AS {{ column.type }}) AS {{ column.name }},
    {% endfor %}
    CAST(LEFT(RIGHT(filename, {{ "2026-11-20/part-0.parquet" | length }}), 10) AS DATE) AS snapshot_date
FROM read_parquet({{ listed }}, hive_partitioning = false, filename = true, union_by_name = {{ several_schemas | lower }})
