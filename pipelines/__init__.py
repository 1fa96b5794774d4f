"""Rollbook: nightly student and class records in DuckDB, with every change kept.

The Dagster code location is this package. Which file does what, and which may import which, is held by the
import contracts in pyproject.toml. This file holds the version and nothing else: importing it must stay free.
"""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("rollbook")
except PackageNotFoundError:  # run from a copy of the folder that was never installed
    __version__ = "0+unknown"
