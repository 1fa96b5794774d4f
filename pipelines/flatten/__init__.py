"""Pure: landed bodies in, typed rows, rejects and drift out. No files, no network, no SQL.

`shapes` turns the declarations into the types that a record is decoded by; `rows` turns decoded records into columns.
"""

from pipelines.flatten.rows import Batch, flatten, load, schema

__all__ = ["Batch", "flatten", "load", "schema"]
