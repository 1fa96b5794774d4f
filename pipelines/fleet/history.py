"""`rollbook fleet rebuild`: an engine recomputes all histories from the lakes, to publish or compare them.

For use after a declaration changed, or a disk was lost. The statements of `store.history` run over all institutions at
once: the runs of days, the versions by their definition (G7), the current rows, the changes. Each institution's result
then goes through its own lock, checks and publish, so that none can harm another; an interrupted run leaves each file
either old or new.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from pipelines import files, machine
from pipelines.compose import compose
from pipelines.errors import NothingLandedError, RollbookError
from pipelines.flatten import schema
from pipelines.fleet import engine as engines
from pipelines.fleet.engine import Engine
from pipelines.fleet.gather import export, gather
from pipelines.institutions import Registry
from pipelines.settings import load
from pipelines.store.database import connect
from pipelines.store.history import Computed, engine
from pipelines.store.lake import DAYS, OBSERVED, DayRecord, Lake
from pipelines.store.published.fleet_file import FleetFile
from pipelines.store.relations import CHANGES, SNAPSHOT_DATE, SPAN, VALID
from pipelines.store.scope import INSTITUTION, MANY
from pipelines.sync import Confirm, Rollbook, within_hold
from pipelines.tables import TABLES, Column, Table
from pipelines.views import fleet as views
from pipelines.views.fleet import WHICH

CHANGED = "its lake changed meanwhile: run `rollbook fleet rebuild` again when its sync is done"
RETYPED = "some of its snapshots have a column of another type: run `rollbook rebuild` for it"
EXPIRED = "the history of some of its days is in its published file alone, since their snapshots have expired"
EMPTY = "its lake holds no day, though it has published"
NOT_GIVEN = "it has published nothing that could be compared"
OTHER_DAYS = "its published file is of other days than its lake: its next sync brings it up to date"

# Called with an institution's name, and the error that prevented its rebuild, or None.
Done = Callable[[str, RollbookError | None], None]

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


@dataclass
class Lakes:
    """Lakes that were linked into a folder: each day's checksum by institution, and why others were left out.

    They are hard-linked into Hive-partitioned folders, so that they do not change when institutions sync meanwhile
    and replace the files of a day: `<table>/institution=<name>/snapshot_date=<day>/part-0.parquet`.
    """

    folder: Path
    days: dict[str, dict[date, str]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def link(self, name: str) -> None:
        """Link the lake of an institution, or note why it is left out. One that never synced has none."""
        try:
            book = compose(load(institution=name, fetches=False))
            records = book.lake.days()
            if book.landings.expired_days():
                why = EXPIRED
            elif not records:
                why = EMPTY if book.warehouse.published.exists() else ""
            elif _are_retyped(book, records):
                why = RETYPED
            elif not self.link_days(book.lake, name, records):
                why = CHANGED
            else:
                self.days[name], why = {day: record.digest for day, record in records.items()}, ""
        except RollbookError as error:
            why = error.message
        if why:
            self.left_out[name] = why

    def link_days(self, lake: Lake, name: str, records: Mapping[date, DayRecord]) -> bool:
        """Link the files of these days; returns whether the lake has not changed meanwhile."""
        try:
            for day, record in records.items():
                for table in record.sizes:
                    file = lake.own(table, day)
                    link_or_copy(file, self.folder / table / f"{INSTITUTION}={name}" / file.parent.name / file.name)
        except FileNotFoundError:  # the day is being recomposed
            return False
        return lake.days() == records


def link_or_copy(file: Path, target: Path) -> None:
    """Hard-link a file, or copy it where the file system has no hard links. Raises FileNotFoundError."""
    files.folder(target.parent)
    try:
        os.link(file, target)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(file, target)


def _are_retyped(book: Rollbook, records: Mapping[date, DayRecord]) -> bool:
    """Whether a file has a column of another type than declared: Spark cannot cast it while reading."""
    for table in TABLES.values():
        declared = schema(table)
        for found in book.lake.schemas(table, [r for r in records.values() if table.name in r.sizes]):
            both = [name for name in declared.names if name in found.names]
            if any(found.field(name).type != declared.field(name).type for name in both):
                return True
    return False


class Histories:
    """The histories of these lakes, computed into the folder `into`."""

    def __init__(self, engine: Engine, lakes: Lakes, into: Path) -> None:
        self.engine = engine
        self.lakes = lakes
        self.into = into

    def compute(self) -> None:
        """Compute the history, current rows and changes of every table. Raises EngineError."""
        lakes = {**{table.name: table.columns for table in TABLES.values()}, OBSERVED: _SEEN, DAYS: _LANDED}
        for name, columns in lakes.items():
            self.engine.read(f"lake.{name}", self.lakes.folder / name, columns, (WHICH, SNAPSHOT_DATE))
        days = f"SELECT DISTINCT {INSTITUTION}, snapshot_date FROM lake.{DAYS}"
        self._keep("spans.days", days, (SNAPSHOT_DATE,))
        proven = f"SELECT {INSTITUTION}, snapshot_date AS day, set_name FROM lake.{DAYS} WHERE proven"
        self._keep("spans.proven", proven, (Column("day", "DATE", "The day."), _SEEN[0]))
        for table in TABLES.values():
            self._compute(table)
        changes = " UNION ALL ".join(f"SELECT * FROM main.changes_{name}" for name in TABLES)
        self.engine.define("main.changes", changes)

    def computed(self, institution: str, days: Mapping[date, str]) -> Computed:
        """The result for one institution; `days` are the days of its lake."""
        found = (folder / f"{INSTITUTION}={institution}" for folder in self.into.iterdir())
        return Computed({folder.parent.name: folder for folder in found if folder.is_dir()}, days)

    def compare(self, given: Path, institutions: Sequence[str]) -> list[Difference]:
        """Compare the result with what these institutions have published, as multisets of rows, both ways.

        `given` has a folder for each table. Raises EngineError.
        """
        found = []
        for relation, columns in _compared():
            published = f"given.{relation.replace('.', '_')}"
            self.engine.read(published, given / relation, (WHICH, *columns))
            mine, theirs = (f"SELECT {INSTITUTION}, {_typed(columns)} FROM {of}" for of in (relation, published))
            lacking, surplus = self._count_except(mine, theirs), self._count_except(theirs, mine)
            found += [
                Difference(institution, relation.removeprefix("main."), lacking[institution], surplus[institution])
                for institution in institutions
                if lacking[institution] or surplus[institution]
            ]
        return found

    def _compute(self, table: Table) -> None:
        name, rows, seen = table.name, f"SELECT * FROM lake.{table.name}", f"SELECT * FROM lake.{OBSERVED}"
        observations = engine.observations(table, rows, seen, MANY)
        runs = engine.runs_from_lake(table, observations, MANY, self.engine.hashed)
        self._keep(f"spans.{name}", runs, (*table.versioned, *SPAN))
        self._keep(f"history.{name}", engine.definition(table, MANY), (*table.versioned, *VALID))
        listed = f"(SELECT * FROM history.{name} WHERE valid_to IS NULL)"
        self.engine.define("last_stated", engine.last_stated(table, listed, MANY))
        if table.untracked:
            self.engine.define("untracked_values", engine.untracked_values(table, rows, MANY))
        self._keep(f"main.{name}", engine.current(table, MANY), table.columns)
        self._keep(f"main.changes_{name}", engine.changes(table, MANY), CHANGES.columns)

    def _count_except(self, left: str, right: str) -> Counter[str]:
        """The number of rows of `left` that are not in `right`, by institution."""
        query = f"SELECT {INSTITUTION}, COUNT(*) FROM ({left} EXCEPT ALL {right}) AS other GROUP BY {INSTITUTION}"
        return Counter({str(name): int(str(count)) for name, count in self.engine.rows(query)})

    def _keep(self, name: str, query: str, columns: Sequence[Column]) -> None:
        """Write a query's rows, and define a relation of this name over them."""
        title = name.removeprefix("main.")
        self.engine.write(query, self.into / title, [INSTITUTION])
        self.engine.read(name, self.into / title, columns, [WHICH])


def _compared() -> Iterator[tuple[str, tuple[Column, ...]]]:
    """The tables to compare, and their columns."""
    for table in TABLES.values():
        yield f"spans.{table.name}", (*table.versioned, *SPAN)
        yield f"history.{table.name}", (*table.versioned, *VALID)
        yield f"main.{table.name}", table.columns
    yield f"main.{CHANGES.name}", CHANGES.columns


def _typed(columns: Sequence[Column]) -> str:
    """The columns as SQL. The values in `changes` are text, and are normalised by their column's type."""
    return ", ".join(_value(c.name) if c.name in ("old_value", "new_value") else c.name for c in columns)


def _value(name: str) -> str:
    cases = " ".join(
        f"WHEN {_is_of(kind)} THEN CAST(CAST({name} AS {kind}) AS VARCHAR)" for kind in _TYPED if _is_of(kind)
    )
    return f"CASE {cases} ELSE {name} END AS {name}"


def _is_of(kind: str) -> str:
    """A condition in SQL: whether a change is of a column of this type. Empty if no column is."""
    found = ((table.name, [f"'{c.name}'" for c in table.tracked if c.type == kind]) for table in TABLES.values())
    return " OR ".join(
        f"(table_name = '{table}' AND column_name IN ({', '.join(columns)}))" for table, columns in found if columns
    )


@dataclass(frozen=True)
class Verified:
    """The result of a comparison: the institutions compared, their differences, and why others were not compared."""

    compared: tuple[str, ...]
    differences: tuple[Difference, ...]
    left_out: dict[str, str]


class FleetRebuild:
    """One rebuild of the institutions of a registry, or of those named by `only`.

    `fleet` is the fleet's folder, `engine` a name as in `engines.of`. Raises SettingError for an unknown name.
    """

    def __init__(self, fleet: Path, registry: Registry, engine: str, only: tuple[str, ...] = ()) -> None:
        self.fleet = fleet
        self.registry = registry
        self.engine = engine
        self.institutions = {name: registry[name] for name in only or registry.institutions}
        self.file = FleetFile(fleet)

    def verify(self) -> Verified:
        """Compare the histories with what each institution has published; nothing is changed.

        Raises NothingLandedError when there is nothing to compare, BusyError while a build runs, and EngineError.
        """
        with self._computing() as (found, histories):
            with connect(self.file.next, scratch=self.file.scratch) as con:
                views.create_tables(con)
                given = gather(con, self.file, found.days)
                export(con, views.shared(), self.file.sources)
                published = con.execute("SELECT institution, snapshot_date, digest FROM spans.days").fetchall()
            left_out = dict(found.left_out)
            for name, days in found.days.items():
                if name not in given.given:
                    left_out[name] = given.left_out.get(name, NOT_GIVEN)
                elif {day: digest for of, day, digest in published if of == name} != days:
                    left_out[name] = OTHER_DAYS
            compared = tuple(name for name in found.days if name not in left_out)
            return Verified(compared, tuple(histories.compare(self.file.sources, compared)), left_out)

    def rebuild(self, done: Done, confirm: Confirm = within_hold) -> None:
        """Compute the histories, and publish each institution's; `done` is called for each as it ends.

        Raises NothingLandedError without any lake, BusyError while a build runs, and EngineError; then no
        institution has changed.
        """
        with self._computing() as (found, histories):
            for name, why in found.left_out.items():
                done(name, RollbookError(f"It was left out: {why}"))
            for name, days in found.days.items():
                try:
                    compose(load(institution=name, fetches=False)).adopt(histories.computed(name, days), confirm)
                    done(name, None)
                except RollbookError as error:
                    done(name, error)

    @contextmanager
    def _computing(self) -> Iterator[tuple[Lakes, Histories]]:
        file = self.file
        with machine.translate_errors(self.fleet), file.building():
            file.sweep()
            try:
                found = Lakes(file.work / "lakes")
                for name in self.institutions:
                    found.link(name)
                if not found.days:
                    reasons = "".join(f"; {name}: {why}" for name, why in found.left_out.items())
                    raise NothingLandedError(
                        f"No institution has a lake to compute from{reasons}: run `rollbook fleet sync` first"
                    )
                with engines.of(self.engine, file.scratch) as engine:
                    histories = Histories(engine, found, file.work / "histories")
                    histories.compute()
                    yield found, histories
            finally:
                file.sweep()
