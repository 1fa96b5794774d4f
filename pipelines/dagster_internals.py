"""What Rollbook uses of Dagster that has no public name, in one place. Only this module imports from `dagster._...`.

Checked against the version in CHECKED_AGAINST; a test fails when another is installed. Then look at each name here:
whether it still is what its users take it for, and whether there is a public one by now.
"""

from dagster._core.execution.plan.objects import StepFailureData
from dagster._core.storage.dagster_run import FINISHED_STATUSES
from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import WorkspaceFileTarget
from dagster._utils.interrupts import setup_interrupt_handlers

CHECKED_AGAINST = "1.13.27"
# What the command `dagster-daemon` runs: `python -m dagster._daemon`.
DAEMON_MODULE = "dagster._daemon"

__all__ = [
    "CHECKED_AGAINST",
    "DAEMON_MODULE",
    "FINISHED_STATUSES",
    "SqliteEventLogStorage",
    "StepFailureData",
    "WorkspaceFileTarget",
    "WorkspaceProcessContext",
    "setup_interrupt_handlers",
]
