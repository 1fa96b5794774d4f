"""Pure functions: landed bodies in; typed rows, rejects and drift out. No files, no network, no SQL.

`rows` turns the declarations into types that decode records, and decoded records into Arrow columns.
"""
