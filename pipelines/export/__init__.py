"""Reads rows from the published file.

    query.py      one read-only query and its result
    formats.py    CSV, Parquet and Excel files

Nothing here writes to the warehouse.
"""
