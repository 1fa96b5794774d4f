"""The faults that a service can be given (`Service.on`): each bends one answer.

On the wire: `reset`, `cut_short`, `hang`. Around the JSON: `status`, `unavailable`, `html`, `not_json`,
`wrong_envelope`, `rewritten`, `unsuccessful`, `refused`, `redirect`. In the auth check: `institution`. In a page's
pagination: `moved_total`, `stated`. In a page's records: `repeated`, `empty`, `short`, `over_full`, `records`.
"""

from __future__ import annotations

import copy
import gzip
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

from tests.support.records import MISSING
from tests.support.wire.service import Asked, Bend, Reply, Service, error_reply


def reset() -> Bend:
    """The connection is reset before a byte of the answer."""
    return lambda request, reply: _with(reply, wire="reset")


def cut_short() -> Bend:
    """The answer ends in the middle of the body, and so does the connection."""
    return lambda request, reply: _with(reply, wire="cut")


def hang(seconds: float) -> Bend:
    """The answer comes late."""
    return lambda request, reply: _with(reply, delay=seconds)


def status(code: int, **headers: str) -> Bend:
    """An HTTP status with a page for people."""
    page = b"<html><body>Something went wrong.</body></html>"
    return lambda request, reply: Reply(
        status=code, body=page, headers={"content-type": "text/html", **{_name(k): v for k, v in headers.items()}}
    )


def unavailable(code: int, seconds: float, *, dated: bool = False) -> Bend:
    """429 or 503 with a Retry-After, in seconds or as a date."""

    def bend(request: Asked, reply: Reply) -> Reply:
        until = datetime.now(UTC) + timedelta(seconds=seconds)
        wait = format_datetime(until, usegmt=True) if dated else f"{seconds:g}"
        return Reply(status=code, body=b"", headers={"retry-after": wait})

    return bend


def html() -> Bend:
    """A 200 with a page for people."""
    return lambda request, reply: Reply(body=b"<!doctype html><title>Maintenance</title>")


def not_json() -> Bend:
    """A 200 whose body ends in the middle; the header has the right length."""
    return lambda request, reply: _with(reply, body=reply.content()[:-20])


def wrong_envelope(payload: Any = None) -> Bend:
    """A 200 with JSON that is not the contract's."""
    return lambda request, reply: _with(reply, payload={"items": [], "next": None} if payload is None else payload)


def rewritten(pieces: dict[bytes, bytes]) -> Bend:
    """The same body with some pieces replaced, each of which must occur once."""

    def bend(request: Asked, reply: Reply) -> Reply:
        content = reply.content()
        for old, new in pieces.items():
            assert content.count(old) == 1
            content = content.replace(old, new)
        return Reply(body=content)

    return bend


def packed() -> Bend:
    """The same body with gzip, which the client must accept."""

    def bend(request: Asked, reply: Reply) -> Reply:
        assert "gzip" in request.headers["accept-encoding"]
        return _with(reply, body=gzip.compress(reply.content(), 1), headers={"content-encoding": "gzip"})

    return bend


def packed_by(pack: Callable[[bytes], bytes], encoding: str | None = "gzip") -> Bend:
    """The same body as `pack` returns it, under a Content-Encoding or none."""
    headers = {"content-encoding": encoding} if encoding else {}
    return lambda request, reply: _with(reply, body=pack(reply.content()), headers=headers)


def unsuccessful(message: str = "The report is not ready", code: int = 200) -> Bend:
    """`success: false`, under a 200 or another code."""
    return lambda request, reply: Reply({"success": False, "message": message, "error_code": "NOT_READY"}, code)


def refused(code: int = 403, error_code: str = "FORBIDDEN", message: str = "Not for this key") -> Bend:
    """The contract's error body."""
    return lambda request, reply: error_reply(code, error_code, message)


def redirect(location: str, code: int = 302) -> Bend:
    """A redirect."""
    return lambda request, reply: Reply(status=code, body=b"", headers={"location": location})


def institution(**over: Any) -> Bend:
    """Other values in the auth check; a field given as MISSING is left out."""

    def bend(request: Asked, reply: Reply) -> Reply:
        data = _there(reply.payload["data"] | {k: _there(v) if isinstance(v, dict) else v for k, v in over.items()})
        return _with(reply, payload={**reply.payload, "data": data})

    return bend


def moved_total(by: int) -> Bend:
    """Another `total_count`, and a `total_pages` that fits."""

    def bend(pagination: dict[str, Any], data: list[Any]) -> list[Any]:
        pagination["total_count"] += by
        pagination["total_pages"] = -(-pagination["total_count"] // pagination["limit"])
        return data

    return _page(bend)


def stated(**pagination: Any) -> Bend:
    """Other values in the pagination; None leaves a field out."""

    def bend(page: dict[str, Any], data: list[Any]) -> list[Any]:
        for key, value in pagination.items():
            page[key] = value
            if value is None:
                del page[key]
        return data

    return _page(bend)


def repeated(service: Service, path: str, page: int = 1) -> Bend:
    """The records of another page."""

    def bend(pagination: dict[str, Any], data: list[Any]) -> list[Any]:
        records, limit = getattr(service, path), pagination["limit"]
        return list(records[(page - 1) * limit : page * limit])

    return _page(bend)


def records(change: Callable[[list[Any]], list[Any]]) -> Bend:
    """The page's records, changed."""
    return _page(lambda pagination, data: change(data))


def per_enrollment(service: Service, *, rows_counted: bool = True) -> Bend:
    """A row for each class of a student, as a join gives them; the total counts the rows, or the students."""

    def bend(request: Asked, reply: Reply) -> Reply:
        rows = [row for student in service.students for row in one_class_each(student)]
        page = service.listed(request, rows)
        count = len(rows) if rows_counted else len(service.students)
        pagination = page.payload["pagination"] | {"total_count": count, "total_pages": -(-count // 100)}
        return Reply(page.payload | {"pagination": pagination})

    return bend


def one_class_each(student: dict[str, Any]) -> list[dict[str, Any]]:
    """A student's record once for each class, with that class alone."""
    return [student | {"classes": [taken]} for taken in student.get("classes") or []] or [student]


def gapped() -> Bend:
    """A page as PHP writes it once records were filtered out: a list with gaps, or null for none."""

    def bend(request: Asked, reply: Reply) -> Reply:
        data = {str(2 * n): record for n, record in enumerate(reply.payload["data"])}
        return _with(reply, payload=reply.payload | {"data": data or None})

    return bend


def no_match(code: int) -> Bend:
    """A status instead of a result without records."""
    return lambda request, reply: reply if reply.payload["data"] else no_answer(code)(request, reply)


def no_answer(code: int) -> Bend:
    """A 204, which has no body, a 200 without success, or another status with the contract's error body."""
    if code == 200:
        return lambda request, reply: Reply({"success": False, "message": "No students found", "data": []})
    if code == 204:
        return lambda request, reply: Reply(status=204, body=b"")
    return refused(code, "NOT_FOUND", "None")


def empty() -> Bend:
    """No records."""
    return records(lambda data: [])


def short(by: int = 1) -> Bend:
    """Some records fewer."""
    return records(lambda data: data[:-by])


def over_full(extra: list[Any]) -> Bend:
    """Some records more."""
    return records(lambda data: data + extra)


def _page(change: Callable[[dict[str, Any], list[Any]], list[Any]]) -> Bend:
    """Change a copy of a good page."""

    def bend(request: Asked, reply: Reply) -> Reply:
        payload = copy.copy(reply.payload)
        payload["pagination"] = dict(payload["pagination"])
        payload["data"] = change(payload["pagination"], list(payload["data"]))
        return _with(reply, payload=payload)

    return bend


def _there(fields: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in fields.items() if v is not MISSING}


def _with(reply: Reply, **over: Any) -> Reply:
    changed = copy.copy(reply)
    for name, value in over.items():
        setattr(changed, name, value)
    return changed


def _name(keyword: str) -> str:
    return keyword.replace("_", "-")
