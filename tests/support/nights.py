"""Nights of a whole warehouse: a service, a clock, a sync a night, and what the tables must hold afterwards.

`House` runs the real `sync` against a service on loopback. `Expected` computes what the tables must hold, by the slow
model (`tests.support.models.model`) and by rows that are written out by hand, without `tables` and `flatten`. Faults
are in `tests.support.wire.faults`, records in `tests.support.records`.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import duckdb
import stamina

from rollbook.assembly import assemble, lines
from rollbook.health.doctor import examine
from rollbook.health.finding import Finding
from rollbook.health.status import Status, load_status
from rollbook.landing.manifest import Manifest
from rollbook.night import Synced, approvals, sync
from rollbook.night.stages import Landed, land, plan
from rollbook.opened import Rollbook
from rollbook.settings import Settings, load
from rollbook.store import checks
from tests.support.models import model
from tests.support.reading import opened, rows
from tests.support.records import Record, Records, student, students
from tests.support.wire.service import KEY, Asked, Service

FIRST = date(2026, 11, 20)
SCHOOL = (41, "Made-up School", "made-up-school", "nightly")
# A larger number is not a school's.
MAX_NUMBER = 10**11
# No date at all.
NO_DATE = ("", "0000-00-00", "0001-01-01", "1970-01-01")
# In stamina's test mode a request is tried so often at most, and nobody sleeps in between.
TRIES = 6

STUDENT_TABLES = ("students", "student_summaries", "student_activity", "student_classes")
CLASS_TABLES = ("classes", "class_summaries", "class_assignment_activity")
SET_OF = dict.fromkeys(STUDENT_TABLES, "students") | dict.fromkeys(CLASS_TABLES, "classes")
TRACKED = {
    "students": (
        *("email", "name", "first_name", "last_name", "reference_id"),
        *("registration_date", "is_registered"),
    ),
    "student_summaries": (
        *("total_assignments", "completed_assignments", "completion_rate", "average_score"),
        *("total_assessments", "completed_assessments", "total_time_minutes", "last_activity_date"),
    ),
    "student_activity": (
        *("first_login_date", "last_activity_date"),
        *("assignment_submission_count", "assignment_missing_count", "has_ever_logged_in"),
    ),
    "student_classes": ("class_title", "course_name"),
    "classes": (
        *("class_title", "class_code", "class_status", "class_room", "class_dateadded", "course_id", "course_name"),
        *("teacher_id", "teacher_name", "teacher_email", "student_count"),
    ),
    "class_summaries": ("average_completion_rate", "average_score", "total_engagement_minutes"),
    "class_assignment_activity": (
        *("has_assignments", "assignment_count", "first_assignment_date", "last_assignment_date"),
        *("students_enrolled", "students_with_submissions", "students_without_submissions"),
    ),
}

Row = tuple[Any, ...]
Tables = dict[str, list[Row]]


def night(number: int) -> date:
    """The date of a night, counted from 1."""
    return FIRST + timedelta(days=number - 1)


def make_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder, in memory where that is possible: on a disk a sync takes a second longer."""
    memory = Path("/dev/shm")  # noqa: S108 - a new folder is made inside
    is_there = memory.is_dir() and os.access(memory, os.W_OK)
    return tempfile.TemporaryDirectory(dir=memory if is_there else None)


@contextmanager
def folder() -> Iterator[Path]:
    """Such a folder, for as long as the block lasts."""
    with make_folder() as path:
        yield Path(path)


# --- the house -------------------------------------------------------------------------------------------------------


def approve_held(rollbook: Rollbook, day: date | None = None, *, every_day: bool = False, **given: Any) -> Synced:
    """Approve what is held on a day (default: the newest held day), or on every day."""
    shown = approvals.to_approve(rollbook.place, day, every_day=every_day)
    return approvals.approve(rollbook.writer(), [held.hold_digest for held in shown], **given)


def landed(rollbook: Rollbook) -> Landed:
    """What a fetch lands today, before anything is decided. Requires the writer lock."""
    planned = plan(rollbook.place, None, rollbook.settings, rollbook.clock())
    return land(rollbook.place, planned, rollbook.settings, clock=rollbook.clock)


def status_of(rollbook: Rollbook) -> Status:
    """The status of a warehouse."""
    return load_status(rollbook.place, rollbook.settings, rollbook.clock(), lines(rollbook))


def line_of(rollbook: Rollbook, what: str) -> str | None:
    """A feature's line of the status; None without one."""
    return next((line.says for line in status_of(rollbook).lines if line.what == what), None)


def findings_of(rollbook: Rollbook) -> list[Finding]:
    """What doctor finds."""
    return [*examine(rollbook.place, rollbook.settings, rollbook.clock()), *lines(rollbook)]


class House:
    """A warehouse, the service behind it, and the clock of both."""

    def __init__(self, warehouse: Path, service: Service, **over: Any) -> None:
        self.warehouse = warehouse
        self.service = service
        self.over = over
        self.now = datetime.combine(FIRST, time(2, 15), UTC)
        service.now = lambda: self.now

    def settings(self, **over: Any) -> Settings:
        """The settings of the warehouse."""
        values: dict[str, Any] = {**self._given(), "_env_file": None, **self.over, **over}
        return load(**values)

    def _given(self) -> dict[str, Any]:
        # Days before the first night may be synced, too, as by an operator who says so.
        before = date(2026, 8, 1)
        return {"base_url": self.service.url, "api_key": KEY, "warehouse": self.warehouse, "first_date": before}

    def environment(self, **over: Any) -> dict[str, str]:
        """The same settings as variables of the environment."""
        given = {**self._given(), **self.over, **over}
        return {f"ROLLBOOK_{name.upper()}": str(value) for name, value in given.items()}

    def rollbook(self, **over: Any) -> Rollbook:
        """The Rollbook under test."""
        return assemble(self.settings(**over), clock=lambda: self.now)

    def at(self, number: int) -> House:
        """Set the clock to a quarter past two of a night."""
        self.now = datetime.combine(night(number), time(2, 15), UTC)
        return self

    def night(
        self, number: int, students: Records | None = None, classes: Records | None = None, **arguments: Any
    ) -> Synced:
        """Sync on a night, with new records or the service's present records."""
        if students is not None:
            self.service.students = students
        if classes is not None:
            self.service.classes = classes
        return self.at(number).sync(**arguments)

    def sync(self, day: date | None = None, *, over: dict[str, Any] | None = None, **arguments: Any) -> Synced:
        """One sync; retries do not wait."""
        with stamina.set_testing(True, attempts=TRIES, cap=True):
            return sync(self.rollbook(**(over or {})).writer(), day, **arguments)

    def approve(self, day: date | None = None, *, over: dict[str, Any] | None = None) -> Synced:
        """Approve what is held."""
        return approve_held(self.rollbook(**(over or {})), day)

    @property
    def published(self) -> Path:
        """The published file."""
        return self.warehouse / "rollbook.duckdb"

    def lose_published(self) -> None:
        """Remove what analysts open, and the version behind the link."""
        self.published.resolve().unlink()
        self.published.unlink(missing_ok=True)

    def lose_kept(self) -> None:
        """Remove all versions except the version that analysts open."""
        for version in self.rollbook().warehouse.kept():
            version.unlink()

    def query(self, sql: str) -> list[Row]:
        """The rows of an analyst's query."""
        return rows(self.published, sql)

    def tables(self, *further: str) -> Tables:
        """The published rows, sorted: the current rows, the versions and the changes; also of tables that a test adds."""
        with opened(self.published) as con:
            return tables_in(con, *further)

    def examined(self) -> dict[str, list[str]]:
        """Every rule, with what is found wrong in the published file."""
        lake = self.rollbook().lake
        with duckdb.connect(self.published, read_only=True) as con:
            return dict(checks.examine(con, lake, lake.days()))

    def state(self) -> dict[str, str]:
        """The digest of the published file and of each file of the lake: what readers see."""
        files = [self.published, *(p for p in (self.warehouse / "snapshots").rglob("*") if p.is_file())]
        return {
            str(p.relative_to(self.warehouse)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files if p.exists()
        }

    def landings(self, day: date) -> list[Manifest]:
        """The manifests of a day."""
        return self.rollbook().raw.manifests(day)


def tables_in(con: duckdb.DuckDBPyConnection, *further: str) -> Tables:
    """The rows of an opened file, as `House.tables` returns them."""
    names = [f"{s}.{t}" for s in ("main", "history") for t in (*SET_OF, "institution", *further)]
    return {n: _sorted(con.execute(f"SELECT * FROM {n}").fetchall()) for n in (*names, "main.changes")}


@contextmanager
def new_house(students: Iterable[Record] = (), classes: Iterable[Record] = (), **over: Any) -> Iterator[House]:
    """A house in a folder of its own, whose service has some records."""
    with folder() as root, Service(students, classes) as service:
        yield House(root / "warehouse", service, **over)


def asked(requests: Iterable[Asked]) -> list[str]:
    """Requests in short: `students 2` for a page, `students?R-6 1` for a page of a search, `auth`, `student/5`."""
    return [
        r.path if "page" not in r.params else f"{r.path}{'' if r.search is None else f'?{r.search}'} {r.page}"
        for r in requests
    ]


def pages(path: str, *numbers: int) -> list[str]:
    """Such requests for some pages of a list."""
    return [f"{path} {n}" for n in numbers]


# --- what must be there ----------------------------------------------------------------------------------------------


class Expected:
    """The expected tables after the nights that were added, in their order."""

    def __init__(self) -> None:
        self.shown: dict[str, list[model.Shown]] = {"students": [], "classes": []}
        self.clocks: dict[int, int | None] = {}
        self.pictures: dict[int, str | None] = {}
        self.since: date | None = None

    def night(
        self,
        number: int,
        students: Iterable[Record],
        classes: Iterable[Record],
        *,
        unproven: Iterable[str] = (),
        refused: Iterable[int] = (),
    ) -> Expected:
        """Add a landing that counts: the records, the sets without proof, the ids whose records were refused."""
        day = night(number)
        self.since = self.since or day
        for name, records, stated in (("students", students, student_rows), ("classes", classes, class_rows)):
            by_id = {r["id" if name == "students" else "class_id"]: r for r in records}
            by_table: dict[int, Any] = {i: None if i in set(refused) else stated(r) for i, r in by_id.items()}
            landing = 1 + sum(s.day == day for s in self.shown[name])
            self.shown[name].append(model.Shown(day, landing, name not in set(unproven), by_table))
            if name == "students":
                stating = {i: r.get("activity_tracking") for i, r in by_id.items() if by_table[i]}
                self.clocks |= {i: a.get("days_since_last_activity") for i, a in stating.items() if a is not None}
                self.pictures |= {i: r.get("profile_image") for i, r in by_id.items() if by_table[i]}
        return self

    def tables(self) -> Tables:
        """The expected `House.tables`."""
        tables: Tables = {"main.institution": [SCHOOL], "history.institution": [(*SCHOOL, self.since, None)]}
        changes: list[Row] = [(self.since, "institution", None, None, SCHOOL[0], "added", None, None, None)]
        for table, set_name in SET_OF.items():
            versions = model.versions(self.shown[set_name], table)
            tables[f"history.{table}"] = _sorted((*key, *values, since, to) for key, values, since, to in versions)
            current = [(*key, *values) for key, values, _, to in versions if to is None]
            if table == "student_activity":
                current = [(*row[:3], self.clocks[row[0]], *row[3:]) for row in current]
            if table == "students":
                current = [(*row[:6], self.pictures[row[0]], *row[6:]) for row in current]
            tables[f"main.{table}"] = _sorted(current)
            for day, key, change, column, old, new in model.changes(versions, TRACKED[table]):
                ids = key if len(key) == 2 else (*key, None) if set_name == "students" else (None, *key)
                changes.append((day, table, *ids, None, change, column, _text(old), _text(new)))
        return tables | {"main.changes": _sorted(changes)}


class ChangingNights:
    """A house that changes every night, and what the tables must hold."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.expected = Expected()
        self.number = 0

    def listed(self, number: int) -> Records:
        """A night's students: a student has a new name and states no activity, a student has come and a student is
        gone.
        """
        renamed = student(4 + number, name=f"Night {number}", activity_tracking=None)
        return [*students(3, first=1 + number), renamed, *students(26, first=5 + number)]

    def play(self, count: int, *, is_begun: bool = False, **over: Any) -> ChangingNights:
        """Sync some more nights. With `is_begun` the house has had both already."""
        for _ in range(count):
            self.number += 1
            self.house.service.students = listed = self.listed(self.number)
            self.house.at(self.number)
            if not is_begun:
                self.house.sync(over=over)
            self.expected.night(self.number, listed, self.house.service.classes)
        return self

    def days(self, where: str) -> list[date]:
        """The days on disk, in a folder of the warehouse."""
        folders = (self.house.warehouse / where).glob("snapshot_date=*")
        return sorted(date.fromisoformat(p.name.removeprefix("snapshot_date=")) for p in folders)


def student_rows(r: Record) -> dict[str, model.Stated]:
    """The rows in a student's record, by table: key and tracked values; None where the table is not mentioned."""
    key, listed = (r["id"],), r.get("classes")
    return {
        "students": {key: _tracked("students", r)},
        "student_summaries": _inner(key, "student_summaries", r.get("summary")),
        "student_activity": _inner(key, "student_activity", r.get("activity_tracking")),
        "student_classes": None
        if listed is None
        else {(*key, c["class_id"]): _tracked("student_classes", c) for c in listed},
    }


def class_rows(r: Record) -> dict[str, model.Stated]:
    """The rows in a class's record, by table."""
    key, course, teacher = (r["class_id"],), r.get("course") or {}, r.get("teacher") or {}
    flat = {
        **r,
        **{field: course.get(field) for field in ("course_id", "course_name")},
        "teacher_id": teacher.get("teacher_id"),
        "teacher_name": teacher.get("name"),
        "teacher_email": teacher.get("email"),
    }
    return {
        "classes": {key: _tracked("classes", flat)},
        "class_summaries": _inner(key, "class_summaries", r.get("summary")),
        "class_assignment_activity": _inner(key, "class_assignment_activity", r.get("assignment_activity")),
    }


def _inner(key: tuple[int], table: str, fields: Record | None) -> model.Stated:
    return None if fields is None else {key: _tracked(table, fields)}


def _tracked(table: str, fields: Record) -> Row:
    return tuple(cell(column, fields.get(column)) for column in TRACKED[table])


def cell(column: str, value: Any) -> Any:
    """A value as DuckDB gives it, in the stored form: dates as dates, decimal numbers as floats of nine digits."""
    if column.endswith(("_date", "_dateadded")):
        return None if value in (None, *NO_DATE) else date.fromisoformat(value)
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value).strip() or None
    if value is None or isinstance(value, bool):
        return value
    if abs(value) > MAX_NUMBER:
        return model.REFUSED
    return float(f"{value:.9g}") if column.endswith(("_rate", "_score", "_minutes")) else value


def _sorted(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=repr)


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)
