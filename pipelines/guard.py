"""Serves Dagster's UI behind the guard of `door`: the UI has no login, and checks neither `Host` nor `Origin`.

`python -m pipelines.guard HOST PORT [NAME ...]` is how `rollbook serve` starts it. The names imported from
`dagster_webserver` are not public; they were checked against 1.13.27, the version that pyproject.toml pins.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import uvicorn
from dagster import DagsterInstance, __version__
from dagster_webserver.app import create_app_from_workspace_process_context
from dagster_webserver.cli import (
    DEFAULT_DB_STATEMENT_TIMEOUT,
    DEFAULT_POOL_MAX_OVERFLOW,
    DEFAULT_POOL_RECYCLE,
)
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from pipelines import files, report, settings
from pipelines.dagster_internals import WorkspaceFileTarget, WorkspaceProcessContext, setup_interrupt_handlers
from pipelines.door import Guard, allowed_hosts
from pipelines.errors import RollbookError
from pipelines.institutions import Registry
from pipelines.settings import ROOT

# The morning page may run its own script, but has no access to the UI served on the same origin.
REPORT_HEADERS = {"Content-Security-Policy": "sandbox allow-scripts"}
LIST_HEADERS = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
LIST_OF_PAGES = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Rollbook: morning pages</title>
<style>body {{ font: 16px/1.5 system-ui, sans-serif; margin: 2rem }} td {{ padding: 0 2rem 0 0 }}</style>
<h1>Morning pages</h1>
<p>{together}</p>
<table>
{rows}
</table>
</html>
"""
# Any account of this machine can ask the UI, unlogged: names stay in the file, whose mode says who may read it.
_NAMES = re.compile("<!-- names -->.*<!-- end of names -->", re.DOTALL)
_NO_NAMES = f'<p class="quiet">Names are only in the file {report.FILE} of the warehouse, not in the browser.</p>'
POLL_MS = 2000  # how often the UI polls for changes; Dagster's own default


def report_page(request: Request) -> Response:
    """Return the current morning page of a single school or one institution, or the list of all morning pages."""
    try:
        registry = settings.registry()
        name = request.path_params.get("name", "")
        if registry is None:
            return _page(settings.place().warehouse_path / report.FILE, "rollbook sync")
        if not name:
            return HTMLResponse(_list_of_pages(registry), headers=LIST_HEADERS)
        if name in registry.institutions:  # no other name becomes part of a path
            page = settings.place(name).warehouse_path / report.FILE
            return _page(page, f"rollbook --institution {name} sync", links=_links(here="../"))
    except RollbookError as error:
        return PlainTextResponse(f"{error.message}\n", 404)
    return PlainTextResponse("The registry has no such institution.\n", 404)


def fleet_page(request: Request) -> Response:  # noqa: ARG001 - the same page for every request
    """Return the page about all institutions that `rollbook fleet report` wrote last."""
    try:
        page = _fleet_file() if settings.registry() is not None else None
    except RollbookError as error:
        return PlainTextResponse(f"{error.message}\n", 404)
    if page is None:
        return PlainTextResponse("There is no registry of institutions, so there is no page about all of them.\n", 404)
    links = f'<a href="{report.FILE}">Morning pages</a>'
    return _page(page, "rollbook fleet report", title="page about all institutions", links=links)


def _page(page: Path, command: str, *, title: str = "morning page", links: str = "") -> Response:
    """Return a page that a command wrote, without names, and with links to other pages above it."""
    try:
        text = page.read_text(encoding="utf-8")
    except (FileNotFoundError, IsADirectoryError):
        return PlainTextResponse(f"There is no {title} yet: run `{command}`, which writes it.\n", 404)
    text = _NAMES.sub(_NO_NAMES, text)
    if links:
        text = text.replace("<body>", f'<body>\n<nav class="quiet">{links}</nav>', 1)
    return HTMLResponse(text, headers=REPORT_HEADERS)


def _links(here: str = "") -> str:
    """Return links to the list of morning pages and, once it is written, to the page about all institutions."""
    listed = [f'<a href="{here}{report.FILE}">Morning pages</a>'] if here else []
    page = _fleet_file()
    if page.is_file():
        listed.append(f'<a href="{here}{page.name}">All institutions</a>')
    return " \u00b7 ".join(listed)


def _fleet_file() -> Path:
    from pipelines.fleet import report as fleet_report  # a single school needs none of it

    return settings.common_path() / fleet_report.FILE


def _list_of_pages(registry: Registry) -> str:
    """Return the list of institutions, with each morning page and when it was written. Names hold no markup."""
    common, rows = settings.common_path(), []
    for name in registry.institutions:
        page = common / name / report.FILE
        written = (
            f"{datetime.fromtimestamp(page.stat().st_mtime, UTC):%Y-%m-%d %H:%M} UTC" if page.is_file() else "none"
        )
        shown = f'<a href="report/{name}.html">{name}</a>' if page.is_file() else name
        rows.append(f"<tr><td>{shown}</td><td>{written}</td></tr>")
    together = _links() or "<code>rollbook fleet report</code> writes a page about all institutions."
    return LIST_OF_PAGES.format(rows="\n".join(rows), together=together)


def serve(host: str, port: int, names: Iterable[str] = ()) -> None:
    """Serve Dagster's UI behind the guard until SIGTERM or Ctrl-C. DAGSTER_HOME must be set."""
    files.keep_private(os.environ.get("DAGSTER_HOME"))
    setup_interrupt_handlers()
    with DagsterInstance.get() as instance:
        instance.optimize_for_webserver(DEFAULT_DB_STATEMENT_TIMEOUT, DEFAULT_POOL_RECYCLE, DEFAULT_POOL_MAX_OVERFLOW)
        workspace = WorkspaceFileTarget([str(ROOT / "workspace.yaml")])
        with WorkspaceProcessContext(instance, workspace, version=__version__) as context:
            app = create_app_from_workspace_process_context(context, live_data_poll_rate=POLL_MS)
            # First, since Dagster's last route takes every path.
            app.routes.insert(0, Route(f"/{report.FILE}", report_page))
            app.routes.insert(0, Route("/report/{name}.html", report_page))
            app.routes.insert(0, Route("/fleet-report.html", fleet_page))
            uvicorn.run(Guard(app, allowed_hosts(host, port, names)), host=host, port=port, log_level="warning")


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
