"""Everything that Dagster loads: for Rollbook's own code location, and as a component of another Dagster project."""

import os

import dagster as dg
from pydantic import Field

from rollbook.defs import assets, partitions, runs
from rollbook.settings import API_KEY, PREFIX
from rollbook.util import files


def load(*, own: bool = True) -> dg.Definitions:
    """Build everything from the settings as they are now. Raises SettingError for a broken registry.

    With `own` false, the instance belongs to others, too: its executor and its old runs are left alone.
    """
    sources = partitions.sources()
    return dg.Definitions(
        assets=[assets.assets(sources, deletes_old_runs=own)],
        jobs=[partitions.nightly_sync],
        schedules=partitions.schedules(sources),
        sensors=[runs.tell_success, runs.tell_failure, runs.watch],
        executor=dg.in_process_executor if own else None,
    )


class RollbookComponent(dg.Component, dg.Model, dg.Resolvable):
    """A school's students and classes, synced each night into a DuckDB file that keeps every change.

    One in a code location. All other settings are read from the environment, as ROLLBOOK_*.
    """

    base_url: str = Field(description="The records service's address, before /svcapi.")
    api_key_variable: str = Field(default=API_KEY, description="The environment variable that holds the key.")
    timezone: str = Field(default="UTC", description="The zone that decides which day it is.")
    cron: str = Field(default="15 2 * * *", description="When the nightly sync runs, in that zone.")
    warehouse: str = Field(default="warehouse", description="The folder for the data, from the project's root.")

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Set the settings in this process, which each run's process does, too, and load everything."""
        files.keep_private(None)
        os.environ |= {
            f"{PREFIX}BASE_URL": self.base_url,
            API_KEY: os.environ.get(self.api_key_variable, ""),
            f"{PREFIX}TIMEZONE": self.timezone,
            f"{PREFIX}CRON": self.cron,
            f"{PREFIX}WAREHOUSE": str(context.project_root / self.warehouse),
        }
        return load(own=False)
