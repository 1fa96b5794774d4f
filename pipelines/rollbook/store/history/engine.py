"""History as a function of the landed days (G7), and the fast way to the same rows.

The function is `sql/definition.sql`. It reads runs of days on which a record stated the same. On the lake itself, each
day is a run (`definition`). The schema `spans` stores the longest runs. `rebuild` makes the runs from the lake and
computes everything. A nightly merge inserts a day between two neighbours: the merge touches only the records that state
something else than the runs say, and recomputes only the history of these records from that day on. So a night's merge
hardly grows with the year. All ways run the same definition and give the same rows.

`History` records the merged days; then the tables are updated two at a time, each in a transaction (`TableHistory`).
All this happens in a file that nobody reads yet: for readers, the swap is the transaction. The steps of a merge share
temporary tables of the connection:

    observations        what each record states on the merged day
    delta               the records that state something else on the merged day than the runs say
    pieces              the runs of these records around that day, for `spans`
    touched             the records whose history may have changed, over all merged days
    folded              the versions from a day on, by the definition
    current_changes     how the current rows differ from the open versions
    last_stated, untracked_values   the sources of the untracked values
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

import duckdb

from rollbook.landing.manifest import TableCounts
from rollbook.store.database import count, each_table, names, transaction
from rollbook.store.lake import DayRecord, Lake, unchanged, unchanged_counts
from rollbook.store.schema import CHANGE_KEYS
from rollbook.store.statements import statements
from rollbook.tables import TABLES, Table

# Merging a day costs about as much as reading two; from this share of all days, folding the whole lake is cheaper.
REBUILD_SHARE = 0.3
MIN_REBUILD = 12


class History:
    """The history of every table in an open database, and the lake behind it."""

    def __init__(self, con: duckdb.DuckDBPyConnection, lake: Lake) -> None:
        self.con = con
        self.lake = lake
        self.records = lake.days()
        # The tables that no work here has changed.
        self.unchanged: frozenset[str] = frozenset(TABLES)

    @property
    def touched(self) -> frozenset[str]:
        """The tables that work here may have changed."""
        return frozenset(TABLES) - self.unchanged

    def merged_days(self) -> dict[date, str]:
        """The landed days that the history holds, with the content digest of each."""
        return dict(self.con.execute("SELECT snapshot_date, digest FROM spans.days ORDER BY 1").fetchall())

    def behind(self) -> list[date]:
        """The days of the lake that the history lacks, or holds with another digest."""
        merged = self.merged_days()
        return [d for d, record in self.records.items() if merged.get(d) != record.digest]

    @property
    def has_expired_days(self) -> bool:
        """Whether the history holds days that the lake no longer holds: folding the lake would lose them."""
        return not self.merged_days().keys() <= self.records.keys()

    def refold(self) -> list[TableCounts]:
        """Recompute all history from the runs: for declarations that changed after days had expired.

        A new column is NULL except on the days that the caller merges again afterwards.
        """
        return self._each(TableHistory.refold)

    def catch_up(self, days: Iterable[date]) -> list[TableCounts]:
        """Merge these days of the lake, any number in any order; returns the changes in each current table."""
        days = sorted(days)
        if not days:
            return []
        if len(days) == len(self.records) == 1 and not self.merged_days():
            (record,) = self.records.values()
            with transaction(self.con):
                self._note(record)
            return self._each(lambda table: table.begin(record))
        if len(days) >= max(MIN_REBUILD, REBUILD_SHARE * len(self.records)) and not self.has_expired_days:
            return self.rebuild()
        with transaction(self.con):
            places = [self._place(self.records[day]) for day in days]
        alike = frozenset.intersection(*(place.unchanged for place in places))
        return self._each(lambda table: table.merge(places), alike)

    def forget(self, days: Iterable[date]) -> list[TableCounts]:
        """Remove days whose landings were discarded from the history, as if nothing had ever been landed on them.

        The lake is not read, so days that only the history still holds stay in it.
        """
        places = []
        with transaction(self.con):
            for day in sorted(days):
                places.append(self._around(day))
                self._unnote(day)
        return self._each(lambda table: table.forget(places)) if places else []

    def rebuild(self) -> list[TableCounts]:
        """Full refresh: compute the history by the definition, from the whole lake alone."""
        with transaction(self.con):
            self.con.execute("DELETE FROM spans.days")
            self.con.execute("DELETE FROM spans.proven")
            for record in self.records.values():
                self._note(record)
        return self._each(TableHistory.rebuild)

    def _each(
        self, work: Callable[[TableHistory], TableCounts], alike: frozenset[str] = frozenset()
    ) -> list[TableCounts]:
        """Do a piece of work for every table but the tables that stay `alike`, two at a time, each in a transaction."""
        self.unchanged &= alike

        def piece(con: duckdb.DuckDBPyConnection, table: Table) -> TableCounts:
            if table.name in alike:
                return unchanged_counts(con, table)
            with transaction(con):
                return work(TableHistory(con, self.lake, self.records, table))

        return each_table(self.con, piece, self.lake.declared.tables.values())

    def _place(self, record: DayRecord) -> Place:
        """Record a day as merged; returns the place among the other days."""
        day, merged = record.snapshot_date, self.merged_days()
        was = self._around(day)
        same = unchanged(self.records, merged, day, record)
        self._note(record)
        return replace(was, unchanged=same, is_next=day > max(merged, default=date.min))

    def _around(self, day: date) -> Place:
        """A day's merged neighbours."""
        before, after = self.con.execute(
            """
            SELECT MAX(snapshot_date) FILTER (snapshot_date < $day), MIN(snapshot_date) FILTER (snapshot_date > $day)
            FROM spans.days
        """,
            {"day": day},
        ).fetchall()[0]
        return Place(day, before, after)

    def _unnote(self, day: date) -> None:
        self.con.execute("DELETE FROM spans.days WHERE snapshot_date = $1", [day])
        self.con.execute("DELETE FROM spans.proven WHERE day = $1", [day])

    def _note(self, record: DayRecord) -> None:
        day = record.snapshot_date
        self.lake.check(record)
        self._unnote(day)
        self.con.execute("INSERT INTO spans.days VALUES ($1, $2)", [day, record.digest])
        for name in record.proven:
            self.con.execute("INSERT INTO spans.proven VALUES ($1, $2)", [day, name])


sql = statements("rollbook.store.history")


@dataclass(frozen=True)
class Place:
    """A day's merged neighbours, the `unchanged` tables, and whether the day is later than all merged days."""

    day: date
    before: date | None
    after: date | None
    unchanged: frozenset[str] = frozenset()
    is_next: bool = False

    @property
    def around(self) -> dict[str, date | None]:
        """The three days, as SQL parameters."""
        return {"day": self.day, "before": self.before, "after": self.after}


class TableHistory:
    """The history of a table, on a connection of the table's own, within the caller's transaction."""

    def __init__(
        self, con: duckdb.DuckDBPyConnection, lake: Lake, records: Mapping[date, DayRecord], table: Table
    ) -> None:
        self.con = con
        self.lake = lake
        self.records = records
        self.table = table
        self.name = table.name
        self.columns = names(table.versioned)

    def begin(self, record: DayRecord) -> TableCounts:
        """Merge the very first landed day: all rows are added."""
        con, name, day = self.con, self.name, record.snapshot_date
        stated = self.observations([record])
        con.execute(f"INSERT INTO spans.{name} SELECT {self.columns}, span_state, $1, NULL FROM ({stated})", [day])
        rows = f"SELECT * FROM ({self.lake.scan(self.table, [record])})"
        con.execute(f"INSERT INTO history.{name} SELECT {self.columns}, snapshot_date, NULL FROM ({rows})")
        con.execute(f"INSERT INTO main.{name} SELECT {names(self.table.columns)} FROM ({rows})")
        keys = "".join(f"{key}, " for key in CHANGE_KEYS if key in self.table.key)
        con.execute(
            f"INSERT INTO main.changes BY NAME SELECT {keys}snapshot_date, '{name}' AS table_name, 'added' AS change"
            f" FROM ({rows})"
        )
        return TableCounts(table=name, before=0, added=record.rows.get(name, 0), changed=0, removed=0)

    def merge(self, places: Sequence[Place]) -> TableCounts:
        """Merge days one after the other; recompute the touched records' history from the first merged day on."""
        self._keep("touched", "SELECT CAST(NULL AS BIGINT) AS id WHERE FALSE")
        for place in places:
            if self.name not in place.unchanged:
                self._merge_day(place)
        return self._refold(min(place.day for place in places))

    def refold(self) -> TableCounts:
        """Recompute all history from the runs, without the lake."""
        self._keep("touched", f"SELECT DISTINCT {self.table.parent_key} AS id FROM spans.{self.name}")
        return self._refold(date.min)

    def forget(self, places: Sequence[Place]) -> TableCounts:
        """Remove days from all runs and recompute all history. `places` are the days' places before the removal."""
        id_ = f"SELECT DISTINCT {self.table.parent_key} AS id FROM"
        self._keep("touched", f"{id_} spans.{self.name} UNION {id_} history.{self.name}")
        self._keep("delta", "FROM touched")
        for place in places:
            self._run("replace_runs", place.around, is_forgotten=True)
        return self._refold(date.min)

    def rebuild(self) -> TableCounts:
        """Full refresh: the history by the definition, from the whole lake alone."""
        con, name = self.con, self.name
        everyone = f"SELECT DISTINCT {self.table.parent_key} AS id FROM history.{name}"
        self._keep("touched", everyone)
        for emptied in (f"spans.{name}", f"history.{name}"):
            con.execute(f"DELETE FROM {emptied}")
        con.execute(f"DELETE FROM main.changes WHERE table_name = '{name}'")
        if self.records:
            # Directly on the lake's days, the definition gives the same rows (`definition`) for four times the work:
            # the window functions would read a wide row per day instead of per change.
            everything = self.observations(self.records.values())
            con.execute(f"INSERT INTO spans.{name} {sql('runs_from_lake', table=self.table, observations=everything)}")
            con.execute(f"INSERT INTO history.{name} {definition(self.table, f'spans.{name}')}")
        con.execute(f"INSERT INTO touched {everyone}")
        con.execute(f"INSERT INTO main.changes {changes(self.table)}")
        return self._refresh_current()

    def observations(self, days: Collection[DayRecord]) -> str:
        """Each record's statement on some days, as SQL: rows, an empty list, or nothing."""
        return observations(self.table, self.lake.scan(self.table, days), self.lake.scan_observed(days))

    def _merge_day(self, place: Place) -> None:
        self._keep("observations", self.observations([self.records[place.day]]))
        self._keep("delta", sql("delta", table=self.table), {"day": place.day})
        if count(self.con, "SELECT COUNT(*) FROM delta"):
            self.con.execute("INSERT INTO touched SELECT id FROM delta")
            self._run("begin_runs" if place.is_next else "replace_runs", place.around, is_forgotten=False)

    def _refold(self, since: date) -> TableCounts:
        """Recompute the touched records' history from a day on; earlier history stays."""
        if count(self.con, "SELECT COUNT(*) FROM touched"):
            self._run("refold", {"since": since}, change_keys=CHANGE_KEYS)
        return self._refresh_current()

    def _refresh_current(self) -> TableCounts:
        """Update the touched records' current rows, then the untracked values of all current rows."""
        before = count(self.con, f"SELECT COUNT(*) FROM main.{self.name}")
        self._run("refresh_current")
        counted = dict(self.con.execute("SELECT change, COUNT(*) FROM current_changes GROUP BY change").fetchall())
        self._refresh_untracked()
        counts = {change: counted.get(change, 0) for change in ("added", "changed", "removed")}
        return TableCounts(table=self.name, before=before, **counts)

    def _refresh_untracked(self) -> None:
        """Update the current rows' untracked values from the last day that stated each record."""
        if not self.table.untracked:
            return
        self._keep("last_stated", sql("last_stated", table=self.table, listed=f"main.{self.name}"))
        days = [r[0] for r in self.con.execute("SELECT DISTINCT day FROM last_stated ORDER BY 1").fetchall()]
        there = [self.records[d] for d in days if d in self.records]
        if there:
            self._keep("untracked_values", sql("untracked", table=self.table, rows=self.lake.scan(self.table, there)))
            self._run("refresh_untracked")

    def _keep(self, name: str, query: str, parameters: Mapping[str, object] | None = None) -> None:
        """Store the rows of a query in a temporary table."""
        self.con.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {query}", dict(parameters or {}))

    def _run(self, name: str, values: Mapping[str, object] | None = None, **parts: object) -> None:
        """Run the statements of a file one after the other, each with those of the values that it names."""
        for statement in self.con.extract_statements(sql(name, table=self.table, **parts)):
            self.con.execute(statement, {key: (values or {})[key] for key in statement.named_parameters})


def observations(table: Table, rows: str, observed: str) -> str:
    """The statements of each record, as SQL, from a table's rows and the `observed` rows, both with `snapshot_date`."""
    return sql("observations", table=table, rows=rows, observed=observed)


def definition(table: Table, runs: str) -> str:
    """The versions as SQL, from runs of days: of all records (`spans`), or a query of observations, each a run of one
    day.
    """
    return sql("definition", table=table, runs=runs)


def changes(table: Table) -> str:
    """The changes between a table's versions, as SQL."""
    return sql("changes", table=table, touched=False, change_keys=CHANGE_KEYS)
