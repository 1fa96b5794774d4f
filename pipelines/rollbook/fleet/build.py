"""Builds `fleet.duckdb` from the institutions' published files: their tables side by side, the views, the rollups. Also
recomputes the institutions' histories from their lakes, to publish or compare them.

If institutions make pseudonymous files, `fleet-pseudonymous.duckdb` is built from these in the same way. Each is built
as a new file, checked, and published atomically; until then, and when it fails, readers keep the last one. The contents
are declared in `views.fleet` and `views.pseudonymous`. An engine computes the rollups from the same Parquet files.

Each institution's file is attached while its rows are copied, which keeps that version even if the institution
publishes meanwhile. One that cannot be read leaves no row, and is named.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import reduce
from pathlib import Path
from typing import Any
from uuid import uuid4

import duckdb
import pyarrow as pa

from rollbook.compose import compose
from rollbook.errors import BusyError, DamagedError, NothingLandedError, RollbookError
from rollbook.flatten.rows import schema
from rollbook.fleet import engine as engines
from rollbook.fleet.nights import Fleet, load_overview
from rollbook.institutions import Registry
from rollbook.landing.formats import FORMAT
from rollbook.settings import DUCKDB, load
from rollbook.source.fetch import utc_now
from rollbook.store.clean import clean
from rollbook.store.database import (
    connect,
    count,
    file_literal,
    literal,
    machine_errors,
    names,
    transaction,
    translate_errors,
)
from rollbook.store.fleet import FleetFile
from rollbook.store.history import engine as statements
from rollbook.store.lake import DAYS, OBSERVED, DayRecord, Lake
from rollbook.store.published import FOLDER, PSEUDONYMOUS, PSEUDONYMOUS_FOLDER, PUBLISHED, target
from rollbook.store.schema import CHANGES, SNAPSHOT_DATE, SPAN, VALID
from rollbook.store.statements import INSTITUTION, MANY
from rollbook.sync.whole import Confirm, WholeRollbook, within_hold
from rollbook.tables import TABLES, Column, Relation, Table
from rollbook.util import files
from rollbook.views import catalog
from rollbook.views import fleet as views
from rollbook.views import pseudonymous as contents
from rollbook.views.fleet import INSTITUTIONS, WHICH

DAMAGED = "its file is damaged, or open for writing in another program: its next sync makes it again"
MAKES_NONE = "it makes no pseudonymous file (ROLLBOOK_PSEUDONYMOUS)"


@dataclass(frozen=True)
class Built:
    """The result of a build: how many institutions and students, up to which day, and which were left out and why.

    `pseudonymous` is the same for fleet-pseudonymous.duckdb. It is None if no institution makes a pseudonymous file, or
    if it could not be built: `failed` then says why.
    """

    institutions: int
    students: int
    newest_day: date | None
    left_out: Mapping[str, str]
    pseudonymous: Built | None = None
    failed: str = ""


def build(
    fleet: Path,
    registry: Registry,
    *,
    clock: Callable[[], datetime] = utc_now,
    engine: str = DUCKDB,
) -> Built:
    """Build and publish the files. `fleet` is the fleet's folder, `engine` the name of the engine for the rollups.

    An institution whose file cannot be read is left out and named. Raises NothingLandedError when no institution has
    published, BusyError while another build runs, EngineError; readers then keep the last files.
    """
    file, coded = (FleetFile(fleet, pseudonymous=p) for p in (False, True))
    version, at = uuid4().hex, clock().replace(tzinfo=None)  # of both files
    with machine_errors(fleet), file.building():
        try:
            built = _make(file, registry, engine, version, at)
            if not any(os.path.lexists(file.root / name / PSEUDONYMOUS) for name in registry.institutions):
                coded.versions.clear()  # it would never be updated
                return built
            try:
                with machine_errors(fleet):
                    return replace(built, pseudonymous=_make(coded, registry, engine, version, at))
            except (RollbookError, OSError, duckdb.Error) as error:  # DuckDB's own message may quote a value
                return replace(built, failed=getattr(error, "message", type(error).__name__))
        finally:
            file.sweep()
            coded.sweep()


def relations(file: FleetFile) -> tuple[Relation, ...]:
    """The tables that a file takes from each institution."""
    return (contents.RELEASE, *views.shared()) if file.is_pseudonymous else views.shared()


def gather(
    con: duckdb.DuckDBPyConnection, file: FleetFile, institutions: Iterable[str]
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Fill the tables of the open next file, in the order of the names; returns whose rows were copied, and what its
    file says of itself (times are UTC), and why others were left out. Who never published is in neither. Raises
    MachineError.
    """
    given: dict[str, dict[str, Any]] = {}
    left_out: dict[str, str] = {}
    link, folder = (PSEUDONYMOUS, PSEUDONYMOUS_FOLDER) if file.is_pseudonymous else (PUBLISHED, FOLDER)
    for name in sorted(institutions):
        own = file.root / name
        if not os.path.lexists(own / link):
            if file.is_pseudonymous and (own / PUBLISHED).exists():
                left_out[name] = MAKES_NONE
            continue
        try:
            given[name] = _copy(con, file, name, target(own / link, own / folder))
        except (DamagedError, BusyError, FileNotFoundError, ValueError, duckdb.Error):
            left_out[name] = DAMAGED
    return given, left_out


def export(con: duckdb.DuckDBPyConnection, relations: Iterable[Relation], into: Path) -> None:
    """Write the tables of the open file as Parquet for an engine, one folder each."""
    for relation in relations:
        full = f"{relation.schema}.{relation.name}"
        part = files.folder(into / full) / "part-0.parquet"
        con.execute(f"COPY (FROM {full}) TO {literal(part)} (FORMAT parquet)")


def compute_rollups(engine: engines.Engine, tables: Path, into: Path) -> None:
    """Compute every rollup from a folder for each table, into one folder each. Raises EngineError."""
    for relation in views.tables():
        name = f"{relation.schema}.{relation.name}"
        engine.read(name, tables / name, relation.columns)
    for rollup in views.rollups():  # a later one reads an earlier one
        engine.write(rollup.query, into / rollup.name)
        engine.read(f"main.{rollup.name}", into / rollup.name, views.columns(rollup))


def _make(file: FleetFile, registry: Registry, engine: str, version: str, at: datetime) -> Built:
    """Build the next version, and publish it: readable for those who may read every institution's own file."""
    file.sweep()
    with connect(file.next, scratch=file.scratch) as con:
        with transaction(con):
            views.create_tables(con, (contents.RELEASE,) if file.is_pseudonymous else ())
        given, left_out = gather(con, file, registry.institutions)
        if not given:
            raise NothingLandedError(
                "No institution has published anything that could be combined: run `rollbook fleet sync` first"
            )
        newest = max((own["newest_day"] for own in given.values() if own["newest_day"]), default=None)
        kept = contents.shown(INSTITUTIONS) if file.is_pseudonymous else INSTITUTIONS.columns
        rows = _described(registry, given, left_out, newest)
        con.register("fresh", pa.table({c.name: [row.get(c.name) for row in rows] for c in kept}))
        con.execute(f"INSERT INTO {INSTITUTIONS.schema}.{INSTITUTIONS.name} BY NAME SELECT * FROM fresh")
        con.unregister("fresh")
        students = count(con, "SELECT COUNT(*) FROM main.students")
        export(con, views.shared(), file.sources)
    with engines.of(engine, file.scratch) as computing:
        compute_rollups(computing, file.sources, file.rollups)
    with connect(file.next, scratch=file.scratch) as con:
        with transaction(con):
            con.execute("INSERT INTO spans.version VALUES ($1, $2, $3)", [version, at, FORMAT])
            for rollup in views.rollups():
                columns = ", ".join(f"CAST({c.name} AS {c.type}) AS {c.name}" for c in views.columns(rollup))
                source = file_literal(file.rollups / rollup.name, "/*.parquet")
                views.create_rollup(
                    con, rollup, f"SELECT {columns} FROM read_parquet({source}, hive_partitioning = false) ORDER BY ALL"
                )
            views.create_views(con, version)
            if file.is_pseudonymous:
                contents.comment(con, (*relations(file), INSTITUTIONS), catalog.views(MANY))
        con.execute("CHECKPOINT")
    if file.is_pseudonymous:
        clean(file.next, file.scratch)
    file.publish(reduce(lambda a, b: a & b, (own["mode"] for own in given.values()), 0o777) | files.PRIVATE_FILE)
    return Built(len(given), students, newest, left_out)


def _described(
    registry: Registry, given: Mapping[str, Mapping[str, Any]], left_out: Mapping[str, str], newest: date | None
) -> list[dict[str, Any]]:
    """The rows of the table `institutions`."""
    rows = []
    for status in sorted(load_overview(Fleet(registry)).institutions, key=lambda s: s.institution):
        own, last = given.get(status.institution, {}), status.last
        rows.append(
            {
                **own,
                "institution": status.institution,
                "days_behind": (newest - own["newest_day"]).days if newest and own.get("newest_day") else None,
                "last_outcome": status.outcome,
                "last_day": last.day if last else None,
                "last_at": last.at.astimezone(UTC).replace(tzinfo=None) if last else None,
                "description": (last.message if last else "") or None,
                "paused": status.paused or None,
                "left_out": left_out.get(status.institution),
            }
        )
    return rows


def _copy(con: duckdb.DuckDBPyConnection, file: FleetFile, name: str, path: Path | None) -> dict[str, Any]:
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
            with transaction(con):
                for relation in relations(file):
                    con.execute(_rows(file, name, relation))
        finally:
            con.execute("DETACH given")
    keys = ("version", "published_at", "newest_day", "school_id", "school_name")
    return {**dict(zip(keys, about or (), strict=True)), "mode": mode}


def _rows(file: FleetFile, name: str, relation: Relation) -> str:
    """Copy a table. Columns declared personal now stay NULL without names, even if the pseudonymous file has them."""
    full, columns, only = f"{relation.schema}.{relation.name}", relation.columns, "TRUE"
    if file.is_pseudonymous:
        columns = contents.shown(relation)
        only = "FALSE" if contents.is_empty(relation) else contents.told_changes() if relation == CHANGES else "TRUE"
    shown = f"{literal(name)} AS {INSTITUTION}, {names(columns)}"
    return f"INSERT INTO {full} BY NAME SELECT {shown} FROM given.{full} WHERE {only}"


# -- the histories -----------------------------------------------------------------------------------------------------
#
# `rollbook fleet rebuild`, for use after a declaration changed, or a disk was lost. The statements of `store.history`
# run over all institutions at once: the runs of days, the versions by their definition (G7), the current rows, the
# changes. Each institution's result then goes through its own lock, checks and publish, so that none can harm another;
# an interrupted run leaves each file either old or new.

RETYPED = "some of its snapshots have a column of another type: run `rollbook rebuild` for it"
OTHER_DAYS = "its published file is of other days than its lake: its next sync brings it up to date"

_SEEN = (
    Column("set_name", "VARCHAR", "The set."),
    Column("id", "BIGINT", "The record."),
    Column("state", "VARCHAR", "What was observed of it."),
    Column("table_name", "VARCHAR", "The table whose values it does not state."),
)
_LANDED = (Column("set_name", "VARCHAR", "The set."), Column("proven", "BOOLEAN", "Whether it was proven complete."))
# The text of a value of these types differs between engines: 1e16 and 1.0E16.
_TYPED = ("DOUBLE", "TIMESTAMP")


@dataclass(frozen=True)
class Difference:
    """How many rows of a table an institution's published file lacks, and how many it has too many."""

    institution: str
    table: str
    lacking: int
    surplus: int


class Histories:
    """The histories of the institutions' lakes, and why some were left out.

    The lakes are hard-linked into Hive-partitioned folders, so that they do not change when institutions sync meanwhile
    and replace the files of a day: `lakes/<table>/institution=<name>/snapshot_date=<day>/part-0.parquet`. The results
    are in `histories/`. `days` has each lake's days, with their checksums.
    """

    def __init__(self, engine: engines.Engine, folder: Path) -> None:
        self.engine = engine
        self.lakes = folder / "lakes"
        self.into = folder / f"histories-{engine.name[:2]}"
        self.days: dict[str, dict[date, str]] = {}
        self.left_out: dict[str, str] = {}

    def link(self, name: str) -> None:
        """Link the lake of an institution, or note why it is left out. One that never synced has none."""
        try:
            book = compose(load(institution=name, fetches=False))
            records = book.lake.days()
            if book.landings.expired_days():
                self.left_out[name] = (
                    "the history of some of its days is in its published file alone, since their snapshots have expired"
                )
            elif not records and book.warehouse.published.exists():
                self.left_out[name] = "its lake holds no day, though it has published"
            elif _are_retyped(book, records):
                self.left_out[name] = RETYPED
            elif records:
                self.link_days(book.lake, name, records)
        except RollbookError as error:
            self.left_out[name] = error.message

    def link_days(self, lake: Lake, name: str, records: Mapping[date, DayRecord]) -> None:
        """Link the files of these days, or note that the lake has changed meanwhile."""
        with suppress(FileNotFoundError):  # the day is being recomposed
            for day, record in records.items():
                for table in record.sizes:
                    file = lake.own(table, day)
                    folder = files.folder(self.lakes / table / f"{INSTITUTION}={name}" / file.parent.name)
                    try:
                        os.link(file, folder / file.name)
                    except OSError:  # the file system has no hard links
                        shutil.copyfile(file, folder / file.name)
            if lake.days() == records:
                self.days[name] = {day: record.digest for day, record in records.items()}
                return
        self.left_out[name] = "its lake changed meanwhile: run `rollbook fleet rebuild` again when its sync is done"

    def compute(self) -> None:
        """Compute the history, current rows and changes of every table. Raises EngineError."""
        lakes = {**{table.name: table.columns for table in TABLES.values()}, OBSERVED: _SEEN, DAYS: _LANDED}
        for name, columns in lakes.items():
            self.engine.read(f"lake.{name}", self.lakes / name, columns, (WHICH, SNAPSHOT_DATE))
        days = f"SELECT DISTINCT {INSTITUTION}, snapshot_date FROM lake.{DAYS}"
        self._keep("spans.days", days, (SNAPSHOT_DATE,))
        proven = f"SELECT {INSTITUTION}, snapshot_date AS day, set_name FROM lake.{DAYS} WHERE proven"
        self._keep("spans.proven", proven, (Column("day", "DATE", "The day."), _SEEN[0]))
        for table in TABLES.values():
            self._compute(table)
        changes = " UNION ALL ".join(f"SELECT * FROM main.changes_{name}" for name in TABLES)
        self.engine.define("main.changes", changes)

    def computed(self, institution: str) -> statements.Computed:
        """The result for one institution."""
        found = (folder / f"{INSTITUTION}={institution}" for folder in self.into.iterdir())
        return statements.Computed({f.parent.name: f for f in found if f.is_dir()}, self.days[institution])

    def compare(self, given: Path, institutions: Sequence[str]) -> list[Difference]:
        """Compare the result with what these institutions have published, as multisets of rows, both ways.

        `given` has a folder for each table. Raises EngineError.
        """
        found = []
        for relation, columns in _compared():
            published = f"given.{relation.replace('.', '_')}"
            self.engine.read(published, given / relation, (WHICH, *columns))
            mine, theirs = (
                f"SELECT {INSTITUTION}, {', '.join(_value(c.name) for c in columns)} FROM {of}"
                for of in (relation, published)
            )
            lacking, surplus = self._count_except(mine, theirs), self._count_except(theirs, mine)
            found += [
                Difference(institution, relation.removeprefix("main."), lacking[institution], surplus[institution])
                for institution in institutions
                if lacking[institution] or surplus[institution]
            ]
        return found

    def _compute(self, table: Table) -> None:
        name, rows, seen = table.name, f"SELECT * FROM lake.{table.name}", f"SELECT * FROM lake.{OBSERVED}"
        observations = statements.observations(table, rows, seen, MANY)
        runs = statements.runs_from_lake(table, observations, MANY, self.engine.hashed)
        self._keep(f"spans.{name}", runs, (*table.versioned, *SPAN))
        self._keep(f"history.{name}", statements.definition(table, MANY), (*table.versioned, *VALID))
        listed = f"(SELECT * FROM history.{name} WHERE valid_to IS NULL)"
        self.engine.define("last_stated", statements.last_stated(table, listed, MANY))
        if table.untracked:
            self.engine.define("untracked_values", statements.untracked_values(table, rows, MANY))
        self._keep(f"main.{name}", statements.current(table, MANY), table.columns)
        self._keep(f"main.changes_{name}", statements.changes(table, MANY), CHANGES.columns)

    def _count_except(self, left: str, right: str) -> Counter[str]:
        """The number of rows of `left` that are not in `right`, by institution."""
        query = f"SELECT {INSTITUTION}, COUNT(*) FROM ({left} EXCEPT ALL {right}) AS other GROUP BY {INSTITUTION}"
        return Counter({str(name): int(str(count)) for name, count in self.engine.rows(query)})

    def _keep(self, name: str, query: str, columns: Sequence[Column]) -> None:
        """Write a query's rows, and define a relation of this name over them."""
        title = name.removeprefix("main.")
        self.engine.write(query, self.into / title, [INSTITUTION])
        self.engine.read(name, self.into / title, columns, [WHICH])


def _are_retyped(book: WholeRollbook, records: Mapping[date, DayRecord]) -> bool:
    """Whether a file has a column of another type than declared: Spark cannot cast it while reading."""
    for table in TABLES.values():
        declared = {field.name: field.type for field in schema(table)}
        for found in book.lake.schemas(table, [r for r in records.values() if table.name in r.sizes]):
            if any(declared.get(field.name, field.type) != field.type for field in found):
                return True
    return False


def _compared() -> Iterator[tuple[str, tuple[Column, ...]]]:
    """The tables to compare, and their columns."""
    for table in TABLES.values():
        yield f"spans.{table.name}", (*table.versioned, *SPAN)
        yield f"history.{table.name}", (*table.versioned, *VALID)
        yield f"main.{table.name}", table.columns
    yield f"main.{CHANGES.name}", CHANGES.columns


def _value(name: str) -> str:
    """A column as SQL. The values in `changes` are text, and are normalised by their column's type."""
    if name not in ("old_value", "new_value"):
        return name
    cases = ""
    for kind in _TYPED:
        of = [(table.name, c.name) for table in TABLES.values() for c in table.tracked if c.type == kind]
        if of:
            is_of = " OR ".join(f"(table_name = '{table}' AND column_name = '{column}')" for table, column in of)
            cases += f" WHEN {is_of} THEN CAST(CAST({name} AS {kind}) AS VARCHAR)"
    return f"CASE{cases} ELSE {name} END AS {name}"


def verify(
    fleet: Path, registry: Registry, engine: str, only: tuple[str, ...] = ()
) -> tuple[tuple[str, ...], list[Difference], dict[str, str]]:
    """Compute the histories, and compare them with what each institution has published; nothing is changed.
    Returns which institutions were compared, their differences, and why others were not compared.

    `fleet` is the fleet's folder, `engine` a name as in `engines.of`, `only` some institutions' names. Raises
    SettingError for an unknown one, NothingLandedError when there is nothing to compare, BusyError while a build runs,
    and EngineError.
    """
    file = FleetFile(fleet)
    with _computed(file, registry, engine, only) as found:
        with connect(file.next, scratch=file.scratch) as con:
            views.create_tables(con)
            given, missed = gather(con, file, found.days)
            export(con, views.shared(), file.sources)
            published = con.execute("SELECT institution, snapshot_date, digest FROM spans.days").fetchall()
        left_out = dict(found.left_out)
        for name, days in found.days.items():
            if name not in given:
                left_out[name] = missed.get(name, "it has published nothing that could be compared")
            elif {day: digest for of, day, digest in published if of == name} != days:
                left_out[name] = OTHER_DAYS
        compared = tuple(name for name in found.days if name not in left_out)
        return compared, found.compare(file.sources, compared), left_out


def rebuild(
    fleet: Path, registry: Registry, engine: str, only: tuple[str, ...], confirm: Confirm = within_hold
) -> Iterator[tuple[str, RollbookError | None]]:
    """Compute the histories, and publish each institution's. Yields the name of each as it ends, and the error that
    prevented its rebuild, or None.

    Raises the errors of `verify`; then no institution has changed.
    """
    with _computed(FleetFile(fleet), registry, engine, only) as found:
        for name, why in found.left_out.items():
            yield name, RollbookError(f"It was left out: {why}")
        for name in found.days:
            try:
                compose(load(institution=name, fetches=False)).adopt(found.computed(name), confirm)
            except RollbookError as error:
                yield name, error
            else:
                yield name, None


@contextmanager
def _computed(file: FleetFile, registry: Registry, engine: str, only: tuple[str, ...]) -> Iterator[Histories]:
    institutions = {name: registry[name] for name in only or registry.institutions}
    with machine_errors(file.root), file.building():
        file.sweep()
        try:
            with engines.of(engine, file.scratch) as computing:
                found = Histories(computing, file.work)
                for name in institutions:
                    found.link(name)
                if not found.days:
                    reasons = "".join(f"; {name}: {why}" for name, why in found.left_out.items())
                    raise NothingLandedError(
                        f"No institution has a lake to compute from{reasons}: run `rollbook fleet sync` first"
                    )
                found.compute()
                yield found
        finally:
            file.sweep()
