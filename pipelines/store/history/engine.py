"""History as a function of the landed days (G7), and the fast way to the same rows.

The function is `sql/definition.sql`. It reads runs of days on which a record stated the same. On the lake itself, each
day is a run (`definition`). The schema `spans` stores the longest runs. `rebuild` makes them from the lake and computes
everything. A nightly merge inserts a day between its neighbours: it touches only the records that state something else
than their runs say, and recomputes only their history from that day on. So a night's merge hardly grows with the year.
All ways run the same definition and give the same rows.

The merged days are recorded here; then the tables are updated two at a time (`table`). All this happens in a file that
nobody reads yet: for readers, the swap is the transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import date

import duckdb

from pipelines.landing.manifest import TableCounts
from pipelines.store.database import each_table, transaction
from pipelines.store.history.table import Computed, Place, TableHistory
from pipelines.store.lake import DayRecord, Lake
from pipelines.tables import TABLES, Table

# Merging a day costs about as much as reading two; from this share of all days, folding the whole lake is cheaper.
REBUILD_SHARE = 0.3
REBUILD_LEAST = 12


class History:
    """The history of every table in one open database, and the lake it is a function of."""

    def __init__(self, con: duckdb.DuckDBPyConnection, lake: Lake) -> None:
        self.con = con
        self.lake = lake
        self.records = lake.days()

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
        if len(days) >= max(REBUILD_LEAST, REBUILD_SHARE * len(self.records)) and not self.has_expired_days:
            return self.rebuild()
        with transaction(self.con):
            places = [self._place(self.records[day]) for day in days]
        return self._each(lambda table: table.merge(places))

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

    def rebuild(self, computed: Computed | None = None) -> list[TableCounts]:
        """Full refresh: compute the history by the definition, from the whole lake alone.

        With `computed`, uses the runs and versions that were computed elsewhere.
        """
        with transaction(self.con):
            self.con.execute("DELETE FROM spans.days")
            self.con.execute("DELETE FROM spans.proven")
            for record in self.records.values():
                self._note(record)
        return self._each(lambda table: table.rebuild(computed))

    def definition(self, table: Table) -> str:
        """The history of one table as SQL over the lake's days, and nothing else."""
        return TableHistory(self.con, self.lake, self.records, table).definition()

    def _each(self, work: Callable[[TableHistory], TableCounts]) -> list[TableCounts]:
        """Do a piece of work for every table, two at a time, each in a transaction."""

        def piece(con: duckdb.DuckDBPyConnection, table: Table) -> TableCounts:
            with transaction(con):
                return work(TableHistory(con, self.lake, self.records, table))

        return each_table(self.con, piece, TABLES.values())

    def _place(self, record: DayRecord) -> Place:
        """Record a day as merged; returns its place among the others."""
        was = self._around(record.snapshot_date)
        self._note(record)
        return replace(was, turned=was.turned ^ set(record.proven))

    def _around(self, day: date) -> Place:
        """A day's merged neighbours, and the sets that it proves complete, if it is merged itself."""
        parameters = {"day": day}
        before, after = self.con.execute(
            """
            SELECT MAX(snapshot_date) FILTER (snapshot_date < $day), MIN(snapshot_date) FILTER (snapshot_date > $day)
            FROM spans.days
        """,
            parameters,
        ).fetchall()[0]
        proven = self.con.execute("SELECT set_name FROM spans.proven WHERE day = $day", parameters).fetchall()
        return Place(day, before, after, frozenset(r[0] for r in proven))

    def _unnote(self, day: date) -> None:
        self.con.execute("DELETE FROM spans.days WHERE snapshot_date = $1", [day])
        self.con.execute("DELETE FROM spans.proven WHERE day = $1", [day])

    def _note(self, record: DayRecord) -> None:
        day = record.snapshot_date
        self._unnote(day)
        self.con.execute("INSERT INTO spans.days VALUES ($1, $2)", [day, record.digest])
        for name in record.proven:
            self.con.execute("INSERT INTO spans.proven VALUES ($1, $2)", [day, name])
