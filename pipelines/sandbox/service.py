"""The contract's endpoints over HTTP: routes, the key, the query parameters, the error body.

`catalogue.py` provides a day's records, `server.py` runs this. The package's docstring lists the choices where the
contract is open.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from hmac import compare_digest
from typing import NamedTuple

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from pipelines.errors import ArgumentError
from pipelines.sandbox.catalogue import Catalogue, ClassFilter, StudentFilter
from pipelines.sandbox.institution import Institution

_PREFIX = "/svcapi/v1"
_DEFAULT_LIMIT = 50
_MOST_LIMIT = 100
_INTEGER = re.compile(r"-?[0-9]{1,18}")  # what fits into 64 bits
_CODES = {404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED"}

_encode = msgspec.json.Encoder().encode


class School(NamedTuple):
    """The institution of the key (contract, "Institution")."""

    id: int = 4071
    name: str = "Linden Vale School"
    key: str = "linden-vale"
    api_key_name: str = "Rollbook sandbox"


DEFAULT_SCHOOL = School()


def school_of(seed: int) -> School:
    """The school of a seed, as in the auth check: the schools of a district must differ."""
    if seed == 1:
        return DEFAULT_SCHOOL
    return School(DEFAULT_SCHOOL.id + (seed - 1) % 1_000_000, f"Made-up School {seed}", f"made-up-{seed}")


class Service:
    """The endpoints for the day being played. `day` may be set at any time, from any thread."""

    def __init__(self, institution: Institution, *, day: date, school: School) -> None:
        """Computes the day. Raises ArgumentError if the institution was not open yet."""
        self._institution, self._school = institution, school
        self._catalogue = Catalogue(institution.on(day))

    @property
    def day(self) -> date:
        """The day being played."""
        return self._catalogue.date

    @day.setter
    def day(self, day: date) -> None:
        # Computed first, then replaced atomically: a request sees one day or the other, never parts of both.
        self._catalogue = Catalogue(self._institution.on(day))

    async def auth(self, _request: Request) -> Response:
        """GET /svcapi/v1/auth."""
        school = self._school
        now = datetime.now(UTC).time().isoformat("seconds")
        data = {
            "authenticated": True,
            "school": {"id": school.id, "name": school.name, "key": school.key},
            "api_key_name": school.api_key_name,
            "timestamp": f"{self.day.isoformat()} {now}",
        }
        return _json(_encode({"success": True, "data": data, "message": "The API key is valid and active."}))

    async def students(self, request: Request) -> Response:
        """GET /svcapi/v1/students."""
        query = request.query_params
        wanted = StudentFilter(_integer(query, "class_id"), _integer(query, "course_id"), query.get("search"))
        return _json(self._catalogue.students(wanted, *_page_and_limit(query)))

    async def classes(self, request: Request) -> Response:
        """GET /svcapi/v1/classes."""
        query = request.query_params
        wanted = ClassFilter(
            status=_integer(query, "status", least=0, most=1),
            course_id=_integer(query, "course_id"),
            teacher_id=_integer(query, "teacher_id"),
            teacher_email=query.get("teacher_email"),
            search=query.get("search"),
        )
        return _json(self._catalogue.classes(wanted, *_page_and_limit(query)))

    async def student(self, request: Request) -> Response:
        """GET /svcapi/v1/student/<student_id>."""
        student_id = _integer(request.path_params, "student_id")
        body = None if student_id is None else self._catalogue.student(student_id)
        if body is None:
            return _error(404, "STUDENT_NOT_FOUND", "No student with this id is listed.")
        return _json(body)


def make_app(institution: Institution, *, day: date, api_key: str, school: School = DEFAULT_SCHOOL) -> Starlette:
    """Return the service as an ASGI application; its `state.service` is the Service, whose day can be set.

    Raises ArgumentError for an empty key or a day before the institution opened.
    """
    if not api_key:
        raise ArgumentError("The sandbox needs a key. Give it one that is not empty.")
    service = Service(institution, day=day, school=school)
    app = Starlette(
        routes=[
            Route(f"{_PREFIX}/auth", service.auth),
            Route(f"{_PREFIX}/students", service.students),
            Route(f"{_PREFIX}/classes", service.classes),
            Route(f"{_PREFIX}/student/{{student_id}}", service.student),
        ],
        middleware=[Middleware(_KeyCheck, api_key=api_key)],
        exception_handlers={HTTPException: _http_error, _BadValueError: _bad_value, Exception: _server_error},
    )
    app.router.redirect_slashes = False  # a trailing slash is another path; clients must not follow redirects
    app.state.service = service
    return app


class _KeyCheck:
    """Answers 401 to every request without the key, whatever its path."""

    def __init__(self, app: ASGIApp, api_key: str) -> None:
        self._app, self._key = app, api_key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._is_accepted(scope):
            refusal = _error(401, "AUTH_REQUIRED", "A valid API key is required in the X-API-Key header.")
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _is_accepted(self, scope: Scope) -> bool:
        given = [value for name, value in scope["headers"] if name == b"x-api-key"]
        return len(given) == 1 and compare_digest(given[0], self._key)


class _BadValueError(Exception):
    """A query parameter or path segment violates the contract."""


def _integer(values: Mapping[str, str], name: str, least: int | None = None, most: int | None = None) -> int | None:
    """Return the value as an integer within its bounds; None if missing. Raises _BadValueError."""
    text = values.get(name)
    if text is None:
        return None
    if not _INTEGER.fullmatch(text):
        raise _BadValueError(f"{name} must be an integer.")
    value = int(text)
    if (least is not None and value < least) or (most is not None and value > most):
        raise _BadValueError(f"{name} must be at least {least}" + ("." if most is None else f" and at most {most}."))
    return value


def _page_and_limit(query: Mapping[str, str]) -> tuple[int, int]:
    page = _integer(query, "page", least=1)
    limit = _integer(query, "limit", least=1, most=_MOST_LIMIT)
    return 1 if page is None else page, _DEFAULT_LIMIT if limit is None else limit


def _json(body: bytes, status: int = 200) -> Response:
    return Response(body, status, media_type="application/json")


def _error(status: int, code: str, message: str) -> Response:
    """Return the contract's error body."""
    return _json(_encode({"error": True, "message": message, "status_code": status, "error_code": code}), status)


async def _bad_value(_request: Request, error: Exception) -> Response:
    return _error(400, "INVALID_PARAMETER", str(error))


async def _http_error(_request: Request, error: Exception) -> Response:
    """Handle what the router refuses: an unknown path, a wrong method."""
    if not isinstance(error, HTTPException):
        raise error
    response = _error(error.status_code, _CODES.get(error.status_code, "HTTP_ERROR"), error.detail)
    response.headers.update(error.headers or {})
    return response


async def _server_error(_request: Request, _error_raised: Exception) -> Response:
    return _error(500, "SERVER_ERROR", "The service could not answer.")
