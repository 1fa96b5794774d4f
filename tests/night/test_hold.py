"""A mass change is held, and readers keep last night (G3); absence is verified first (G2).

Where a mass change begins is in `test_policy.py`.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from rollbook.errors import HeldError, NothingLandedError
from rollbook.landing.manifest import Hold, TableCounts
from rollbook.night import past
from tests.support.nights import CLASS_TABLES, STUDENT_TABLES, Expected, House, asked, night, pages
from tests.support.records import Records, classes, entry, school_class, student, students, within
from tests.support.warehouses.holds import first_night, is_held
from tests.support.wire import faults

pytestmark = pytest.mark.nights


def changed(records: Records, count: int) -> Records:
    """The records, of which the first few have another name."""
    return [student(r["id"], name="Pupil Renamed") if i < count else r for i, r in enumerate(records)]


# --- where a mass change begins --------------------------------------------------------------------------------------


@pytest.mark.story
def test_clock_driven_columns_and_the_order_of_lists_are_not_a_change(one_class: House) -> None:
    listed = [entry(class_id=c) for c in (501, 502, 503)]

    def at(clock: int, entries: Records) -> Records:
        activity = within("activity_tracking", days_since_last_activity=clock)
        return [student(i, **activity, classes=entries) for i in range(1, 9)]

    expected = first_night(one_class, at(1, listed))
    one_class.night(2, at(2, listed[::-1]))
    assert one_class.tables() == expected.night(2, at(2, listed), one_class.service.classes).tables()
    assert {r[3] for r in one_class.tables()["main.student_activity"]} == {2}


def test_the_percentages_are_settings(one_class: House) -> None:
    expected = first_night(one_class, students(60))
    is_held(one_class, 2, students(60)[6:], over={"hold_removed_percent": 9.9})
    is_held(one_class, 2, changed(students(60), 7), over={"hold_changed_percent": 10})
    one_class.sync(over={"hold_removed_percent": 100, "hold_changed_percent": 100})
    assert one_class.tables() == expected.night(2, changed(students(60), 7), one_class.service.classes).tables()


@pytest.mark.story
def test_an_unproven_landing_is_held_for_what_it_would_change(one_class: House) -> None:
    first_night(one_class, students(40))
    one_class.service.on(faults.stated(page=9), path="students", times=None)
    hold = is_held(one_class, 2, changed(students(40), 31)[:38])
    assert hold.reason.startswith(
        "31 of 40 students (77.5 %) would change, more than"
    )  # and two that the walk did not show are not gone


# --- what a held sync says -------------------------------------------------------------------------------------------


def test_a_held_sync_says_what_would_change_and_what_to_do(one_class: House) -> None:
    first_night(one_class, students(20))
    tonight = [*changed(students(20)[8:], 2), student(90)]  # 1 to 8 are gone, 9 and 10 renamed, 90 is new
    hold = is_held(one_class, 2, tonight)
    removals = TableCounts(table="", before=20, added=1, changed=0, removed=8)
    counts = [
        replace(removals, table=t, changed=2 if t == "students" else 0, altered=2 if t == "students" else 0)
        for t in STUDENT_TABLES
    ]
    still = TableCounts(table="", before=1, added=0, changed=0, removed=0)
    counts += [replace(still, table=t) for t in CLASS_TABLES]
    counts += [replace(still, table="student_details", before=0), replace(still, table="institution")]
    reason = "8 of 20 students (40 %) would be removed, more than ROLLBOOK_HOLD_REMOVED_PERCENT=10"
    assert hold == Hold(reason=reason, counts=tuple(counts))
    with pytest.raises(HeldError) as caught:
        one_class.sync()
    assert caught.value.message == (
        f"Held: {reason}. Readers keep what was published. If it is right, run `rollbook sync --date {night(2)}"
        f' --approve` (in the UI: the job `approve_held` with `held: ["{one_class.landings(night(2))[-1].hold_digest}"]`); else ask the'
        " service's representative"
    )


@pytest.mark.usefixtures("held_night")
def test_a_held_sync_is_recorded_with_the_next_publish(one_class: House) -> None:
    one_class.night(3, students(12))
    columns = "snapshot_date, landing, outcome, proven, verdict, verified, found_by_search, removed, rows_removed"
    assert one_class.query(f"SELECT {columns} FROM ops.syncs ORDER BY 1, 2") == [
        (night(1), 1, "synced", True, "synced", 0, 0, 0, 0),
        (night(2), 1, "held", True, "held", 10, 0, 10, 40),
        (night(3), 1, "synced", True, "synced", 0, 0, 0, 0),
    ]


def test_a_rebuild_and_a_backfill_leave_out_what_is_held(one_class: House, held_night: Expected) -> None:
    with pytest.raises(NothingLandedError, match="--approve"):
        past.backfill(one_class.rollbook().writer(), night(2), night(2))
    assert past.rebuild(one_class.rollbook().writer()).held == {night(2): [1]}
    assert one_class.tables() == held_night.tables()


# --- too many to ask about -------------------------------------------------------------------------------------------


@pytest.mark.story
def test_too_many_vanished_are_held_unverified_and_merged_by_approval_alone(one_class: House) -> None:
    """Three of sixty are not a mass change; but nobody was asked."""
    one_class.over = {"verify_most": 2}
    expected = first_night(one_class, students(60))
    one_class.service.requests.clear()
    hold = is_held(one_class, 2, students(60)[3:])
    assert hold.reason == "3 students vanished, too many to ask the service about one by one"
    assert asked(one_class.service.requests) == ["auth", *pages("students", 1), *pages("classes", 1)]
    one_class.approve()
    assert one_class.tables() == expected.night(2, students(60)[3:], one_class.service.classes).tables()


# --- absence ---------------------------------------------------------------------------------------------------------


def test_the_answers_about_the_vanished_are_counted_and_those_found_rejoin(one_class: House) -> None:
    """Student 3 is gone. Student 5 slips out of a list that adds up, has a new name by the time he is found, and is
    listed by the walk that follows.
    """
    one_class.service.classes = classes(3)
    expected = first_night(one_class, students(8))
    one_class.service.students = [s for s in students(8) if s["id"] != 3]
    renamed = student(5, name="Pupil Renamed")
    without = [s for s in one_class.service.students if s["id"] != 5]
    totals = {"total_count": 6, "total_pages": 1}
    one_class.service.on(faults.records(lambda data: without), path="students")
    one_class.service.on(faults.stated(**totals), path="students")
    one_class.service.before = lambda request: one_class.service.students.__setitem__(
        slice(None), [*without[:3], renamed, *without[3:]]
    )
    one_class.at(2).sync()
    assert one_class.query(
        "SELECT s.proven, c.verified, c.found_by_search, c.removed, c.received, s.requests FROM ops.syncs AS s"
        " JOIN ops.sync_sets AS c USING (snapshot_date, landing)"
        f" WHERE snapshot_date = DATE '{night(2)}' AND set_name = 'students'"
    ) == [(True, 2, 0, 1, 7, 7)]
    searched = one_class.query("SELECT set_name, page, records FROM ops.pages WHERE kind = 'search'")
    assert searched == [("students", 1, 0), ("students", 1, 0), ("students", 1, 1)]
    assert one_class.tables() == expected.night(2, [*without, renamed], one_class.service.classes).tables()
    assert past.rebuild(one_class.rollbook().writer()).rebuilt.keys() == {night(1), night(2)}
    assert one_class.tables() == expected.tables()


def test_records_are_searched_by_the_names_they_had(one_class: House) -> None:
    """A student without a reference id is asked for by email alone, a class without a code by its title."""
    one_class.service.classes = [school_class(501), school_class(502, class_code=None)]
    expected = first_night(one_class, [student(1), student(2, reference_id=None)])
    one_class.service.students, one_class.service.classes = students(1), classes(1)
    one_class.service.requests.clear()
    one_class.at(2).sync()
    assert asked(one_class.service.requests)[3:] == ["students?pupil.2@school.example 1", "classes?Class 502 1"]
    assert one_class.tables() == expected.night(2, students(1), classes(1)).tables()
