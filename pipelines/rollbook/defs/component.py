"""Everything that Dagster loads: for Rollbook's own code location, and as a component of another Dagster project."""

from pathlib import Path

import dagster as dg
from pydantic import Field

from rollbook.defs import assets, by_hand, partitions
from rollbook.defs.school import RollbookResource, School
from rollbook.defs.sensors import sensors
from rollbook.util import files


def load(school: School | None = None) -> dg.Definitions:
    """Build everything for a school (default: as the environment says), from the settings as they are now.

    Raises SettingError for a broken registry.
    """
    school = school or School()
    sources = partitions.sources(school)
    everything = assets.assets(school, sources)
    job = dg.define_asset_job(
        school.named(partitions.JOB),
        selection=dg.AssetSelection.assets(everything),
        executor_def=dg.in_process_executor,
        description="Fetch both sets, snapshot, merge and publish them: one day, one run.",
    )
    # Our own UI's launchpad should offer no folder, and a launch can name none: neither a warehouse, nor one in which
    # Dagster's own resource would store what the steps return, which is nothing.
    resource = RollbookResource(folder=school.folder())
    fixed = dg.ResourceDefinition(lambda _: resource, config_schema={}, description=RollbookResource.__doc__)
    return dg.Definitions(
        assets=[everything],
        jobs=[job, *by_hand.jobs(school)],
        schedules=partitions.schedules(school, sources),
        sensors=sensors(school),
        resources={school.named("rollbook"): resource}
        if school.given
        else {school.named("rollbook"): fixed, "io_manager": dg.mem_io_manager},
        executor=None if school.given else dg.in_process_executor,
    )


class RollbookComponent(dg.Component, dg.Model, dg.Resolvable):
    """A school's students and classes, synced each night into a DuckDB file that keeps every change.

    Several in a project need a name each. All other settings are read from the environment, as ROLLBOOK_*.
    """

    base_url: str = Field(description="The records service's address, before /svcapi.")
    name: str = Field(
        default="",
        pattern="^[A-Za-z0-9_]*$",
        description="Stands in front of all assets, jobs and sensors of this school.",
    )
    api_key_file: str = Field(
        default="",
        description="The file that holds the key, from the project's root; by default ROLLBOOK_API_KEY_FILE names it.",
    )
    timezone: str = Field(default="UTC", description="The zone that decides which day it is.")
    cron: str = Field(default="15 2 * * *", description="When the nightly sync runs, in that zone.")
    warehouse: str = Field(default="warehouse", description="The folder for the data, from the project's root.")

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Load everything for this school."""
        files.keep_private(None)
        given = {"base_url": self.base_url, "timezone": self.timezone, "cron": self.cron}
        given["warehouse"] = str(context.project_root / self.warehouse)
        key_file = context.project_root / Path(self.api_key_file).expanduser() if self.api_key_file else None
        return load(School(self.name, given, key_file))
