"""What Dagster sees of a registry: its partitions, schedules, tags; and that a single school sees nothing of it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import dagster as dg
import pytest
import time_machine

from pipelines.partitions import INSTITUTION_TAG, SYNC_TAG, Partitions, easternmost, schedule_name
from pipelines.settings import ROOT, SourceSettings
from tests.support.graph import loaded
from tests.support.processes.commands import UNREACHABLE

DAY = date(2026, 11, 20)
NIGHT = datetime(2026, 11, 20, 2, 15, tzinfo=UTC)
ASSET = dg.AssetKey(["history", "students"])
# The schedules of the registry below.
LONDON, TOKYO = "nightly_Europe_London_15_2_x_x_x", "nightly_Asia_Tokyo_30_4_x_x_1_to_5"

REGISTRY = """
[defaults]
timezone = "Europe/London"
first_date = "2026-08-01"

[ash]
base_url = "https://one.example"
api_key = { env = "ASH_KEY" }

[birch]
base_url = "https://one.example"
api_key = { env = "BIRCH_KEY" }

[cedar]
base_url = "https://two.example"
api_key = { env = "CEDAR_KEY" }
cron = "30 4 * * 1-5"
timezone = "Asia/Tokyo"

[oak]
base_url = "https://two.example"
api_key = { env = "OAK_KEY" }
"""


@contextmanager
def defined(tmp_path: Path, text: str = REGISTRY, **env: str) -> Iterator[ModuleType]:
    """The definitions over this registry. No key is anywhere."""
    path = tmp_path / "institutions.toml"
    path.write_text(text)
    given = {"ROLLBOOK_INSTITUTIONS": str(path), "ROLLBOOK_WAREHOUSE": str(tmp_path / "warehouse")}
    with loaded(given | env) as module:
        yield module


def ticks(module: ModuleType, at: datetime) -> dict[str, Any]:
    """What each schedule asks for at a moment."""
    found = {}
    with time_machine.travel(at, tick=False):
        for schedule in module.defs.schedules:
            context = dg.build_schedule_context(
                scheduled_execution_time=at, repository_def=module.defs.get_repository_def()
            )
            found[schedule.name] = schedule.evaluate_tick(context)
    return found


# --- a single school -------------------------------------------------------------------------------------------------


def test_a_single_school_has_days_and_nothing_of_a_fleet_is_even_imported(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom pipelines.definitions import defs\n"
        "print(type(defs.resolve_asset_graph().asset_nodes[0].partitions_def).__name__)\n"
        "print([s.name for s in defs.schedules])\n"
        "print([m for m in sys.modules if m.startswith(('pipelines.fleet', 'pipelines.several', 'tomlkit'))])"
    ).replace("asset_nodes[0]", "get(next(iter(defs.resolve_asset_graph().get_all_asset_keys())))")
    env = {**UNREACHABLE, "ROLLBOOK_WAREHOUSE": str(tmp_path / "warehouse"), "PATH": "/usr/bin", "HOME": str(tmp_path)}
    told = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, check=True, timeout=100
    )
    assert told.stdout.splitlines() == ["DailyPartitionsDefinition", "['nightly']", "[]"]
    assert list(tmp_path.iterdir()) == []


# --- institutions ----------------------------------------------------------------------------------------------------


def test_nobodys_today_is_missing_while_it_is_still_yesterday_elsewhere(tmp_path: Path) -> None:
    """In Tokyo it is the second of August from three in the afternoon on, in UTC."""
    with defined(tmp_path) as module:
        found = module.defs.resolve_asset_graph().get(ASSET).partitions_def
    keys = found.get_partition_keys(current_time=datetime(2026, 8, 1, 16, tzinfo=UTC))
    assert keys == ["2026-08-01", "2026-08-02"]


@pytest.mark.parametrize(
    ("zones", "first"),
    [
        (["UTC"], "UTC"),
        (["America/New_York", "Europe/Berlin", "Asia/Tokyo"], "Asia/Tokyo"),
        (["Pacific/Auckland", "Pacific/Fiji"], "Pacific/Auckland"),
        # Berlin's clock is ahead of Lagos's in summer and beside it in winter; Windhoek's is ahead of both.
        (["Africa/Lagos", "Europe/Berlin", "Africa/Windhoek"], "Africa/Windhoek"),
        # Each is ahead for half of the year.
        (["Australia/Sydney", "Asia/Vladivostok", "Australia/Lord_Howe"], "Australia/Lord_Howe"),
        (["Europe/Berlin", "Atlantic/South_Georgia"], "Europe/Berlin"),
    ],
)
def test_the_zone_of_all_partitions_is_the_one_where_a_day_begins_first(zones: list[str], first: str) -> None:
    assert easternmost(zones) == first


def test_there_is_a_schedule_for_each_cron_line_and_zone_which_asks_for_one_run(tmp_path: Path) -> None:
    """An institution whose settings are wrong is in every run, which says what is wrong."""
    with defined(tmp_path, REGISTRY + '\n[yew]\ntimezone = "Mars/Base"\n') as module:
        lines = {s.name: (s.cron_schedule, s.execution_timezone) for s in module.defs.schedules}
        found = ticks(module, datetime(2026, 11, 20, 19, 30, tzinfo=UTC))
        (tmp_path / "institutions.toml").write_text(REGISTRY.replace("[ash]", "[elm]"))
        later = ticks(module, NIGHT)
    assert lines == {LONDON: ("15 2 * * *", "Europe/London"), TOKYO: ("30 4 * * 1-5", "Asia/Tokyo")}
    asked = {
        name: [(r.partition_key, r.tags[SYNC_TAG], r.tags[INSTITUTION_TAG]) for r in tick.run_requests]
        for name, tick in found.items()
    }
    assert asked == {
        LONDON: [("2026-11-20", "nightly", "ash,birch,oak,yew")],
        TOKYO: [("2026-11-21", "nightly", "cedar,yew")],
    }
    (request,) = later[LONDON].run_requests
    assert request.tags[INSTITUTION_TAG] == "elm,birch,oak", "the registry as it is now"


def test_an_empty_registry_loads(tmp_path: Path) -> None:
    with defined(tmp_path, "") as module:
        assert len(module.defs.resolve_all_asset_specs()) == 23
        assert list(module.defs.schedules) == []


def test_a_run_is_about_all_institutions_unless_its_tag_names_some() -> None:
    partitions = Partitions("UTC", date(2026, 8, 1), {}, is_single=False)
    tags = partitions.tags("007", DAY, date(2026, 11, 22))
    scope = partitions.scope(tags)
    assert ([d.day for d in scope.days], scope.institutions, scope.is_alone) == ([20, 21, 22], ("007",), True)
    assert partitions.scope(tags).institution == "007"
    some = partitions.scope(tags | {INSTITUTION_TAG: "ash, oak"})
    assert (some.institutions, some.is_alone) == (("ash", "oak"), False)
    assert not partitions.scope({"dagster/partition": "2026-11-20"}).is_alone
    assert not partitions.scope(tags | {SYNC_TAG: "nightly"}).is_alone, "a night always has the fleet's runner"


def test_schedules_of_different_lines_have_different_names() -> None:
    lines = ("15 2 * * *", "15 2 * * 1-5", "15 2 * * 1,5", "*/15 2 * * *", "15,2 * * * *")
    zones = ("UTC", "Etc/GMT+1", "Etc/GMT-1", "America/Port-au-Prince")
    names = {schedule_name(SourceSettings(cron=line, timezone=zone)) for line in lines for zone in zones}
    assert len(names) == len(lines) * len(zones)
    assert all(name.replace("_", "").isalnum() for name in names)
