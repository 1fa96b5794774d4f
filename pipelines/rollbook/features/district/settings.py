"""The setting of a district."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator

from rollbook.settings import Group, setting

# Engines named without an address.
DUCKDB, SAIL = "duckdb", "sail"


def engine_name(value: str) -> str:
    """Return where the work for many institutions is done: a name or an address. Raises ValueError."""
    name = value.strip()
    if name not in (DUCKDB, SAIL) and not (name.isprintable() and _is_spark_connect(name)):
        raise ValueError("must be duckdb, sail, or the address of a Spark Connect server, sc://host:port")
    return name


def _is_spark_connect(address: str) -> bool:
    try:
        parts = urlsplit(address)
        return parts.scheme == "sc" and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an invalid port
        return False


EngineName = Annotated[str, AfterValidator(engine_name)]


class DistrictSettings(Group):
    """Many institutions."""

    district_engine: EngineName = setting(
        DUCKDB,
        "where the work for each institution is done: here (`duckdb`), or as tasks of `sail` or of a Spark Connect"
        " server, `sc://host:port`",
        example="sc://host:15002",
        for_all=True,
    )
