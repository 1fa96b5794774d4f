"""Serves Dagster's UI behind the guard of `door`: it asks for no password, and checks neither `Host` nor `Origin`.

`python -m pipelines.guard HOST PORT [NAME ...]` serves the UI behind the guard, as `rollbook serve` does. The names
imported from Dagster below are not public; they were checked against 1.13.27, the version that pyproject.toml pins.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

import uvicorn
from dagster import DagsterInstance, __version__
from dagster_webserver.app import create_app_from_workspace_process_context
from dagster_webserver.cli import (
    DEFAULT_DB_STATEMENT_TIMEOUT,
    DEFAULT_POOL_MAX_OVERFLOW,
    DEFAULT_POOL_RECYCLE,
)
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route

from pipelines import files, report
from pipelines.dagster_internals import WorkspaceFileTarget, WorkspaceProcessContext, setup_interrupt_handlers
from pipelines.door import Guard, allowed_hosts
from pipelines.settings import ROOT, place

# The morning page may run its own script, and is a stranger to the UI beside which it is served.
REPORT_HEADERS = {"Content-Security-Policy": "sandbox allow-scripts"}
POLL_MS = 2000  # how often the UI polls for changes; Dagster's own default


def report_page(_: Request) -> Response:
    """The morning page as it is now."""
    page = place().warehouse_path / report.FILE
    if not page.is_file():
        return PlainTextResponse("There is no morning page yet: run `rollbook sync`, which writes it.\n", 404)
    return FileResponse(page, headers=REPORT_HEADERS)


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
            uvicorn.run(Guard(app, allowed_hosts(host, port, names)), host=host, port=port, log_level="warning")


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
