"""The only code that speaks DuckDB: the Parquet lake, current tables, history, the record of the work, the publish."""
