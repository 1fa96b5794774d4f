"""Pure functions: landed bodies in; typed rows, rejects and drift out. No files, no network, no SQL.

`shapes` turns the declarations into types that decode records; `rows` turns decoded records into Arrow columns.
"""

from pipelines.flatten.rows import Batch, Flattener, flatten, load, schema
from pipelines.flatten.shapes import drift_of_student

__all__ = ["Batch", "Flattener", "drift_of_student", "flatten", "load", "schema"]
