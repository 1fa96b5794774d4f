"""Loads everything that Dagster shows and runs: `workspace.yaml` names this module. It is built in `defs`."""

import os

import dagster as dg

from pipelines.defs import assets, partitions, runs
from pipelines.util import files


def load() -> dg.Definitions:
    """Build everything from the settings as they are now. Raises SettingError for a broken registry."""
    sources = partitions.sources()
    return dg.Definitions(
        assets=[assets.assets(sources)],
        jobs=[partitions.nightly_sync],
        schedules=partitions.schedules(sources),
        sensors=[runs.tell_success, runs.tell_failure, runs.watch],
        executor=dg.in_process_executor,
    )


files.keep_private(os.environ.get("DAGSTER_HOME"))  # Dagster's own commands load this module and set no umask
defs = load()
