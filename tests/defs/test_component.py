"""Rollbook as a component of somebody else's Dagster project."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster.components.testing import create_defs_folder_sandbox

from pipelines.defs import runs
from pipelines.defs.component import RollbookComponent
from pipelines.settings import PREFIX, Settings
from tests.support import graph
from tests.support.graph import SYNC, Job, quarter_past_two
from tests.support.nights import Expected, new_house
from tests.support.records import classes, students
from tests.support.wire.service import KEY

# The warnings are about what Dagster itself does when it loads a component.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:::dagster")]


def test_a_project_that_loads_the_component_syncs_and_keeps_its_own_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(Settings.model_config, "env_file", None)
    monkeypatch.setattr(runs, "delete_old_runs", lambda *_: pytest.fail("the instance has others' runs"))
    monkeypatch.setenv("LINDEN_KEY", KEY)
    for name in ("BASE_URL", "API_KEY", "TIMEZONE", "CRON", "WAREHOUSE"):  # set by the component, unset afterwards
        monkeypatch.setenv(f"{PREFIX}{name}", "")
    with new_house(students(60), classes(2)) as house, create_defs_folder_sandbox() as project:
        attributes = {
            "base_url": house.service.url,
            "api_key_variable": "LINDEN_KEY",
            "timezone": "Europe/Berlin",
            "warehouse": str(house.warehouse),
        }
        contents: dict[str, Any] = {"type": "pipelines.defs.component.RollbookComponent", "attributes": attributes}
        path = project.scaffold_component(RollbookComponent, defs_yaml_contents=contents)
        with (
            quarter_past_two(house, 1) as day,
            project.load_component_and_build_defs(path) as (_, defs),
            dg.DagsterInstance.local_temp(str(tmp_path), overrides=graph.QUIET) as instance,
        ):
            (schedule,) = defs.schedules or ()
            assert isinstance(schedule, dg.ScheduleDefinition)
            assert (schedule.cron_schedule, schedule.execution_timezone) == ("15 2 * * *", "Europe/Berlin")
            assert Job(defs, instance).run(day, tags=SYNC).success
        assert house.tables() == Expected().night(1, house.service.students, house.service.classes).tables()
