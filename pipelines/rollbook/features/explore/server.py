"""Serves the pages: behind the guard of `util.request_guard`, which asks for the token, or behind the door of `login`.

With the guard it listens on loopback only: the pages name pupils, all of them. Behind the door everybody sees what
`readers.csv` says. No other site's request carries the browser's cookie, except when a link is followed, which neither
downloads a list nor shows a value. One form writes: who was spoken to (`contacted.csv`).
"""

from __future__ import annotations

import asyncio
import logging
import re
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import date
from functools import cache, partial
from hashlib import sha256
from importlib.resources import files
from socket import socket
from typing import Any
from urllib.parse import quote, urlencode

import duckdb
import uvicorn
from jinja2 import Environment, pass_context
from jinja2.runtime import Context
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.convertors import Convertor, register_url_convertor
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route, Router
from starlette.types import Lifespan

from rollbook.errors import ArgumentError, MachineError, RollbookError
from rollbook.feature import present
from rollbook.features.explore import pages
from rollbook.features.explore.book import (
    COUNTED,
    IS_ID,
    ROWS,
    Book,
    DistrictBook,
    NobodyError,
    ScopedBook,
    book_of,
    is_figure,
    new_book,
    nights,
)
from rollbook.features.explore.login import LOGIN, Door, Proxy
from rollbook.features.explore.readers import Readers
from rollbook.reading import charts
from rollbook.settings import is_of_all
from rollbook.util import pages as shared
from rollbook.util.address import Address, Kept
from rollbook.util.request_guard import LIMITS, PRIVATE, Guard
from rollbook.util.text import cell as text_of
from rollbook.util.text import figure, printable

OPENED_WITHIN = 20  # seconds, a night after its publish
STOP_WITHIN = 3  # seconds, for open pages
MAX_SENT = 4_000  # bytes of a form
# The only script of the pages: `/` leads to the search. The policy names it by its digest, so no other script runs.
SCRIPT = files(__package__).joinpath("search.js").read_text(encoding="utf-8")
SCRIPT_DIGEST = b64encode(sha256(SCRIPT.encode()).digest()).decode()
# As in the pages themselves, where a policy cannot say who may frame them and where forms lead.
POLICY = {
    "Content-Security-Policy": f"default-src 'none'; script-src 'sha256-{SCRIPT_DIGEST}'; style-src 'unsafe-inline';"
    " img-src data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
}

log = logging.getLogger(__name__)

COMMAND = "rollbook open explore"
WRONG_HOST = f"This is `rollbook explore`, and it does not answer under this host name: `{COMMAND}` opens it.\n"
FOREIGN = "Another web site sent this request; only the pages of `rollbook explore` may.\n"

# Changes of a student that are measured or dated, as `student_timeline` says them.
MEASURED = re.compile("(completion|score|minutes of learning) ")
DATED = re.compile("(last activity|first login|registration) ")
DECIMAL = re.compile(r"\d+(\.\d+)?")

Page = Callable[..., dict[str, Any]]
# The pages by their addresses: of a school, and of all institutions. Those with a name are in the menu.
OF_ONE: dict[str, tuple[Page, str]] = {
    "/": (pages.school, "School today"),
    "/watch": (pages.watch, "To watch"),
    "/classes": (pages.classes, "Classes"),
    "/teachers": (pages.teachers, "Teachers"),
    "/teacher/{key:id}": (pages.teacher, ""),
    "/course/{key:id}": (pages.course, ""),
    "/search": (pages.search, ""),
    "/class/{key:id}": (pages.school_class, ""),
    "/students": (pages.students, "Students"),
    "/student/{key:id}": (pages.student, ""),
    "/by": (pages.by, ""),
    "/compare": (pages.compare, "Two dates"),
    "/tables": (pages.tables, "Any table"),
    "/table/{name}": (pages.table, ""),
    "/why": (pages.why, ""),
}
# The first page of a reader with a scope.
MINE = "My morning"
OF_ALL: dict[str, tuple[Page, str]] = {
    "/": (pages.institutions, "All institutions"),
    "/tables": (pages.tables, "Any table"),
    "/table/{name}": (pages.table, ""),
}


class _Id(Convertor[int]):
    """An id in an address."""

    regex = IS_ID

    def convert(self, value: str) -> int:
        return int(value)

    def to_string(self, value: int) -> str:
        return str(value)


register_url_convertor("id", _Id())


def serve(opened: Sequence[socket], kept: Kept) -> None:
    """Serve the app at the `opened` sockets of a port until SIGTERM or Ctrl-C, for requests with the `kept` token."""
    door = Guard(app(), kept.read, kept.port, command=COMMAND, wrong_host=WRONG_HOST, foreign=FOREIGN)
    _run(served(door), opened)


def serve_readers(opened: Sequence[socket], readers: Readers, proxy: Proxy, address: Callable[[], Address]) -> None:
    """Serve the app at the `opened` sockets until SIGTERM or Ctrl-C, for those whom the proxy names."""
    _run(served(Door(app(readers), proxy, address), _looking_after(readers)), opened)


def served(door: Guard, lifespan: Lifespan[Router] | None = None) -> Router:
    """What is behind the door, and what other features serve: that asks for a token of its own, and knows no login."""
    others = [route for each in present() for route in each.explored()]
    return Router(others, redirect_slashes=False, default=door, lifespan=lifespan)


def _run(served: Router, opened: Sequence[socket]) -> None:
    config = uvicorn.Config(served, log_level="error", timeout_graceful_shutdown=STOP_WITHIN, **LIMITS)
    uvicorn.Server(config).run(sockets=[*opened])


def app(readers: Readers | None = None) -> Starlette:
    """The pages, for requests that the guard lets in; with `readers`, each for who signed in."""
    shown = OF_ALL if is_of_all() else OF_ONE
    menu = {path: name for path, (_, name) in shown.items() if name}

    def book_for(request: Request) -> Book:
        # Without a sign-in behind a door, this fails: nobody is shown everything by mistake.
        return new_book() if readers is None else book_of(readers, request.scope[LOGIN])

    def view(page: Page, request: Request) -> Response:
        site = request.headers.get("sec-fetch-site", "none")
        # Downloads, and names that are hidden at first, need a request of our own pages or of a person.
        is_guarded = "csv" in request.query_params or request.query_params.get("show") == "on"
        if is_guarded and site not in ("same-origin", "none"):
            return PlainTextResponse(FOREIGN, 403)
        try:
            return _shown(book_for(request), page, request, menu)
        except (RollbookError, duckdb.Error, NobodyError) as found:
            return _trouble(found, request, menu)

    async def write(request: Request) -> Response:
        sent = await _sent(request)

        def written() -> Response:
            try:
                return _written(book_for(request), request, sent)
            except (RollbookError, duckdb.Error, NobodyError) as found:
                return _trouble(found, request, menu)

        return await run_in_threadpool(written)

    def nowhere(request: Request, _: Exception) -> Response:
        return _trouble(ArgumentError("This address leads to no page: choose one from the menu"), request, menu)

    routes = [Route(path, partial(view, page)) for path, (page, _) in shown.items()]
    # The only one that writes. The guard lets in the app's own pages alone, and another site's request has no cookie.
    own = [] if is_of_all() else [Route("/student/{key:id}/contacted", write, methods=["POST"])]
    return Starlette(routes=[*routes, *own], exception_handlers={404: nowhere})


def _looking_after(readers: Readers) -> Lifespan[Router]:
    """Open each night as soon as it is published, so that no reader waits for that; and close the one before: after an
    erasure, the memory must not hold the student.
    """
    newest = ScopedBook(readers.path.parent, "", frozenset())

    def open_newest() -> None:
        # A reader is told what is wrong.
        with suppress(RollbookError, duckdb.Error, OSError), newest.night():
            pass

    async def look() -> None:
        while True:
            await run_in_threadpool(open_newest)
            await asyncio.sleep(OPENED_WITHIN)

    @asynccontextmanager
    async def looking_after(_: Router) -> AsyncIterator[None]:
        looking = asyncio.create_task(look())
        try:
            yield
        finally:
            looking.cancel()
            nights.close()

    return looking_after


async def _sent(request: Request) -> bytes:
    """A form's content, as far as a form of ours goes."""
    sent = b""
    async for part in request.stream():
        sent += part
        if len(sent) > MAX_SENT:
            break
    return sent[:MAX_SENT]


def _written(book: Book, request: Request, sent: bytes) -> Response:
    """Note what a student's form says, and lead back to the page of the form."""
    with book.open():
        address = pages.note_contact(book, QueryParams(sent), **request.path_params)
    return RedirectResponse(address, 303, headers=PRIVATE)


def _trouble(found: Exception, request: Request, menu: dict[str, str]) -> Response:
    """The page that says what is wrong with an address, or with the machine; or that somebody sees nobody."""
    common = _common(request, menu)
    if isinstance(found, NobodyError):
        return _render("nobody", 403, title="Nobody to see", login=request.scope[LOGIN], path=common["path"], asked={})
    # DuckDB's own words may repeat a value.
    error = found if isinstance(found, RollbookError) else ArgumentError("This cannot be compared or sorted so")
    status = 404 if isinstance(error, ArgumentError) else 503
    if status == 503 and LOGIN in request.scope:  # with folders of the machine, or what a line of readers.csv says
        log.error("%s", error.message)
        error = MachineError("This cannot be shown at the moment. Tell the person who runs Rollbook at your school")
    title = "Not found" if status == 404 else "Trouble"
    return _render("trouble", status, title=title, error=error, **common)


def _common(request: Request, menu: dict[str, str]) -> dict[str, Any]:
    """What every page with the menu is given."""
    return {"menu": menu, "path": request.url.path, "asked": request.query_params}


def _shown(book: Book, page: Page, request: Request, menu: dict[str, str]) -> Response:
    """A page, or its list as CSV, with its line in the access log."""
    with book.open():
        if not book.is_whole:
            page, menu = (pages.mine if page is pages.school else page), menu | {"/": MINE}
        values = page(book, request.query_params, **request.path_params)
        what = values.get("what", page.__name__)
        if "csv" in request.query_params and "listing" in values:
            content = book.csv(values["listing"], what)
            name = quote(f"{values['title']}.csv")
            headers = PRIVATE | {"Content-Disposition": f"attachment; filename*=UTF-8''{name}"}
            return StreamingResponse(iter(partial(content.read, 2**20), b""), media_type="text/csv", headers=headers)
        book.note("explore", what, book.students)
        return _render(
            values.pop("template", page.__name__),
            **_common(request, menu),
            **values,
            link=partial(_address, request),
            school=book.school,
            day_shown=book.days[0],
            contacts_wrong=book.contacts_wrong,
            is_whole=book.is_whole,
            login=book.login,
            is_of_all=isinstance(book, DistrictBook),
        )


def _render(template: str, status: int = 200, **values: Any) -> HTMLResponse:
    return HTMLResponse(
        _environment().get_template(f"{template}.html").render(values), status, headers=PRIVATE | POLICY
    )


@cache
def _environment() -> Environment:
    templates = shared.environment("rollbook.features.explore", stored=stored, day=charts.long_date, hours=hours)
    templates.filters.update(severity=charts.severity_word, sparkline=charts.sparkline, sees=sees)
    templates.filters["as_sent"] = pages.as_sent
    templates.filters |= {each.__name__: _of_page(each) for each in (cell, known_by, words, sentence)}
    templates.globals |= {"script": SCRIPT, "script_digest": SCRIPT_DIGEST}
    templates.globals |= {"rows_per_page": ROWS, "most_counted": COUNTED, "rows_of": rows_of, "is_id": is_id}
    templates.tests["day"] = lambda value: isinstance(value, date)
    return templates


def _of_page(shown: Callable[[Any, date], str]) -> Callable[[Context, Any], str]:
    """A filter that shows a value on a page of records up to a day."""

    @pass_context
    def of_page(context: Context, value: Any) -> str:
        return shown(value, context["day_shown"])

    return of_page


def cell(value: Any, newest: date) -> str:
    """A value for people: a dash if unknown, measures with one decimal, days as in a chart."""
    if is_figure(value):
        return figure(value)
    return charts.day_on(value, newest) if type(value) is date else stored(value)


def stored(value: object) -> str:
    """A value of a table as it is stored: measures with two decimals at most, ISO dates, by which rows are filtered."""
    if value is None:
        return "\N{EN DASH}"
    if is_figure(value):
        return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}".removesuffix("0")
    return printable(text_of(value))


def words(reason: object, newest: date) -> str:
    """A reason, or a change of a day, with days and measures as on the rest of the page."""
    return charts.readable(cell(reason, newest), partial(charts.day_on, newest=newest))


def hours(minutes: float | None) -> str:
    """Minutes as hours: `46.8 hours`."""
    return figure(None if minutes is None else minutes / 60, "\N{NO-BREAK SPACE}hours")


def sees(what: str) -> str:
    """What a reader may see, in words."""
    return {"all": "everybody", "teacher": "the classes that you teach"}.get(what, what.replace("=", " "))


def known_by(day: date | None, newest: date) -> str:
    """A day of something that has happened by the newest day, or else cannot be right."""
    return f"{cell(day, newest)} (in the future)" if day and day > newest else cell(day, newest)


def sentence(changes: Sequence[str], newest: date) -> str:
    """The changes of a day, in one sentence: `joined Art 1A and Latin 2B; score 39.0 to 42.2`."""
    told = [_readable(change, newest) for change in changes]
    for verb in ("joined ", "left "):
        of = [change for change in told if change.startswith(verb)]
        if len(of) > 1:
            titles = [change.removeprefix(verb) for change in of]
            told[told.index(of[0])] = f"{verb}{', '.join(titles[:-1])} and {titles[-1]}"
            told = [change for change in told if change not in of]
    return "; ".join(told)


def _readable(change: str, newest: date) -> str:
    """A change as the rest of the page is written, where it is of a measure or a day: a title may have numbers, too."""
    if DATED.match(change):
        return charts.with_days(change, partial(charts.day_on, newest=newest))
    if MEASURED.match(change):
        return DECIMAL.sub(lambda value: figure(float(value[0])), change)
    return change


def is_id(column: str, columns: Sequence[str]) -> bool:
    """Whether a list's column is the id of the thing that another column names, as `teacher id` is of `teacher`."""
    return column.removesuffix(" id") in columns and column.endswith(" id")


def rows_of(table: str, *filters: tuple[str, str, object], **more: object) -> str:
    """The address of a table's rows that match all filters: column, comparison and value."""
    query = [pair for each in filters for pair in zip(("column", "comparison", "value"), each, strict=True)]
    return f"/table/{table}?{urlencode([*query, *more.items()])}"


def _address(request: Request, **changed: object) -> str:
    """The query of this page's address with other values; None removes one."""
    unchanged = [(name, value) for name, value in request.query_params.multi_items() if name not in changed]
    query = [*unchanged, *((name, value) for name, value in changed.items() if value is not None)]
    return f"?{urlencode(query)}" if query else "?"
