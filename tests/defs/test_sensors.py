"""The sensor `record`: what happened without Dagster is marked once, whatever was restarted."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from rollbook.defs import runs
from rollbook.errors import CheckError, HeldError
from rollbook.night import sync
from rollbook.night.discard import discard, undo_discard
from rollbook.night.past import always
from rollbook.util import files
from tests.support import graph
from tests.support.graph import Sensors
from tests.support.nights import House, new_house, night
from tests.support.records import classes, students
from tests.support.warehouses.erasures import erase

pytestmark = pytest.mark.slow


def days_of(events: list[Any], *key: str) -> list[tuple[str | None, object]]:
    """The days of an asset's events, each with the landing."""
    return [
        (e.partition, e.metadata["landing"].value)
        for e in events
        if isinstance(e, dg.AssetMaterialization) and e.asset_key == dg.AssetKey(key)
    ]


FILE = ("published", "rollbook")


@pytest.fixture
def alerting_school() -> Iterator[House]:
    with new_house(students(60), classes(2), first_date="2026-11-01") as house:
        yield house


def test_landings_without_dagster_are_marked_once_whatever_is_restarted(alerting_school: House, tmp_path: Path) -> None:
    """Those of a run are marked by the run alone."""
    with graph.job(alerting_school, tmp_path / "home") as job:
        alerting_school.night(1)
        alerting_school.night(3)
        assert job.nightly(alerting_school, 4).success
        with graph.quarter_past_two(alerting_school, 4):
            sensors = Sensors(job)
            sensors.tick("record")
            assert days_of(sensors.recorded, "raw", "students") == [(str(night(1)), 1), (str(night(3)), 1)]
            assert days_of(sensors.recorded, *FILE) == [(str(night(1)), 1), (str(night(3)), 1)]
            assert job.marked("tables", "classes") == [str(night(n)) for n in (1, 3, 4)]
            names = [c.asset_check_key.name for c in sensors.recorded if isinstance(c, dg.AssetCheckEvaluation)]
            assert sorted(names) == sorted(key.name for key in job.defs.resolve_asset_graph().asset_check_keys)
            sensors.recorded.clear()
            for lost in ({}, {"record": None}, {"record": "set in the UI"}):
                sensors.cursors |= lost
                sensors.tick("record")
            assert sensors.recorded == []
        # A later landing of the same day, and one that is held.
        alerting_school.night(4, students(61))
        alerting_school.at(5)
        alerting_school.service.students = students(20)
        with pytest.raises(HeldError):
            sync(alerting_school.rollbook().writer())
        with graph.quarter_past_two(alerting_school, 5):
            sensors.tick("record")
        assert days_of(sensors.recorded, "raw", "students") == [(str(night(4)), 2), (str(night(5)), 1)]
        assert days_of(sensors.recorded, *FILE) == [(str(night(4)), 2)]
        failed = {
            c.asset_check_key.name: c.metadata["found"].value for c in sensors.recorded if not getattr(c, "passed", 1)
        }
        assert failed["nothing_held"] == str(night(5))
        (note,) = [e for e in sensors.recorded if isinstance(e, dg.AssetObservation)]
        assert note.partition == str(night(5))
        assert note.metadata["held"].value == alerting_school.landings(night(5))[-1].hold_digest
        assert "| students | 61 | 0 | 0 | 41 |" in str(note.metadata["what would change"].value)
        sensors.recorded.clear()
        sensors.cursors.clear()
        with graph.quarter_past_two(alerting_school, 5):
            sensors.tick("record")
        assert sensors.recorded == []


def test_a_landing_that_readers_do_not_have_marks_no_table(
    alerting_school: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the next night, which publishes it, does."""
    with graph.job(alerting_school, tmp_path / "home") as job:
        alerting_school.night(1)
        with monkeypatch.context() as patch, pytest.raises(CheckError):
            patch.setattr("rollbook.store.checks.examine", lambda *_, **__: {"a rule": ["it is broken"]})
            alerting_school.night(2, students(59))
        with graph.quarter_past_two(alerting_school, 2):
            sensors = Sensors(job)
            sensors.tick("record")
            assert days_of(sensors.recorded, "raw", "students") == [(str(night(1)), 1), (str(night(2)), 1)]
            assert days_of(sensors.recorded, *FILE) == [(str(night(1)), 1)]
        alerting_school.night(3)
        with graph.quarter_past_two(alerting_school, 3):
            sensors.tick("record")
        assert days_of(sensors.recorded, *FILE) == [(str(night(n)), 1) for n in (1, 2, 3)]


def test_dagster_is_asked_only_for_newer_events_and_of_changed_months(
    alerting_school: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dg.AssetRecordsFilter] = []
    with graph.job(alerting_school, tmp_path / "home") as job:
        observations, materializations = job.instance.fetch_observations, job.instance.fetch_materializations

        def fetch(of: dg.AssetRecordsFilter, kind: Any, limit: int, cursor: str | None = None) -> Any:
            asked.append(of)
            return kind(of, limit=limit, cursor=cursor)

        monkeypatch.setattr(job.instance, "fetch_observations", partial(fetch, kind=observations))
        monkeypatch.setattr(job.instance, "fetch_materializations", partial(fetch, kind=materializations))
        alerting_school.night(1)
        alerting_school.at(2).service.students = students(20)
        with pytest.raises(HeldError):
            sync(alerting_school.rollbook().writer())
        with graph.quarter_past_two(alerting_school, 2):
            sensors = Sensors(job)
            sensors.tick("record")
        held = observations(dg.AssetKey(FILE), limit=1).records[0].storage_id
        for number in (20, 21):  # in December; the first tick reads the observation of the hold
            alerting_school.night(number, students(60))
            asked.clear()
            with graph.quarter_past_two(alerting_school, number):
                sensors.tick("record")
        assert [of.after_storage_id for of in asked if not of.asset_partitions] == [held]
        assert {*chain.from_iterable(of.asset_partitions or () for of in asked)} == {str(night(20)), str(night(21))}
        assert days_of(sensors.recorded, *FILE) == [(str(night(n)), 1) for n in (1, 20, 21)]


def test_while_a_run_is_under_way_nothing_is_recorded(alerting_school: House, tmp_path: Path) -> None:
    with graph.job(alerting_school, tmp_path / "home") as job:
        alerting_school.night(1)
        run = job.instance.create_run_for_job(job.defs.resolve_job_def("nightly_sync"), status=runs.UNDER_WAY[0])
        lock = runs.run_lock(job.instance, run.run_id)
        lock.parent.mkdir(parents=True)
        with graph.quarter_past_two(alerting_school, 1):
            sensors = Sensors(job)
            with files.Lock(lock):
                sensors.tick("record")
            assert sensors.recorded == []
            sensors.tick("record")  # the process is gone: the run is marked as failed
            assert days_of(sensors.recorded, *FILE) == [(str(night(1)), 1)]


def test_a_discard_and_an_erasure_are_observed_once_without_names(alerting_school: House, tmp_path: Path) -> None:
    with graph.job(alerting_school, tmp_path / "home") as job:
        alerting_school.night(1)
        alerting_school.night(2, students(58))
        discard(alerting_school.rollbook().writer(), night(2), 1, reason="a wrong clock", confirm=always)
        erase(alerting_school, 7)
        with graph.quarter_past_two(alerting_school, 2):
            sensors = Sensors(job)
            for _ in range(2):
                sensors.cursors.clear()
                sensors.tick("record")
        notes = [e for e in sensors.recorded if isinstance(e, dg.AssetObservation)]
        assert [(n.partition, next(v.value for v in n.metadata.values())) for n in notes] == [
            (str(night(2)), f"landing 1 of {night(2)}"),
            (None, "a student, by erasure 1"),
        ]
        assert days_of(sensors.recorded, *FILE) == [(str(night(1)), 1)]
        undo_discard(alerting_school.rollbook().writer(), night(2), 1, confirm=always)
        with graph.quarter_past_two(alerting_school, 2):
            sensors.tick("record")
        assert days_of(sensors.recorded, *FILE) == [(str(night(1)), 1), (str(night(2)), 1)]
