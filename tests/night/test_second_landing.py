"""A day is the fold of its counted landings, in order: each overlays what it states (G7)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

import pytest

from rollbook.errors import ArgumentError, HeldError
from rollbook.landing.manifest import Verdict
from rollbook.night import past
from rollbook.night.stages import Landed, snapshot
from tests.support.nights import House, landed, night
from tests.support.records import Record, Records, classes, school_class, student, students
from tests.support.warehouses.holds import first_night

pytestmark = pytest.mark.nights


def unstated(records: Records) -> Records:
    """The records without the fields that may be missing."""
    return [student(r["id"], classes=None, activity_tracking=None) for r in records]


def refused(records: Records) -> Records:
    """The records, of which the first three cannot be read."""
    return [student(r["id"], name=None) if r["id"] <= 3 else r for r in records]


def rows_changed(house: House) -> tuple[int, ...]:
    """The counts of the newest sync."""
    query = (
        "SELECT rows_added, rows_changed, rows_removed FROM ops.syncs ORDER BY snapshot_date DESC, landing DESC LIMIT 1"
    )
    return house.query(query)[0]


@pytest.mark.story
@pytest.mark.parametrize(("again", "bad"), [(unstated, ()), (refused, (1, 2, 3))], ids=["unstated", "refused"])
def test_a_second_landing_keeps_what_it_leaves_unstated_or_refused(
    one_class: House, again: Callable[[Records], Records], bad: tuple[int, ...]
) -> None:
    expected = first_night(one_class, students(30))
    first = expected.tables()
    one_class.night(1, again(students(30)))
    assert (
        one_class.tables()
        == expected.night(1, again(students(30)), one_class.service.classes, refused=bad).tables()
        == first
    )
    assert rows_changed(one_class) == (0, 0, 0)
    past.rebuild(one_class.rollbook().writer())
    assert one_class.tables() == first


# A value of each kind that cannot be read: of a student and of a class, and of an object or a list in one.
OF_STUDENTS: tuple[Record, ...] = (
    *({"email": ["x"]}, {"reference_id": {}}, {"registration_date": "soon"}, {"is_registered": "perhaps"}),
    *({"first_name": 3.7}, {"profile_image": {}}, {"summary": "none"}, {"activity_tracking": [1]}, {"classes": "none"}),
    *({"summary": {"total_assignments": 10**12}}, {"summary": {"last_activity_date": "2026-13-45"}}),
    *({"activity_tracking": {"first_login_date": 5.5}}, {"activity_tracking": {"has_ever_logged_in": "x"}}),
    *({"classes": [{"class_id": "x"}]}, {"classes": [{"class_id": 501, "class_title": [], "course_name": "Algebra"}]}),
)
OF_CLASSES: tuple[Record, ...] = (
    *({"class_room": {}}, {"class_dateadded": "x"}, {"student_count": "many"}, {"class_status": "z"}),
    *({"course": "x"}, {"course": {"course_id": "x"}}, {"teacher": "nobody"}, {"teacher": {"teacher_id": "x"}}),
    *({"summary": "none"}, {"summary": {"average_score": "x"}}, {"assignment_activity": 7}),
)


def spoiled(record: Record, values: Record) -> Record:
    """A record with these values, also within its objects."""
    within = {
        name: record[name] | value
        for name, value in values.items()
        if isinstance(record.get(name), dict) and isinstance(value, dict)
    }
    return record | values | within


def test_whatever_value_a_second_landing_refuses_stays(one_class: House) -> None:
    one_class.service.classes = classes(len(OF_CLASSES))
    one_class.night(1, students(60))
    first = one_class.tables()
    one_class.service.classes = [spoiled(school_class(501 + n), values) for n, values in enumerate(OF_CLASSES)]
    one_class.night(
        1, [spoiled(student(n), values) for n, values in enumerate(OF_STUDENTS, 1)] + students(45, first=16)
    )
    assert one_class.query("SELECT COUNT(*) FROM ops.refused_values") == [(len(OF_STUDENTS) + len(OF_CLASSES),)]
    assert one_class.tables() == first


def test_a_proven_second_landing_removes_what_the_first_one_added(one_class: House) -> None:
    expected = first_night(one_class, students(30))
    for listed in (students(31), students(29)):
        one_class.night(2, listed)
        expected.night(2, listed, one_class.service.classes)
        assert one_class.tables() == expected.tables()
    assert rows_changed(one_class) == (0, 0, 2 * 4)
    past.backfill(one_class.rollbook().writer(), night(2), night(2))
    assert one_class.tables() == expected.tables()


def test_a_record_absent_earlier_today_returns_with_its_statements(one_class: House) -> None:
    expected = first_night(one_class, students(30))
    for listed in (students(29), [*students(29), *unstated(students(1, first=30))]):
        one_class.night(2, listed)
        expected.night(2, listed, one_class.service.classes)
        assert one_class.tables() == expected.tables()
    assert rows_changed(one_class) == (2, 0, 0)


@pytest.mark.story
def test_an_undecided_landing_is_decided_by_the_next_writer(one_class: House) -> None:
    expected = first_night(one_class, students(30))
    one_class.service.students = students(29)
    rollbook = one_class.at(2).rollbook()
    with rollbook.writer().writing():
        landed(rollbook)
    one_class.night(2, [*students(28), student(40)])
    for listed in (students(29), [*students(28), student(40)]):
        expected.night(2, listed, one_class.service.classes)
    assert one_class.tables() == expected.tables()
    assert [m.verdict for m in one_class.landings(night(2))] == [Verdict.SYNCED] * 2


def test_an_undecided_landing_with_too_many_removals_is_held(one_class: House) -> None:
    expected = first_night(one_class, students(30))
    one_class.service.students = students(10)
    rollbook = one_class.at(2).rollbook()
    with rollbook.writer().writing():
        landed(rollbook)
    rollbook = one_class.rollbook()
    with rollbook.writer().writing(), pytest.raises(HeldError):
        snapshot(rollbook.place, Landed(rollbook.raw.manifests(night(2))[-1]), rollbook.settings, rollbook.clock())
    assert one_class.tables() == expected.tables()
    one_class.approve()
    assert one_class.tables() == expected.night(2, students(10), one_class.service.classes).tables()


@pytest.mark.story
def test_a_zone_that_was_moved_west_files_nothing_below_what_is_newer(one_class: House) -> None:
    """Noon in Auckland is the evening before in London."""
    one_class.service.students = students(3)
    one_class.now = datetime(2026, 11, 25, 23, 0, tzinfo=UTC)
    assert one_class.sync(over={"timezone": "Pacific/Auckland"}).manifest.snapshot_date == date(2026, 11, 26)
    before, requests_before = one_class.state(), len(one_class.service.requests)
    one_class.service.students = students(2)
    one_class.now += timedelta(minutes=30)
    with pytest.raises(ArgumentError) as refused:
        one_class.sync(over={"timezone": "Europe/London"})
    assert refused.value.message.startswith(
        "2026-11-26 was landed before, at 2026-11-25 23:00 UTC, so what is fetched now cannot be 2026-11-25's:"
        " ROLLBOOK_TIMEZONE, or this machine's clock, was set back since. Nothing was fetched."
    )
    assert (one_class.state(), len(one_class.service.requests)) == (before, requests_before)
    one_class.now += timedelta(hours=3)  # the 26th there, too
    assert one_class.sync(over={"timezone": "Europe/London"}).manifest.landing == 2
    assert one_class.query("SELECT COUNT(*) FROM students") == [(2,)]


def test_the_first_sync_ever_may_begin_before_midnight(one_class: House) -> None:
    one_class.over["first_date"] = None
    one_class.service.now = lambda: one_class.now - timedelta(seconds=2)
    yesterday, one_class.now = one_class.now.date(), datetime(2026, 11, 21, 0, 0, 1, tzinfo=UTC)
    assert one_class.sync(yesterday).manifest.snapshot_date == yesterday
    with pytest.raises(ArgumentError, match="is before the first day of this warehouse"):
        one_class.sync(yesterday - timedelta(days=1))
