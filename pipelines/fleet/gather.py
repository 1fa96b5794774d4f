"""Copies the institutions' published files into a file of the fleet, one after the other.

Each is attached while its rows are copied, which keeps that version even if the institution publishes meanwhile. One
that cannot be read leaves no row, and is named.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path

import duckdb

from pipelines import files
from pipelines.errors import BusyError, DamagedError
from pipelines.store.database import literal, names, transaction, translate_errors
from pipelines.store.published import versions
from pipelines.store.published.fleet_file import FleetFile
from pipelines.store.published.versions import FOLDER, PSEUDONYMOUS, PSEUDONYMOUS_FOLDER, PUBLISHED
from pipelines.store.relations import CHANGES
from pipelines.store.scope import INSTITUTION
from pipelines.tables import Relation
from pipelines.views import fleet as views
from pipelines.views import pseudonymous as contents

DAMAGED = "its published file is damaged, or open for writing in another program: its next sync makes it again"
DAMAGED_PSEUDONYMOUS = (
    "its pseudonymous file is damaged, or open for writing in another program: its next sync makes a damaged one again"
)
MAKES_NONE = "it makes no pseudonymous file (ROLLBOOK_PSEUDONYMOUS)"


@dataclass(frozen=True)
class Given:
    """What one institution gave: the version of its file (times are UTC), its school, and the file's mode."""

    version: str
    published_at: datetime
    newest_day: date | None
    school_id: int | None
    school_name: str | None
    mode: int


@dataclass(frozen=True)
class Gathered:
    """The institutions whose rows were copied, and why others were left out. Who never published is in neither."""

    given: dict[str, Given]
    left_out: dict[str, str]


def relations(file: FleetFile) -> tuple[Relation, ...]:
    """The tables that a file takes from each institution."""
    return (contents.RELEASE, *views.shared()) if file.is_pseudonymous else views.shared()


def gather(con: duckdb.DuckDBPyConnection, file: FleetFile, institutions: Iterable[str]) -> Gathered:
    """Fill the tables of the open next file, in the order of the names. Raises MachineError."""
    found = Gathered({}, {})
    link, folder = (PSEUDONYMOUS, PSEUDONYMOUS_FOLDER) if file.is_pseudonymous else (PUBLISHED, FOLDER)
    for name in sorted(institutions):
        own = file.root / name
        if not os.path.lexists(own / link):
            if file.is_pseudonymous and (own / PUBLISHED).exists():
                found.left_out[name] = MAKES_NONE
            continue
        try:
            found.given[name] = _copy(con, file, name, versions.target(own / link, own / folder))
        except (DamagedError, BusyError, FileNotFoundError, duckdb.Error):
            found.left_out[name] = DAMAGED_PSEUDONYMOUS if file.is_pseudonymous else DAMAGED
    return found


def export(con: duckdb.DuckDBPyConnection, relations: Iterable[Relation], into: Path) -> None:
    """Write the tables of the open file as Parquet for an engine, one folder each."""
    for relation in relations:
        full = f"{relation.schema}.{relation.name}"
        target = files.folder(into / full) / "part-0.parquet"
        con.execute(f"COPY (FROM {full}) TO {literal(target)} (FORMAT parquet)")


def _copy(con: duckdb.DuckDBPyConnection, file: FleetFile, name: str, path: Path | None) -> Given:
    """Copy the rows of one institution, all or none."""
    if path is None:
        raise FileNotFoundError(name)
    mode = stat.S_IMODE(path.stat().st_mode)
    with translate_errors(path, file.scratch):
        con.execute(f"ATTACH {literal(path)} AS given (READ_ONLY)")
        try:
            about = con.execute("""
                SELECT
                    v.id, v.published_at, (SELECT MAX(snapshot_date) FROM given.spans.days), i.school_id, i.school_name
                FROM given.spans.version AS v CROSS JOIN given.main.institution AS i
            """).fetchone()
            if about is None:
                raise DamagedError(f"{path.name} does not say what it is")
            with transaction(con):
                for relation in relations(file):
                    con.execute(_rows(file, name, relation))
        finally:
            con.execute("DETACH given")
    version, published_at, newest_day, school_id, school_name = about
    return Given(version, published_at, newest_day, school_id, school_name, mode)


def _rows(file: FleetFile, name: str, relation: Relation) -> str:
    """Copy a table. Columns declared personal now stay NULL without names, even if the pseudonymous file has them."""
    full, columns, only = f"{relation.schema}.{relation.name}", relation.columns, "TRUE"
    if file.is_pseudonymous:
        columns = contents.shown(relation)
        only = "FALSE" if contents.is_empty(relation) else contents.told_changes() if relation == CHANGES else "TRUE"
    shown = f"{literal(name)} AS {INSTITUTION}, {names(columns)}"
    return f"INSERT INTO {full} BY NAME SELECT {shown} FROM given.{full} WHERE {only}"
