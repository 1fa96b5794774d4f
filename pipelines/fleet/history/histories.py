"""The histories of many institutions, computed from their lakes by an engine, and compared with the published ones.

Runs the statements of `store.history` over all institutions at once: the runs of days, the versions by their definition
(G7), the current rows, the changes. Each result is written and read back, so that nothing is computed twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from pipelines.fleet.engine import Engine
from pipelines.fleet.history.lakes import Lakes
from pipelines.store.history import Computed
from pipelines.store.history import table as history
from pipelines.store.lake import DAYS, OBSERVED
from pipelines.store.relations import CHANGES, SNAPSHOT_DATE, SPAN, VALID
from pipelines.store.scope import INSTITUTION, MANY
from pipelines.tables import TABLES, Column, Table
from pipelines.views.fleet import WHICH

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
    """The histories of these lakes, computed into the folder `into`."""

    def __init__(self, engine: Engine, lakes: Lakes, into: Path) -> None:
        self.engine = engine
        self.lakes = lakes
        self.into = into

    def compute(self) -> None:
        """Compute the history, current rows and changes of every table. Raises EngineError."""
        for table in TABLES.values():
            self.lakes.read(self.engine, table.name, table.columns)
        self.lakes.read(self.engine, OBSERVED, _SEEN)
        self.lakes.read(self.engine, DAYS, _LANDED)
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

        `given` has a folder for each table, with a file for each institution that has rows. Raises EngineError.
        """
        found = []
        for name, relation, columns in _compared():
            published = f"given.{name.replace('.', '_')}"
            self.engine.read(published, given / name, (WHICH, *columns))
            mine, theirs = (f"SELECT {INSTITUTION}, {_typed(columns)} FROM {of}" for of in (relation, published))
            lacking, surplus = self._count_except(mine, theirs), self._count_except(theirs, mine)
            found += [
                Difference(institution, name, lacking[institution], surplus[institution])
                for institution in institutions
                if lacking[institution] or surplus[institution]
            ]
        return found

    def _compute(self, table: Table) -> None:
        name, rows, seen = table.name, f"SELECT * FROM lake.{table.name}", f"SELECT * FROM lake.{OBSERVED}"
        observations = history.observations(table, rows, seen, MANY)
        runs = history.runs_from_lake(table, observations, MANY, self.engine.hashed)
        self._keep(f"spans.{name}", runs, (*table.versioned, *SPAN))
        self._keep(f"history.{name}", history.definition(table, MANY), (*table.versioned, *VALID))
        listed = f"(SELECT * FROM history.{name} WHERE valid_to IS NULL)"
        self.engine.define("last_stated", history.last_stated(table, listed, MANY))
        if table.untracked:
            self.engine.define("untracked_values", history.untracked_values(table, rows, MANY))
        self._keep(f"main.{name}", history.current(table, MANY), table.columns)
        self._keep(f"main.changes_{name}", history.changes(table, MANY), CHANGES.columns)

    def _count_except(self, left: str, right: str) -> Counter[str]:
        """The number of rows of `left` that are not in `right`, by institution."""
        query = f"SELECT {INSTITUTION}, COUNT(*) FROM ({left} EXCEPT ALL {right}) AS other GROUP BY {INSTITUTION}"
        return Counter({str(name): int(str(count)) for name, count in self.engine.rows(query)})

    def _keep(self, name: str, query: str, columns: Sequence[Column]) -> None:
        """Write a query's rows, and define a relation of this name over them."""
        title = name.removeprefix("main.")
        self.engine.write(query, self.into / title, [INSTITUTION])
        self.engine.read(name, self.into / title, columns, [WHICH])


def _compared() -> Iterator[tuple[str, str, tuple[Column, ...]]]:
    """The tables to compare: the name among the institutions' parts, the relation here, and the columns."""
    for table in TABLES.values():
        yield f"spans.{table.name}", f"spans.{table.name}", (*table.versioned, *SPAN)
        yield f"history.{table.name}", f"history.{table.name}", (*table.versioned, *VALID)
        yield table.name, f"main.{table.name}", table.columns
    yield CHANGES.name, f"main.{CHANGES.name}", CHANGES.columns


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
