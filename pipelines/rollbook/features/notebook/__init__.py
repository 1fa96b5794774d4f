"""`rollbook.open()`: a school's records in a notebook (`book.py`), and lines over days (`drawing.py`)."""

from __future__ import annotations

from rollbook.feature import Feature


class Notebook(Feature):
    """The records as pandas, Arrow or Polars."""

    name = "notebook"


FEATURE = Notebook()
