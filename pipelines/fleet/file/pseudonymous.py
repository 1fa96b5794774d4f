"""The input of `fleet-pseudonymous.duckdb`: the tables of each institution's own pseudonymous file, as Parquet.

They are written for one build, into its own folder only. Each file is opened once, so it does not change when its
institution publishes meanwhile. An institution without a pseudonymous file is not included.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable
from pathlib import Path

import duckdb

from pipelines import files
from pipelines.errors import BusyError, DamagedError
from pipelines.fleet.file.gathering import TRIES, Gathered
from pipelines.store import parts, schema
from pipelines.store.database import connect, literal, names, reuse_instances
from pipelines.store.parts import Given, Part
from pipelines.store.published import versions
from pipelines.store.published.fleet_file import FleetFile
from pipelines.store.published.versions import PSEUDONYMOUS, PSEUDONYMOUS_FOLDER
from pipelines.store.relations import CHANGES
from pipelines.store.scope import INSTITUTION
from pipelines.tables import Column, Relation
from pipelines.views import pseudonymous as contents

MAKES_NONE = "it makes no pseudonymous file (ROLLBOOK_PSEUDONYMOUS)"
DAMAGED = (
    "its pseudonymous file is damaged, or open for writing in another program: its next sync makes a damaged one again"
)


def shared() -> tuple[Relation, ...]:
    """The tables of an institution in the fleet's pseudonymous file."""
    return (*parts.shared(), contents.RELEASE)


def makers(root: Path, institutions: Iterable[str]) -> set[str]:
    """The institutions that have a pseudonymous file, intact or not; `root` has their folders."""
    links = {name: root / name / PSEUDONYMOUS for name in institutions}
    return {name for name, link in links.items() if link.is_symlink() or link.exists()}


def gather(file: FleetFile, named: Gathered) -> Gathered:
    """Gather the pseudonymous tables of the institutions that are in fleet.duckdb (`named`). Raises MachineError."""
    found = Gathered(file.sources, left_out=dict(named.left_out))
    made = makers(file.root, named.given)
    with reuse_instances(file.scratch):
        for name in named.given:
            if name not in made:
                found.leave_out(name, MAKES_NONE)
                continue
            try:
                found.given[name] = _given(file, found, name)
            except (DamagedError, BusyError, duckdb.Error):
                found.leave_out(name, DAMAGED)
    return found


def _given(file: FleetFile, found: Gathered, name: str) -> Given:
    """Write an institution's tables. Raises DamagedError, BusyError or duckdb.Error for a file that cannot be read."""
    own = file.root / name
    for _ in range(TRIES):
        path = versions.target(own / PSEUDONYMOUS, own / PSEUDONYMOUS_FOLDER)
        try:
            if path is not None:
                mode = stat.S_IMODE(path.stat().st_mode)
                with connect(path, scratch=file.scratch, read_only=True) as con:
                    return _written(con, found, name, mode)
        except (DamagedError, FileNotFoundError):
            if path is not None and path.exists():
                raise
    raise DamagedError(f"{PSEUDONYMOUS} of {name} is not there")


def _written(con: duckdb.DuckDBPyConnection, found: Gathered, name: str, mode: int) -> Given:
    """Write the tables of an open file. Columns declared personal now are left out, even if the file has them."""
    about = con.execute("""
        SELECT
            r.version, r.published_at, r.newest_day,
            (SELECT MAX(school_id) FROM main.institution),
            (SELECT MAX(school_name) FROM main.institution)
        FROM ops.release AS r
    """).fetchone()
    if about is None:
        raise DamagedError(f"{PSEUDONYMOUS} of {name} does not say what it was made from")
    version, published_at, newest_day, school_id, school_name = about
    there = {full: {column for column, _ in have.columns} for full, have in schema.existing(con).items()}
    tables = {}
    for relation in shared():
        have = there.get((relation.schema, relation.name), set())
        columns = tuple(c for c in contents.shown(relation) if c.name in have)
        if columns and not contents.is_empty(relation):
            table = parts.title(relation)
            tables[table] = _copied(con, relation, columns, name, found.path(table, name))
    return Given(
        version=str(version), published_at=published_at, newest_day=newest_day, school_id=school_id,
        school_name=school_name, mode=mode, tables=tables,
    )  # fmt: skip


def _copied(
    con: duckdb.DuckDBPyConnection, relation: Relation, columns: tuple[Column, ...], name: str, target: Path
) -> Part:
    files.folder(target.parent)
    only = f" WHERE {contents.told_changes()}" if relation == CHANGES else ""
    rows = f"SELECT {literal(name)} AS {INSTITUTION}, {names(columns)} FROM {relation.schema}.{relation.name}{only}"
    written = con.execute(f"COPY ({rows}) TO {literal(target)} (FORMAT parquet)").fetchone()
    return Part(file=target.name, rows=int(written[0]) if written else 0, size=target.stat().st_size, digest="")
