"""What `data_quality` must list for a school on whose nights nothing was held and all was proven, in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import date, timedelta
from itertools import pairwise, takewhile
from typing import Any

from tests.support.models.states import Row, States

UNSTATED = {"student_activity": "activity_tracking", "student_classes": "classes"}


def data_quality(states: States, silent: Iterable[tuple[str, int, date]]) -> list[Row]:
    """The findings; `silent` has each table that a student's record said nothing of, the student and the day."""
    return [*_unstated(states, list(silent)), *_contradictions(states), *_gaps(states)]


def _finding(kind: str, about: str | None, how_many: int, days: tuple[date, date], said: str) -> Row:
    return {
        "kind": kind, "about": about, "how_many": how_many, "since": days[0], "last_seen": days[1], "said": said
    }  # fmt: skip


def _unstated(states: States, silent: list[tuple[str, int, date]]) -> Iterator[Row]:
    newest = max(states)
    for table, field in UNSTATED.items():
        days = [day for name, _, day in silent if name == table]
        if days:
            now = len({student for name, student, day in silent if name == table and day == newest})
            said = f"{field} was left out of the records, on the newest landed day of {now:,} students; what was known stands"
            ids = {student for name, student, _ in silent if name == table}
            yield _finding("unstated", table, len(ids), (min(days), max(days)), said)


def _since(states: States, holds: Callable[[Any], bool]) -> date:
    """The first day since when it holds without a break until now."""
    back = takewhile(lambda day: holds(states[day]), sorted(states, reverse=True))
    return list(back)[-1]


def _contradictions(states: States) -> Iterator[Row]:
    newest = max(states)
    now = states[newest]

    def differs(number: int) -> Callable[[Any], bool]:
        def holds(day: Any) -> bool:
            cls = day.classes.get(number)
            listing = sum(number in (p.classes or {}) for p in day.students.values())
            return bool(cls and cls["class_status"] == 1 and cls["student_count"] != listing)

        return holds

    wrong = {n: _since(states, differs(n)) for n in now.classes if differs(n)(now)}
    yield from _listed(
        *("count mismatch", "classes", wrong, newest), "student_count is not the number of students who list the class"
    )
    unlisted: dict[int, date] = {}
    for student, pupil in now.students.items():
        for cls in (pupil.classes or {}).keys() - now.classes.keys():
            joined = _since(states, lambda d, s=student, c=cls: s in d.students and c in (d.students[s].classes or {}))  # type: ignore[misc]
            gone = _since(states, lambda d, c=cls: c not in d.classes)  # type: ignore[misc]
            unlisted[cls] = min(unlisted.get(cls, newest), max(joined, gone))
    yield from _listed(
        *("unlisted class", "student_classes", unlisted, newest),
        "students list the class, the class list does not have it",
    )


def _listed(kind: str, about: str, since: dict[int, date], newest: date, words: str) -> Iterator[Row]:
    if since:
        ids = ", ".join(map(str, sorted(since)[:5])) + (f" and {len(since) - 5:,} more" if len(since) > 5 else "")
        yield _finding(kind, about, len(since), (min(since.values()), newest), f"{words}: {ids}")


def _gaps(states: States) -> Iterator[Row]:
    days = sorted(states)
    for one, next_ in pairwise(days):
        missing = (next_ - one).days - 1
        if missing:
            said = "no landing: nothing is known of these days by themselves"
            span = (one + timedelta(days=1), next_ - timedelta(days=1))
            yield _finding("gap", None, missing, span, said)
