"""The graph is pinned: what Dagster sees is what operators were told of. A change here changes their work."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any

import dagster as dg
import pytest

from pipelines import dagster_internals
from pipelines.settings import ROOT
from pipelines.tables import TABLES
from tests.support.graph import EXAMPLE, loaded

RAW = ["raw/auth", "raw/classes", "raw/details", "raw/students"]
NAMES = [
    "class_assignment_activity",
    "class_summaries",
    "classes",
    "institution",
    "student_activity",
    "student_classes",
    "student_details",
    "student_summaries",
    "students",
]
SNAPSHOTS = [f"snapshots/{n}" for n in NAMES]
HISTORY = [f"history/{n}" for n in NAMES]

CHECKS = {
    "raw/students": ["no_unknown_fields", "proven_complete"],
    "raw/classes": ["no_unknown_fields", "proven_complete"],
    "published/rollbook": [
        "keys_are_unique",
        "landed_is_rows_and_rejects",
        "nothing_held",
        "rebuilt_is_live",
        "versions_do_not_overlap",
    ],
    "history/classes": ["student_count_is_the_roster"],
    "history/student_classes": ["classes_exist"],
    "history/student_summaries": ["completed_at_most_total", "percentages_in_range"],
    "history/class_summaries": ["percentages_in_range"],
    "history/class_assignment_activity": ["submissions_add_up"],
}
BLOCKING = {"keys_are_unique", "landed_is_rows_and_rejects", "rebuilt_is_live", "versions_do_not_overlap"}


@pytest.fixture(scope="module")
def module() -> Iterator[ModuleType]:
    with loaded(EXAMPLE | {"ROLLBOOK_TIMEZONE": "Europe/Berlin", "ROLLBOOK_FIRST_DATE": "2026-08-01"}) as found:
        yield found


@pytest.fixture(scope="module")
def defs(module: ModuleType) -> dg.Definitions:
    found: dg.Definitions = module.defs
    return found


@pytest.fixture(scope="module")
def specs(defs: dg.Definitions) -> dict[str, dg.AssetSpec]:
    return {spec.key.to_user_string(): spec for spec in defs.resolve_all_asset_specs()}


def test_there_is_one_asset_a_table_and_stage_and_a_group_a_stage(specs: dict[str, dg.AssetSpec]) -> None:
    assert sorted(TABLES) == NAMES
    groups: dict[str | None, list[str]] = {}
    for key, spec in sorted(specs.items()):
        groups.setdefault(spec.group_name, []).append(key)
    assert groups == {"land": RAW, "snapshot": SNAPSHOTS, "history": HISTORY, "publish": ["published/rollbook"]}


def test_every_asset_is_described_and_every_table_shows_its_columns(specs: dict[str, dg.AssetSpec]) -> None:
    assert [k for k, s in specs.items() if len(s.description or "") < 20] == []
    for name, table in TABLES.items():
        schema = specs[f"snapshots/{name}"].metadata["dagster/column_schema"]
        assert [(c.name, c.type, c.description) for c in schema.columns] == [
            (c.name, c.type, c.comment) for c in table.columns
        ]


def test_each_stage_stands_on_the_one_before(specs: dict[str, dg.AssetSpec]) -> None:
    deps = {k: sorted(d.asset_key.to_user_string() for d in s.deps) for k, s in specs.items()}
    assert deps["published/rollbook"] == ["history/students"]
    assert {k: deps[k] for k in RAW} == {key: [] for key in RAW}
    for name, table in TABLES.items():
        assert deps[f"history/{name}"] == [f"snapshots/{name}"]
        assert deps[f"snapshots/{name}"] == [f"raw/{table.set}"]


def test_the_days_are_those_of_the_zone_up_to_today(module: ModuleType) -> None:
    days = module.defs.resolve_asset_graph().get(dg.AssetKey(["raw", "students"])).partitions_def
    assert str(days.timezone) == "Europe/Berlin"
    # A quarter past midnight in Berlin, and still the day before in UTC.
    late = datetime(2026, 8, 3, 22, 15, tzinfo=UTC)
    assert days.get_partition_keys(current_time=late) == ["2026-08-01", "2026-08-02", "2026-08-03", "2026-08-04"]


def test_one_job_runs_all_of_it_at_a_quarter_past_two_in_the_zone(defs: dg.Definitions) -> None:
    (schedule,) = defs.schedules or ()
    assert isinstance(schedule, dg.ScheduleDefinition)
    assert (schedule.name, schedule.job_name) == ("nightly", "nightly_sync")
    assert (schedule.cron_schedule, schedule.execution_timezone) == ("15 2 * * *", "Europe/Berlin")
    assert schedule.default_status is dg.DefaultScheduleStatus.RUNNING
    job = defs.resolve_job_def("nightly_sync")
    steps = job.graph.node_dict["sync"].definition
    assert isinstance(steps, dg.GraphDefinition)
    assert [s.name for s in steps.nodes_in_topological_order] == ["land", "snapshot", "history", "publish"]
    assert job.executor_def.name == "in_process"
    (sensor,) = defs.sensors or ()
    assert (sensor.name, sensor.default_status) == ("watch", dg.DefaultSensorStatus.RUNNING)


def test_the_published_file_is_fresh_until_two_hours_after_the_cron(specs: dict[str, dg.AssetSpec]) -> None:
    fresh = {k: s.freshness_policy for k, s in specs.items() if s.freshness_policy is not None}
    assert fresh == {
        "published/rollbook": dg.FreshnessPolicy.cron("15 4 * * *", timedelta(hours=3), "Europe/Berlin"),
    }


def test_the_checks_have_plain_names_and_block_only_where_rollbook_erred(defs: dg.Definitions) -> None:
    graph = defs.resolve_asset_graph()
    found: dict[str, list[str]] = {}
    for key in graph.asset_check_keys:
        found.setdefault(key.asset_key.to_user_string(), []).append(key.name)
        spec = graph.get_check_spec(key)
        assert spec.blocking is (key.name in BLOCKING), key
        assert (spec.description or "").endswith("."), key
    assert {asset: sorted(names) for asset, names in found.items()} == CHECKS


def test_an_operator_is_asked_for_four_described_options(defs: dg.Definitions) -> None:
    schema: Any = defs.resolve_job_def("nightly_sync").run_config_schema.config_type
    options = schema.fields["resources"].config_type.fields["options"].config_type.fields["config"].config_type.fields
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
        assert tick.skip_message == (
            "ROLLBOOK_BASE_URL and ROLLBOOK_API_KEY are not set: see .env.example, then restart"
        )
        assert len(module.defs.resolve_all_asset_specs()) == 23


def test_only_one_module_uses_what_dagster_keeps_private_and_it_was_checked_against_this_version() -> None:
    assert dg.__version__ == dagster_internals.CHECKED_AGAINST
    users = [p.name for p in (ROOT / "pipelines").rglob("*.py") if "dagster._" in p.read_text(encoding="utf-8")]
    assert users == ["dagster_internals.py"]
