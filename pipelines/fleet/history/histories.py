"""The histories of many institutions, computed from their lakes by an engine, and compared with what is published.

The statements are those of `store.history`, over all institutions at once: the runs of days, the versions by their
definition (G7), the current rows, the changes. Each result is written and read back, so that nothing is computed twice.
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
    Column("table_name", "VARCHAR", "The table that it is silent about."),
)
_LANDED = (Column("set_name", "VARCHAR", "The set."), Column("proven", "BOOLEAN", "Whether it was proven complete."))
# The text of a value of these types differs between engines: 1e16 and 1.0E16.
_TYPED = ("DOUBLE", "TIMESTAMP")


@dataclass(frozen=True)
class Difference:
    """Rows of one institution's table that its published file lacks, and rows that it has too many."""

    institution: str
    table: str
    lacking: int
    surplus: int


class Histories:
    """All histories of these lakes, computed into the folder `into`."""

    def __init__(self, engine: Engine, lakes: Lakes, into: Path) -> None:
        self.engine = engine
        self.lakes = lakes
        self.into = into

    def compute(self) -> None:
        """Compute them. Raises EngineError."""
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
        """What was computed for one institution, whose lake had these days."""
        found = (folder / f"{INSTITUTION}={institution}" for folder in self.into.iterdir())
        return Computed({folder.parent.name: folder for folder in found if folder.is_dir()}, days)

    def compare(self, given: Path, institutions: Sequence[str]) -> list[Difference]:
        """Compare them with what these institutions have published, row by row both ways.

        `given` has a folder for each table, with a file for each institution that has rows.
        """
        found = []
        for name, relation, columns in _compared():
            published = f"given.{name.replace('.', '_')}"
            self.engine.read(published, given / name, (WHICH, *columns))
            mine, theirs = (f"SELECT {INSTITUTION}, {_typed(columns)} FROM {of}" for of in (relation, published))
            lacking, surplus = self._others(mine, theirs), self._others(theirs, mine)
            found += [
                Difference(each, name, lacking[each], surplus[each])
                for each in institutions
                if lacking[each] or surplus[each]
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

    def _others(self, these: str, those: str) -> Counter[str]:
        """How many of these rows are not among those, by institution."""
        query = f"SELECT {INSTITUTION}, COUNT(*) FROM ({these} EXCEPT ALL {those}) AS other GROUP BY {INSTITUTION}"
        return Counter({str(name): int(str(count)) for name, count in self.engine.rows(query)})

    def _keep(self, name: str, query: str, columns: Sequence[Column]) -> None:
        """Compute a relation, and give its rows that name."""
        title = name.removeprefix("main.")
        self.engine.write(query, self.into / title, [INSTITUTION])
        self.engine.read(name, self.into / title, columns, [WHICH])


def _compared() -> Iterator[tuple[str, str, tuple[Column, ...]]]:
    """What is compared: a table's name among what institutions give, its relation here, and its columns."""
    for table in TABLES.values():
        yield f"spans.{table.name}", f"spans.{table.name}", (*table.versioned, *SPAN)
        yield f"history.{table.name}", f"history.{table.name}", (*table.versioned, *VALID)
        yield table.name, f"main.{table.name}", table.columns
    yield CHANGES.name, f"main.{CHANGES.name}", CHANGES.columns


def _typed(columns: Sequence[Column]) -> str:
    """The columns as SQL; the values in `changes` are text, which is compared as what it stands for."""
    return ", ".join(_value(c.name) if c.name in ("old_value", "new_value") else c.name for c in columns)


def _value(name: str) -> str:
    cases = " ".join(f"WHEN {_of(kind)} THEN CAST(CAST({name} AS {kind}) AS VARCHAR)" for kind in _TYPED if _of(kind))
    return f"CASE {cases} ELSE {name} END AS {name}"


def _of(kind: str) -> str:
    """Whether a change is of a column of this type."""
    found = ((table.name, [f"'{c.name}'" for c in table.tracked if c.type == kind]) for table in TABLES.values())
    return " OR ".join(
        f"(table_name = '{table}' AND column_name IN ({', '.join(columns)}))" for table, columns in found if columns
    )
