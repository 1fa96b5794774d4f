"""What is expected of each fault: the declared tables that the tests of this folder play, cell by cell.

Night 1 is clean. In night 2 records were added, changed and removed, and the service has the fault. Faults are told by
what they do: those that pass are asked again about, those that are final fail the sync, those that spoil a walk have it
repeated, and oddities change nothing. No test belongs here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from pipelines.errors import (
    KeyRefusedError,
    NotTheContractError,
    RedirectError,
    RefusedError,
    ServiceError,
    UnreachableError,
)
from tests.support.nights import TRIES, pages
from tests.support.records import classes, school_class, student, students
from tests.support.wire import faults
from tests.support.wire.service import Asked, Bend, Reply, Service

# --- the two nights --------------------------------------------------------------------------------------------------

CAP = 4  # the service's own limit, so that eleven records are three pages: 4, 4 and 3
STUDENTS_1, CLASSES_1 = students(11), classes(11)
STUDENTS_2 = [
    student(1),
    student(2, summary={**student(2)["summary"], "average_score": 12.5}),
    student(3, classes=None, activity_tracking=None),
    student(4, activity_tracking={**student(4)["activity_tracking"], "days_since_last_activity": 2}),
    student(5),  # 6 is gone
    student(7),
    student(8, classes=[{"class_id": 502, "class_title": "Algebra 2", "course_name": "Algebra"}]),
    student(9, name="Pupil Renamed"),
    student(10, classes=[]),
    student(11),
    student(12),
]
CLASSES_2 = [
    *classes(1),
    school_class(502, class_title="Algebra 2"),
    *classes(3, first=503),  # 506 is gone
    *classes(6, first=507),
]
ON_PAGE = {1: (1, 2, 3, 4), 2: (5, 7, 8, 9), 3: (10, 11, 12)}
PLACES = {"first": 1, "middle": 2, "last": 3}

STUDENT_SEARCHES = pages("students?R-6", 1) + pages("students?pupil.6@school.example", 1)
CLASS_SEARCHES = pages("classes?C-506", 1) + pages("classes?Class 506", 1)
CLASS_PAGES = pages("classes", 1, 2, 3)
REST = [*CLASS_PAGES, *STUDENT_SEARCHES, *CLASS_SEARCHES]
TO_STUDENTS = ["auth", *pages("students", 1, 2, 3)]
LISTS = [*TO_STUDENTS, *CLASS_PAGES]

# --- what is expected: faults that may pass by themselves ------------------------------------------------------------


@dataclass(frozen=True)
class NoConnection:
    """The request does not even reach the service: the fault is at httpx's transport."""

    error: type[httpx.TransportError]


@dataclass(frozen=True)
class Transient:
    """A fault that is asked again about. If it stays, the sync fails with `error` after `tries`."""

    bend: Bend | NoConnection
    error: type[ServiceError] = UnreachableError
    tries: int = TRIES

    @property
    def seen(self) -> int:
        """How many of a single try's requests the service sees."""
        return 0 if isinstance(self.bend, NoConnection) else 1


def body(content: bytes, **headers: str) -> Bend:
    return lambda asked, reply: Reply(body=content, headers=headers)


def error_body_under_200(asked: Asked, reply: Reply) -> Reply:
    return Reply({"error": True, "message": "Try later", "status_code": 503, "error_code": "BUSY"})


TRANSIENT: dict[str, Transient] = {
    "connection refused": Transient(NoConnection(httpx.ConnectError)),
    "connection times out": Transient(NoConnection(httpx.ConnectTimeout)),
    "connection reset": Transient(faults.reset()),
    "no answer in time": Transient(faults.hang(30)),
    "body cut short": Transient(faults.cut_short()),
    "429": Transient(faults.status(429)),
    # The ceiling on one request's waits is 300 s: there is room for two waits of 120 s, or for 40 of 7 s.
    "429, Retry-After in seconds": Transient(faults.unavailable(429, 120), tries=3),
    "503, Retry-After as a date": Transient(faults.unavailable(503, 120, dated=True), tries=3),
    "503, Retry-After soon": Transient(faults.unavailable(503, 7)),
    "500": Transient(faults.status(500)),
    "501": Transient(faults.status(501)),
    "502": Transient(faults.status(502)),
    "503": Transient(faults.status(503)),
    "504": Transient(faults.status(504)),
    "500 with the contract's error body": Transient(faults.refused(500, "INTERNAL", "Something broke")),
    "a 503 in a body under 200": Transient(error_body_under_200),
    "200 with a page for people": Transient(faults.html(), NotTheContractError),
    "200 with half a JSON": Transient(faults.not_json(), NotTheContractError),
    "200 with nothing": Transient(body(b""), NotTheContractError),
    "200 with null": Transient(body(b"null"), NotTheContractError),
    "200 with another envelope": Transient(faults.wrong_envelope(), NotTheContractError),
    "200 without pagination": Transient(faults.wrong_envelope({"success": True, "data": []}), NotTheContractError),
    "200 with a total that is text": Transient(faults.stated(total_count="11"), NotTheContractError),
    "200 with a limit of nothing": Transient(faults.stated(limit=0), NotTheContractError),
    "200 with garbled compression": Transient(body(b"plain", **{"content-encoding": "gzip"})),
}

# These come one after the other on one page, which leaves the sixth try to be good.
ROWS = {
    "the wire": (
        *("connection times out", "connection refused", "connection reset"),
        *("body cut short", "no answer in time"),
    ),
    "the status": ("500", "501", "502", "503", "504"),
    "the wish to be left alone": (
        *("429", "429, Retry-After in seconds", "503, Retry-After as a date"),
        *("503, Retry-After soon", "500 with the contract's error body"),
    ),
    "the JSON": (
        *("200 with a page for people", "200 with half a JSON", "200 with nothing"),
        *("200 with null", "200 with another envelope"),
    ),
    "what the JSON says": (
        *("200 without pagination", "200 with a total that is text", "200 with a limit of nothing"),
        *("200 with garbled compression", "a 503 in a body under 200"),
    ),
}

# --- what is expected: refusals, which nobody asks again about -------------------------------------------------------


@dataclass(frozen=True)
class Final:
    """The service's last word: the sync fails with `error` at the first."""

    bend: Bend
    error: type[ServiceError] = RefusedError
    status: int | None = None
    code: str = ""


FINAL: dict[str, Final] = {
    "success false": Final(faults.unsuccessful(), status=200, code="NOT_READY"),
    "the contract's error body": Final(faults.refused(403, "FORBIDDEN"), status=403, code="FORBIDDEN"),
    "an error status": Final(faults.status(418), status=418),
    "401": Final(faults.refused(401, "AUTH_REQUIRED"), KeyRefusedError, 401, "AUTH_REQUIRED"),
    "401 with a page for people": Final(faults.status(401), KeyRefusedError, 401),
    "a redirect": Final(faults.redirect("https://elsewhere.example/"), RedirectError),
    "a lasting redirect": Final(faults.redirect("/svcapi/v2/students", 308), RedirectError),
    # There is no room for the wait, so the one try is the last.
    "Retry-After beyond the ceiling": Final(faults.unavailable(503, 301), UnreachableError),
    "Retry-After beyond the ceiling, as a date": Final(faults.unavailable(429, 400, dated=True), UnreachableError),
}

# --- what is expected: answers that spoil the proof ------------------------------------------------------------------


@dataclass(frozen=True)
class Spoils:
    """A walk with this fault is read to `end`, proves nothing, and is repeated; it did not show the ids in `hidden`."""

    bend: Callable[[Service, int], Bend]
    hidden: Callable[[int], tuple[int, ...]] = lambda place: ()
    end: Callable[[int], int] = lambda place: 3
    shown: tuple[dict[str, Any], ...] = ()
    rejected: int = 0
    places: tuple[str, ...] = tuple(PLACES)


def always(bend: Bend) -> Callable[[Service, int], Bend]:
    return lambda service, place: bend


def whole_page(place: int) -> tuple[int, ...]:
    return ON_PAGE[place]


def its_last(place: int) -> tuple[int, ...]:
    return ON_PAGE[place][-1:]


def from_there(place: int) -> tuple[int, ...]:
    return tuple(i for p, ids in ON_PAGE.items() if p >= place for i in ids)


SPOILS: dict[str, Spoils] = {
    "an empty page": Spoils(always(faults.empty()), hidden=whole_page),
    "a short page": Spoils(always(faults.short()), hidden=its_last),
    "one record too many": Spoils(always(faults.over_full([student(99)])), shown=(student(99),)),
    "another page again": Spoils(
        lambda service, place: faults.repeated(service, "students", 3 if place == 1 else 1), hidden=whole_page
    ),
    "total one more": Spoils(always(faults.moved_total(1))),
    "total a page more": Spoils(always(faults.moved_total(2)), end=lambda place: 4),
    "total a page less": Spoils(always(faults.moved_total(-3))),
    "another limit": Spoils(always(faults.stated(limit=5))),
    "another page number": Spoils(always(faults.stated(page=7))),
    "too few pages stated": Spoils(always(faults.stated(total_pages=2))),
    "too many pages stated": Spoils(always(faults.stated(total_pages=5)), end=lambda place: 5),
    "past the end": Spoils(
        always(faults.refused(404, "NO_SUCH_PAGE")),
        hidden=from_there,
        end=lambda place: place,
        places=("middle", "last"),  # on page 1 it is a refusal
    ),
    "the same id twice": Spoils(always(faults.records(lambda data: [*data[:-1], data[0]])), hidden=its_last),
    "an id that cannot be read": Spoils(
        always(faults.records(lambda data: [*data[:-1], {**data[-1], "id": "none"}])), hidden=its_last, rejected=1
    ),
    # All ids came, as many as stated, and one more that nobody can tell whose it is. Only the last page has room for it.
    "an id too many that cannot be read": Spoils(
        always(faults.over_full([{**student(99), "id": "none"}])), rejected=1, places=("last",)
    ),
}

# --- what is expected: oddities that change nothing ------------------------------------------------------------------


def _in_floats(asked: Asked, reply: Reply) -> Reply:
    pagination = reply.payload["pagination"]
    numbers = {k: float(v) for k, v in pagination.items() if not isinstance(v, bool)}
    return Reply({**reply.payload, "pagination": pagination | numbers})


ODD: dict[str, Bend] = {
    "has_next says no": faults.stated(has_next=False, has_prev=True),
    "has_next says yes": faults.stated(has_next=True),
    "has_next is missing": faults.stated(has_next=None, has_prev=None),
    "integral floats": _in_floats,
    "unknown fields around it": lambda asked, reply: Reply({**reply.payload, "took_ms": 3, "message": "ok"}),
    "records in another order": faults.records(lambda data: data[::-1]),
    "another content type": lambda asked, reply: Reply(reply.payload, headers={"content-type": "text/plain"}),
}


def _all_odd(asked: Asked, reply: Reply) -> Reply:
    for bend in ODD.values():
        reply = bend(asked, reply)
    return reply


ODD_AT_ONCE: dict[str, Bend] = {"all at once": _all_odd}
# The faults that a name means, where it means several.
TOGETHER: dict[str, tuple[str, ...]] = ROWS | {"all at once": tuple(ODD)}


def at_places(names: dict[str, Any], *wanted: str) -> Any:
    return [
        pytest.param(name, PLACES[place], id=f"{name}, {place} page")
        for name, fault in names.items()
        for place in getattr(fault, "places", PLACES)
        if not wanted or place in wanted
    ]
