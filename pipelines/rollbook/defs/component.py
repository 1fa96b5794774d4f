"""Everything that Dagster loads: for Rollbook's own code location, and as a component of another Dagster project."""

from functools import partial
from pathlib import Path

import dagster as dg
from pydantic import Field

from rollbook.defs import assets, jobs, schedules, sensors
from rollbook.defs.resources import School, resources
from rollbook.feature import present
from rollbook.util import files


def load(school: School | None = None) -> dg.Definitions:
    """Build everything for a school (default: as the environment says), from the settings as they are now.

    Raises SettingError for a broken registry.
    """
    school = school or School()
    common = dg.Definitions(resources=resources(school), executor=None if school.given else dg.in_process_executor)
    alone = [_single(school)] if school.registry() is None else []
    of_features = (each.definitions(school) for each in present())
    return dg.Definitions.merge(common, *alone, *filter(None, of_features))


def _single(school: School) -> dg.Definitions:
    """What Dagster loads for a single school."""
    everything = assets.assets(school, partial(assets.work, school))
    return dg.Definitions(
        assets=[everything],
        jobs=jobs.jobs(school, everything, partial(jobs.open_school, school)),
        schedules=[schedules.nightly(school, source) for source in school.sources().values()],
        sensors=[sensors.record(school, partial(sensors.unrecorded, school))],
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
