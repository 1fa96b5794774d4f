"""What Rollbook uses of Dagster that has no public name, in one place. Only this module imports from `dagster._...`.

Checked against the version in CHECKED_AGAINST; a test fails when another is installed. Then look at each name here:
whether it still is what its users take it for, and whether there is a public one by now.
"""

from dagster._core.execution.plan.objects import StepFailureData
from dagster._core.remote_origin import ManagedGrpcPythonEnvCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin
from dagster._core.storage.dagster_run import FINISHED_STATUSES
from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import WorkspaceFileTarget
from dagster._utils.interrupts import setup_interrupt_handlers

CHECKED_AGAINST = "1.13.27"
# What the command `dagster-daemon` runs: `python -m dagster._daemon`.
DAEMON_MODULE = "dagster._daemon"


def job_origin(module: str, location: str, job: str) -> RemoteJobOrigin:
    """Where the UI finds a job: in a code location that loads this module."""
    code = ManagedGrpcPythonEnvCodeLocationOrigin(LoadableTargetOrigin(module_name=module), location)
    return RemoteJobOrigin(RemoteRepositoryOrigin(code, "__repository__"), job)


__all__ = [
    "CHECKED_AGAINST",
    "DAEMON_MODULE",
    "FINISHED_STATUSES",
    "SqliteEventLogStorage",
    "StepFailureData",
    "WorkspaceFileTarget",
    "WorkspaceProcessContext",
    "job_origin",
    "setup_interrupt_handlers",
]
