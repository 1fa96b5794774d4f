"""History is a function of the landed days: DuckDB agrees with a plain Python model, in any order of the days."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipelines.flatten import flatten
from pipelines.landing.manifest import Landed, Proof
from pipelines.store import schema
from pipelines.store.history.engine import History
from pipelines.store.history.table import changes as changes_of
from pipelines.store.lake import Lake, Part, Staged, compose
from pipelines.store.ops import stamp
from pipelines.store.scope import ONE
from pipelines.store.staging import Staging
from pipelines.store.statements import statements
from pipelines.tables import TABLES, Table
from tests.support.models import model
from tests.support.tiers import daily

FIRST = date(2026, 11, 1)
NAMES = ("students", "student_activity", "student_classes")
WATCHED = {n: TABLES[n] for n in NAMES}

# One record on one day: refused, or (email, activity, classes); None is silence.
activity = st.one_of(st.none(), st.integers(0, 1))
classes = st.one_of(st.none(), st.lists(st.sampled_from([(1, "a"), (1, "b"), (2, "a"), (3, None)]), max_size=3))
sql = statements("pipelines.views", "macros")

record = st.one_of(
    st.just("refused"),
    st.tuples(st.sampled_from(["x@e", "y@e"]), activity, classes),
    st.tuples(st.just("x@e"), st.just(0), st.just([(1, "a")])),
)

Landing = tuple[bool, dict[int, Any]]  # whether it was proven, and what it showed of each student
Story = list[tuple[int, Landing]]  # the landings by their day, in the order of their arrival

# Hypothesis likes its dictionaries small; here a record is as often there as not.
shown = st.fixed_dictionaries({n: st.one_of(st.none(), record) for n in (1, 2, 3)})
landing = st.tuples(st.booleans(), shown.map(lambda s: {n: stated for n, stated in s.items() if stated is not None}))
stories = st.lists(st.tuples(st.integers(0, 6), landing), min_size=5, max_size=12)

PLAIN = ("x@e", 0, [(1, "a")])
OTHER = ("y@e", 1, [(1, "b"), (2, "a")])
# Where the simple splice between table-wide neighbours goes wrong: each key has neighbours of its own.
TRAPS: dict[str, Story] = {
    "an unproven day hides it, a proven one ends it": [(0, (True, {1: PLAIN})), (1, (False, {})), (2, (True, {}))],
    "the proven day in between comes last": [
        (0, (True, {1: PLAIN})),
        (1, (False, {})),
        (3, (True, {})),
        (2, (True, {})),
    ],
    "a refused day keeps it": [(0, (True, {1: PLAIN})), (2, (True, {1: PLAIN})), (1, (True, {1: "refused"}))],
    "silence, absence, silence": [
        (0, (True, {1: PLAIN})),
        (1, (True, {1: ("x@e", None, None)})),
        (2, (True, {})),
        (3, (True, {1: ("x@e", None, None)})),
    ],
    "a proof that a correction brings": [(0, (True, {1: PLAIN})), (1, (False, {})), (2, (False, {})), (1, (True, {}))],
    "unstated on the same day": [
        (0, (True, {1: PLAIN})),
        (1, (True, {1: OTHER})),
        (1, (True, {1: ("z@e", None, None)})),
    ],
    "refused on the same day": [(1, (True, {1: OTHER, 2: PLAIN})), (1, (True, {1: "refused", 2: PLAIN}))],
    "absent, then silent on the same day": [
        (0, (True, {1: PLAIN})),
        (1, (True, {})),
        (1, (False, {1: ("x@e", None, None)})),
        (2, (True, {1: ("x@e", None, None)})),
    ],
    "absent, then refused on the same day": [(0, (True, {1: PLAIN})), (1, (True, {})), (1, (True, {1: "refused"}))],
    "gone by a proof of the same day": [
        (0, (True, {2: PLAIN})),
        (1, (False, {1: PLAIN, 2: PLAIN})),
        (1, (True, {2: PLAIN})),
    ],
    "a neighbour's statement comes late": [(0, (True, {1: PLAIN})), (4, (True, {1: PLAIN})), (2, (True, {}))],
}


def _record(number: int, stated: Any, clock: int) -> dict[str, Any]:
    """The contract's record of a student; a refused one lacks its email."""
    base = {"id": number, "name": "n", "registration_date": "2026-01-01", "is_registered": 1, "summary": {}}
    if stated == "refused":
        return base
    email, count, listed = stated
    known: dict[int, str | None] = dict(listed or [])
    return base | {
        "email": email,
        "activity_tracking": None
        if count is None
        else {"assignment_submission_count": count, "days_since_last_activity": clock},
        "classes": None
        if listed is None
        else [
            {"class_id": c, "class_title": t} for c, t in random.Random(clock).sample(list(known.items()), len(known))
        ],
    }


def _model(number: int, stated: Any) -> dict[str, model.Stated] | None:
    if stated == "refused":
        return None
    email, count, listed = stated
    return {
        "students": {(number,): (email, "n", None, None, None, None, date(2026, 1, 1), 1)},
        "student_activity": None if count is None else {(number,): (None, None, count, None, None)},
        "student_classes": None if listed is None else {(number, c): (t, None) for c, t in dict(listed).items()},
    }


def in_order(rows: Iterable[Any]) -> list[Any]:
    return sorted(rows, key=repr)


class World:
    """A lake and a history in one folder; days are landed and caught up one at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lake = Lake(folder / "snapshots")
        self.con = duckdb.connect()
        schema.ensure(self.con)
        self.staged: dict[date, dict[int, tuple[Staged, Proof | None]]] = {}

    def land(self, day: date, number: int, *, proven: bool, records: dict[int, Any]) -> None:
        """Put one landing into its day of the lake."""
        staging = Staging(self.folder / f"stage-{day}-{number}")
        body = json.dumps({"data": [_record(n, stated, number + day.day) for n, stated in records.items()]})
        for batch in flatten("students", [Landed("students", "walk", 1, body.encode())]):
            staging.add(batch.tables)
        staging.close()
        n = len(records)
        proof = Proof(set="students", walk=1, total_count=n, unique_ids=n, pages=1, limit=100) if proven else None
        landings = self.staged.setdefault(day, {})
        landings[number] = (Staged(staging.folder, number, number * 2**40), proof)
        proofs = {number: proof for number, (_, proof) in landings.items() if proof}
        parts = [Part("students", tuple(staged for staged, _ in landings.values()), proofs)]
        candidate = compose(self.con, day, parts, self.folder / "day")
        self.lake.commit(candidate, landings, parts)

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
def _few_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    model.only(WATCHED, monkeypatch)


def check(world: World, shown: list[model.Shown]) -> None:
    """All tables against the model, and against the definition over the lake."""
    days = model.days_of(shown)
    for name, table in WATCHED.items():
        want = model.versions(days, name)
        assert world.history(name) == want, name
        assert world.rows(History(world.con, world.lake).definition(table)) == world.rows(f"FROM history.{name}")
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
        kept = ", ".join(c.name for c in table.versioned)
        rows = world.rows(f"SELECT {kept} FROM main.{name}")
        assert in_order((r[:keys], r[keys:]) for r in rows) == in_order(current)


def travel(world: World, table: Table, want: set[Any], changes: set[Any]) -> None:
    """The past as the macros tell it: before the first day, on each, on days without a landing, after the last."""
    keys = len(table.key)
    version = stamp(world.con, datetime.now(UTC))
    world.con.execute(sql("as_of", table=table, version=version, scope=ONE))
    world.con.execute(sql("changes_between", version=version))
    for day in (FIRST + timedelta(days=n) for n in range(-1, 8)):
        then = {(k, v) for k, v, since, until in want if since <= day and (until is None or day < until)}
        rows = world.rows(f"FROM {table.name}_as_of($1)", day)
        assert in_order((r[:keys], r[keys:]) for r in rows) == in_order(then), (table.name, day)
        last = day + timedelta(days=3)
        between = f"SELECT snapshot_date, change FROM changes_between($1, $2) WHERE table_name = '{table.name}'"
        assert world.rows(between, day, last) == in_order((c[0], c[2]) for c in changes if day < c[0] <= last)


def _clocks(shown: list[model.Shown]) -> dict[int, int]:
    """The untracked value each current record must carry: that of the last landing that stated it on its last day."""
    clocks: dict[int, tuple[date, int]] = {}
    days = model.days_of(shown)
    for when, day in sorted(days.items()):
        for (name, number), rows in day.items():
            if name == "student_activity" and rows:
                counted = [s for s in shown if s.day == when]
                stating = [
                    s.landing for s in counted if (s.records.get(number) or {}).get("student_activity") is not None
                ]
                clocks[number] = (when, max(stating) + when.day)
    return {number: clock for number, (_, clock) in clocks.items()}


@pytest.mark.parametrize("name", daily(TRAPS, "silence, absence, silence", "a proof that a correction brings"))
def test_history_agrees_with_the_model_where_keys_have_neighbours_of_their_own(name: str) -> None:
    follow(TRAPS[name], lambda: True)


@pytest.mark.slow
@pytest.mark.timeout(600)
@settings(max_examples=24, deadline=None, suppress_health_check=list(HealthCheck))
@given(story=stories, rng=st.randoms(use_true_random=False))
def test_history_agrees_with_the_model_in_any_order(story: Story, rng: random.Random) -> None:
    """Landings of a week, arriving in random order with replays and corrections, equal the plain model."""
    follow(story, lambda: rng.random() < 0.7)


def follow(story: Story, now: Callable[[], bool]) -> None:
    """Land a story in its order, catch up whenever `now` says so, and compare everything at the end."""
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        shown: list[model.Shown] = []
        numbers: dict[date, int] = {}
        arriving = [(FIRST + timedelta(days=offset), *landing) for offset, landing in story]
        for day, proven, records in arriving:
            numbers[day] = numbers.get(day, 0) + 1
            world.land(day, numbers[day], proven=proven, records=records)
            shown.append(
                model.Shown(day, numbers[day], proven, {n: _model(n, stated) for n, stated in records.items()})
            )
            if now():
                world.catch_up()
        world.catch_up()
        check(world, shown)
        day, proven, records = arriving[-1]
        world.land(day, numbers[day], proven=proven, records=records)  # again: the day stays as it is
        assert History(world.con, world.lake).behind() == []
        clocks = dict(world.rows("SELECT student_id, days_since_last_activity FROM main.student_activity"))
        assert clocks == {n: c for n, c in _clocks(shown).items() if n in clocks}
        live = {name: world.rows(f"FROM spans.{name}") for name in WATCHED}
        History(world.con, world.lake).rebuild()
        check(world, shown)
        assert {name: world.rows(f"FROM spans.{name}") for name in WATCHED} == live
