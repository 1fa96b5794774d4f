"""One table's history, in one transaction: merge days, find the touched records, compute their history again.

The SQL is in `sql/`. Which days are merged, and in what order, is decided in `engine`.

A merge hands its work on through these temporary tables, each of its own connection:

    delta               the records that state something else on the merged day than their runs say
    pieces              their runs around that day, which replace those in `spans`
    touched             the records whose history may have changed, over all merged days
    folded              their versions from a day on, by the definition
    current_changes     how the current rows differ from the open versions
    last_stated, untracked_values   where the untracked values come from
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

import duckdb

from pipelines import files
from pipelines.landing.manifest import TableCounts
from pipelines.store.database import count, literal, names
from pipelines.store.history.computed import Computed
from pipelines.store.history.delta import Delta
from pipelines.store.lake import DayRecord, Lake
from pipelines.store.relations import CHANGE_KEYS
from pipelines.store.scope import ONE, Scope
from pipelines.store.statements import statements
from pipelines.tables import Table

sql = statements("pipelines.store.history")


@dataclass(frozen=True)
class Place:
    """Where a day goes: between which merged days, and for which sets its proof is another than before."""

    day: date
    before: date | None
    after: date | None
    turned: frozenset[str]

    @property
    def around(self) -> dict[str, date | None]:
        """The three days, as parameters."""
        return {"day": self.day, "before": self.before, "after": self.after}


class TableHistory:
    """The history of one table, on a connection of its own. The caller has begun the transaction."""

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
        """Merge the first landed day of all: whatever it states is added, and there is nothing to compare with."""
        con, name, day = self.con, self.name, record.snapshot_date
        stated = self.observations([record])
        con.execute(f"INSERT INTO spans.{name} SELECT {self.columns}, span_state, $1, NULL FROM ({stated})", [day])
        rows = f"SELECT * FROM ({self.lake.scan(self.table, [record])})"
        con.execute(f"INSERT INTO history.{name} SELECT {self.columns}, snapshot_date, NULL FROM ({rows})")
        con.execute(f"INSERT INTO main.{name} SELECT {names(self.table.columns)} FROM ({rows})")
        self._run("first_changes", rows=rows, change_keys=CHANGE_KEYS)
        return TableCounts(table=name, before=0, added=record.rows[name], changed=0, removed=0)

    def merge(self, places: Sequence[Place], delta: Delta | None = None) -> TableCounts:
        """Merge days one after the other; compute the touched records' history again from the first of them on.

        `delta` says what the only day changes, if that is known.
        """
        self._touch("SELECT CAST(NULL AS BIGINT) AS id WHERE FALSE")
        for place in places:
            self._merge_day(place, delta)
            if self.table.set in place.turned:
                self._run("touch_unseen", {"day": place.day})
        return self._refold(min(place.day for place in places))

    def refold(self) -> TableCounts:
        """Compute all history again from the runs of days; the lake is not read."""
        self._touch(f"SELECT DISTINCT {self.table.parent_key} AS id FROM spans.{self.name}")
        return self._refold(date.min)

    def forget(self, places: Sequence[Place]) -> TableCounts:
        """Take days out of all runs and compute all history again. `places` are as they were before."""
        parent = self.table.parent_key
        self._touch(f"SELECT {parent} AS id FROM spans.{self.name} UNION SELECT {parent} FROM history.{self.name}")
        for place in places:
            self._run("delta_of_forgotten", place.around)
            self._replace_runs(place, observations=None)
        return self._refold(date.min)

    def rebuild(self, computed: Computed | None = None) -> TableCounts:
        """Full refresh: the history of the whole lake by the definition, from nothing but the lake, or as computed."""
        con, name = self.con, self.name
        everyone = f"SELECT DISTINCT {self.table.parent_key} AS id FROM history.{name}"
        self._touch(everyone)
        for emptied in (f"spans.{name}", f"history.{name}"):
            con.execute(f"DELETE FROM {emptied}")
        con.execute(f"DELETE FROM main.changes WHERE table_name = '{name}'")
        if self.records:
            # Over the lake's days themselves the definition gives the same rows (`definition`), for four times the
            # work: a wide row a day would go through its windows instead of one a change.
            everything = self.observations(self.records.values())
            runs = computed.runs(self.table) if computed else runs_from_lake(self.table, everything)
            con.execute(f"INSERT INTO spans.{name} {runs}")
            versions = computed.versions(self.table) if computed else self._definition_of_runs(touched=False)
            con.execute(f"INSERT INTO history.{name} {versions}")
        con.execute(f"INSERT INTO touched {everyone}")
        con.execute(f"INSERT INTO main.changes {changes(self.table)}")
        counts = self._refresh_current()
        self._refresh_untracked()
        return counts

    def definition(self) -> str:
        """The history as SQL over the lake's days, and nothing else."""
        days = self.records.values()
        rows = self.lake.scan(self.table, days)
        return definition(self.table, observations=self.observations(days), rows=rows)

    def observations(self, days: Collection[DayRecord]) -> str:
        """What each record stated on these days, as SQL: rows, an empty list, or nothing."""
        return observations(self.table, self.lake.scan(self.table, days), self.lake.scan_observed(days))

    def _merge_day(self, place: Place, delta: Delta | None) -> None:
        observations = self.observations([self.records[place.day]])
        if delta is not None:
            self.con.execute(
                f"CREATE OR REPLACE TEMP TABLE delta AS FROM read_parquet({literal(delta.path(self.table))})"
            )
        else:
            query = sql("delta", table=self.table, spans="spans", observations=observations)
            self.con.execute(f"CREATE OR REPLACE TEMP TABLE delta AS {query}", {"day": place.day})
        if count(self.con, "SELECT COUNT(*) FROM delta"):
            self.con.execute("INSERT INTO touched SELECT id FROM delta")
            self._replace_runs(place, self._observations_of_delta(self.records[place.day]))

    def _observations_of_delta(self, day: DayRecord) -> str:
        """What the records in `delta` stated on a day; the others are left out before anything is made of them."""
        rows, observed = self.lake.scan(self.table, [day]), self.lake.scan_observed([day])
        return observations(
            self.table,
            f"SELECT r.* FROM ({rows}) AS r SEMI JOIN delta ON delta.id = r.{self.table.parent_key}",
            f"SELECT o.* FROM ({observed}) AS o SEMI JOIN delta ON delta.id = o.id",
        )

    def _replace_runs(self, place: Place, observations: str | None) -> None:
        """Replace the runs around a day by what led up to it, the day itself and what follows, joined where alike."""
        self._run("pieces", place.around, observations=observations)
        self._run("remove_runs", place.around)
        self.con.execute(f"INSERT INTO spans.{self.name} SELECT * FROM pieces")

    def _refold(self, since: date) -> TableCounts:
        """Compute the touched records' history from a day on; what they stated before it, and its versions, stay."""
        con, name, day = self.con, self.name, {"since": since}
        if count(con, "SELECT COUNT(*) FROM touched"):
            mine = f"{self.table.parent_key} IN (SELECT id FROM touched)"
            con.execute(f"CREATE OR REPLACE TEMP TABLE folded AS {self._definition_of_runs(touched=True)}", day)
            con.execute(f"DELETE FROM history.{name} WHERE valid_from >= $since AND {mine}", day)
            self._run("extend_versions", day)
            con.execute(f"INSERT INTO history.{name} FROM folded WHERE valid_from >= $since", day)
            # A warehouse has one institution, so the changes of its table are all of the same key.
            theirs = f" AND {mine}" if self.table.parent_key in CHANGE_KEYS else ""
            con.execute(
                f"DELETE FROM main.changes WHERE table_name = '{name}' AND snapshot_date >= $since{theirs}", day
            )
            con.execute(f"INSERT INTO main.changes {changes(self.table, touched=True)}", day)
        counts = self._refresh_current()
        self._refresh_untracked()
        return counts

    def _definition_of_runs(self, *, touched: bool) -> str:
        """The versions as SQL over the runs of all records, or of the touched ones since `$since`."""
        return definition(self.table, touched=touched)

    def _refresh_current(self) -> TableCounts:
        """Bring the touched records' current rows up to their open versions. Rows that stay the same are left alone.

        New and changed rows get their untracked values afterwards.
        """
        con, name = self.con, self.name
        before = count(con, f"SELECT COUNT(*) FROM main.{name}")
        self._run("current_changes")
        found = dict(con.execute("SELECT change, COUNT(*) FROM current_changes GROUP BY change").fetchall())
        same = " AND ".join(f"m.{k} = x.{k}" for k in self.table.key)
        con.execute(f"DELETE FROM main.{name} AS m USING current_changes AS x WHERE {same} AND x.change <> 'added'")
        con.execute(
            f"INSERT INTO main.{name} BY NAME SELECT {self.columns} FROM current_changes WHERE change <> 'removed'"
        )
        counts = {change: found.get(change, 0) for change in ("added", "changed", "removed")}
        return TableCounts(table=name, before=before, **counts)

    def _refresh_untracked(self) -> None:
        """Set the untracked values of the current rows to those of the last day that stated each record."""
        if not self.table.untracked:
            return
        self._keep("last_stated", last_stated(self.table, f"main.{self.name}"))
        days = [r[0] for r in self.con.execute("SELECT DISTINCT day FROM last_stated ORDER BY 1").fetchall()]
        there = [self.records[d] for d in days if d in self.records]
        if there:
            self._keep("untracked_values", untracked_values(self.table, self.lake.scan(self.table, there)))
            self._run("refresh_untracked")

    def _touch(self, ids: str) -> None:
        self._keep("touched", ids)

    def _keep(self, name: str, query: str) -> None:
        """Keep the rows of a query as a temporary table."""
        self.con.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {query}")

    def _run(self, name: str, parameters: Mapping[str, object] | None = None, **parts: object) -> None:
        self.con.execute(sql(name, table=self.table, **parts), dict(parameters or {}))


def observations(table: Table, rows: str, observed: str, scope: Scope = ONE) -> str:
    """What each record stated, as SQL, made of a table's rows and of what was observed, both with `snapshot_date`."""
    return sql("observations", table=table, rows=rows, observed=observed, scope=scope)


def hashed(columns: Sequence[str]) -> str:
    """One number of some columns, as SQL; NULLs count."""
    return f"HASH({', '.join(columns)})"


def runs_from_lake(
    table: Table, observed: str, scope: Scope = ONE, hashed: Callable[[Sequence[str]], str] = hashed
) -> str:
    """The runs of a table as SQL, made of all that was observed (`observations`). `hashed` compares their rows."""
    said = hashed([*(c.name for c in table.versioned), "span_state"])
    return sql("runs_from_lake", table=table, observations=observed, scope=scope, hashed=said)


def definition(table: Table, scope: Scope = ONE, *, touched: bool = False, **lake: str) -> str:
    """The versions as SQL: over the runs of all records, or of the touched ones since `$since`.

    With `observations` and `rows`, which are those of the lake's days, it is over them, and no runs are read.
    """
    return sql("definition", table=table, scope=scope, lake=bool(lake), touched=touched, **lake)


def find_delta(
    con: duckdb.DuckDBPyConnection, table: Table, delta: Delta, spans: str, rows: str, observed: str
) -> None:
    """Find what a day that was not merged yet changes in a table, and write it to the delta's file.

    `spans` is the schema that holds the runs; `rows` and `observed` are the day's, as SQL. It stays as the temporary
    table `delta` of this connection, too.
    """
    query = sql("delta", table=table, spans=spans, observations=observations(table, rows, observed))
    con.execute(f"CREATE OR REPLACE TEMP TABLE delta AS {query}", {"day": delta.day})
    path = delta.path(table)
    con.execute(f"COPY delta TO {literal(path)} (FORMAT parquet)")
    path.chmod(files.PRIVATE_FILE)


def changes(table: Table, scope: Scope = ONE, *, touched: bool = False) -> str:
    """The changes between a table's versions, as SQL: of all records, or of the touched ones from `$since` on."""
    return sql("changes", table=table, scope=scope, touched=touched, change_keys=CHANGE_KEYS)


def last_stated(table: Table, listed: str, scope: Scope = ONE) -> str:
    """The last day on which each record that is `listed` in a relation was stated, as SQL."""
    return sql("last_stated", table=table, scope=scope, listed=listed)


def untracked_values(table: Table, rows: str, scope: Scope = ONE) -> str:
    """The untracked values of a table on those days, as SQL, of a table's rows with `snapshot_date`."""
    return sql("untracked_values", table=table, scope=scope, rows=rows)


def current(table: Table, scope: Scope = ONE) -> str:
    """The current rows of a table, as SQL, of its versions and those values."""
    return sql("current", table=table, scope=scope)
