"""A school day by day in plain Python, and what the views that go day by day or week by week must say of it.

`played` makes the days from records and from what a night was: proven or not, and who was refused (G1, G5, G9). The
functions below are the views, in loops.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Decimal
from itertools import pairwise
from typing import Any, NamedTuple

from tests.support.records import Record

Row = dict[str, Any]
WEEK = timedelta(days=7)


@dataclass
class Pupil:
    """A student on one day. `classes` is None when no record has said which; else title and course by class."""

    name: str
    details: Row
    summary: Row
    activity: Row | None = None
    classes: dict[int, tuple[str | None, str | None]] | None = None

    @property
    def completion(self) -> float | None:
        """Completion, if there are assignments."""
        rate: float | None = self.summary["completion_rate"]
        return rate if (self.summary["total_assignments"] or 0) > 0 else None

    @property
    def last_activity(self) -> date | None:
        """The later of summary and activity tracking."""
        both = (self.summary["last_activity_date"], (self.activity or {}).get("last_activity_date"))
        return max((day for day in both if day), default=None)


@dataclass
class Day:
    """The records of a landed day; a class is all columns, the summary's among them."""

    students: dict[int, Pupil] = field(default_factory=dict)
    classes: dict[int, Row] = field(default_factory=dict)


States = dict[date, Day]


class Night(NamedTuple):
    """A night's records, the sets without proof, and the students whose records were refused."""

    students: Iterable[Record]
    classes: Iterable[Record]
    unproven: Collection[str] = ()
    refused: Collection[int] = ()


def played(nights: Mapping[date, Night]) -> States:
    """The state after each night."""
    states: States = {}
    now = Day()
    for day, night in nights.items():
        now = deepcopy(now)
        records = list(night.students)
        for record in records:
            if record["id"] not in night.refused:
                now.students[record["id"]] = _pupil(record, now.students.get(record["id"]))
        classes = {r["class_id"]: _class(r) for r in night.classes}
        now.classes |= classes
        if "students" not in night.unproven:
            now.students = {r["id"]: now.students[r["id"]] for r in records if r["id"] in now.students}
        if "classes" not in night.unproven:
            now.classes = classes
        states[day] = now
    return states


DETAILS = ("email", "name", "first_name", "last_name", "reference_id", "registration_date")


def _pupil(record: Record, before: Pupil | None) -> Pupil:
    activity, listed = record.get("activity_tracking"), record.get("classes")
    pupil = Pupil(
        record["name"],
        {k: record.get(k) for k in DETAILS},
        _dated(record["summary"]),
        before.activity if before else None,
        before.classes if before else None,
    )
    if activity is not None:
        pupil.activity = _dated(activity)
    if listed is not None:
        pupil.classes = {c["class_id"]: (c["class_title"], c["course_name"]) for c in listed}
    return pupil


def _class(record: Record) -> Row:
    is_empty = 0 in (record["student_count"], record["assignment_activity"]["assignment_count"])
    return {
        **{k: record[k] for k in ("class_title", "student_count")},
        "is_active": record["class_status"] == 1,
        **{k: record["course"][k] for k in ("course_id", "course_name")},
        "teacher_id": record["teacher"]["teacher_id"],
        "assignment_count": record["assignment_activity"]["assignment_count"],
        **{k: None if v == 0 and is_empty and k.startswith("average") else v for k, v in record["summary"].items()},
    }


def _dated(values: Row) -> Row:
    return {k: date.fromisoformat(v) if k.endswith("_date") and v else v for k, v in values.items()}


# --- the views -------------------------------------------------------------------------------------------------------


def student_state(pupil: Pupil, day: date) -> Row:
    """The columns that student_daily and student_weekly share."""
    activity = pupil.activity or {}
    last = pupil.last_activity
    idle = (day - last).days if last else None
    logged_in = activity.get("has_ever_logged_in")
    never_active = False if logged_in is False else None
    return {
        "snapshot_date": day,
        "name": pupil.name,
        "has_ever_logged_in": logged_in,
        "class_count": None if pupil.classes is None else len(pupil.classes),
        **{k: pupil.summary[k] for k in ("total_assignments", "completed_assignments", "completion_rate")},
        "completion": pupil.completion,
        **{k: pupil.summary[k] for k in ("average_score", "total_time_minutes")},
        **{k: activity.get(k) for k in ("assignment_submission_count", "assignment_missing_count")},
        "last_activity_date": last,
        "days_inactive": idle,
        "is_active": never_active if idle is None else idle <= 7,
    }


def student_daily(states: States) -> list[Row]:
    """The view of this name."""
    return [
        {"student_id": number} | student_state(pupil, day)
        for day, state in states.items()
        for number, pupil in state.students.items()
    ]


class Week(NamedTuple):
    """A week with a landed day: the Monday, the last landed day, how many there are, and the last day of the week
    before.
    """

    begins: date
    last: date
    landed: int
    before: date | None


def weeks(days: Iterable[date]) -> Iterator[Week]:
    """The weeks with a landed day."""
    by_monday: dict[date, list[date]] = {}
    for day in days:
        by_monday.setdefault(day - timedelta(days=day.weekday()), []).append(day)
    for monday, landed in by_monday.items():
        before = by_monday.get(monday - WEEK)
        yield Week(monday, max(landed), len(landed), max(before) if before else None)


def _columns(week: Week) -> Row:
    return {"week_begins": week.begins, "snapshot_date": week.last, "landed_days": week.landed}


def rounded(number: float) -> float:
    """To two places, a half upwards, as SQL does."""
    return float(Decimal(str(number)).quantize(Decimal("0.01"), ROUND_HALF_UP))


def gain(now: float | None, then: float | None) -> float | None:
    """The difference, where both are known."""
    return None if now is None or then is None else rounded(now - then)


def gain_in_time(now: float | None, then: float | None) -> float | None:
    """The minutes since, where they have not begun again."""
    more = gain(now, then)
    return None if more is None or more < 0 else more


def mean(values: Iterable[float | None]) -> float | None:
    """The average of the known values."""
    numbers = [v for v in values if v is not None]
    return rounded(sum(numbers) / len(numbers)) if numbers else None


def _gains(now: Pupil, then: Pupil | None) -> Row:
    was, current = then.summary if then else {}, now.summary
    had, has = (then and then.activity) or {}, now.activity or {}
    gains = {
        "submitted_change": gain(has.get("assignment_submission_count"), had.get("assignment_submission_count")),
        "missing_change": gain(has.get("assignment_missing_count"), had.get("assignment_missing_count")),
        "completion_change": gain(now.completion, then.completion if then else None),
        "score_change": gain(current["average_score"], was.get("average_score")),
    }
    if then and current["total_assignments"] < was["total_assignments"]:  # counted again
        gains = dict.fromkeys(gains)
    return gains | {"minutes_change": gain_in_time(current["total_time_minutes"], was.get("total_time_minutes"))}


def student_weekly(states: States) -> list[Row]:
    """The view of this name."""
    rows = []
    for week in weeks(states):
        earlier = states[week.before].students if week.before else {}
        for number, pupil in states[week.last].students.items():
            then = earlier.get(number)
            row = {"student_id": number, "was_listed_before": then is not None}
            rows.append(row | student_state(pupil, week.last) | _columns(week) | _gains(pupil, then))
    return rows


def progress_weekly(states: States) -> list[Row]:
    """The view of this name."""
    rows = []
    for week in weeks(states):
        now, then = states[week.last].students, states[week.before].students if week.before else {}
        same = [_gains(now[number], then[number]) for number in now.keys() & then.keys()]
        known = [student_state(p, week.last)["is_active"] for p in now.values()]
        active = sum(map(bool, known))
        share = None if known.count(None) == len(known) else rounded(100 * active / len(now))
        rows.append(
            _columns(week)
            | {"students": len(now), "active_students": active, "active_percent": share}
            | {"average_completion_rate": mean(p.completion for p in now.values())}
            | {"average_score": mean(p.summary["average_score"] for p in now.values())}
            | {"same_students": len(same) if week.before else None}
            | {f"same_{k}_change": mean(g[f"{k}_change"] for g in same) for k in ("completion", "score", "minutes")}
        )
    return rows


def class_weekly(states: States) -> list[Row]:
    """The view of this name."""
    rows = []
    for week in weeks(states):
        now, then = states[week.last], states[week.before] if week.before else Day()
        for number, row in now.classes.items():
            was, rate = then.classes.get(number, {}), "average_completion_rate"
            again = row["assignment_count"] < was.get("assignment_count", 0)
            same = [
                _gains(now.students[s], then.students[s])
                for s in now.students.keys() & then.students.keys()
                if all(number in (day.students[s].classes or {}) for day in (now, then))
            ]
            rows.append(
                {"class_id": number}
                | row
                | _columns(week)
                | {"completion_change": None if again else gain(row[rate], was.get(rate))}
                | {"score_change": None if again else gain(row["average_score"], was.get("average_score"))}
                | {"minutes_change": gain_in_time(row["total_engagement_minutes"], was.get("total_engagement_minutes"))}
                | {"same_students": len(same) if week.before else None}
                | {f"same_{k}_change": mean(g[f"{k}_change"] for g in same) for k in ("completion", "score")}
            )
    return rows


# Of each field: the kind of change, the name, and whether the value is a decimal number.
TOLD = {
    "completion_rate": ("completion", "completion", True),
    "average_score": ("score", "score", True),
    "total_assignments": ("assignments", "assignments given", False),
    "completed_assignments": ("assignments", "assignments completed", False),
    "assignment_submission_count": ("assignments", "assignments submitted", False),
    "assignment_missing_count": ("assignments", "assignments missing", False),
    "total_assessments": ("assessments", "assessments given", False),
    "completed_assessments": ("assessments", "assessments completed", False),
    "total_time_minutes": ("time", "minutes of learning", True),
    "last_activity_date": ("activity", "last activity", False),
    "first_login_date": ("login", "first login", False),
    "has_ever_logged_in": ("login", "ever logged in", False),
    "email": ("details", "email address", False),
    "name": ("details", "name", False),
    "first_name": ("details", "first name", False),
    "last_name": ("details", "last name", False),
    "reference_id": ("details", "reference id", False),
    "registration_date": ("details", "registration", False),
}


def student_timeline(states: States) -> list[Row]:
    """The view of this name."""
    rows = []
    seen = set(next(iter(states.values())).students)
    for (_, before), (day, now) in pairwise(states.items()):
        for number in before.students.keys() | now.students.keys():
            then, pupil = before.students.get(number), now.students.get(number)
            changes = [*_listing(number in seen, then, pupil), *_enrolment(then, pupil)]
            if then and pupil:
                changes += _fields(then, pupil)
            rows += [
                {"snapshot_date": day, "student_id": number, "what": what, "description": description}
                | {"class_id": cls, "class_title": title}
                for what, description, cls, title in changes
            ]
        seen |= now.students.keys()
    return rows


Told = tuple[str, str, int | None, str | None]


def _listing(was_known: bool, then: Pupil | None, now: Pupil | None) -> Iterator[Told]:
    if now is None:
        yield "gone", "no longer listed", None, None
    elif then is None:
        yield ("back", "back", None, None) if was_known else ("new", "listed for the first time", None, None)


def _enrolment(then: Pupil | None, now: Pupil | None) -> Iterator[Told]:
    was, listed = (then and then.classes) or {}, (now and now.classes) or {}
    for number in listed.keys() - was.keys():
        yield "joined", f"joined {listed[number][0]}", number, listed[number][0]
    for number in was.keys() - listed.keys():
        yield "left", f"left {was[number][0]}", number, was[number][0]
    for number in was.keys() & listed.keys():
        (old, old_course), (new, new_course) = was[number], listed[number]
        if old != new:
            yield "class", f"class {old} to {new}", number, new
        if old_course != new_course:
            yield "class", f"course of {new} {old_course} to {new_course}", number, new


def _fields(then: Pupil, now: Pupil) -> Iterator[Told]:
    pairs = [(then.details, now.details), (then.summary, now.summary)]
    if then.activity and now.activity:
        pairs.append((then.activity, now.activity))
    fields = set()
    for old, new in pairs:
        for name in TOLD.keys() & (old.keys() | new.keys()):
            if old.get(name) != new.get(name):
                fields.add((TOLD[name][0], _change(name, old.get(name), new.get(name))))
    yield from ((what, words, None, None) for what, words in fields)


def _change(name: str, old: Any, new: Any) -> str:
    _, label, is_decimal = TOLD[name]
    if name == "has_ever_logged_in" and new:
        return "logged in for the first time"
    nothing = "none" if name == "average_score" else "unknown"
    unit = " %" if name == "completion_rate" else ""

    def text(value: Any) -> str:
        if value is None:
            return nothing
        if isinstance(value, bool):
            return str(value).lower()
        return f"{str(value).removesuffix('.0')}{unit}" if is_decimal else str(value)

    return f"{label} {text(old)} to {text(new)}"
