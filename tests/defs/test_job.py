"""The nightly job under Dagster: what a run marks, what a failed run says, and what an operator may decide."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import date, timedelta
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import dagster as dg
import duckdb
import pytest
import yaml
from dagster._core.asset_graph_view.asset_graph_view import AssetGraphView
from dagster._core.definitions.data_version import CachingStaleStatusResolver
from dagster.components.testing import create_defs_folder_sandbox

from rollbook import settings
from rollbook.defs import assets, checks, runs
from rollbook.defs.component import RollbookComponent
from rollbook.defs.events import FILE
from rollbook.defs.jobs import UI
from rollbook.defs.resources import School
from rollbook.errors import HeldError, NotConfirmedError
from rollbook.landing.manifest import Hold, TableCounts
from rollbook.night.discard import undo_discard
from rollbook.night.past import always
from tests.support import graph
from tests.support.graph import SYNC, Job, quarter_past_two
from tests.support.nights import Expected, House, new_house, night
from tests.support.reading import writable
from tests.support.records import classes, student, students
from tests.support.wire.service import KEY

pytestmark = pytest.mark.slow

PUBLISHED = dg.AssetKey(["published", "rollbook"])


@pytest.fixture
def school_of_60() -> Iterator[House]:
    """A warehouse in memory, and a service: 60 students, two classes."""
    with new_house(students(60), classes(2), first_date="2026-11-01", hold_changed_percent="75") as house:
        yield house


@pytest.fixture
def job(school_of_60: House, tmp_path: Path) -> Iterator[Job]:
    """The job over that house."""
    with graph.job(school_of_60, tmp_path / "home") as job:
        yield job


def warnings(job: Job, result: dg.ExecuteInProcessResult) -> list[str]:
    """The warnings of a run, apart from what Dagster itself does."""
    entries = [e for e in job.instance.all_logs(result.run_id) if e.level == logging.WARNING]
    return [e.user_message for e in entries if e.dagster_event is None]


def test_a_sync_from_any_asset_marks_every_asset_with_counts(school_of_60: House, job: Job) -> None:
    with quarter_past_two(school_of_60, 1) as day:
        result = job.run(day, tags=SYNC, launched_from=["tables", "classes"])
    assert result.success
    specs = {spec.key: spec for spec in job.defs.resolve_all_asset_specs()}
    assert {tuple(spec.owners) for spec in specs.values()} == {("team:school-it",)}
    assert {dep.asset_key for dep in specs[PUBLISHED].deps} == {key for key in specs if key.path[0] == "tables"}
    keys = [*specs]
    assert {k.to_user_string(): job.marked(*k.path) for k in keys} == {
        k.to_user_string(): [str(night(1))] for k in keys
    }
    assert (
        school_of_60.tables()
        == Expected().night(1, school_of_60.service.students, school_of_60.service.classes).tables()
    )
    about = {asset: metadata for asset, _, metadata in graph.marked(result)}
    (landing,) = school_of_60.landings(night(1))
    assert about["raw/students"] == {
        "landing": 1,
        "outcome": "synced",
        "requests": 3,
        "retries": 0,
        "bytes": landing.bytes_received,
        "seconds": about["raw/students"]["seconds"],
        "dagster/partition_row_count": 60,
        "walks": 1,
        "repeated": 0,
        "proven": 1,
        "verified absent": 0,
        "found by search": 0,
        "unclear": 0,
        "refused": 0,
        "landed at": landing.finished_at.timestamp(),
    }
    assert (landing.requests, landing.bytes_received > 20_000) == (3, True)
    rows = {"dagster/partition_row_count": 60, "dagster/row_count": 60}
    assert about["tables/students"] == {**rows, "landings": "1", "added": 60, "changed": 0, "removed": 0}
    assert about["tables/student_classes"]["dagster/partition_row_count"] == 60
    assert about["published/rollbook"] == {
        "landing": 1,
        "landings": "1",
        "landed at": landing.finished_at.timestamp(),
        "students": 60,
        "classes": 2,
        "added": 247,
        "changed": 0,
        "removed": 0,
        "path": str(school_of_60.published),
        "bytes": school_of_60.published.stat().st_size,
    }
    assert not [e.message for e in result.all_events if "did not yield" in (e.message or "")]
    assert not [e for e in job.instance.all_logs(result.run_id) if "did not yield" in e.user_message]
    assert graph.removal(job.instance, result) == "Readers have it now. Removed rows: none"
    tags = {(e.materialization.tags or {})["rollbook/outcome"] for e in result.all_events if e.is_step_materialization}
    assert tags == {"synced"}


def test_a_changed_declaration_marks_earlier_days_until_they_are_made_again(
    school_of_60: House, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2):
        assert job.nightly(school_of_60, number).success
    monkeypatch.setattr(assets, "fingerprint", lambda: "changed")
    with graph.loaded(school_of_60.environment()) as defs, quarter_past_two(school_of_60, 3):
        assert Job(defs, job.instance).run(night(1)).success
        graph_now = defs.get_repository_def().asset_graph
        view = AssetGraphView.for_test(defs, job.instance, last_event_id=None)
        stale = CachingStaleStatusResolver(job.instance, graph_now, view)
        keys = [key for key in graph_now.materializable_asset_keys if key.path[0] != "raw"]
        for number, reasons in ((1, []), (2, ["has a new code version"])):
            causes = {k: [c.reason for c in stale.get_stale_causes(k, str(night(number)))] for k in keys}
            assert causes == dict.fromkeys(keys, reasons)


def test_checks_can_be_executed_alone_and_fetch_nothing(school_of_60: House, job: Job) -> None:
    assert job.nightly(school_of_60, 1).success
    requests = len(school_of_60.service.requests)
    with quarter_past_two(school_of_60, 3):
        result = dg.materialize(
            [*(job.defs.assets or ())],  # type: ignore[list-item] # the items are assets definitions
            selection=dg.AssetSelection.checks_for_assets(PUBLISHED),
            instance=job.instance,
            resources=job.defs.resources,
        )
    assert len(school_of_60.service.requests) == requests
    assert result.get_asset_materialization_events() == []
    failed = {e.check_name: e.metadata["found"].value for e in result.get_asset_check_evaluations() if not e.passed}
    assert failed.pop("student_count_is_the_roster") == "2 rows"
    assert failed == {
        "is_fresh": "the night of 2026-11-21 02:15 was not synced: run `rollbook sync`, and see what it says"
    }


def test_the_nightly_run_always_fetches_and_others_not_within_minutes(tmp_path: Path) -> None:
    with (
        new_house(students(60), classes(2), first_date="2026-11-01", cache_minutes="5") as house,
        graph.job(house, tmp_path / "home") as job,
        quarter_past_two(house, 1) as day,
    ):
        requests = []
        for tags, options in ((SYNC, {}), ({}, {}), ({}, {"fresh": True}), (SYNC, {})):
            result = job.run(day, tags=tags, options=options)
            requests.append((len(house.service.requests), job.tags(result)["rollbook/sync"]))
        landings = [m.landing for m in house.landings(day)]
    assert requests == [(3, "nightly"), (4, "hand"), (7, "hand"), (10, "nightly")]
    assert landings == [1, 2, 3]


def test_dagsters_records_of_a_run_name_no_pupil(school_of_60: House, job: Job) -> None:
    result = job.nightly(school_of_60, 1)
    log = "\n".join(map(dg.serialize_value, job.instance.all_logs(result.run_id)))
    assert "tables" in log
    for personal in ("pupil.7@", "Pupil Number7", "terry@", "Terry Teacher", "R-7", KEY):
        assert personal not in log


def test_every_check_is_made_and_passes_on_good_data(school_of_60: House, job: Job) -> None:
    service = school_of_60.service
    for c in service.classes:
        c["student_count"] = 60 if c["class_id"] == 501 else 0
    result = job.nightly(school_of_60, 1)
    results = graph.checks(result)
    assert sorted(results) == sorted(
        f"{key.asset_key.to_user_string()}:{key.name}" for key in job.defs.resolve_asset_graph().asset_check_keys
    )
    assert {name: e.metadata for name, e in results.items() if not e.passed} == {}


def test_contradictions_of_the_source_are_published_with_a_warning(school_of_60: House, job: Job) -> None:
    service = school_of_60.service
    service.classes[0]["student_count"] = 7
    service.classes[1]["student_count"] = 0
    service.students[4]["classes"] = [{"class_id": 999, "class_title": "Ghosts", "course_name": "None"}]
    service.students[5]["summary"]["completed_assignments"] = 21
    service.classes[1]["assignment_activity"]["students_with_submissions"] = 9
    service.students[6]["nickname"] = "of no concern"
    result = job.nightly(school_of_60, 1)
    assert result.success
    failed = {name: e for name, e in graph.checks(result).items() if not e.passed}
    assert {name: (e.severity, e.metadata["found"].value) for name, e in failed.items()} == {
        "tables/classes:student_count_is_the_roster": (dg.AssetCheckSeverity.WARN, "1 row"),
        "tables/student_classes:classes_exist": (dg.AssetCheckSeverity.WARN, "1 row"),
        "tables/student_summaries:completed_at_most_total": (dg.AssetCheckSeverity.WARN, "1 row"),
        "tables/class_assignment_activity:submissions_add_up": (dg.AssetCheckSeverity.WARN, "1 row"),
        "raw/students:newest_night": (dg.AssetCheckSeverity.WARN, "unknown: nickname (string, 1)"),
    }
    assert school_of_60.query("SELECT COUNT(*) FROM students") == [(60,)]


def test_a_held_sync_warns_in_its_run_and_an_approval_merges_it(school_of_60: House, job: Job) -> None:
    service = school_of_60.service
    assert job.nightly(school_of_60, 1).success
    before = school_of_60.state()
    service.students = service.students[:40]
    with quarter_past_two(school_of_60, 2) as day:
        held = job.run(day, tags=SYNC)
        # It waits for a decision, so it is not the red of a broken key, and no asset has failed.
        assert held.success
        assert job.tags(held)["rollbook/outcome"] == "held"
        assert sorted({name for name, _, _ in graph.marked(held)}) == ["raw/classes", "raw/students"]
        digest = school_of_60.landings(day)[-1].hold_digest
        assert graph.warnings(job.instance, held) == [
            "Held: 20 of 60 students (33.3 %) would be removed, more than ROLLBOOK_HOLD_REMOVED_PERCENT=10. Readers"
            f" keep what was published. If it is right, run `rollbook sync --date {day} --approve` (in the UI: the job"
            f' `approve_held` with `held: ["{digest}"]`); else ask the service\'s representative'
        ]
        (note,) = graph.notes(held)
        assert note["held"] == digest
        assert "| students | 60 | 0 | 0 | 20 |" in note["what would change"]
        looked = graph.checks(held)
        # The published file is checked even so: the UI would show a check that was left undone as failed.
        declared = job.defs.resolve_asset_graph().asset_check_keys
        assert set(looked) == {f"{k.asset_key.to_user_string()}:{k.name}" for k in declared}
        assert {n: e.metadata["found"].value for n, e in looked.items() if not e.passed and "roster" not in n} == {
            "published/rollbook:nothing_held": str(day)
        }
        shown = {name: value.value for name, value in looked["published/rollbook:nothing_held"].metadata.items()}
        assert (shown["digest"], shown["how many"]) == (digest, 1)
        assert "| students | 60 | 0 | 0 | 20 |" in shown["what would change"]
        pasted = yaml.safe_load(shown["paste to approve"])
        assert pasted == {"ops": {"approve": {"config": {"held": [digest], "reason": ""}}}}
        launchpad = shown["what would change"].rpartition("](")[2].rstrip(")")
        assert parse_qs(urlsplit(launchpad).query)["config"] == [shown["paste to approve"]]
        assert school_of_60.state() == before
        assert job.marked("tables", "students") == [str(night(1))]
        requests = len(service.requests)
        other = job.by_hand("approve_held", held=["0" * 12])
        assert graph.failure(other)[2]["exit_code"] == 2
        approved = job.by_hand("approve_held", held=[digest], reason="the two year groups left")
        assert approved.success
        says, table = graph.says(job.instance, approved)
        assert says == (
            "Readers have it now. Removed rows: 20 of students, 20 of student_summaries, 20 of student_activity,"
            " 20 of student_classes"
        )
        assert "| students | 60 | 0 | 0 | 20 |" in table
        assert len(service.requests) == requests
        assert school_of_60.query("SELECT COUNT(*) FROM students") == [(40,)]
        assert (approval := school_of_60.landings(day)[-1].approval)
        assert (approval.reason, approval.by) == ("the two year groups left", UI)
        # The sensor marks the day, as after the command.
        recorded = {e.check_name: e for e in job.record() if isinstance(e, dg.AssetCheckEvaluation)}
        assert recorded["nothing_held"].passed
        assert job.record() == []
    assert job.marked("published", "rollbook") == [str(night(1)), str(night(2))]
    assert last_mark(job, day, "raw", "students")["outcome"] == "synced"


def last_mark(job: Job, day: date, *key: str) -> dict[str, Any]:
    """What an asset was last marked with on a day."""
    of_day = dg.AssetRecordsFilter(dg.AssetKey(key), asset_partitions=[str(day)])
    (newest,) = job.instance.fetch_materializations(of_day, limit=1).records
    assert newest.asset_materialization is not None
    return {name: value.value for name, value in newest.asset_materialization.metadata.items()}


def test_an_approval_and_a_discard_mark_the_day_again(school_of_60: House, job: Job) -> None:
    """Dagster cannot take a day's mark back, so the last mark says what became of the day."""
    assert job.nightly(school_of_60, 1).success
    school_of_60.service.students = [student(i, name=f"Renamed {i}") for i in range(1, 41)]
    with quarter_past_two(school_of_60, 2) as day:
        assert job.run(day, tags=SYNC).success
        assert last_mark(job, day, "raw", "classes")["outcome"] == "held"
        assert job.by_hand("approve_held", held=[school_of_60.landings(day)[-1].hold_digest]).success
        assert job.record()
        assert last_mark(job, day, "published", "rollbook")["landings"] == "1"
        assert last_mark(job, day, "raw", "classes")["outcome"] == "synced"
        assert job.record() == []
        assert job.by_hand("discard", day=str(day), reason="another school", confirm=True).success
        assert job.record()
        for key in (("raw", "students"), ("tables", "classes"), ("published", "rollbook")):
            assert last_mark(job, day, *key)["outcome"] == "discarded"
        assert job.record() == []
        undo_discard(school_of_60.rollbook().writer(), day, confirm=always)
        assert job.record()
        assert last_mark(job, day, "tables", "students")["dagster/partition_row_count"] == 40
        assert "outcome" not in last_mark(job, day, "published", "rollbook")
        assert job.record() == []


@pytest.mark.weekly
def test_discarding_an_earlier_landing_marks_the_tables_of_that_day_again(school_of_60: House, job: Job) -> None:
    with quarter_past_two(school_of_60, 1) as day:
        assert job.run(day, tags=SYNC).success
        school_of_60.service.students = school_of_60.service.students[:58]
        assert job.run(day, tags=SYNC).success
        assert last_mark(job, day, "published", "rollbook")["landings"] == "1, 2"
        assert job.by_hand("discard", day=str(day), landing=1, reason="a clock", confirm=True).success
        assert {event.asset_key.path[0] for event in job.record() if isinstance(event, dg.AssetMaterialization)} == {
            "tables",
            "published",
        }
        assert last_mark(job, day, "published", "rollbook")["landings"] == "2"


def test_a_held_night_is_not_late_but_a_missing_one_is(school_of_60: House) -> None:
    """A hold of another night hides no night that was missed."""
    school_of_60.night(1)
    school_of_60.at(2).service.students = students(40)
    with pytest.raises(HeldError):
        school_of_60.sync()
    for hours, late in ((3, ""), (24, f"the night of {night(3)} 02:15 was not synced: run `rollbook sync`")):
        school_of_60.now += timedelta(hours=hours)
        rollbook = school_of_60.rollbook()
        looked = checks.look(rollbook.place, rollbook.settings, rollbook.clock())
        found = {finding.check: finding.problem for finding in looked}
        assert found[FILE, checks.IS_FRESH].partition(", and")[0] == late
        assert found[FILE, checks.HELD] == str(night(2))


def test_a_change_that_nobody_confirmed_fails_its_run() -> None:
    """The operator asked for it and got nothing, unlike a held sync."""
    counts = (TableCounts(table="students", before=60, added=0, changed=0, removed=20),)
    with pytest.raises(runs.Failed) as failed:
        runs.end(cast("Any", None), NotConfirmedError("Held: 20 go.", Hold(reason="20 go", counts=counts)), {})
    assert failed.value.description == "20 go."
    assert "| students | 60 | 0 | 0 | 20 |" in str(failed.value.metadata["what would change"].value)


def test_a_landing_is_discarded_in_the_ui_once_it_is_confirmed(school_of_60: House, job: Job) -> None:
    assert job.nightly(school_of_60, 1).success
    before = school_of_60.tables()
    school_of_60.service.students = [*school_of_60.service.students[1:], student(99)]
    assert job.nightly(school_of_60, 2).success
    with quarter_past_two(school_of_60, 2) as day:
        for wrong, says in (
            ({"day": "20.11.2026", "reason": "a clock"}, "write it as 2026-11-20"),
            ({"day": str(day), "reason": " "}, "Say why"),
            ({"day": str(day), "reason": "a clock", "institution": "ash"}, "one school only"),
        ):
            _, description, metadata = graph.failure(job.by_hand("discard", **wrong))
            assert says in str(description)
            assert metadata["exit_code"] == 2
        _, description, metadata = graph.failure(job.by_hand("discard", day=str(day), reason="a clock"))
        assert "`confirm: true`" in str(description)
        assert "| students |" in metadata["what would change"]
        assert [m.landing for m in school_of_60.landings(day)] == [1]
        done = job.by_hand("discard", day=str(day), reason="a clock", confirm=True)
        assert done.success
        says, table = graph.says(job.instance, done)
        assert says.startswith("Readers have it now. Removed rows: 1 of students, 1 of student_summaries")
        assert "| students | 60 | 1 | 0 | 1 |" in table
    assert school_of_60.landings(night(2)) == []
    assert school_of_60.tables() == before
    ((_, discarded),) = school_of_60.rollbook().raw.discarded(night(2))
    assert (discarded.reason, discarded.by) == ("a clock", UI)


def test_a_backfill_marks_the_landed_days_each_with_its_facts(school_of_60: House, job: Job) -> None:
    """A day that was missed is left out; today, on which nothing was landed yet, is passed over."""
    for number in (1, 3):
        school_of_60.service.students[0] = student(1, name=f"Pupil of night {number}")
        school_of_60.service.students[1] = student(
            2, **({"name": None} if number == 3 else {"nickname": "of no concern"})
        )
        assert job.nightly(school_of_60, number).success
    tables = school_of_60.tables()
    with quarter_past_two(school_of_60, 4):
        requests = len(school_of_60.service.requests)
        result = job.run(night(1), night(4))
        days = job.defs.resolve_asset_graph().get(PUBLISHED).partitions_def
        assert days is not None
        assert days.get_partition_keys() == [str(night(n)) for n in (1, 3, 4)]
    assert result.success
    assert len(school_of_60.service.requests) == requests
    assert warnings(job, result) == [f"nothing was landed on {night(4)}, and the service keeps no history"]
    keys = [spec.key.to_user_string() for spec in job.defs.resolve_all_asset_specs()]
    assert sorted((asset, day) for asset, day, _ in graph.marked(result)) == sorted(
        (key, str(night(n))) for key in keys for n in (1, 3)
    )
    facts = {day: metadata for asset, day, metadata in graph.marked(result) if asset == "raw/students"}
    assert [(facts[str(night(n))].get("unknown fields"), facts[str(night(n))]["refused"]) for n in (1, 3)] == [
        ("nickname (string, 1)", 0),
        (None, 1),
    ]
    # The file has a size tonight; its sizes of other nights are gone.
    files = {day: metadata for asset, day, metadata in graph.marked(result) if asset == "published/rollbook"}
    assert [("bytes" in files[str(night(n))], files[str(night(n))]["students"]) for n in (1, 3)] == [
        (False, 60),
        (True, 59),
    ]
    # The checks are about the newest night, and about no day.
    evaluations = result.get_asset_check_evaluations()
    assert {e.partition for e in evaluations} == {None}
    assert {
        e.check_name: e.metadata["found"].value for e in evaluations if e.asset_key.path[0] == "raw" and not e.passed
    } == {"newest_night": "1 record refused"}
    assert school_of_60.tables() == tables


def test_a_past_day_is_rebuilt_and_a_day_without_landing_fails_clearly(school_of_60: House, job: Job) -> None:
    assert job.nightly(school_of_60, 1).success
    with quarter_past_two(school_of_60, 3) as today:
        requests = len(school_of_60.service.requests)
        assert job.run(night(1)).success
        failed = job.run(today, tags={"dagster/backfill": "of today"})
        first, _, metadata = graph.failure(failed)
        assert len(school_of_60.service.requests) == requests
    assert first == f"Failed: nothing was landed on {today}, and the service keeps no history"
    assert metadata == {"exit_code": 1}


def test_a_setting_that_went_missing_fails_the_run_in_one_line(school_of_60: House, job: Job) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("ROLLBOOK_API_KEY")
        first, _, metadata = graph.failure(job.nightly(school_of_60, 1))
    assert first == (
        "Failed: ROLLBOOK_API_KEY is not set: put the key into a file, and the file's path into ROLLBOOK_API_KEY_FILE,"
        " in .env or in the environment"
    )
    assert metadata == {"exit_code": 2}


def test_a_run_recovers_a_damaged_published_file_first(school_of_60: House, job: Job) -> None:
    assert job.nightly(school_of_60, 1).success
    expected = Expected().night(1, school_of_60.service.students, school_of_60.service.classes)
    writable(school_of_60.published).write_bytes(b"no database")
    assert job.nightly(school_of_60, 2).success
    expected.night(2, school_of_60.service.students, school_of_60.service.classes)
    assert school_of_60.tables() == expected.tables()
    assert job.marked(*PUBLISHED.path) == [str(night(1)), str(night(2))]


def test_a_file_that_rollbook_spoiled_is_unpublished_and_force_repairs_it(school_of_60: House, job: Job) -> None:
    assert job.nightly(school_of_60, 1).success
    expected = Expected().night(1, school_of_60.service.students, school_of_60.service.classes)
    with duckdb.connect(writable(school_of_60.published)) as con:
        con.execute("UPDATE history.students SET name = 'Somebody Else' WHERE student_id = 8")
    school_of_60.rollbook().warehouse.own.register(school_of_60.published)  # as if Rollbook had written that
    school_of_60.service.students[0] = student(
        1, name="Renamed Pupil"
    )  # a table in which nothing changes is left alone
    with quarter_past_two(school_of_60, 2) as day:
        before = school_of_60.state()
        result = job.run(day, tags=SYNC)
        first, _, _ = graph.failure(result)
        assert first == (
            "Failed: 1 current records of students are not those of its history; 1 records of students are not what was"
            f" landed on {night(1)}; 1 records of students are not what was landed on {night(2)}. Nothing was published;"
            " run `rollbook rebuild`"
        )
        failed = [e for e in graph.checks(result).values() if not e.passed and e.severity.value == "ERROR"]
        assert [e.check_name for e in failed] == ["is_fresh", "is_consistent"]  # readers have not got the night
        groups = {asset.partition("/")[0] for asset, _, _ in graph.marked(result)}
        assert groups == {"raw"}, "a file that nobody reads is not made"
        assert school_of_60.state()["rollbook.duckdb"] == before["rollbook.duckdb"]
        forced = job.run(day, tags=SYNC, options={"force": True})
    assert forced.success
    expected.night(2, school_of_60.service.students, school_of_60.service.classes)
    assert school_of_60.tables() == expected.tables()


@pytest.mark.filterwarnings("ignore:::dagster")  # of what Dagster itself does when it loads a component
def test_another_project_loads_two_schools_and_keeps_its_own_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "delete_old_runs", lambda *_: pytest.fail("the instance has others' runs"))
    with ExitStack() as stack:
        houses = {}
        for name, count in (("linden", 60), ("oak", 40)):
            houses[name] = stack.enter_context(new_house(students(count), classes(2)))
            (tmp_path / f"{name}.key").write_text(f"{KEY}\n")
        monkeypatch.setattr(settings, "DOTENV", os.devnull)
        instance = stack.enter_context(dg.DagsterInstance.local_temp(str(tmp_path), overrides=graph.QUIET))
        project = stack.enter_context(create_defs_folder_sandbox())
        loaded = {}
        for name, house in houses.items():
            given = {"base_url": house.service.url, "timezone": "Europe/Berlin", "warehouse": str(house.warehouse)}
            contents = {
                "type": "rollbook.RollbookComponent",
                "attributes": {**given, "name": name, "api_key_file": str(tmp_path / f"{name}.key")},
            }
            path = project.scaffold_component(RollbookComponent, defs_path=name, defs_yaml_contents=contents)
            _, loaded[name] = stack.enter_context(project.load_component_and_build_defs(path))
        both = dg.Definitions.merge(*loaded.values())
        assert sorted(s.name for s in both.schedules or ()) == ["linden_nightly", "oak_nightly"]
        assert len(both.resolve_all_asset_specs()) == 24
        for name, house in houses.items():
            (schedule,) = loaded[name].schedules or ()
            assert isinstance(schedule, dg.ScheduleDefinition)
            assert (schedule.cron_schedule, schedule.execution_timezone) == ("15 2 * * *", "Europe/Berlin")
            given = {"base_url": house.service.url, "timezone": "Europe/Berlin", "warehouse": str(house.warehouse)}
            with quarter_past_two(house, 1) as day:
                job = Job(loaded[name], instance, School(name, given, tmp_path / f"{name}.key"))
                assert job.run(day, tags=SYNC).success
            assert house.tables() == Expected().night(1, house.service.students, house.service.classes).tables()
        assert "ROLLBOOK_API_KEY" not in os.environ
