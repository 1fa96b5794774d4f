"""One day's records as the service returns them: encoded once, then filtered, searched and cut into pages.

Encoding a hundred thousand records takes about a second, joining a hundred of them into a page a few microseconds, so
they are encoded once, when the day begins. No HTTP here: the arguments are validated values, the results are bytes.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from pipelines.sandbox.institution import Day
from pipelines.sandbox.records import ClassRow, Record

_encode = msgspec.json.Encoder().encode
_SEPARATOR = "\n"  # occurs in no name, code or address, so a search cannot match across two of them
_KEPT_FILTERS = 64  # a walk over a filtered list repeats the same filter for each page


@dataclass(frozen=True)
class StudentFilter:
    """The filters of the student list; None does not filter."""

    class_id: int | None = None
    course_id: int | None = None
    search: str | None = None


@dataclass(frozen=True)
class ClassFilter:
    """The filters of the class list; None does not filter."""

    status: int | None = None
    course_id: int | None = None
    teacher_id: int | None = None
    teacher_email: str | None = None
    search: str | None = None


class Catalogue:
    """One day, ready to serve. Both page methods return the body of a list operation as JSON."""

    def __init__(self, day: Day) -> None:
        self.date = day.date
        self._day = day
        self._class_rows = day.class_rows
        self._classes = _List(day.class_records(), ("class_title", "class_code"))
        self._students = _List(day.student_records(), ("name", "email", "reference_id"))
        self._find_students = lru_cache(_KEPT_FILTERS)(self._match_students)
        self._find_classes = lru_cache(_KEPT_FILTERS)(self._match_classes)

    def students(self, wanted: StudentFilter, page: int, limit: int) -> bytes:
        """Return a page of the student list."""
        return self._students.page(self._find_students(wanted), page, limit)

    def classes(self, wanted: ClassFilter, page: int, limit: int) -> bytes:
        """Return a page of the class list."""
        return self._classes.page(self._find_classes(wanted), page, limit)

    def student(self, student_id: int) -> bytes | None:
        """Return the body of the single-student operation; None if the student is not listed."""
        record = self._day.detail(student_id)
        return None if record is None else _encode({"success": True, "data": record})

    def _match_students(self, wanted: StudentFilter) -> Sequence[int]:
        """Return the positions of all students that pass every filter, in order."""
        enrolments = []
        if wanted.class_id is not None:
            enrolments.append(self._enrolled(lambda row: row.class_id == wanted.class_id))
        if wanted.course_id is not None:
            enrolments.append(self._enrolled(lambda row: row.course.course_id == wanted.course_id))
        if not enrolments:
            return self._students.search(wanted.search)
        in_all = sorted(set.intersection(*map(set, enrolments)))
        return self._students.search(wanted.search, among=in_all)

    def _enrolled(self, matches: Callable[[ClassRow], bool]) -> list[int]:
        return self._day.enrolled_in(row.class_id for row in self._class_rows if matches(row))

    def _match_classes(self, wanted: ClassFilter) -> Sequence[int]:
        """Return the positions of all classes that pass every filter, in order."""
        email = None if wanted.teacher_email is None else wanted.teacher_email.casefold()
        passing = [
            position
            for position, row in enumerate(self._class_rows)
            if wanted.status in (None, row.is_active)
            and wanted.course_id in (None, row.course.course_id)
            and wanted.teacher_id in (None, row.teacher.teacher_id)
            and email in (None, row.teacher.email.casefold())
        ]
        return self._classes.search(wanted.search, among=passing)


class _List:
    """Encoded records in order, and their searchable texts, one after the other."""

    def __init__(self, records: Iterable[Record], searched: tuple[str, ...]) -> None:
        self._encoded: list[bytes] = []
        self._starts = array("q", [0])
        texts = []
        for record in records:
            self._encoded.append(_encode(record))
            text = "".join([record[field] + _SEPARATOR for field in searched]).casefold()
            texts.append(text)
            self._starts.append(self._starts[-1] + len(text))
        self._text = "".join(texts)

    def search(self, text: str | None, among: Sequence[int] | None = None) -> Sequence[int]:
        """Return the positions whose texts contain this one, ignoring case. None or "" matches all."""
        needle = (text or "").casefold()
        if not needle:
            return range(len(self._encoded)) if among is None else among
        if _SEPARATOR in needle:
            return []
        starts, text = self._starts, self._text
        if among is not None:
            return [position for position in among if text.find(needle, starts[position], starts[position + 1]) >= 0]
        found = []
        at = text.find(needle)  # all texts at once: a few milliseconds for a hundred thousand
        while at >= 0:
            found.append(bisect_right(starts, at) - 1)
            at = text.find(needle, starts[found[-1] + 1])
        return found

    def page(self, positions: Sequence[int], page: int, limit: int) -> bytes:
        """Return the envelope with one page of the records at these positions; a page past the end is empty."""
        start, total_pages = (page - 1) * limit, -(-len(positions) // limit)
        records = b",".join([self._encoded[position] for position in positions[start : start + limit]])
        pagination = {
            "page": page,
            "limit": limit,
            "total_count": len(positions),
            "total_pages": total_pages,
            "has_next": page < total_pages,
            "has_prev": page > 1 and total_pages > 0,
        }
        return b'{"success":true,"data":[%b],"pagination":%b}' % (records, _encode(pagination))
