"""The contract's endpoints over lists of records: what is asked, and what is answered. No HTTP.

The package's docstring lists the choices where the contract is open.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from rollbook.errors import ArgumentError
from rollbook.sandbox.institution import Record

DEFAULT_KEY = "sandbox-key"

_INTEGER = re.compile(r"-?[0-9]{1,18}")  # what fits into 64 bits
_LOWEST = {"page": 1, "limit": 1, "status": 0}
_HIGHEST = {"limit": 100, "status": 1}
_FILTERS = {"students": {"class_id", "course_id"}, "classes": {"status", "course_id", "teacher_id", "teacher_email"}}
_OF_A_CLASS: dict[str, Callable[[Record], Any]] = {
    "class_id": lambda own: own["class_id"],
    "status": lambda own: own["class_status"],
    "course_id": lambda own: own["course"]["course_id"],
    "teacher_id": lambda own: own["teacher"]["teacher_id"],
    "teacher_email": lambda own: own["teacher"]["email"].casefold(),
}
SEARCHED = {"students": ("name", "email", "reference_id"), "classes": ("class_title", "class_code")}


@dataclass(frozen=True, kw_only=True)
class ReceivedRequest:
    """One request. `path` is what follows /svcapi/v1/, the names of headers are in lower case."""

    path: str
    params: dict[str, str]
    headers: dict[str, str]
    method: str = "GET"

    @property
    def page(self) -> int:
        """The page asked for."""
        return int(self.params.get("page", "1"))

    @property
    def search(self) -> str | None:
        """The text searched for, if any."""
        return self.params.get("search")


@dataclass
class Reply:
    """The answers. `payload` is encoded as JSON, unless `body` has the bytes themselves."""

    payload: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": "application/json"})
    body: bytes | None = None

    def content(self) -> bytes:
        """Return the body's bytes."""
        return self.body if self.body is not None else msgspec.json.encode(self.payload)


def school_of(seed: int) -> dict[str, Any]:
    """The school of a seed, as in the auth check: the schools of a district must differ."""
    return {"id": 4070 + seed, "name": f"Linden Vale School {seed}", "key": f"linden-vale-{seed}"}


class _RefusedError(Exception):
    """A request that violates the contract."""


class Service:
    """A records service of `students` and `classes`, which may be changed at any time."""

    def __init__(
        self,
        students: Iterable[Record] = (),
        classes: Iterable[Record] = (),
        *,
        key: str = DEFAULT_KEY,
        school: Mapping[str, Any] | None = None,
        cap: int = 100,
    ) -> None:
        """`cap` is the most records of a page, whatever is asked for. Raises ArgumentError for an empty key."""
        if not key:
            raise ArgumentError("The sandbox needs a key. Give it one that is not empty.")
        self.students, self.classes = list(students), list(classes)
        self.details: dict[int, Any] = {}  # by student; of the others, what their records say
        self.others: dict[str, list[Record]] = {}  # sets that the contract does not have, by their endpoint
        self.key, self.school, self.cap = key, school or school_of(1), cap
        self.now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def answer(self, request: ReceivedRequest) -> Reply:
        """Answer one request by the contract."""
        if request.headers.get("x-api-key") != self.key:
            return error_reply(401, "AUTH_REQUIRED", "A valid API key is required.")
        if request.method != "GET":
            return error_reply(405, "METHOD_NOT_ALLOWED", "The service only answers GET.")
        try:
            return self._good(request)
        except _RefusedError as error:
            return error_reply(400, "INVALID_PARAMETER", str(error))

    def _good(self, request: ReceivedRequest) -> Reply:
        if request.path == "auth":
            data = {
                "authenticated": True,
                "school": self.school,
                "api_key_name": "nightly",
                "timestamp": f"{self.now():%Y-%m-%d %H:%M:%S}",
            }
            return Reply({"success": True, "data": data, "message": "The API key is valid and active."})
        if request.path == "students":
            return self.listed(request, self.students)
        if request.path == "classes":
            return self.listed(request, self.classes)
        if request.path in self.others:
            return self.listed(request, self.others[request.path])
        if request.path.startswith("student/"):
            own = _integer({"student_id": request.path.removeprefix("student/")}, "student_id")
            record = next((each for each in self.students if each.get("id") == own), None)
            if record is None:
                return error_reply(404, "STUDENT_NOT_FOUND", "No student with this id is listed.")
            return Reply({"success": True, "data": self.details.get(record["id"]) or self._detail(record)})
        return error_reply(404, "NOT_FOUND", "No such path.")

    def _detail(self, student: Record) -> Record:
        """Return a student with whole classes and their courses; the contract leaves the shape open."""
        taken = {entry["class_id"] for entry in student.get("classes") or []}
        classes = [each for each in self.classes if each["class_id"] in taken]
        return student | {"classes": classes, "courses": [each["course"] for each in classes], "assignments": []}

    def listed(self, request: ReceivedRequest, records: list[Record]) -> Reply:
        """Answer a list operation: the page of these records that pass the filters."""
        records = self._search(request, self._filter(request, records))
        page, limit = _integer(request.params, "page", 1), min(_integer(request.params, "limit", 50), self.cap)
        pages = -(-len(records) // limit)
        pagination = {
            "page": page,
            "limit": limit,
            "total_count": len(records),
            "total_pages": pages,
            "has_next": page < pages,
            "has_prev": page > 1 and pages > 0,
        }
        data = records[(page - 1) * limit : page * limit]
        return Reply({"success": True, "data": data, "pagination": pagination})

    def _filter(self, request: ReceivedRequest, records: list[Record]) -> list[Record]:
        for name in request.params.keys() & _FILTERS.get(request.path, set()):
            wanted = request.params[name].casefold() if name == "teacher_email" else _integer(request.params, name)
            of_classes = records if request.path == "classes" else self.classes
            passing = [each for each in of_classes if _OF_A_CLASS[name](each) == wanted]
            if request.path == "students":
                ids = {each["class_id"] for each in passing}
                taken_by = ({entry["class_id"] for entry in each.get("classes") or []} for each in records)
                passing = [each for each, taken in zip(records, taken_by, strict=True) if taken & ids]
            records = passing
        return records

    def _search(self, request: ReceivedRequest, records: list[Record]) -> list[Record]:
        sought = (request.search or "").casefold()
        if not sought:
            return records
        fields = SEARCHED.get(request.path, ())
        return [each for each in records if any(sought in str(each.get(name) or "").casefold() for name in fields)]


def error_reply(status: int, code: str, message: str) -> Reply:
    """Return the contract's error body."""
    return Reply({"error": True, "message": message, "status_code": status, "error_code": code}, status)


def _integer(values: Mapping[str, str], name: str, default: int = 0) -> int:
    """Return the value as an integer within its bounds. Raises _RefusedError."""
    text = values.get(name, str(default))
    if not _INTEGER.fullmatch(text):
        raise _RefusedError(f"{name} must be an integer.")
    value = int(text)
    if value < _LOWEST.get(name, value) or value > _HIGHEST.get(name, value):
        raise _RefusedError(f"{name} must be between {_LOWEST[name]} and {_HIGHEST.get(name, 10**18)}.")
    return value
