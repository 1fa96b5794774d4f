"""The private names of Dagster that Rollbook uses. Only this module imports from `dagster._...`.

Checked against 1.13.27, the version that pyproject.toml pins. With another one, check that each name here still
behaves as its callers expect, and whether Dagster now has a public one.
"""

from dagster._core.remote_origin import ManagedGrpcPythonEnvCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import WorkspaceFileTarget

# The module behind the command `dagster-daemon`: `python -m dagster._daemon`.
DAEMON_MODULE = "dagster._daemon"


def job_origin(module: str, location: str, job: str) -> RemoteJobOrigin:
    """Return the origin by which the UI finds a job in the code location that loads this module."""
    code = ManagedGrpcPythonEnvCodeLocationOrigin(LoadableTargetOrigin(module_name=module), location)
    return RemoteJobOrigin(RemoteRepositoryOrigin(code, "__repository__"), job)


__all__ = [
    "DAEMON_MODULE",
    "WorkspaceFileTarget",
    "WorkspaceProcessContext",
    "job_origin",
]
