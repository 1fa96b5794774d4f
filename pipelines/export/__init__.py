"""Getting rows out of the published file.

    query.py      one read-only query: what it may do, and its answer
    formats.py    CSV, Parquet and Excel files

Nothing here writes to the warehouse.
"""
