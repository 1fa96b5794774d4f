"""The plain model: what was landed, what counts, and what must be published.

It is told what the service shows (`Showing`) and says by itself what a sync must come to and what every table must
hold. Nothing of the code under test decides anything here; the history is folded by the slow `tests.support.models.model`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

from tests.campaign.office import Years
from tests.support.models import model
from tests.support.nights import SET_OF, TRACKED, Expected, Tables, cell, class_rows, student_rows

Record = dict[str, Any]
Key = tuple[date, int]  # a landing: its day, and its number within the day
Current = dict[str, dict[model.Row, model.Row]]  # per table, the rows that hold now
Moved = dict[str, tuple[int, int, int, int]]  # per table: the rows before, and those added, changed and removed

SETS = ("students", "classes")
COUNTED = ("synced", "unproven", "approved")
UNJUDGED = "None"
LAST = 2**20  # the place of a landing that comes after all other landings of the day
# The values that make no version; each is folded like a table, of which only the last row counts.
CLOCK, PICTURE = "days_since_last_activity", "profile_image"
# Columns that a school day leaves, and columns that it changes: with the table that says how many assignments were
# given.
PEOPLE = ("students", "student_classes", "classes")
TOTALS = {
    **dict.fromkeys(("student_summaries", "student_activity"), "student_summaries"),
    **dict.fromkeys(("classes", "class_summaries", "class_assignment_activity"), "class_assignment_activity"),
}
GIVEN = {"student_summaries": "total_assignments", "class_assignment_activity": "assignment_count"}
# So many records may be found by search on one night, and listed by no walk, that were not hidden before.
MAX_HIDDEN = 3


@dataclass(frozen=True)
class Showing:
    """The service's records for one sync.

    `students` and `classes` are everything, by id. Of these records, `hidden` are on no page of a list but found by a
    search, and `broken` have no name. The total of an `unproven` set moves in every walk. With `unanswered` no search
    gets an answer; with `failing` the service fails for good somewhere. `own` is the school's own list, which a sync
    lands, too.
    """

    students: Mapping[int, Record]
    classes: Mapping[int, Record]
    hidden: frozenset[int] = frozenset()
    broken: frozenset[int] = frozenset()
    unproven: frozenset[str] = frozenset()
    unanswered: bool = False
    failing: bool = False
    own: Years = None

    def records(self, set_name: str) -> Mapping[int, Record]:
        """All the records of a set."""
        return self.students if set_name == "students" else self.classes


@dataclass(frozen=True)
class Landing:
    """The records of a sync: per set the ids with what each stated, and whether the set was proven complete.

    `place` is the position among all landings of the day, and `moved` what the verdict was about. An `expired` landing
    is gone from disk and still counts. `hidden` are the records of each set that only searches found.
    """

    day: date
    shown: Mapping[str, model.Shown]
    verdict: str = UNJUDGED
    place: int = LAST
    moved: Moved | None = None
    discarded: bool = False
    expired: bool = False
    hidden: Mapping[str, frozenset[int]] = field(default_factory=dict)
    own: Years = None

    @property
    def counts(self) -> bool:
        """Whether the landing is part of what the day states."""
        return self.verdict in COUNTED and not self.discarded

    @property
    def outcome(self) -> str:
        """The landing's row in the record of the syncs."""
        return "synced" if self.verdict in COUNTED else self.verdict

    def counted(self, set_name: str) -> model.Shown:
        """What the landing shows of a set."""
        return replace(self.shown[set_name], landing=self.place)

    def without(self, student: int) -> Landing:
        """The same without an erased student."""
        shown = self.shown["students"]
        left = {i: stated for i, stated in shown.records.items() if i != student}
        absent = (shown.absent or frozenset()) - {student}
        own = {i: year for i, year in self.own.items() if i != student} if isinstance(self.own, Mapping) else self.own
        return replace(self, shown={**self.shown, "students": replace(shown, records=left, absent=absent)}, own=own)


@dataclass
class Ledger:
    """All landings, also landings that do not count."""

    landings: dict[Key, Landing] = field(default_factory=dict)
    erased: set[int] = field(default_factory=set)
    # How often the model has changed.
    version: int = 0
    _current: Current = field(default_factory=dict)

    # -- what a sync must come to ----------------------------------------------------------------------------------

    def receive(self, showing: Showing, day: date) -> Landing:
        """The landing of a sync that meets such records, with the verdict that the landing must get."""
        landing = self.land_only(showing, day)
        return replace(landing, verdict="failed") if showing.failing else self.judge(landing)

    def land_only(self, showing: Showing, day: date) -> Landing:
        """The landing of a sync that ends before the verdict."""
        now = self.current()
        hidden_before = {s: self.hidden(s) for s in SETS}
        current = {s: {key[0] for key in now[s]} for s in SETS}
        received = {s: _received(showing, s, day, current[s], hidden_before[s], self.uncounted(s)) for s in SETS}
        shown, hidden = {s: f[0] for s, f in received.items()}, {s: f[1] for s, f in received.items()}
        landing = Landing(day, shown, hidden=hidden, own=showing.own)
        for student in self.erased:
            landing = landing.without(student)
        return landing

    def judge(self, landing: Landing) -> Landing:
        """A landing with the verdict that is due now."""
        if any(_too_many_broken(s) for s in landing.shown.values()):
            return replace(landing, verdict="failed")
        now = self.current()
        then = self.current(plus=landing)
        moved = moves(now, then)
        verdict = "synced" if all(s.proven for s in landing.shown.values()) else "unproven"
        if any(now.values()) and is_mass_change(self.before(landing) or now, then):
            verdict = "held"
        return replace(landing, verdict=verdict, moved=moved)

    def before(self, landing: Landing) -> Current | None:
        """The rows that held before the day of a landing on the newest day, and what was approved of it; None if no
        other landing of the day counts.
        """
        of_day = [x for x in self.counted() if x.day == landing.day and x.place < landing.place]
        if not of_day or landing.day != self.newest() or not any(x.day < landing.day for x in self.counted()):
            return None
        seen = max((x.place for x in of_day if x.verdict == "approved"), default=0)
        return Ledger(
            {
                k: x
                for k, x in self.landings.items()
                if x.day < landing.day or (x.day == landing.day and x.place <= seen)
            }
        ).current()

    def would_lose(self, key: Key, *, discarded: bool) -> bool:
        """Whether a discard of a landing, or the undoing, takes more rows away than may go without a question."""
        changed = Ledger(self.landings | {key: replace(self.landings[key], discarded=discarded)})
        return is_mass_removal(moves(self.current(), changed.current()))

    # -- what is known ---------------------------------------------------------------------------------------------

    def counted(self) -> list[Landing]:
        """The landings that count, in order."""
        return [x for _, x in sorted(self.landings.items()) if x.counts]

    def newest(self) -> date | None:
        """The newest day that counts."""
        return max((x.day for x in self.counted()), default=None)

    def hidden(self, set_name: str) -> frozenset[int]:
        """The records of a set that the last proven landing found by search alone."""
        proven = [x for x in self.counted() if x.shown[set_name].proven and not x.expired]
        return proven[-1].hidden[set_name] if proven else frozenset()

    def uncounted(self, set_name: str) -> set[int]:
        """The records that landings state which are held or discarded: a sync searches for them, too."""
        landings = (x for x in self.landings.values() if not x.expired and x.verdict not in ("failed", UNJUDGED))
        waiting = [x for x in landings if x.discarded or x.verdict == "held"]
        return {i for x in waiting for i, stated in x.shown[set_name].records.items() if stated is not None}

    def on_disk(self) -> dict[Key, str]:
        """The landings that must be there to be read, with their verdicts."""
        return {k: x.verdict for k, x in self.landings.items() if not x.discarded and not x.expired}

    def recorded(self) -> tuple[dict[Key, str], dict[Key, str]]:
        """The landings that the published file must record, and all that the file may record, with the outcomes.

        A landing that changes nothing is recorded with the next publish.
        """
        outcomes = {k: "discarded" if x.discarded else x.outcome for k, x in self.landings.items()}
        return {k: outcomes[k] for k, x in self.landings.items() if x.counts}, outcomes

    def expired(self) -> list[date]:
        """The days that only the history remembers."""
        return sorted({x.day for x in self.landings.values() if x.expired and x.counts})

    def waiting(self) -> dict[date, Key]:
        """The held landings that may be approved: the last of each day, failed landings aside."""
        last: dict[date, Key] = {}
        for key, landing in sorted(self.landings.items()):
            if landing.verdict not in ("failed", UNJUDGED) and not landing.discarded:
                last[landing.day] = key
        return {day: key for day, key in last.items() if self.landings[key].verdict == "held"}

    def current(self, plus: Landing | None = None) -> Current:
        """The rows that hold now; with `plus`, the rows that would."""
        if plus is None and self._current:
            return self._current
        counted = [*self.counted(), *([plus] if plus else [])]
        current: Current = {}
        for table, set_name in SET_OF.items():
            versions = model.versions(_shown(counted, set_name), table)
            current[table] = {key: values for key, values, _, until in versions if until is None}
        if plus is None:
            self._current = current
        return current

    def tables(self) -> Tables:
        """The expected `House.tables`."""
        expected, counted = Expected(), self.counted()
        expected.since = counted[0].day
        expected.shown = {s: _shown(counted, s) for s in SETS}
        for name, values in ((CLOCK, expected.clocks), (PICTURE, expected.pictures)):
            versions = model.versions(expected.shown["students"], name)
            values |= {key[0]: value for key, (value,), _, until in versions if until is None}
        return expected.tables()

    def own_years(self) -> dict[int, str]:
        """The list as it counts: what the last landing that could read it says of the students who are listed."""
        years: Mapping[int, str] = {}
        for landing in self.counted():
            years = landing.own if isinstance(landing.own, Mapping) else years
        listed = {key[0] for key in self.current()["students"]}
        return {pupil: year for pupil, year in years.items() if pupil in listed}

    # -- what happens ----------------------------------------------------------------------------------------------

    def land(self, key: Key, landing: Landing) -> None:
        """A landing has come."""
        assert key not in self.landings, f"the landing number {key} is taken by {self.landings[key].verdict} records"
        self.know(self.landings | {key: replace(landing, place=key[1])})

    def know(self, landings: Mapping[Key, Landing]) -> None:
        """Replace all landings."""
        self.landings = dict(landings)
        self.version += 1
        self._current = {}

    def approve(self, key: Key) -> None:
        """Somebody approves of a landing."""
        self.become(key, verdict="approved", moved=self.judge(self.landings[key]).moved)

    def become(self, key: Key, **values: Any) -> None:
        """A landing is judged, discarded, put back, expired."""
        self.know(self.landings | {key: replace(self.landings[key], **values)})

    def forget(self, lost: Container[date] = ()) -> None:
        """Somebody accepted that the expired days, and other days, are lost."""
        self.know({k: x for k, x in self.landings.items() if not x.expired and x.day not in lost})

    def erase(self, student: int) -> None:
        """A student is erased, from what has landed and from what ever will."""
        self.erased.add(student)
        self.know({key: landing.without(student) for key, landing in self.landings.items()})


def moves(before: Current, after: Current) -> Moved:
    """How many rows of each table differ."""
    return {
        table: (
            len(rows),
            len(after[table].keys() - rows.keys()),
            sum(after[table].get(key, old) != old for key, old in rows.items()),
            len(rows.keys() - after[table].keys()),
        )
        for table, rows in before.items()
    }


def is_mass_change(before: Current, after: Current) -> bool:
    """Whether somebody has to look first: too many rows removed, changed in more than measures, or without a measure."""
    return (
        is_mass_removal(moves(before, after))
        or any(_altered(before, after, table) > 0.75 * len(before[table]) for table in PEOPLE if before[table])
        or any(_vanish(before, after, table) for table in TOTALS)
    )


def _altered(before: Current, after: Current, table: str) -> int:
    """How many rows of a table are of other people, or of a class that is another."""
    left_out = [n for n, name in enumerate(TRACKED[table]) if name == "student_count"]

    def told(row: model.Row) -> model.Row:
        return tuple(value for n, value in enumerate(row) if n not in left_out)

    return sum(told(after[table].get(key, old)) != told(old) for key, old in before[table].items())


def _vanish(before: Current, after: Current, table: str) -> bool:
    """Whether most rows lose a measure; one that begins again with a term does not count, where half or less of the
    assignments are given now.
    """
    total, place = TOTALS[table], TRACKED[TOTALS[table]].index(GIVEN[TOTALS[table]])
    given = {key: row[place] for key, row in before[total].items()}
    now = {key: row[place] for key, row in after[total].items()}
    both = [k for k in before[table].keys() & after[table].keys() if given.get(k) is None or given[k] > 0]
    again = {k for k in both if given.get(k) is not None and now.get(k) is not None and 2 * now[k] <= given[k]}
    for n, name in enumerate(TRACKED[table]):
        nothing = (None,) if name in ("assignment_missing_count", "students_without_submissions") else (None, 0)
        lasts = name in ("first_login_date", "last_activity_date", "has_ever_logged_in")
        had = [key for key in both if before[table][key][n] not in nothing]
        lost = [key for key in had if after[table][key][n] in nothing and (lasts or key not in again)]
        if len(lost) > 5 and 2 * len(lost) > len(had) and (table != "classes" or name == "student_count"):
            return True
    return False


def is_mass_removal(moved: Moved) -> bool:
    """Whether a table loses more than five rows, and more than a tenth."""
    return any(removed > 5 and removed > 0.10 * rows for rows, _, _, removed in moved.values())


def _received(
    showing: Showing,
    set_name: str,
    day: date,
    current: set[int],
    hidden_before: frozenset[int],
    uncounted: set[int],
) -> tuple[model.Shown, frozenset[int]]:
    """The received records of a set when these ids are current: the records on a page, and the missing records that a
    search finds. A search that finds nobody states the record absent, also one of the `uncounted`.

    Returns also which are hidden then. More than three that were not hidden before disprove the list.
    """
    has = showing.records(set_name)
    received = set(has) - showing.hidden
    missing = current - received
    proven = set_name not in showing.unproven
    answered = proven and not showing.unanswered
    hidden = frozenset(missing & set(has)) if answered else frozenset[int]()
    absent = frozenset((missing | uncounted) - received - set(has)) if answered else frozenset[int]()
    received |= hidden
    if len(hidden - hidden_before) > MAX_HIDDEN:
        proven, hidden, absent = False, frozenset(), frozenset()
    if proven and showing.unanswered:
        hidden = frozenset(missing & hidden_before)
    nameless = {i for i in received if not (has[i].get("name") or has[i].get("class_title") or "").strip()}
    refused = showing.broken | nameless
    stated = {i: None if i in refused else _stated(set_name, has[i]) for i in received}
    return model.Shown(day, LAST, proven, stated, absent), hidden


def _stated(set_name: str, record: Record) -> dict[str, model.Stated]:
    if set_name == "classes":
        return class_rows(record)
    activity = record.get("activity_tracking")
    clock = None if activity is None else {(record["id"],): (activity.get(CLOCK),)}
    return student_rows(record) | {CLOCK: clock, PICTURE: {(record["id"],): (cell(PICTURE, record[PICTURE]),)}}


def _too_many_broken(shown: model.Shown) -> bool:
    broken = sum(stated is None for stated in shown.records.values())
    return broken > 5 and broken > 0.20 * len(shown.records)


def _shown(landings: Iterable[Landing], set_name: str) -> list[model.Shown]:
    return [x.counted(set_name) for x in landings]


def differences(actual: Tables, expected: Tables, most: int = 4) -> Iterator[str]:
    """The first rows of each table that are wrong."""
    for table in expected:
        have, want = set(actual.get(table, [])), set(expected[table])
        if have != want or len(actual[table]) != len(expected[table]):
            yield f"{table}: {len(actual[table])} rows, expected {len(expected[table])}"
            yield from (f"  surplus  {row}" for row in sorted(have - want, key=repr)[:most])
            yield from (f"  missing  {row}" for row in sorted(want - have, key=repr)[:most])
