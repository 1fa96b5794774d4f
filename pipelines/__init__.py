"""Rollbook: nightly student and class records in DuckDB, with every change kept.

This package is the Dagster code location; README.md beside this file says what each folder does, and the import
contracts in pyproject.toml say which may import which. Only the version is here, so that importing it stays cheap.
"""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("rollbook")
except PackageNotFoundError:  # run from a copy of the folder that was never installed
    __version__ = "0+unknown"
