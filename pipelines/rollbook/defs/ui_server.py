"""Serves Dagster's UI behind `util.request_guard`: the UI has no login, and checks neither `Host` nor `Origin`.

`python -m rollbook.defs.ui_server HOST PORT WORKSPACE [NAME ...]` is how `rollbook serve` starts it. It also has the
code loaded again when other days are partitions.

The names imported from `dagster_webserver` and `dagster._core` are not public; they were checked against 1.13.0 and
1.13.27. Dagster has no public way to put a guard in front of its UI inside the same process: a login of Dagster's own,
or a reverse proxy that everybody must install, would replace them.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from threading import Thread

import uvicorn
from dagster import DagsterInstance, DagsterRunStatus, PartitionsDefinition, RunsFilter, __version__
from dagster._core.execution.backfill import BulkActionsFilter, BulkActionStatus
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import WorkspaceFileTarget
from dagster_webserver.app import create_app_from_workspace_process_context
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from rollbook import settings
from rollbook.defs import partitions
from rollbook.defs.launches import Launches, RunCoordinator
from rollbook.defs.runs import UNDER_WAY
from rollbook.defs.school import School
from rollbook.errors import RollbookError
from rollbook.institutions import Registry
from rollbook.outputs import report
from rollbook.util import files
from rollbook.util.request_guard import LIMITS, Guard, allowed_hosts

log = logging.getLogger(__name__)

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
LOCATION = "rollbook"
RELOAD_EVERY = 30.0  # seconds between two looks at the days
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


def keep_days_current(context: WorkspaceProcessContext, school: School, loaded: PartitionsDefinition[str]) -> None:
    """Have the code loaded again after a day was missed, landed late or discarded; it has the days `loaded` now.

    Not while a run or a backfill is under way or waits: a backfill ends in error once its days have changed.
    """
    while True:
        time.sleep(RELOAD_EVERY)
        try:
            days = partitions.days(school, partitions.sources(school))
            if days != loaded and not is_busy(context.instance):
                context.reload_code_location(LOCATION)
                loaded = days
        except Exception as error:  # noqa: BLE001 - the UI goes on with the days that it has
            log.warning("The code could not be loaded again (%s)", type(error).__name__)


def is_busy(instance: DagsterInstance) -> bool:
    """Whether a run or a backfill is under way or waits."""
    backfills = BulkActionsFilter(statuses=[BulkActionStatus.REQUESTED, BulkActionStatus.CANCELING])
    waiting = RunsFilter(statuses=[DagsterRunStatus.QUEUED, DagsterRunStatus.NOT_STARTED, *UNDER_WAY])
    return bool(instance.get_backfills(backfills, limit=1) or instance.get_runs(waiting, limit=1))


def serve(host: str, port: int, workspace: str, names: Iterable[str] = ()) -> None:
    """Serve Dagster's UI behind the guard until SIGTERM or Ctrl-C. DAGSTER_HOME must be set."""
    files.keep_private(os.environ.get("DAGSTER_HOME"))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the code server is stopped, too
    with DagsterInstance.get() as instance:
        school = School()
        days = partitions.days(school, partitions.sources(school))
        with WorkspaceProcessContext(instance, WorkspaceFileTarget([workspace]), version=__version__) as context:
            Thread(target=keep_days_current, args=(context, school, days), daemon=True).start()
            app = create_app_from_workspace_process_context(context, live_data_poll_rate=POLL_MS)
            # First, since Dagster's last route takes every path.
            app.routes.insert(0, Route(f"/{report.FILE}", report_page))
            app.routes.insert(0, Route("/report/{name}.html", report_page))
            app.routes.insert(0, Route(f"/{FLEET_FILE}", fleet_page))
            accounts, RunCoordinator.is_guarded = settings.account_names(), True
            guarded = Guard(Launches(app), allowed_hosts(host, port, names), accounts=accounts)
            uvicorn.run(guarded, host=host, port=port, log_level="warning", **LIMITS)


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4:])
