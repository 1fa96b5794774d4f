"""Serves Dagster's UI behind `util.request_guard`: the UI itself has no login, and checks neither `Host` nor `Origin`.

`python -m rollbook.defs.ui_server HOST PORT WORKSPACE [NAME ...]` is how `rollbook serve` starts it. It also has the
code loaded again when other days are partitions.

The names imported from `dagster_webserver` and `dagster._core` are not public; they were checked against 1.13.0 and
1.13.27. Dagster has no public way to put a guard in front of its UI inside the same process: a login of Dagster's own,
or a reverse proxy that everybody must install, would replace them.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from itertools import chain
from pathlib import Path
from threading import Thread

import uvicorn
from dagster import DagsterInstance, DagsterRunStatus, PartitionsDefinition, RunsFilter, __version__
from dagster._core.execution.backfill import BulkActionsFilter, BulkActionStatus
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import WorkspaceFileTarget
from dagster_webserver.app import create_app_from_workspace_process_context

from rollbook.defs import partitions
from rollbook.defs.resources import School
from rollbook.defs.runs import UNDER_WAY
from rollbook.feature import present
from rollbook.util import address, files
from rollbook.util.request_guard import LIMITS, Guard

log = logging.getLogger(__name__)

LOCATION = "rollbook"
APP = "ui"
RELOAD_EVERY = 30.0  # seconds between two looks at the days
POLL_MS = 2000  # how often the UI polls for changes; Dagster's own default


def keep_days_current(context: WorkspaceProcessContext, school: School, loaded: PartitionsDefinition[str]) -> None:
    """Have the code loaded again after a day was missed, landed late or discarded; it has the days `loaded` now.

    Not while a run or a backfill is under way or waits: a backfill ends in error once its days have changed.
    """
    while True:
        time.sleep(RELOAD_EVERY)
        try:
            days = partitions.days(school)
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
    """Serve Dagster's UI behind the guard until SIGTERM or Ctrl-C. DAGSTER_HOME must be set.

    `names` are host names by which browsers reach the UI besides its own.
    """
    files.keep_private(os.environ.get("DAGSTER_HOME"))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the code server is stopped, too
    with DagsterInstance.get() as instance:
        school = School()
        days = partitions.days(school)
        with WorkspaceProcessContext(instance, WorkspaceFileTarget([workspace]), version=__version__) as context:
            Thread(target=keep_days_current, args=(context, school, days), daemon=True).start()
            app = create_app_from_workspace_process_context(context, live_data_poll_rate=POLL_MS)
            app.routes[:0] = chain.from_iterable(
                each.routes() for each in present()
            )  # first, since Dagster's last route takes every path
            with ExitStack() as stack:
                opened = [stack.enter_context(address.listen(each, port)) for each in address.listened(host)]
                kept = stack.enter_context(address.serving(Path(os.environ["DAGSTER_HOME"]), APP, port, host))
                guarded = Guard(app, kept.read, port, names)
                stack.enter_context(suppress(KeyboardInterrupt))
                uvicorn.Server(uvicorn.Config(guarded, log_level="warning", **LIMITS)).run(sockets=opened)


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4:])
