"""Builds `fleet.duckdb` from the institutions' parts: their tables side by side, the views over them, the rollups.

If institutions make pseudonymous files, `fleet-pseudonymous.duckdb` is built from these in the same way. Each is built
as a new file, checked, and published atomically; until then, and when it fails, readers keep the last one. The contents
are declared in `views.fleet` and `views.pseudonymous`. An engine computes the rollups from the same Parquet files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import reduce
from pathlib import Path
from uuid import uuid4

import duckdb
import pyarrow as pa

from pipelines import files, machine
from pipelines.errors import CheckError, DamagedError, MirrorError, NothingLandedError, RollbookError
from pipelines.fleet import engine as engines
from pipelines.fleet.file import output, pseudonymous, rollups, standing
from pipelines.fleet.file.gathering import DAMAGED, Gathered, gather
from pipelines.fleet.file.pseudonymous import MAKES_NONE
from pipelines.institutions import Registry
from pipelines.store import parts
from pipelines.store.database import connect, literal, transaction
from pipelines.store.published.clean_copy import clean
from pipelines.store.published.fleet_file import FleetFile
from pipelines.store.scope import INSTITUTION, MANY
from pipelines.store.statements import statements
from pipelines.tables import Column, Relation
from pipelines.views import catalog
from pipelines.views import fleet as views
from pipelines.views import pseudonymous as contents
from pipelines.views.fleet import INSTITUTIONS

sql = statements("pipelines.fleet.file")


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
    """A complete next version, the parts that it was built from, and how many students are in it."""

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

        An institution whose parts are damaged is left out and named. Raises NothingLandedError when no institution has
        parts, BusyError while another build runs, EngineError, and CheckError; readers then keep the last files.
        """
        file, coded = (FleetFile(self.fleet, pseudonymous=p) for p in (False, True))
        with machine.translate_errors(self.fleet), file.building():
            _sweep(file, coded)
            try:
                stamp = _Stamp(uuid4().hex, self.clock().replace(tzinfo=None))
                found = gather(self.fleet, file.sources, self.registry)
                named = self._make(file, found, stamp)
                without_names, failed = self._make_pseudonymous(coded, found, stamp)
                built = named.show()  # only now, so that both are published at almost the same time
                shown = without_names.show() if without_names is not None else None
                not_copied = self._copy(file, stamp)
            finally:
                _sweep(file, coded)
        return replace(built, pseudonymous=shown, failed=failed, not_copied=not_copied)

    def _copy(self, file: FleetFile, stamp: _Stamp) -> str:
        """Copy the rollups to the object store, if there is one; returns why that failed, or an empty text."""
        try:
            if self.lake:
                output.publish(self.lake, file.rollups, stamp.version, stamp.at)
        except MirrorError as error:
            return error.message
        return ""

    def _make_pseudonymous(self, file: FleetFile, named: Gathered, stamp: _Stamp) -> tuple[_Next | None, str]:
        """Build the file without names, if any institution makes one; returns it, or why it could not be built.

        Its readers then keep the last one, whose version shows that it is older.
        """
        if not pseudonymous.makers(file.root, (*named.given, *named.left_out)):
            file.clear()  # it would never be updated
            return None, ""
        try:
            with machine.translate_errors(self.fleet):
                return self._make(file, pseudonymous.gather(file, named), stamp), ""
        except (RollbookError, OSError, duckdb.Error) as error:
            # DuckDB's own message may quote a value.
            return None, error.message if isinstance(error, RollbookError) else type(error).__name__

    def _make(self, file: FleetFile, found: Gathered, stamp: _Stamp) -> _Next:
        """Build the next version; if files turn out to be damaged, start again without their institutions."""
        while found.given:
            try:
                with connect(file.next, scratch=file.scratch) as con:
                    students = self._fill(con, file, found)
                with engines.of(self.engine, file.scratch) as computing:
                    rollups.compute(computing, file.sources, file.rollups)
                with connect(file.next, scratch=file.scratch) as con:
                    _finish(con, file, stamp)
                if file.is_pseudonymous:
                    clean(file.next, file.scratch)
                return _Next(file, found, students)
            except _DamagedPartsError as damaged:
                file.next.unlink(missing_ok=True)
                for name in damaged.names:
                    found.leave_out(name, DAMAGED)
        raise NothingLandedError(
            "No institution has published anything that could be combined: run `rollbook fleet sync` first"
        )

    def _fill(self, con: duckdb.DuckDBPyConnection, file: FleetFile, found: Gathered) -> int:
        """Put the institutions' tables side by side; returns how many students there are."""
        relations = _relations(file)
        columns = contents.shown(INSTITUTIONS) if file.is_pseudonymous else INSTITUTIONS.columns
        with transaction(con):
            views.create_tables(con, (contents.RELEASE,) if file.is_pseudonymous else ())
            _insert(con, INSTITUTIONS, columns, standing.rows(self.fleet, self.registry, found.given, found.left_out))
        for relation in relations:
            _fill_table(con, relation, found)
        _check(con, file, relations, found)
        row = con.execute("SELECT COUNT(*) FROM main.students").fetchone()
        return int(row[0]) if row else 0


class _DamagedPartsError(DamagedError):
    """Parts of these institutions cannot be read."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__(f"The parts of the institutions {', '.join(names)} cannot be read")
        self.names = tuple(names)


def _relations(file: FleetFile) -> tuple[Relation, ...]:
    """The tables of institutions that a file holds."""
    return pseudonymous.shared() if file.is_pseudonymous else parts.shared()


def _finish(con: duckdb.DuckDBPyConnection, file: FleetFile, stamp: _Stamp) -> None:
    """Load the rollups, and create the views."""
    with transaction(con):
        con.execute("INSERT INTO spans.version VALUES ($1, $2)", [stamp.version, stamp.at])
        for rollup in views.rollups():
            views.create_rollup(con, rollup, rollups.computed(rollup, file.rollups))
        views.create_views(con, stamp.version)
        if file.is_pseudonymous:
            contents.comment(con, (*_relations(file), INSTITUTIONS), catalog.views(MANY))
    con.execute("CHECKPOINT")


def _sweep(*made: FleetFile) -> None:
    for file in made:
        file.sweep()


def _insert(
    con: duckdb.DuckDBPyConnection, relation: Relation, columns: Iterable[Column], rows: list[standing.Row]
) -> None:
    fresh = pa.table({c.name: [row[c.name] for row in rows] for c in columns})
    con.register("fresh", fresh)
    con.execute(f"INSERT INTO {relation.schema}.{relation.name} BY NAME SELECT * FROM fresh")
    con.unregister("fresh")


def _fill_table(con: duckdb.DuckDBPyConnection, relation: Relation, found: Gathered) -> None:
    """Fill a table with the rows of all institutions, in the order of their names.

    Parts of an earlier Rollbook may lack a column, or have another type: its values become NULL, as in an upgraded
    file.
    """
    there = found.files(parts.title(relation))
    if not there:
        return
    try:
        source = f"[{', '.join(literal(path) for path in there.values())}]"
        known = {row[0] for row in con.execute(sql("part_columns", source=source)).fetchall()}
        columns = [c for c in relation.columns if c.name in known]
        con.execute(sql("fill", into=f"{relation.schema}.{relation.name}", columns=columns, source=source))
    except duckdb.Error as error:
        damaged = [name for name, path in there.items() if not _can_be_read(con, path)]
        if not damaged:
            raise
        raise _DamagedPartsError(damaged) from error


def _can_be_read(con: duckdb.DuckDBPyConnection, path: Path) -> bool:
    try:
        con.execute(f"SELECT BIT_XOR(HASH(t)) FROM read_parquet({literal(path)}) AS t").fetchall()
    except duckdb.Error:
        return False
    return True


def _check(con: duckdb.DuckDBPyConnection, file: FleetFile, relations: Iterable[Relation], found: Gathered) -> None:
    """Raise CheckError unless each table has exactly as many rows of each institution as its parts."""
    broken = {}
    for relation in relations:
        table, full = parts.title(relation), f"{relation.schema}.{relation.name}"
        counted = dict(con.execute(f"SELECT {INSTITUTION}, COUNT(*) FROM {full} GROUP BY ALL").fetchall())
        given = {name: g.tables[table].rows for name, g in found.given.items() if table in g.tables}
        if counted != {name: rows for name, rows in given.items() if rows}:
            broken[table] = [f"{full} does not hold what the institutions gave"]
    if broken:
        told = "; ".join(sentence for sentences in broken.values() for sentence in sentences)
        raise CheckError(f"{told}. {file.path.name} was left as it was; run `rollbook fleet build` again", broken)
