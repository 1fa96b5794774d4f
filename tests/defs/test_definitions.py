"""The operator's view of Dagster before a run: days, schedules, options and freshness, of one school or of many."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import time_machine

from rollbook.defs.partitions import SYNC_TAG
from rollbook.features.district.definitions import INSTITUTION_TAG
from rollbook.settings import ROOT
from tests.support.graph import EXAMPLE, loaded
from tests.support.processes.commands import UNREACHABLE

pytestmark = pytest.mark.nights

PUBLISHED = dg.AssetKey(["published", "rollbook"])
LONDON, TOKYO = "nightly_Europe_London_15_2_x_x_x", "nightly_Asia_Tokyo_30_4_x_x_1_to_5"
REGISTRY = """
[defaults]
timezone = "Europe/London"
first_date = "2026-08-01"
[ash]
api_key = { env = "ASH_KEY" }
[birch]
api_key = { env = "BIRCH_KEY" }
[cedar]
api_key = { env = "CEDAR_KEY" }
cron = "30 4 * * 1-5"
timezone = "Asia/Tokyo"
[yew]
timezone = "Mars/Base"
"""


def test_a_school_has_landed_days_a_night_freshness_and_described_options(tmp_path: Path) -> None:
    # A quarter past midnight in Berlin, and still the day before in UTC.
    late = datetime(2026, 8, 3, 22, 15, tzinfo=UTC)
    for number in (1, 3):
        (tmp_path / "raw" / f"snapshot_date=2026-08-0{number}" / "landing=1").mkdir(parents=True)
    env = EXAMPLE | {"ROLLBOOK_TIMEZONE": "Europe/Berlin", "ROLLBOOK_WAREHOUSE": str(tmp_path)}
    with time_machine.travel(late), loaded(env) as defs:
        published = defs.resolve_asset_graph().get(PUBLISHED)
        schema: Any = defs.resolve_job_def("nightly_sync").run_config_schema.config_type
    days: Any = published.partitions_def
    assert days.get_partition_keys(current_time=late) == ["2026-08-01", "2026-08-03", "2026-08-04"]
    (schedule,) = defs.schedules or ()
    assert isinstance(schedule, dg.ScheduleDefinition)
    line = (schedule.name, schedule.cron_schedule, schedule.execution_timezone)
    assert line == ("nightly", "15 2 * * *", "Europe/Berlin")
    assert all(spec.kinds for spec in defs.resolve_all_asset_specs())
    assert published.freshness_policy == dg.FreshnessPolicy.time_window(timedelta(hours=26))
    options = schema.fields["ops"].config_type.fields["sync"].config_type.fields["config"].config_type.fields
    defaults = {
        "confirm": False,
        "details": "none",
        "fresh": False,
        "force": False,
    }
    assert {n: f.default_value for n, f in options.items()} == defaults
    assert all(len(f.description) > 60 for f in options.values())
    jobs = {job.name: job for job in defs.get_repository_def().get_all_jobs() if not job.name.startswith("__")}
    assert set(jobs) == {"nightly_sync", "approve_held", "discard"}
    begins = {
        ("approve_held", "approve"): {"held": [], "institution": "", "reason": ""},
        ("discard", "landing"): {"confirm": False, "day": "", "institution": "", "landing": 0, "reason": ""},
    }
    for (name, op), shown in begins.items():  # the launchpad shows a field at once only if it has a default
        asked: Any = jobs[name].run_config_schema.config_type
        fields = asked.fields["ops"].config_type.fields[op].config_type.fields["config"].config_type.fields
        assert {n: f.default_value for n, f in fields.items()} == shown
        assert all(len(f.description) > 60 for f in fields.values())
    # The guard refuses a launch that names resources: the launchpad must not offer any as its default.
    offered = schema.fields["resources"].config_type.fields["rollbook"].config_type.fields
    assert {name: field.config_type.fields for name, field in offered.items()} == {"config": {}}


def test_the_days_begin_with_the_first_landing_that_is_not_discarded(tmp_path: Path) -> None:
    """A landing of a wrong clock's day, taken back, leaves no years of days on which nothing can be had."""
    for folder in ("snapshot_date=2020-01-01/discarded=1", "snapshot_date=2026-08-02/landing=1"):
        (tmp_path / "raw" / folder).mkdir(parents=True)
    today = datetime(2026, 8, 3, 12, tzinfo=UTC)
    with time_machine.travel(today), loaded(EXAMPLE | {"ROLLBOOK_WAREHOUSE": str(tmp_path)}) as defs:
        days: Any = defs.resolve_asset_graph().get(PUBLISHED).partitions_def
    assert days.get_partition_keys(current_time=today) == ["2026-08-02", "2026-08-03"]


def test_without_settings_the_ui_loads_and_imports_no_district(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom rollbook.definitions import defs\n"
        "print(len(defs.resolve_all_asset_specs()), [s.name for s in defs.schedules])\n"
        "of = [m for m in sys.modules if m.startswith('rollbook.features.district.')]\n"
        "print([m for m in of if not m.endswith('.settings')])"
    )
    env = {**UNREACHABLE, "ROLLBOOK_WAREHOUSE": str(tmp_path / "warehouse"), "PATH": "/usr/bin", "HOME": str(tmp_path)}
    output = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, check=True, timeout=100
    )
    assert output.stdout.splitlines() == ["12 ['nightly']", "[]"]
    assert list(tmp_path.iterdir()) == []


def test_a_registry_has_a_schedule_per_cron_line_and_zone(tmp_path: Path) -> None:
    """The days begin where a day begins first: nobody's today is missing while elsewhere has yesterday."""
    path = tmp_path / "institutions.toml"
    path.write_text(REGISTRY)
    warehouse, now = tmp_path / "warehouse", datetime(2026, 8, 3, 16, tzinfo=UTC)
    for name, number in {"ash": 1, "cedar": 2}.items():  # on the third, nobody landed anything
        (warehouse / name / "raw" / f"snapshot_date=2026-08-0{number}" / "landing=1").mkdir(parents=True)
    env = {"ROLLBOOK_INSTITUTIONS": str(path), "ROLLBOOK_WAREHOUSE": str(warehouse)}
    with time_machine.travel(now), loaded(env) as defs:
        days: Any = defs.resolve_asset_graph().get(PUBLISHED).partitions_def

        def asked(at: datetime) -> dict[str, Any]:
            options = {}
            with time_machine.travel(at, tick=False):
                for schedule in defs.schedules or ():
                    assert isinstance(schedule, dg.ScheduleDefinition)
                    context = dg.build_schedule_context(
                        scheduled_execution_time=at, repository_def=defs.get_repository_def()
                    )
                    (request,) = schedule.evaluate_tick(context).run_requests or ()
                    options[schedule.name] = (
                        request.partition_key,
                        request.tags[SYNC_TAG],
                        request.tags[INSTITUTION_TAG],
                    )
            return options

        # One whose settings are wrong is in every run, which says what is wrong.
        assert asked(datetime(2026, 11, 20, 19, 30, tzinfo=UTC)) == {
            LONDON: ("2026-11-20", "nightly", "ash,birch,yew"),
            TOKYO: ("2026-11-21", "nightly", "cedar,yew"),
        }
        path.write_text(REGISTRY.replace("[ash]", "[elm]"))
        later = asked(datetime(2026, 11, 20, 2, 15, tzinfo=UTC))
        assert later[LONDON][2] == "elm,birch,yew", "the registry as it is now"
    assert days.get_partition_keys(current_time=now) == ["2026-08-01", "2026-08-02", "2026-08-04"]


def test_an_empty_registry_loads(tmp_path: Path) -> None:
    (tmp_path / "institutions.toml").touch()
    with loaded({"ROLLBOOK_INSTITUTIONS": str(tmp_path / "institutions.toml")}) as defs:
        assert (len(list(defs.resolve_all_asset_specs())), list(defs.schedules or ())) == (12, [])
