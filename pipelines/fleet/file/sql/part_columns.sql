-- The columns that the institutions' files of a table have.
DESCRIBE SELECT * FROM read_parquet({{ source }}, union_by_name = true, hive_partitioning = false)
