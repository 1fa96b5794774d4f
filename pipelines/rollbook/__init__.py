"""Rollbook: nightly student and class records in DuckDB, with every change kept.

README.md in the folder above says what each folder does, and the import contracts in pyproject.toml say which may
import which. Importing this package is cheap: `open` (a school's records in a notebook) and the component, which needs
Dagster, are loaded when they are asked for.
"""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

try:
    __version__ = version("rollbook")
except PackageNotFoundError:  # run from a copy of the folder that was never installed
    __version__ = "0+unknown"


# The names that are imported on first use, and their modules.
_PUBLIC = {"open": "rollbook.book", "RollbookComponent": "rollbook.defs.component"}


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)
