"""One table's history in one transaction: a day spliced in, the touched keys folded anew, current rows and changes.

The SQL is in `sql/`; which days are brought in, and in what order, is the business of `history`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

import duckdb

from pipelines.landing.manifest import TableCounts
from pipelines.store.database import count, names
from pipelines.store.lake import DayRecord, Lake
from pipelines.store.statements import statements
from pipelines.tables import SETS, Column, Table

sql = statements("pipelines.store.history")

# The keys that `main.changes` has columns for.
CHANGE_KEYS = ("student_id", "class_id")


@dataclass(frozen=True)
class Place:
    """Where a day goes: between which landed days, and the sets that it proves complete and did not before, or not any
    more.
    """

    day: date
    before: date | None
    after: date | None
    turned: frozenset[str]

    @property
    def around(self) -> dict[str, date | None]:
        """The three days, as parameters."""
        return {"day": self.day, "before": self.before, "after": self.after}


class Versions:
    """The history of one table, through a connection of its own; its caller has begun the transaction."""

    def __init__(
        self, con: duckdb.DuckDBPyConnection, lake: Lake, records: Mapping[date, DayRecord], table: Table
    ) -> None:
        self.con = con
        self.lake = lake
        self.records = records
        self.table = table
        self.name = table.name
        self.parent = table.parent_key
        self.columns = names(table.versioned)

    def begin(self, record: DayRecord) -> TableCounts:
        """The first landed day of all: whatever it states is added, and there is nothing to compare."""
        con, name, day = self.con, self.name, record.snapshot_date
        said = self.observations([record])
        con.execute(f"INSERT INTO spans.{name} SELECT {self.columns}, span_state, $1, NULL FROM ({said})", [day])
        rows = f"SELECT * FROM ({self.lake.scan(self.table, [record])})"
        con.execute(f"INSERT INTO history.{name} SELECT {self.columns}, snapshot_date, NULL FROM ({rows})")
        con.execute(f"INSERT INTO main.{name} SELECT {names(self.table.columns)} FROM ({rows})")
        con.execute(sql("added", table=name, **_ids(self.table)))
        return TableCounts(table=name, before=0, added=record.rows[name], changed=0, removed=0)

    def bring(self, places: Sequence[Place]) -> TableCounts:
        """Splice days in, one after the other, and fold the keys anew that they touched, from the first of them on."""
        self.con.execute(f"CREATE OR REPLACE TEMP TABLE touched_{self.name} (id BIGINT)")
        for place in places:
            self._splice(place)
            if self.table.set in place.turned:
                self.con.execute(sql("absent", **_parts(self.table)), {"day": place.day})
        return self._refold(min(place.day for place in places))

    def refold(self) -> TableCounts:
        """Fold all keys anew from their runs of days, the lake unread."""
        everyone = f"SELECT DISTINCT {self.parent} AS id FROM spans.{self.name}"
        self.con.execute(f"CREATE OR REPLACE TEMP TABLE touched_{self.name} AS {everyone}")
        return self._refold(date.min)

    def forget(self, places: Sequence[Place]) -> TableCounts:
        """Take days out of all runs, one after the other, and fold every key anew. `places` are as they were before."""
        everyone = (
            f"SELECT {self.parent} AS id FROM spans.{self.name} UNION SELECT {self.parent} FROM history.{self.name}"
        )
        self.con.execute(f"CREATE OR REPLACE TEMP TABLE touched_{self.name} AS {everyone}")
        for place in places:
            self.con.execute(sql("near", **_parts(self.table)), place.around)
            self.con.execute(f"CREATE OR REPLACE TEMP TABLE new_rows AS FROM spans.{self.name} LIMIT 0")
            # What led up to the day adjoins what follows it, and may be all there is by now.
            until = "CASE WHEN $after IS NULL THEN NULL ELSE CAST($before AS DATE) END"
            self._join_pieces(place, until=until, follows=2)
        return self._refold(date.min)

    def rebuild(self) -> TableCounts:
        """Fold the whole lake anew, by the definition, from runs that are made of nothing but the lake."""
        con, name = self.con, self.name
        everyone = f"SELECT DISTINCT {self.parent} AS id FROM history.{name}"
        con.execute(f"CREATE OR REPLACE TEMP TABLE touched_{name} AS {everyone}")
        for emptied in (f"spans.{name}", f"history.{name}"):
            con.execute(f"DELETE FROM {emptied}")
        con.execute(f"DELETE FROM main.changes WHERE table_name = '{name}'")
        if self.records:
            self._define()
        con.execute(f"INSERT INTO touched_{name} {everyone}")
        con.execute(f"INSERT INTO main.changes {changes_of(self.table, f'SELECT * FROM history.{name}')}")
        counts = self._refresh(count(con, f"SELECT COUNT(*) FROM main.{name}"))
        if self.table.untracked:
            self._wind()
        return counts

    def _define(self) -> None:
        """Shorten what the lake holds into runs, and fold these.

        Over the lake's days themselves the same SQL gives the same rows (`definition`), for four times the work: a
        wide row a day goes through its windows instead of one a change.
        """
        table, parts = self.table, _parts(self.table)
        self.con.execute(
            sql(
                "compress",
                **parts,
                observations=self.observations(self.records.values()),
                signed=sql("signed_list" if table.is_list else "signed", **parts, content=self.columns),
                columns=names(table.versioned, "o."),
            )
        )
        self.con.execute(f"INSERT INTO history.{self.name} {self._from_spans(f'spans.{self.name}')}")

    def definition(self) -> str:
        """The history as SQL over the lake's days, and nothing else."""
        days = self.records.values()
        return _fold(
            self.table,
            seen=sql("seen_by_day", table=self.name, parent=self.parent, observations=self.observations(days)),
            stated=f"SELECT *, snapshot_date AS first_day FROM ({self.lake.scan(self.table, days)})",
        )

    def observations(self, days: Collection[DayRecord]) -> str:
        """What each record stated on these days, as SQL: rows, an empty list, or nothing."""
        table = self.table
        parts = _parts(table) | {
            "nothing": ", ".join(
                f"o.id AS {c.name}" if c.name == self.parent else f"CAST(NULL AS {c.type}) AS {c.name}"
                for c in table.versioned
            ),
            "rows": self.lake.scan(table, days),
            "observed": self.lake.scan_observed(days),
        }
        return sql(
            "observations",
            **parts,
            columns=names(table.versioned, "t."),
            empty_lists=sql("empty_lists", **parts) if table.is_list else "",
        )

    # -- one day ---------------------------------------------------------------------------------------------------

    def _splice(self, place: Place) -> None:
        con, table, name, parts = self.con, self.table, self.name, _parts(self.table)
        observations = self.observations([self.records[place.day]])
        con.execute(
            sql(
                "delta",
                **parts,
                observations=observations,
                same=" AND ".join(f"n.{k} IS NOT DISTINCT FROM o.{k}" for k in table.key),
                differs="".join(f" OR n.{c.name} IS DISTINCT FROM o.{c.name}" for c in table.tracked),
            ),
            {"day": place.day},
        )
        if not count(con, "SELECT COUNT(*) FROM delta"):
            return
        con.execute(f"INSERT INTO touched_{name} SELECT id FROM delta")
        con.execute(
            f"CREATE OR REPLACE TEMP TABLE new_rows AS FROM ({observations}) WHERE {self.parent} IN (FROM delta)"
        )
        self._join_pieces(place, until="CAST($before AS DATE)", follows=3)

    def _join_pieces(self, place: Place, *, until: str, follows: int) -> None:
        """Replace the runs around a day by what led up to it, the day itself and what follows, joined where alike."""
        parts = _parts(self.table)
        spliced = sql("splice", **parts, columns=self.columns, content=self.columns, until=until, follows=str(follows))
        self.con.execute(spliced, place.around)
        self.con.execute(sql("unsplice", **parts), place.around)
        self.con.execute(f"INSERT INTO spans.{self.name} SELECT * FROM pieces")

    # -- the touched keys ------------------------------------------------------------------------------------------

    def _refold(self, since: date) -> TableCounts:
        """Fold what the touched keys state from a day on; what they stated before it, and its versions, stay."""
        con, table, name, parts = self.con, self.table, self.name, _parts(self.table)
        before = count(con, f"SELECT COUNT(*) FROM main.{name}")
        counts = TableCounts(table=name, before=before, added=0, changed=0, removed=0)
        if count(con, f"SELECT COUNT(*) FROM touched_{name}"):
            day, mine = {"since": since}, f"{self.parent} IN (FROM touched_{name})"
            con.execute(sql("recent", **parts), day)
            con.execute(f"CREATE OR REPLACE TEMP TABLE folded AS {self._from_spans('recent')}")
            con.execute(f"DELETE FROM history.{name} WHERE valid_from >= $since AND {mine}", day)
            con.execute(sql("begun_earlier", table=name, same=" AND ".join(f"h.{k} = f.{k}" for k in table.key)), day)
            con.execute(f"INSERT INTO history.{name} FROM folded WHERE valid_from >= $since", day)
            # A warehouse has one institution, so the changes of its table are all of the same key.
            theirs = f" AND {mine}" if self.parent in CHANGE_KEYS else ""
            con.execute(
                f"DELETE FROM main.changes WHERE table_name = '{name}' AND snapshot_date >= $since{theirs}", day
            )
            told = changes_of(table, sql("lately", **parts, key=names(table.key)))
            con.execute(f"INSERT INTO main.changes FROM ({told}) WHERE snapshot_date >= $since", day)
            counts = self._refresh(before)
        if self.table.untracked:
            self._wind()
        return counts

    def _from_spans(self, spans: str) -> str:
        """The versions as SQL over a table of runs."""
        return _fold(
            self.table,
            seen=sql("seen_by_span", table=self.name, parent=self.parent, spans=spans),
            stated=f"SELECT * FROM {spans} WHERE span_state = 'stated'",
        )

    def _refresh(self, before: int) -> TableCounts:
        """Bring the touched keys' current rows up to their open versions; rows that stay as they were are left alone.

        Clock-driven values stay NULL here; `_wind` fills them in.
        """
        con, table, name, kept = self.con, self.table, self.name, self.columns
        mine = f"{self.parent} IN (FROM touched_{name})"
        still = f"SELECT {kept} FROM history.{name} WHERE valid_to IS NULL AND {mine}"
        con.execute(f"CREATE OR REPLACE TEMP TABLE wanted AS {still}")
        con.execute(f"CREATE OR REPLACE TEMP TABLE had AS SELECT {kept} FROM main.{name} WHERE {mine}")
        row = con.execute(
            sql(
                "difference",
                table=name,
                same=" AND ".join(f"w.{k} = h.{k}" for k in table.key),
                first=self.parent,
                differs=" OR ".join(f"w.{c.name} IS DISTINCT FROM h.{c.name}" for c in table.tracked) or "FALSE",
            )
        ).fetchone()
        added, changed, removed = row or (0, 0, 0)
        on = " AND ".join(f"m.{k} = x.{k}" for k in table.key)
        gone = f"SELECT {kept} FROM had EXCEPT SELECT {kept} FROM wanted"
        con.execute(f"DELETE FROM main.{name} AS m USING ({gone}) AS x WHERE {on}")
        con.execute(f"INSERT INTO main.{name} BY NAME SELECT {kept} FROM wanted EXCEPT SELECT {kept} FROM had")
        return TableCounts(table=name, before=before, added=added, changed=changed, removed=removed)

    def _wind(self) -> None:
        """Set the clock-driven values of the current rows to those of the last day that stated each record."""
        table = self.table
        self.con.execute(sql("last_stated", **_parts(table)))
        days = [r[0] for r in self.con.execute("SELECT DISTINCT day FROM last_stated ORDER BY 1").fetchall()]
        there = [self.records[d] for d in days if d in self.records]
        if there:
            key, clocks = names(table.key, "s."), names(table.untracked, "s.")
            rows = self.lake.scan(table, there)
            self.con.execute(sql("clocks", **_parts(table), key=key, clocks=clocks, rows=rows))
            self.con.execute(
                sql(
                    "wind",
                    table=table.name,
                    set_clocks=", ".join(f"{c.name} = s.{c.name}" for c in table.untracked),
                    differs=" OR ".join(f"m.{c.name} IS DISTINCT FROM s.{c.name}" for c in table.untracked),
                    same=" AND ".join(f"m.{k} = s.{k}" for k in table.key),
                )
            )


def changes_of(table: Table, versions: str) -> str:
    """The changes that versions of one table tell, as SQL."""
    ids = _ids(table)
    return sql(
        "changes",
        table=table.name,
        key=names(table.key),
        history=versions,
        previous=", ".join(f"LAG({c.name}) OVER w AS previous_{c.name}" for c in table.tracked),
        fields="\n".join(sql("changed_field", table=table.name, column=c.name, **ids) for c in table.tracked),
        **ids,
    )


def _fold(table: Table, *, seen: str, stated: str) -> str:
    tracked: tuple[Column, ...] = table.tracked
    return sql(
        "fold",
        table=table.name,
        parent=table.parent_key,
        key=names(table.key),
        seen=seen,
        days=sql("next_proven", set=table.set),
        stated=stated,
        present=names(table.versioned, "s."),
        unchanged="".join(f"\n            AND {c.name} IS NOT DISTINCT FROM LAG({c.name}) OVER w" for c in tracked),
        columns=names(table.versioned, "n."),
        same_key=" AND ".join(f"n.{k} = v.{k}" for k in table.key),
    )


def _parts(table: Table) -> dict[str, str]:
    return {"table": table.name, "parent": table.parent_key, "set": SETS[table.set].name}


def _ids(table: Table) -> dict[str, str]:
    return {k: (k if k in table.key else "CAST(NULL AS BIGINT)") for k in CHANGE_KEYS}
