"""Rollbook: nightly student and class records in DuckDB, with every change kept.

README.md in the folder above says what each folder does, and the import contracts in pyproject.toml say which may
import which. Importing this package is cheap: the component, which needs Dagster, is loaded when it is asked for.
"""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

try:
    __version__ = version("rollbook")
except PackageNotFoundError:  # run from a copy of the folder that was never installed
    __version__ = "0+unknown"


def __getattr__(name: str) -> Any:
    if name == "RollbookComponent":
        return import_module("rollbook.defs.component").RollbookComponent
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
