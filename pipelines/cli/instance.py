"""The doctor's checks of Dagster: whether its instance opens, and whether a daemon starts the nightly sync."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from pipelines.machine import in_bytes
from pipelines.operations import capacity
from pipelines.operations.doctor import Finding, Level

# With fewer runs, the instance's size is mostly its empty tables and says little about what one run adds.
RUNS_TO_ESTIMATE = 10


class Instance:
    """The doctor's checks of Dagster's instance; `home` is its folder, if there is one."""

    def __init__(self, home: Path | None) -> None:
        self.home = home
        self.run_bytes = capacity.RUN_BYTES

    def examine(self) -> Iterator[Finding]:
        """Check that the instance opens and that a daemon runs, which starts the nightly sync."""
        found = self.home
        if found is None:
            says = (
                f"{os.environ.get('DAGSTER_HOME')} is not a folder: set DAGSTER_HOME to one with a dagster.yaml in it"
            )
            yield Finding("Dagster", Level.FAILED, says)
            return
        if not os.access(found, os.W_OK | os.X_OK):
            yield Finding("Dagster", Level.FAILED, f"{found} cannot be written to by this account: chown it")
            return
        if found.stat().st_mode & 0o077:  # owned by another account: the command makes its own folder private
            yield Finding("Dagster", Level.WARNING, f"{found} can be read by others on this machine: chmod 700 {found}")
        if not (found / "dagster.yaml").exists():
            says = f"{found} has no dagster.yaml: copy dagster_home/dagster.yaml there, or two syncs may run at a time"
            yield Finding("Dagster", Level.WARNING, says)
        yield from self._examine_instance(found)

    def _examine_instance(self, found: Path) -> Iterator[Finding]:
        from pipelines import machine, runs

        try:
            with runs.open_instance() as instance:
                count = instance.get_runs_count()
                beats = instance.get_daemon_heartbeats()
        except Exception as error:  # noqa: BLE001 - after any error the instance cannot be used
            says = f"the instance in {found} does not open ({type(error).__name__}): {str(error).splitlines()[0]}"
            yield Finding("Dagster", Level.FAILED, says)
            return
        if count >= RUNS_TO_ESTIMATE:
            self.run_bytes = max(machine.size(found) // count, 1)
        yield Finding("Dagster", Level.OK, f"{count:,} runs in {found}, {in_bytes(machine.size(found))}")
        newest = max((beat.timestamp for beat in beats.values()), default=0.0)
        if datetime.now(UTC).timestamp() - newest > 300:
            says = "no daemon is running, so nothing starts the nightly sync: run `rollbook serve`, or sync from cron"
            yield Finding("Dagster", Level.WARNING, says)
