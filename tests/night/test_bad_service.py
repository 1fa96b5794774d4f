"""Nights of a service in trouble, from the requests to the tables (G1, G2, G13).

Faulty answers and unproven walks are in `tests/source`; random mixtures are in the campaign.
"""

from __future__ import annotations

import pytest

from rollbook.errors import KeyRefusedError, RefusedError, RollbookError, UnreachableError
from rollbook.landing.manifest import Verdict
from tests.support.nights import TRIES, Expected, House, asked, night, pages
from tests.support.records import classes, student, students
from tests.support.warehouses.holds import first_night
from tests.support.wire import faults
from tests.support.wire.service import Bend

pytestmark = pytest.mark.nights

# Six is gone, nine has another name, twelve is new; the service shows four on a page.
TONIGHT = [*students(5), *students(2, first=7), student(9, name="Another"), *students(3, first=10)]
WALK = pages("students", 1, 2, 3)
REST = [*pages("classes", 1), "students?R-6 1", "students?pupil.6@school.example 1"]


@pytest.fixture
def expected(one_class: House) -> Expected:
    """The first night was good. The expected tables."""
    one_class.service.cap = 4
    expected = first_night(one_class, students(11))
    one_class.at(2).service.requests.clear()
    one_class.service.students = list(TONIGHT)
    return expected


@pytest.mark.story
def test_faults_that_pass_and_a_spoiled_walk_leave_no_trace(one_class: House, expected: Expected) -> None:
    for skip, fault in enumerate([faults.reset(), faults.status(503), faults.not_json(), faults.empty()]):
        one_class.service.on(fault, path="students", page=2, skip=skip)
    done = one_class.sync()
    assert done.manifest.verdict is Verdict.SYNCED
    assert asked(one_class.service.requests) == ["auth", *pages("students", 1, 2, 2, 2, 2, 3), *WALK, *REST]
    assert one_class.tables() == expected.night(2, TONIGHT, classes(1)).tables()


@pytest.mark.parametrize(
    ("fault", "error", "tries"),
    [(faults.status(500), UnreachableError, TRIES), (faults.refused(401, "AUTH_REQUIRED"), KeyRefusedError, 1)],
)
def test_a_fault_that_stays_fails_the_sync_and_readers_keep_last_night(
    one_class: House, expected: Expected, fault: Bend, error: type[RollbookError], tries: int
) -> None:
    before = one_class.state()
    one_class.service.on(fault, path="students", page=2, times=None)
    with pytest.raises(error) as caught:
        one_class.sync()
    assert asked(one_class.service.requests) == ["auth", *pages("students", 1, *[2] * tries)]
    assert one_class.state() == before
    (manifest,) = one_class.landings(night(2))
    assert (manifest.verdict, manifest.reason) == (Verdict.FAILED, caught.value.message)
    one_class.service.mend()
    one_class.sync()
    assert one_class.tables() == expected.night(2, TONIGHT, classes(1)).tables()
    outcomes = one_class.query("SELECT landing, outcome FROM ops.syncs ORDER BY snapshot_date, landing")
    assert outcomes == [(1, "synced"), (1, "failed"), (2, "synced")]


@pytest.mark.parametrize("name", ["students", "classes"])
def test_a_set_that_stays_unproven_adds_and_updates_and_removes_nothing(
    one_class: House, expected: Expected, name: str
) -> None:
    shown = [s for s in TONIGHT if name == "classes" or s["id"] not in (5, 7, 8, 9)]
    one_class.service.on(faults.empty() if name == "students" else faults.stated(page=9), path=name, page=2, times=None)
    one_class.service.on(faults.moved_total(1), path="classes", times=None if name == "classes" else 0)
    manifest = one_class.sync().manifest
    assert (manifest.verdict, manifest.proven) == (Verdict.UNPROVEN, False)
    assert f"{name} could not be proven complete" in manifest.reason
    assert "nothing was removed from them" in manifest.reason
    assert one_class.tables() == expected.night(2, shown, classes(1), unproven=[name]).tables()


@pytest.mark.story
def test_without_a_clean_answer_to_a_search_nobody_is_removed(one_class: House, expected: Expected) -> None:
    one_class.service.on(faults.unsuccessful(), search=True, times=None)
    manifest = one_class.sync().manifest
    assert (manifest.proven, manifest.verdict) == (True, Verdict.SYNCED)
    assert manifest.reason == "1 missing record of students stays current, for want of a clear answer"
    assert one_class.tables() == expected.night(2, TONIGHT, classes(1), unproven=["students"]).tables()


def test_a_service_that_states_too_little_loses_nobody(one_class: House, expected: Expected) -> None:
    """Page 1 claims to be all, which adds up; but has_next says that there is more, rightly."""
    one_class.service.on(faults.moved_total(-7), path="students", page=1, times=None)
    manifest = one_class.sync().manifest
    assert (manifest.proven, manifest.absences) == (False, ())
    assert one_class.tables() == expected.night(2, TONIGHT, classes(1), unproven=["students"]).tables()


def test_a_school_is_complete_where_the_service_has_no_classes(one_class: House) -> None:
    """Until there were classes: then their absence must be asked about, so the set is unproven."""
    one_class.service.on(faults.refused(404, "NOT_FOUND"), path="classes", times=None)
    assert one_class.night(1, students(8)).manifest.proven
    assert one_class.query("SELECT (SELECT COUNT(*) FROM students), (SELECT COUNT(*) FROM classes)") == [(8, 0)]
    one_class.service.mend()
    one_class.night(2, students(8), classes(2))
    one_class.service.on(faults.refused(404, "NOT_FOUND"), path="classes", times=None)
    assert one_class.night(3).manifest.verdict is Verdict.UNPROVEN
    assert one_class.query("SELECT COUNT(*) FROM classes") == [(2,)]


def test_a_service_that_has_neither_set_fails_the_sync(one_class: House) -> None:
    one_class.service.on(faults.refused(404, "NOT_FOUND"), path="students", times=None)
    one_class.service.on(faults.refused(404, "NOT_FOUND"), path="classes", times=None)
    with pytest.raises(RefusedError, match=r"refused /svcapi/v1/students page 1 \(404\)"):
        one_class.night(1)
