"""The doctor's checks of Dagster: whether its instance opens, and whether a daemon starts the nightly sync."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from pipelines.machine import in_bytes
from pipelines.operations.doctor import Finding, Level


def examine_instance(home: Path | None) -> Iterator[Finding]:
    """Check that the instance in Dagster's home opens, and that a daemon runs, which starts the nightly sync."""
    if home is None:
        says = f"{os.environ.get('DAGSTER_HOME')} is not a folder: set DAGSTER_HOME to one with a dagster.yaml in it"
        yield Finding("Dagster", Level.FAILED, says)
        return
    if not os.access(home, os.W_OK | os.X_OK):
        yield Finding("Dagster", Level.FAILED, f"{home} cannot be written to by this account: chown it")
        return
    if home.stat().st_mode & 0o077:  # owned by another account: the command makes its own folder private
        yield Finding("Dagster", Level.WARNING, f"{home} can be read by others on this machine: chmod 700 {home}")
    if not (home / "dagster.yaml").exists():
        says = f"{home} has no dagster.yaml: copy dagster_home/dagster.yaml there, or two syncs may run at a time"
        yield Finding("Dagster", Level.WARNING, says)

    from pipelines import machine, runs

    try:
        with runs.open_instance() as instance:
            count = instance.get_runs_count()
            beats = instance.get_daemon_heartbeats()
    except Exception as error:  # noqa: BLE001 - after any error the instance cannot be used
        says = f"the instance in {home} does not open ({type(error).__name__}): {str(error).splitlines()[0]}"
        yield Finding("Dagster", Level.FAILED, says)
        return
    yield Finding("Dagster", Level.OK, f"{count:,} runs in {home}, {in_bytes(machine.size(home))}")
    newest = max((beat.timestamp for beat in beats.values()), default=0.0)
    if datetime.now(UTC).timestamp() - newest > 300:
        says = "no daemon is running, so nothing starts the nightly sync: run `rollbook serve`, or sync from cron"
        yield Finding("Dagster", Level.WARNING, says)
