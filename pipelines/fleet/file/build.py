"""Makes `fleet.duckdb` of what the institutions give: their tables side by side, the views over them, the rollups.

And, where institutions make pseudonymous files, `fleet-pseudonymous.duckdb` of these in the same way. Each is made into
an empty file, checked, and shown as a whole; until then, and when it fails, readers have the last one. What is in them
is said in `views.fleet` and `views.pseudonymous`. An engine computes the rollups, of the same Parquet files.
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
from pipelines.store.fleet_file import FleetFile
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
    """What a build made: how many institutions and students, up to which day, and who was left out and why.

    `pseudonymous` says the same of fleet-pseudonymous.duckdb, and which institutions have no place in it, as they make
    no pseudonymous file; None where none does, or where it could not be made: `failed` then says why. `not_copied` says
    why the figures did not reach the object store.
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
    """A next version that is whole, of what it was made, and how many students are in it."""

    file: FleetFile
    found: Gathered
    students: int

    def show(self) -> Built:
        """Lead readers to it: those who may read every institution's own file."""
        given = self.found.given.values()
        self.file.publish(reduce(lambda a, b: a & b, (g.mode for g in given), 0o777) | files.PRIVATE_FILE)
        newest = max((g.newest_day for g in given if g.newest_day), default=None)
        left_out = {name: why for name, why in self.found.left_out.items() if why != MAKES_NONE}
        makes_none = tuple(sorted(self.found.left_out.keys() - left_out.keys()))
        return Built(len(given), self.students, newest, left_out, makes_none)


class FleetBuild:
    """One build. `fleet` is the fleet's folder, `engine` what computes the rollups, as `engines.of` names it.

    `lake` is the object store's folder that gets the rollups, if there is one.
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
        """Make the files and show them to readers.

        An institution whose parts are damaged is left out and named. Raises NothingLandedError when no institution
        gives anything, BusyError while another build runs, EngineError, and CheckError; the last files then stay.
        """
        file, coded = (FleetFile(self.fleet, pseudonymous=p) for p in (False, True))
        with machine.translate_errors(self.fleet), file.building():
            _sweep(file, coded)
            try:
                stamp = _Stamp(uuid4().hex, self.clock().replace(tzinfo=None))
                found = gather(self.fleet, file.sources, self.registry)
                named = self._make(file, found, stamp)
                without_names, failed = self._make_pseudonymous(coded, found, stamp)
                built = named.show()  # only now, so that the two are shown a moment apart
                shown = without_names.show() if without_names is not None else None
                not_copied = self._copy(file, stamp)
            finally:
                _sweep(file, coded)
        return replace(built, pseudonymous=shown, failed=failed, not_copied=not_copied)

    def _copy(self, file: FleetFile, stamp: _Stamp) -> str:
        """Copy the rollups to the object store, if there is one; returns why that failed, if it did."""
        try:
            if self.lake:
                output.publish(self.lake, file.rollups, stamp.version, stamp.at)
        except MirrorError as error:
            return error.message
        return ""

    def _make_pseudonymous(self, file: FleetFile, named: Gathered, stamp: _Stamp) -> tuple[_Next | None, str]:
        """Make the file without names, if there is anything for it; else say in words why it could not be made.

        Its readers then keep the one that they have, which says by its version that it is older.
        """
        if not pseudonymous.makers(file.root, (*named.given, *named.left_out)):
            file.clear()  # nobody would keep it up
            return None, ""
        try:
            with machine.translate_errors(self.fleet):
                return self._make(file, pseudonymous.gather(file, named), stamp), ""
        except (RollbookError, OSError, duckdb.Error) as error:
            # DuckDB's own words may repeat a value.
            return None, error.message if isinstance(error, RollbookError) else type(error).__name__

    def _make(self, file: FleetFile, found: Gathered, stamp: _Stamp) -> _Next:
        """Make the next version; again without an institution whose files turn out to be damaged."""
        while found.given:
            try:
                with connect(file.next, scratch=file.scratch) as con:
                    students = self._fill(con, file, found)
                with engines.of(self.engine, file.scratch) as computing:
                    rollups.compute(computing, file.sources, file.rollups)
                with connect(file.next, scratch=file.scratch) as con:
                    _finish(con, file, stamp)
                return _Next(file, found, students)
            except _DamagedPartsError as damaged:
                file.next.unlink(missing_ok=True)
                for name in damaged.names:
                    found.leave_out(name, DAMAGED)
        raise NothingLandedError(
            "No institution has published anything that could be put together: run `rollbook fleet sync` first"
        )

    def _fill(self, con: duckdb.DuckDBPyConnection, file: FleetFile, found: Gathered) -> int:
        """Put the institutions' tables side by side; returns how many students there are."""
        given = _relations(file)
        told = contents.shown(INSTITUTIONS) if file.is_pseudonymous else INSTITUTIONS.columns
        with transaction(con):
            views.create_tables(con, (contents.RELEASE,) if file.is_pseudonymous else ())
            _insert(con, INSTITUTIONS, told, standing.rows(self.fleet, self.registry, found.given, found.left_out))
        for relation in given:
            _fill_table(con, relation, found)
        _check(con, file, given, found)
        row = con.execute("SELECT COUNT(*) FROM main.students").fetchone()
        return int(row[0]) if row else 0


class _DamagedPartsError(DamagedError):
    """Files that an institution gave cannot be read."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__(f"What the institutions {', '.join(names)} give the fleet cannot be read")
        self.names = tuple(names)


def _relations(file: FleetFile) -> tuple[Relation, ...]:
    """The tables that institutions give for a file."""
    return pseudonymous.shared() if file.is_pseudonymous else parts.shared()


def _finish(con: duckdb.DuckDBPyConnection, file: FleetFile, stamp: _Stamp) -> None:
    """Take in the rollups, and make the views."""
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

    Parts of an earlier Rollbook may lack a column, or have another type there: such values are NULL, as in a file that
    is upgraded.
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
    """Raise CheckError unless each table holds what each institution says that it gave, and nothing else."""
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
