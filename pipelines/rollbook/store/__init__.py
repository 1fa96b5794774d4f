"""DuckDB and Parquet: the lake, current tables, history, the record of the syncs, the publish."""
