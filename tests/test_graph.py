"""What an operator sees of Dagster before a run: days, the schedule, options, freshness, and checks that block."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any

import dagster as dg
import pytest

from tests.support.graph import EXAMPLE, loaded

BLOCKING = {"keys_are_unique", "landed_is_rows_and_rejects", "rebuilt_is_live", "versions_do_not_overlap"}


@pytest.fixture(scope="module")
def module() -> Iterator[ModuleType]:
    with loaded(EXAMPLE | {"ROLLBOOK_TIMEZONE": "Europe/Berlin", "ROLLBOOK_FIRST_DATE": "2026-08-01"}) as found:
        yield found


@pytest.fixture(scope="module")
def defs(module: ModuleType) -> dg.Definitions:
    found: dg.Definitions = module.defs
    return found


def test_the_days_are_those_of_the_zone_up_to_today(module: ModuleType) -> None:
    days = module.defs.resolve_asset_graph().get(dg.AssetKey(["raw", "students"])).partitions_def
    assert str(days.timezone) == "Europe/Berlin"
    # A quarter past midnight in Berlin, and still the day before in UTC.
    late = datetime(2026, 8, 3, 22, 15, tzinfo=UTC)
    assert days.get_partition_keys(current_time=late) == ["2026-08-01", "2026-08-02", "2026-08-03", "2026-08-04"]


def test_the_night_starts_by_the_cron_and_the_file_turns_red_when_the_next_one_is_two_hours_late(
    defs: dg.Definitions,
) -> None:
    (schedule,) = defs.schedules or ()
    assert isinstance(schedule, dg.ScheduleDefinition)
    assert (schedule.name, schedule.cron_schedule, schedule.execution_timezone) == (
        "nightly", "15 2 * * *", "Europe/Berlin",
    )  # fmt: skip
    fresh = {s.key.to_user_string(): p for s in defs.resolve_all_asset_specs() if (p := s.freshness_policy) is not None}
    assert fresh == {"published/rollbook": dg.FreshnessPolicy.time_window(timedelta(hours=26))}


def test_only_the_checks_of_rollbooks_own_work_block(defs: dg.Definitions) -> None:
    graph = defs.resolve_asset_graph()
    assert {key.name for key in graph.asset_check_keys if graph.get_check_spec(key).blocking} == BLOCKING


def test_an_operator_is_asked_for_four_described_options(defs: dg.Definitions) -> None:
    schema: Any = defs.resolve_job_def("nightly_sync").run_config_schema.config_type
    options = schema.fields["ops"].config_type.fields["sync"].config_type.fields["config"].config_type.fields
    types = {n: f.config_type.inner_type for n, f in options.items()}
    defaults = {"approve": False, "details": "none", "fresh": False, "force": False}
    assert {n: f.default_value for n, f in options.items()} == defaults
    assert [types[n].scalar_type.given_name for n in ("approve", "fresh", "force")] == ["Bool"] * 3
    assert [v.config_value for v in types["details"].enum_values] == ["none", "changed", "all"]
    assert all(len(f.description) > 60 for f in options.values())


def test_without_settings_the_graph_loads_and_the_schedule_says_what_is_missing() -> None:
    with loaded({}) as module:
        (schedule,) = module.defs.schedules
        context = dg.build_schedule_context(repository_def=module.defs.get_repository_def())
        tick = schedule.evaluate_tick(context)
        assert tick.run_requests == []
        missing = "is not set: put it into the environment or into .env at the root (see .env.example)"
        assert tick.skip_message == f"ROLLBOOK_BASE_URL {missing}; ROLLBOOK_API_KEY {missing}"
        assert len(module.defs.resolve_all_asset_specs()) == 23
