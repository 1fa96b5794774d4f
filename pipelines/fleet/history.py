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
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from pipelines import files, machine
from pipelines.compose import compose
from pipelines.errors import NothingLandedError, RollbookError
from pipelines.flatten import schema
from pipelines.fleet import engine as engines
from pipelines.fleet.build import export, gather
from pipelines.fleet.engine import Engine
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

RETYPED = "some of its snapshots have a column of another type: run `rollbook rebuild` for it"
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


class Histories:
    """The histories of the institutions' lakes, and why some were left out.

    The lakes are hard-linked into Hive-partitioned folders, so that they do not change when institutions sync meanwhile
    and replace the files of a day: `lakes/<table>/institution=<name>/snapshot_date=<day>/part-0.parquet`. The results
    are in `histories/`. `days` has each lake's days, with their checksums.
    """

    def __init__(self, engine: Engine, folder: Path) -> None:
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

    def computed(self, institution: str) -> Computed:
        """The result for one institution."""
        found = (folder / f"{INSTITUTION}={institution}" for folder in self.into.iterdir())
        return Computed({f.parent.name: f for f in found if f.is_dir()}, self.days[institution])

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


def _are_retyped(book: Rollbook, records: Mapping[date, DayRecord]) -> bool:
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


def _typed(columns: Sequence[Column]) -> str:
    """The columns as SQL. The values in `changes` are text, and are normalised by their column's type."""
    return ", ".join(_value(c.name) if c.name in ("old_value", "new_value") else c.name for c in columns)


def _value(name: str) -> str:
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
    fleet: Path, registry: Registry, engine: str, only: tuple[str, ...], done: Done, confirm: Confirm = within_hold
) -> None:
    """Compute the histories, and publish each institution's; `done` is called for each as it ends.

    Raises the errors of `verify`; then no institution has changed.
    """
    with _computed(FleetFile(fleet), registry, engine, only) as found:
        for name, why in found.left_out.items():
            done(name, RollbookError(f"It was left out: {why}"))
        for name in found.days:
            try:
                compose(load(institution=name, fetches=False)).adopt(found.computed(name), confirm)
                done(name, None)
            except RollbookError as error:
                done(name, error)


@contextmanager
def _computed(file: FleetFile, registry: Registry, engine: str, only: tuple[str, ...]) -> Iterator[Histories]:
    institutions = {name: registry[name] for name in only or registry.institutions}
    with machine.translate_errors(file.root), file.building():
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
