"""Serves Dagster's UI behind `util.request_guard`: the UI has no login, and checks neither `Host` nor `Origin`.

`python -m rollbook.defs.ui_server HOST PORT [NAME ...]` is how `rollbook serve` starts it. The names imported from
`dagster_webserver` and `dagster._core` are not public; they were checked against 1.13.0 and 1.13.27.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterable
from pathlib import Path

import uvicorn
from dagster import DagsterInstance, __version__
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import WorkspaceFileTarget
from dagster_webserver.app import create_app_from_workspace_process_context
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from rollbook import settings
from rollbook.defs.launches import Launches, RunCoordinator
from rollbook.errors import RollbookError
from rollbook.institutions import Registry
from rollbook.outputs import report
from rollbook.util import files
from rollbook.util.request_guard import LIMITS, Guard, allowed_hosts

# The morning page may run its own script, but has no access to the UI served on the same origin.
REPORT_HEADERS = {"Content-Security-Policy": "sandbox allow-scripts"}
LIST_HEADERS = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
LIST_OF_PAGES = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Rollbook: morning pages</title>
<style>body {{ font: 16px/1.5 system-ui, sans-serif; margin: 2rem }}</style>
<h1>Morning pages</h1>
<p>{together}</p>
<ul>
{rows}
</ul>
</html>
"""
# The UI has no login, and not every system says whose a connection is: names stay in the file, whose mode says who may
# read it.
_NAMES = re.compile("<!-- names -->.*<!-- end of names -->", re.DOTALL)
_NO_NAMES = f'<p class="quiet">Names are only in the file {report.FILE} of the warehouse, not in the browser.</p>'
FLEET_FILE = "fleet-report.html"  # of `fleet.report`, of which a single school needs nothing
WORKSPACE = Path(__file__).with_name("workspace.yaml")
POLL_MS = 2000  # how often the UI polls for changes; Dagster's own default


def report_page(request: Request) -> Response:
    """Return the morning page of a single school or one institution, or the list of all institutions' pages."""
    name = request.path_params.get("name", "")
    try:
        registry = settings.registry()
        if registry is not None and not name:
            return HTMLResponse(_list_of_pages(registry), headers=LIST_HEADERS)
        if registry is None or name in registry.institutions:  # no other name becomes part of a path
            place = settings.place(name or None)
            return _page(place.warehouse_path / report.FILE, "morning page", place.command("sync"))
    except RollbookError as error:
        return PlainTextResponse(f"{error.message}\n", 404)
    return PlainTextResponse("The registry has no such institution.\n", 404)


def fleet_page(_request: Request) -> Response:
    """Return the page about all institutions."""
    return _page(settings.common_path() / FLEET_FILE, "page about all institutions", "rollbook fleet report")


def _page(page: Path, title: str, command: str) -> Response:
    """Return a page that a command wrote, without names."""
    try:
        text = page.read_text(encoding="utf-8")
    except (FileNotFoundError, IsADirectoryError):
        return PlainTextResponse(f"There is no {title} yet: run `{command}`, which writes it.\n", 404)
    return HTMLResponse(_NAMES.sub(_NO_NAMES, text), headers=REPORT_HEADERS)


def _list_of_pages(registry: Registry) -> str:
    """Return links to the institutions' morning pages, and to the page about all. Names hold no markup."""
    common, pages = settings.common_path(), {name: f"report/{name}.html" for name in registry.institutions}
    there = [name for name in pages if (common / name / report.FILE).is_file()]
    together = (
        f'<a href="{FLEET_FILE}">All institutions</a>'
        if (common / FLEET_FILE).is_file()
        else "<code>rollbook fleet report</code> writes a page about all institutions."
    )
    rows = [f'<li><a href="{pages[name]}">{name}</a></li>' if name in there else f"<li>{name}</li>" for name in pages]
    return LIST_OF_PAGES.format(rows="\n".join(rows), together=together)


def serve(host: str, port: int, names: Iterable[str] = ()) -> None:
    """Serve Dagster's UI behind the guard until SIGTERM or Ctrl-C. DAGSTER_HOME must be set."""
    files.keep_private(os.environ.get("DAGSTER_HOME"))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the code server is stopped, too
    with DagsterInstance.get() as instance:
        workspace = WorkspaceFileTarget([str(WORKSPACE)])
        with WorkspaceProcessContext(instance, workspace, version=__version__) as context:
            app = create_app_from_workspace_process_context(context, live_data_poll_rate=POLL_MS)
            # First, since Dagster's last route takes every path.
            app.routes.insert(0, Route(f"/{report.FILE}", report_page))
            app.routes.insert(0, Route("/report/{name}.html", report_page))
            app.routes.insert(0, Route(f"/{FLEET_FILE}", fleet_page))
            accounts, RunCoordinator.is_guarded = settings.account_names(), True
            guarded = Guard(Launches(app), allowed_hosts(host, port, names), accounts=accounts)
            uvicorn.run(guarded, host=host, port=port, log_level="warning", **LIMITS)


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
