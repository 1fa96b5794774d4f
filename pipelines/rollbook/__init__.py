"""Rollbook: nightly student and class records in DuckDB, with every change kept.

README.md in the folder above says what each folder does, and the import contracts in pyproject.toml say which may
import which. Importing this package is cheap: `open` (a school's records in a notebook), the component, which needs
Dagster, and `__version__` are loaded when they are asked for.
"""

from importlib import import_module
from typing import Any

# The names that are imported on first use, and their modules.
_PUBLIC = {"open": "rollbook.features.notebook.book", "RollbookComponent": "rollbook.defs.component"}


def __dir__() -> list[str]:  # `dg` looks for components there
    return [*globals(), *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("rollbook")
    except PackageNotFoundError:  # run from a copy of the folder that was never installed
        return "0+unknown"
