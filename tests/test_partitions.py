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

from pipelines.fleet.nights import outcomes
from pipelines.fleet.nights.outcomes import Kind, Outcome
from pipelines.institutions import Institution, Registry
from pipelines.partitions import Partitions, easternmost, schedule_name
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


def registry_of(*names: str, batches: int | None = None) -> Registry:
    return Registry(Path("institutions.toml"), {name: Institution(name) for name in names}, batches)


def partitions_of(*names: str, batches: int | None = None) -> Partitions:
    return Partitions("UTC", date(2026, 8, 1), registry_of(*names, batches=batches))


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
    assert "2026-08-02|cedar" in found.get_partition_keys(current_time=datetime(2026, 8, 1, 16, tzinfo=UTC))


@pytest.mark.parametrize(
    ("zones", "first"),
    [
        (["UTC"], "UTC"),
        (["America/New_York", "Europe/Berlin", "Asia/Tokyo"], "Asia/Tokyo"),
        # Each is ahead for half of the year.
        (["Australia/Sydney", "Asia/Vladivostok", "Australia/Lord_Howe"], "Australia/Lord_Howe"),
    ],
)
def test_the_zone_of_all_partitions_is_the_one_where_a_day_begins_first(zones: list[str], first: str) -> None:
    assert easternmost(zones) == first


def test_a_tick_asks_for_a_run_of_each_institution_on_its_own_day_with_its_tags(tmp_path: Path) -> None:
    with defined(tmp_path, LONDON_KEY="k3y") as module:
        found = ticks(module, datetime(2026, 11, 20, 19, 30, tzinfo=UTC))
    (cedar,) = found[TOKYO].run_requests
    assert cedar.partition_key == "2026-11-21|cedar"
    assert {k: v for k, v in cedar.tags.items() if not k.startswith(".")} | {"dagster/schedule_name": ""} == {
        "dagster/partition": "2026-11-21|cedar",
        "dagster/partition/date": "2026-11-21",
        "dagster/partition/institution": "cedar",
        "dagster/schedule_name": "",
        "rollbook/host": "two.example",
        "rollbook/institution": "cedar",
        "rollbook/sync": "nightly",
    }
    london = found[LONDON].run_requests
    # Neighbours ask different hosts.
    assert [r.partition_key for r in london] == ["2026-11-20|ash", "2026-11-20|oak", "2026-11-20|birch"]


def test_a_paused_institution_is_left_out_whether_rollbook_or_the_registry_paused_it(tmp_path: Path) -> None:
    with defined(tmp_path) as module:
        registry = tmp_path / "institutions.toml"
        registry.write_text(REGISTRY.replace("[oak]", '[oak]\npaused = "a new key is on its way"'))
        fleet = tmp_path / "warehouse" / "fleet"
        for day in (18, 19, 20):
            refused = Outcome(kind=Kind.FAILED, at=NIGHT, day=date(2026, 11, day), message="401", refused=True)
            outcomes.record(fleet, "birch", refused)
        found = ticks(module, NIGHT)
        assert [r.partition_key for r in found[LONDON].run_requests] == ["2026-11-20|ash"]
        registry.write_text(REGISTRY.replace("[cedar]", '[cedar]\npaused = "closed"'))
        tick = ticks(module, NIGHT)[TOKYO]
    assert tick.run_requests == []
    assert tick.skip_message == "every institution is paused, or has left the registry: cedar"


def test_one_whose_settings_are_wrong_costs_the_others_nothing_and_one_that_left_is_not_asked(tmp_path: Path) -> None:
    with defined(tmp_path, REGISTRY.replace('"Asia/Tokyo"', '"Mars/Base"')) as module:
        assert [s.name for s in module.defs.schedules] == [LONDON]
        (tmp_path / "institutions.toml").write_text(REGISTRY.replace("[ash]", "[elm]"))
        (tick,) = ticks(module, NIGHT).values()
    assert [r.partition_key for r in tick.run_requests] == ["2026-11-20|birch", "2026-11-20|oak"]


def test_a_run_is_about_the_days_and_institutions_between_its_ends() -> None:
    partitions = partitions_of("ash", "birch", "007", "oak")
    span = {
        "dagster/asset_partition_range_start": "2026-11-20|birch",
        "dagster/asset_partition_range_end": "2026-11-21|oak",
    }
    scope = partitions.scope(span)
    assert ([d.day for d in scope.days], scope.institutions) == ([20, 21], ("birch", "007", "oak"))
    assert partitions.institution_of(span) == ""
    alone = partitions.tags("007", DAY, date(2026, 11, 22))
    assert alone["dagster/asset_partition_range_start"] == "2026-11-20|007"
    assert partitions.institution_of(alone) == "007"


def test_a_run_of_an_institution_that_left_is_about_nobody() -> None:
    tags = partitions_of("ash", "oak").tags("oak", DAY)
    assert partitions_of("ash").institution_of(tags) == ""


# --- batches ---------------------------------------------------------------------------------------------------------


def test_a_batch_is_chosen_by_name_so_that_adding_an_institution_moves_nobody() -> None:
    names = [f"school-{n}" for n in range(200)]
    few, many = partitions_of(*names[:100], batches=16), partitions_of(*reversed(names), batches=16)
    assert [few.batch_of(n) for n in names] == [many.batch_of(n) for n in names]
    assert [few.batch_of(n) for n in ("ash", "birch", "007")] == ["batch-15", "batch-06", "batch-13"]
    sizes = [len(many.in_batch(f"batch-{n:02}")) for n in range(1, 17)]
    assert (sum(sizes), min(sizes) > 3) == (200, True)


def test_partitions_are_days_by_batch(tmp_path: Path) -> None:
    with defined(tmp_path, "batches = 3\n" + REGISTRY) as module:
        found = module.defs.resolve_asset_graph().get(ASSET).partitions_def
        asked = ticks(module, NIGHT)
        partitions = sys.modules["pipelines.assets"].PARTITIONS
    keys = found.get_partition_keys(current_time=datetime(2026, 8, 1, 12, tzinfo=UTC))
    assert keys == ["2026-08-01|batch-01", "2026-08-01|batch-02", "2026-08-01|batch-03"]
    batches = {name: partitions.batch_of(name) for name in ("ash", "birch", "cedar", "oak")}
    london = asked[LONDON].run_requests
    wanted = sorted({batches[name] for name in ("ash", "birch", "oak")})
    assert [r.partition_key for r in london] == [f"2026-11-20|{batch}" for batch in wanted]
    # The batch of a school in Tokyo is not asked for it by London's schedule, nor the other way round.
    for request in [*london, *asked[TOKYO].run_requests]:
        names = partitions.scope(request.tags).institutions
        assert names
        assert ("cedar" in names) == ("Tokyo" in request.tags["rollbook/schedule"])


def test_schedules_of_different_lines_have_different_names() -> None:
    lines = ("15 2 * * *", "15 2 * * 1-5", "15 2 * * 1,5", "*/15 2 * * *", "15,2 * * * *")
    zones = ("UTC", "Etc/GMT+1", "Etc/GMT-1", "America/Port-au-Prince")
    names = {schedule_name(SourceSettings(cron=line, timezone=zone)) for line in lines for zone in zones}
    assert len(names) == len(lines) * len(zones)
    assert all(name.replace("_", "").isalnum() for name in names)
