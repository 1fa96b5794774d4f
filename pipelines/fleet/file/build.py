"""Builds `fleet.duckdb` from the institutions' published files: their tables side by side, the views, the rollups.

If institutions make pseudonymous files, `fleet-pseudonymous.duckdb` is built from these in the same way. Each is built
as a new file, checked, and published atomically; until then, and when it fails, readers keep the last one. The contents
are declared in `views.fleet` and `views.pseudonymous`. An engine computes the rollups from the same Parquet files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import reduce
from pathlib import Path
from uuid import uuid4

import duckdb
import pyarrow as pa

from pipelines import files, machine
from pipelines.errors import MirrorError, NothingLandedError, RollbookError
from pipelines.fleet import engine as engines
from pipelines.fleet.file import output
from pipelines.fleet.file.gather import MAKES_NONE, Gathered, export, gather, relations
from pipelines.fleet.nights.runner import Fleet
from pipelines.fleet.overview import InstitutionStatus, load_overview
from pipelines.institutions import Registry
from pipelines.store.database import connect, count, literal, transaction
from pipelines.store.published.clean_copy import clean
from pipelines.store.published.fleet_file import FleetFile
from pipelines.store.published.versions import PSEUDONYMOUS
from pipelines.store.scope import MANY
from pipelines.views import catalog
from pipelines.views import fleet as views
from pipelines.views import pseudonymous as contents
from pipelines.views.fleet import INSTITUTIONS


@dataclass(frozen=True)
class Built:
    """The result of a build: how many institutions and students, up to which day, and which were left out and why.

    `pseudonymous` is the same for fleet-pseudonymous.duckdb, with `makes_none`: the institutions that make no
    pseudonymous file. It is None if no institution makes one, or if it could not be built: `failed` then says why.
    `not_copied` says why the figures did not reach the object store.
    """

    institutions: int
    students: int
    newest_day: date | None
    left_out: Mapping[str, str]
    makes_none: tuple[str, ...] = ()
    pseudonymous: Built | None = None
    failed: str = ""
    not_copied: str = ""


@dataclass(frozen=True)
class _Stamp:
    """The version that both files of a build carry, and when it was made (UTC, without a zone)."""

    version: str
    at: datetime


@dataclass(frozen=True)
class _Next:
    """A complete next version, what it was made from, and how many students are in it."""

    file: FleetFile
    found: Gathered
    students: int

    def show(self) -> Built:
        """Publish it, readable for those who may read every institution's own file."""
        given = self.found.given.values()
        self.file.publish(reduce(lambda a, b: a & b, (g.mode for g in given), 0o777) | files.PRIVATE_FILE)
        newest = max((g.newest_day for g in given if g.newest_day), default=None)
        left_out = {name: why for name, why in self.found.left_out.items() if why != MAKES_NONE}
        makes_none = tuple(sorted(self.found.left_out.keys() - left_out.keys()))
        return Built(len(given), self.students, newest, left_out, makes_none)


class FleetBuild:
    """One build. `fleet` is the fleet's folder, `engine` the name of the engine for the rollups, as in `engines.of`.

    `lake` is the URL of the object store's folder that gets the rollups, or empty.
    """

    def __init__(
        self,
        fleet: Path,
        registry: Registry,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        engine: str = engines.DUCKDB,
        lake: str = "",
    ) -> None:
        self.fleet = fleet
        self.registry = registry
        self.clock = clock
        self.engine = engine
        self.lake = lake

    def build(self) -> Built:
        """Build and publish the files.

        An institution whose file cannot be read is left out and named. Raises NothingLandedError when no institution
        has published, BusyError while another build runs, EngineError; readers then keep the last files.
        """
        file, coded = (FleetFile(self.fleet, pseudonymous=p) for p in (False, True))
        with machine.translate_errors(self.fleet), file.building():
            file.sweep()
            coded.sweep()
            try:
                stamp = _Stamp(uuid4().hex, self.clock().replace(tzinfo=None))
                named = self._make(file, stamp)
                without_names, failed = self._make_pseudonymous(coded, stamp)
                built = named.show()  # only now, so that both are published at almost the same time
                shown = without_names.show() if without_names is not None else None
                not_copied = self._copy(file, stamp)
            finally:
                file.sweep()
                coded.sweep()
        return replace(built, pseudonymous=shown, failed=failed, not_copied=not_copied)

    def _copy(self, file: FleetFile, stamp: _Stamp) -> str:
        """Copy the rollups to the object store, if there is one; returns why that failed, or an empty text."""
        try:
            if self.lake:
                output.publish(self.lake, file.rollups, stamp.version, stamp.at)
        except MirrorError as error:
            return error.message
        return ""

    def _make_pseudonymous(self, file: FleetFile, stamp: _Stamp) -> tuple[_Next | None, str]:
        """Build the file without names, if any institution makes one; returns it, or why it could not be built.

        Its readers then keep the last one, whose version shows that it is older.
        """
        if not any(os.path.lexists(file.root / name / PSEUDONYMOUS) for name in self.registry.institutions):
            file.clear()  # it would never be updated
            return None, ""
        try:
            with machine.translate_errors(self.fleet):
                return self._make(file, stamp), ""
        except (RollbookError, OSError, duckdb.Error) as error:
            # DuckDB's own message may quote a value.
            return None, error.message if isinstance(error, RollbookError) else type(error).__name__

    def _make(self, file: FleetFile, stamp: _Stamp) -> _Next:
        """Build the next version."""
        with connect(file.next, scratch=file.scratch) as con:
            with transaction(con):
                views.create_tables(con, (contents.RELEASE,) if file.is_pseudonymous else ())
            found = gather(con, file, self.registry.institutions)
            if not found.given:
                raise NothingLandedError(
                    "No institution has published anything that could be combined: run `rollbook fleet sync` first"
                )
            self._describe(con, file, found)
            students = count(con, "SELECT COUNT(*) FROM main.students")
            export(con, views.shared(), file.sources)
        with engines.of(self.engine, file.scratch) as engine:
            compute_rollups(engine, file.sources, file.rollups)
        with connect(file.next, scratch=file.scratch) as con:
            _finish(con, file, stamp)
        if file.is_pseudonymous:
            clean(file.next, file.scratch)
        return _Next(file, found, students)

    def _describe(self, con: duckdb.DuckDBPyConnection, file: FleetFile, found: Gathered) -> None:
        """Fill the table `institutions`."""
        newest = max((g.newest_day for g in found.given.values() if g.newest_day), default=None)
        columns = contents.shown(INSTITUTIONS) if file.is_pseudonymous else INSTITUTIONS.columns
        statuses = sorted(load_overview(Fleet(self.registry)).institutions, key=lambda s: s.institution)
        rows = [_row(status, found, newest) for status in statuses]
        fresh = pa.table({c.name: [row[c.name] for row in rows] for c in columns})
        con.register("fresh", fresh)
        con.execute(f"INSERT INTO {INSTITUTIONS.schema}.{INSTITUTIONS.name} BY NAME SELECT * FROM fresh")
        con.unregister("fresh")


def compute_rollups(engine: engines.Engine, tables: Path, into: Path) -> None:
    """Compute every rollup from a folder for each table, into one folder each. Raises EngineError."""
    for relation in views.tables():
        name = f"{relation.schema}.{relation.name}"
        engine.read(name, tables / name, relation.columns)
    for rollup in views.rollups():  # a later one reads an earlier one
        engine.write(rollup.query, into / rollup.name)
        engine.read(f"main.{rollup.name}", into / rollup.name, views.columns(rollup))


def _row(status: InstitutionStatus, found: Gathered, newest: date | None) -> dict[str, object]:
    given = found.given.get(status.institution)
    day = given.newest_day if given else None
    return {
        "institution": status.institution,
        "school_id": given.school_id if given else None,
        "school_name": given.school_name if given else None,
        "newest_day": day,
        "days_behind": (newest - day).days if newest and day else None,
        "published_at": given.published_at if given else None,
        "version": given.version if given else None,
        "last_outcome": status.outcome,
        "last_day": status.day,
        "last_at": status.at.astimezone(UTC).replace(tzinfo=None) if status.at else None,
        "said": status.message or None,
        "paused": status.paused or None,
        "left_out": found.left_out.get(status.institution),
    }


def _finish(con: duckdb.DuckDBPyConnection, file: FleetFile, stamp: _Stamp) -> None:
    """Load the rollups, and create the views."""
    with transaction(con):
        con.execute("INSERT INTO spans.version VALUES ($1, $2)", [stamp.version, stamp.at])
        for rollup in views.rollups():
            columns = ", ".join(f"CAST({c.name} AS {c.type}) AS {c.name}" for c in views.columns(rollup))
            source = literal(file.rollups / rollup.name / "*.parquet")
            views.create_rollup(con, rollup, f"SELECT {columns} FROM read_parquet({source}) ORDER BY ALL")
        views.create_views(con, stamp.version)
        if file.is_pseudonymous:
            contents.comment(con, (*relations(file), INSTITUTIONS), catalog.views(MANY))
    con.execute("CHECKPOINT")
