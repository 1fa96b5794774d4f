"""The published tables as pandas frames, and rows of frames as plain Python to compare."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from tests.support.warehouses.school import DAYS, School


def text(value: Any) -> Any:
    """A cell as plain Python: NULL, NaN and NaT are all None."""
    if value is None or value is pd.NaT or value is pd.NA or (isinstance(value, float) and np.isnan(value)):
        return None
    if isinstance(value, pd.Timestamp):
        return value.date()
    if isinstance(value, (np.generic,)):
        return text(value.item())
    return int(value) if isinstance(value, float) and value.is_integer() else value


def plain(frame: pd.DataFrame, columns: list[str]) -> list[tuple[Any, ...]]:
    """Whole rows, sorted."""
    rows = (tuple(map(text, row)) for row in frame[columns].itertuples(index=False, name=None))
    return sorted(rows, key=repr)


class Base:
    """The base tables as frames, each read once, and what can be looked up in them."""

    def __init__(self, school: School) -> None:
        self.school = school
        self._read: dict[str, pd.DataFrame] = {}

    def __call__(self, table: str) -> pd.DataFrame:
        if table not in self._read:
            frame = self.school.frame(f"SELECT * FROM {table}")
            for column in frame.columns:
                if frame[column].dtype.kind == "M":
                    frame[column] = frame[column].astype("datetime64[ns]")
            self._read[table] = frame
        return self._read[table].copy()

    def days(self) -> list[pd.Timestamp]:
        return [pd.Timestamp(d) for d in DAYS]

    def as_of(self, table: str, day: pd.Timestamp) -> pd.DataFrame:
        frame = self(f"history.{table}")
        return frame[(frame.valid_from <= day) & ~(frame.valid_to <= day)]

    def thresholds(self) -> dict[str, float]:
        frame = self("thresholds")
        return dict(zip(frame.name, frame.value, strict=True))
