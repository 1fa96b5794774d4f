"""History is a function of the landed days: DuckDB agrees with a plain Python model, in any order of the days."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rollbook.landing.manifest import Absence, Manifest, Proof, Verdict, Walk
from rollbook.store import schema
from rollbook.store.database import names
from rollbook.store.history.engine import History, definition, observations
from rollbook.store.history.engine import changes as changes_of
from rollbook.store.lake import Lake
from rollbook.store.ops import stamp
from rollbook.store.statements import statements
from rollbook.tables import TABLES, Table
from tests.landing.landings import add, begin, manifest
from tests.support.models import model
from tests.support.tiers import daily
from tests.support.warehouses.days import rollbook

pytestmark = pytest.mark.nights

FIRST = date(2026, 11, 1)
NAMES = ("students", "student_activity", "student_classes")
WATCHED = {n: TABLES[n] for n in NAMES}
CLOCK = "days_since_last_activity"

# One record on one day: refused, or (email, activity, classes); None is silence.
activity = st.one_of(st.none(), st.integers(0, 1))
classes = st.one_of(st.none(), st.lists(st.sampled_from([(1, "a"), (1, "b"), (2, "a"), (3, None)]), max_size=3))
sql = statements("rollbook.views", "macros")

record = st.one_of(
    st.just("refused"),
    st.tuples(st.sampled_from(["x@e", "y@e"]), activity, classes),
    st.tuples(st.just("x@e"), st.just(0), st.just([(1, "a")])),
)

# Of a landing: whom it searched for if it was proven (else None), what it showed of each student, and whether it was held
# and approved last of all.
Landing = tuple[frozenset[int] | None, dict[int, Any], bool]
Story = list[tuple[int, Landing]]  # the landings by their day, in the order of their arrival

ALL = frozenset({1, 2, 3})
# Hypothesis likes its dictionaries small; here a record is as often there as not.
shown = st.fixed_dictionaries({n: st.one_of(st.none(), record) for n in (1, 2, 3)})
listed = shown.map(lambda s: {n: stated for n, stated in s.items() if stated is not None})
asked = st.one_of(st.none(), st.just(ALL), st.frozensets(st.sampled_from(sorted(ALL))))
landing = st.tuples(asked, listed, st.sampled_from([False, False, False, True]))
# Few days, so that most have several landings.
stories = st.lists(st.tuples(st.integers(0, 4), landing), min_size=5, max_size=12)

PLAIN, UNSTATED = ("x@e", 0, [(1, "a")]), ("x@e", None, None)
NOW, LATE = False, True
# Where the simple splice between table-wide neighbours goes wrong: each key has neighbours of its own.
TRAPS: dict[str, Story] = {
    "an unproven day hides it, a proven one ends it": [
        (0, (ALL, {1: PLAIN}, NOW)),
        (1, (None, {}, NOW)),
        (2, (ALL, {}, NOW)),
    ],
    "the proven day in between comes last": [
        (0, (ALL, {1: PLAIN}, NOW)),
        (1, (None, {}, NOW)),
        (3, (ALL, {}, NOW)),
        (2, (ALL, {}, NOW)),
    ],
    "a refused day keeps it": [
        (0, (ALL, {1: PLAIN}, NOW)),
        (2, (ALL, {1: PLAIN}, NOW)),
        (1, (ALL, {1: "refused"}, NOW)),
    ],
    "silence, absence, silence": [
        (0, (ALL, {1: PLAIN}, NOW)),
        (1, (ALL, {1: UNSTATED}, NOW)),
        (2, (ALL, {}, NOW)),
        (3, (ALL, {1: UNSTATED}, NOW)),
    ],
    "a proof that a correction brings": [
        (0, (ALL, {1: PLAIN}, NOW)),
        (1, (None, {}, NOW)),
        (2, (None, {}, NOW)),
        (1, (ALL, {}, NOW)),
    ],
    "a neighbour's statement comes late": [
        (0, (ALL, {1: PLAIN}, NOW)),
        (4, (ALL, {1: PLAIN}, NOW)),
        (2, (ALL, {}, NOW)),
    ],
    # Landings of one day add up.
    "a second proven landing leaves it unstated": [(0, (ALL, {1: PLAIN}, NOW)), (0, (ALL, {1: UNSTATED}, NOW))],
    "a second proven landing refuses it": [(0, (ALL, {1: PLAIN, 2: PLAIN}, NOW)), (0, (ALL, {1: "refused"}, NOW))],
    "what was held is approved after a later landing": [
        (0, (ALL, {1: PLAIN, 2: PLAIN}, LATE)),
        (0, (ALL, {1: UNSTATED}, NOW)),
        (1, (ALL, {1: PLAIN}, NOW)),
    ],
    "a second proof ends what the first landing added": [
        (0, (ALL, {2: PLAIN}, NOW)),
        (1, (None, {1: PLAIN, 2: PLAIN}, NOW)),
        (1, (ALL, {2: PLAIN}, NOW)),
    ],
    "a first landing lacks it, a second refuses it": [
        (0, (ALL, {1: PLAIN}, NOW)),
        (1, (ALL, {}, NOW)),
        (1, (ALL, {1: "refused"}, NOW)),
    ],
    "a proven list that asked about nobody ends nothing": [
        (0, (ALL, {1: PLAIN, 2: PLAIN}, NOW)),
        (1, (ALL, {1: PLAIN, 2: PLAIN, 3: PLAIN}, LATE)),
        (2, (frozenset({2}), {1: PLAIN}, NOW)),
    ],
    "who was out stays out": [
        (0, (ALL, {1: PLAIN, 2: PLAIN}, NOW)),
        (1, (frozenset({2}), {1: PLAIN}, NOW)),
        (2, (frozenset(), {1: PLAIN}, NOW)),
        (3, (frozenset(), {1: PLAIN, 2: PLAIN}, NOW)),
    ],
    "a first landing lacks it, a second leaves it unstated": [
        (0, (ALL, {1: PLAIN}, NOW)),
        (1, (ALL, {}, NOW)),
        (1, (None, {1: UNSTATED}, NOW)),
    ],
}


def _record(number: int, stated: Any, clock: int) -> dict[str, Any]:
    """The contract's record of a student; a refused one lacks its name."""
    base = {"id": number, "name": "n", "registration_date": "2026-01-01", "is_registered": 1, "summary": {}}
    if stated == "refused":
        return base | {"name": None}
    email, count, listed = stated
    names: dict[int, str | None] = dict(listed or [])
    return base | {
        "email": email,
        "activity_tracking": None
        if count is None
        else {"assignment_submission_count": count, "days_since_last_activity": clock},
        "classes": None
        if listed is None
        else [
            {"class_id": c, "class_title": t} for c, t in random.Random(clock).sample(list(names.items()), len(names))
        ],
    }


def _model(number: int, stated: Any, clock: int) -> dict[str, Any] | None:
    if stated == "refused":
        return None
    email, count, listed = stated
    return {
        "students": {(number,): (email, "n", None, None, None, date(2026, 1, 1), 1)},
        "student_activity": None if count is None else {(number,): (None, None, count, None, None)},
        CLOCK: None if count is None else {(number,): (clock,)},
        "student_classes": None if listed is None else {(number, c): (t, None) for c, t in dict(listed).items()},
    }


def in_order(rows: Iterable[Any]) -> list[Any]:
    return sorted(rows, key=repr)


class World:
    """A warehouse's `raw/` and lake, and a history beside them; days are landed and caught up one at a time."""

    def __init__(self, folder: Path) -> None:
        self.book = rollbook(folder)
        self.book.warehouse.prepare()
        self.lake = self.book.lake
        self.con = duckdb.connect()
        schema.ensure(self.con)

    def land(
        self, day: date, *, absent: frozenset[int] | None, records: dict[int, Any], held: bool, clock: int
    ) -> Manifest:
        """Land something, and make its day again from all that counts. None is `absent` without a proof."""
        proven = absent is not None
        listed = [_record(n, stated, clock) for n, stated in records.items()]
        writer = begin(self.book.raw, day)
        add(writer, "students", "walk", 1, json.dumps({"data": listed}).encode(), walk=1)
        n = len(records)
        proof = Proof(set="students", walk=1, total_count=n, unique_ids=n, pages=1, limit=100) if proven else None
        walk = Walk(set="students", walks=1, counted=(1,), proof=proof, total_count=n, received=n, distinct=n)
        absences = tuple(Absence(set="students", id=i, answer="removed") for i in sorted(absent or ()))
        landed = writer.finish(manifest(walks=(walk,), absences=absences)).manifest
        return self.judge(landed, Verdict.HELD if held else Verdict.SYNCED if proven else Verdict.UNPROVEN)

    def judge(self, landed: Manifest, verdict: Verdict) -> Manifest:
        """Give a landing its verdict, and make its day again from all that counts."""
        judged = self.book.raw.record_verdict(landed, verdict)
        self.compose(judged.snapshot_date)
        return judged

    def compose(self, day: date) -> None:
        """Make a day of the lake from what counts of it."""
        if counted := self.book.landings.counted(day):
            self.book.place.composer.recompose(counted)

    def catch_up(self) -> None:
        """Bring the history up to the lake, the fast way."""
        history = History(self.con, self.lake)
        history.catch_up(history.behind())

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows of a query, in one order."""
        return in_order(self.con.execute(query, values).fetchall())

    def history(self, name: str) -> set[tuple[Any, ...]]:
        """The history of a table as the model writes it."""
        keys, rows = len(WATCHED[name].key), self.rows(f"FROM history.{name}")
        assert len(rows) == len(set(rows))
        return {(r[:keys], r[keys:-2], r[-2], r[-1]) for r in rows}


@pytest.fixture(autouse=True)
def _few_tables(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # Of three records, all may be refused.
    monkeypatch.setattr("rollbook.night.landings.check_reject_rate", lambda *_: "")
    with model.only(WATCHED):
        yield


def by_definition(lake: Lake, table: Table) -> str:
    """The history of a table over the lake's days and nothing else, as SQL."""
    days = lake.days().values()
    rows = lake.scan(table, days)
    each = observations(table, rows, lake.scan_observed(days))
    return definition(table, f"(SELECT *, snapshot_date AS first_day, snapshot_date AS last_day FROM ({each}))")


def check(world: World, shown: list[model.Shown]) -> None:
    """All tables against the model, and against the definition over the lake."""
    for name, table in WATCHED.items():
        want = model.versions(shown, name)
        assert world.history(name) == want, name
        assert world.rows(by_definition(world.lake, table)) == world.rows(f"FROM history.{name}")
        columns = tuple(c.name for c in table.tracked)
        text = {
            (d, k, change, column, *(None if v is None else str(v) for v in values))
            for d, k, change, column, *values in model.changes(want, columns)
        }
        of_table = f"FROM main.changes WHERE table_name = '{name}'"
        logged = world.rows(
            f"SELECT snapshot_date, {', '.join(table.key)}, change, column_name, old_value, new_value {of_table}"
        )
        keys = len(table.key)
        assert in_order((r[0], r[1 : 1 + keys], *r[1 + keys :]) for r in logged) == in_order(text)
        assert world.rows(changes_of(table)) == world.rows(of_table)
        travel(world, table, want, text)
        current = {(k, v) for k, v, _, until in want if until is None}
        columns_versioned = ", ".join(c.name for c in table.versioned)
        rows = world.rows(f"SELECT {columns_versioned} FROM main.{name}")
        assert in_order((r[:keys], r[keys:]) for r in rows) == in_order(current)


def travel(world: World, table: Table, want: set[Any], changes: set[Any]) -> None:
    """The past as the macros tell it: before the first day, on each, on days without a landing, after the last."""
    keys = len(table.key)
    version = stamp(world.con, datetime.now(UTC))
    world.con.execute(sql("as_of", table=table, version=version, shown=names(table.versioned)))
    world.con.execute(sql("changes_between", version=version))
    for day in (FIRST + timedelta(days=n) for n in range(-1, 8)):
        then = {(k, v) for k, v, since, until in want if since <= day and (until is None or day < until)}
        if day < min(History(world.con, world.lake).merged_days(), default=day):
            with pytest.raises(duckdb.Error, match="Nothing is known as of"):
                world.rows(f"FROM {table.name}_as_of($1)", day)
            continue
        rows = world.rows(f"FROM {table.name}_as_of($1)", day)
        assert in_order((r[:keys], r[keys:]) for r in rows) == in_order(then), (table.name, day)
        last = day + timedelta(days=3)
        between = f"SELECT snapshot_date, change FROM changes_between($1, $2) WHERE table_name = '{table.name}'"
        assert world.rows(between, day, last) == in_order((c[0], c[2]) for c in changes if day < c[0] <= last)


@pytest.mark.parametrize("name", daily(TRAPS, "silence, absence, silence", "a proof that a correction brings"))
def test_history_agrees_with_the_model_where_keys_have_neighbours_of_their_own(name: str) -> None:
    follow(TRAPS[name], lambda: True)


@pytest.mark.weekly
@pytest.mark.timeout(600)
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(story=stories, rng=st.randoms(use_true_random=False))
def test_history_agrees_with_the_model_in_any_order(story: Story, rng: random.Random) -> None:
    """Landings of a week, arriving in random order with replays and corrections, equal the plain model."""
    follow(story, lambda: rng.random() < 0.7)


def follow(story: Story, now: Callable[[], bool]) -> None:
    """Land a story in its order, catch up whenever `now` says so, and compare everything at the end."""
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        shown: list[model.Shown] = []
        waiting: list[Manifest] = []
        for clock, (offset, (asked_for, records, held)) in enumerate(story):
            day = FIRST + timedelta(days=offset)
            absent = None if asked_for is None else asked_for - records.keys()
            landed = world.land(day, absent=absent, records=records, held=held, clock=clock)
            stated = {n: _model(n, s, clock) for n, s in records.items()}
            shown.append(model.Shown(day, landed.landing, absent is not None, stated, absent or frozenset()))
            if held:
                waiting.append(landed)
            if now():
                world.catch_up()
        for landed in reversed(waiting):
            world.judge(landed, Verdict.APPROVED)
            if now():
                world.catch_up()
        world.catch_up()
        check(world, shown)
        for day in world.lake.days():  # a day that is made again is as it was
            world.compose(day)
        assert History(world.con, world.lake).behind() == []
        clocks = model.versions(shown, CLOCK)
        assert world.rows("SELECT student_id, days_since_last_activity FROM main.student_activity") == in_order(
            (*key, *clock) for key, clock, _, until in clocks if until is None
        )
        live = {name: world.rows(f"FROM spans.{name}") for name in WATCHED}
        History(world.con, world.lake).rebuild()
        check(world, shown)
        assert {name: world.rows(f"FROM spans.{name}") for name in WATCHED} == live
