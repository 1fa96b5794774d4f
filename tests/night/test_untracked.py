"""ROLLBOOK_UNTRACKED names columns that make no versions; a change of the setting computes the history again (G6)."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest

from rollbook import settings, tables
from rollbook.assembly import assemble
from rollbook.errors import ExpiredError, SettingError
from rollbook.features.export import oneroster
from rollbook.night import past, sync
from rollbook.tables import TABLES
from rollbook.views import catalog
from tests.support.nights import House, new_house, night
from tests.support.records import school_class, students
from tests.support.tiers import weekly

pytestmark = pytest.mark.nights

ROOMS = "SELECT class_room, valid_from, valid_to FROM history.classes WHERE class_id = 501 ORDER BY valid_from"
MOVED = [("B 1", night(1), night(2)), ("B 2", night(2), night(3)), ("B 3", night(3), None)]


@pytest.fixture
def moving_class() -> Iterator[House]:
    """Three nights of a class that is in another room each night."""
    with new_house(students(2)) as house:
        for number in (1, 2, 3):
            move(house, number)
        yield house


def move(house: House, number: int) -> None:
    """Sync a night on which the class is in the room of that number."""
    house.service.classes = [school_class(501, class_room=f"B {number}"), school_class(502)]
    house.at(number).sync()


def test_an_untracked_column_makes_no_versions_and_stays_current(moving_class: House) -> None:
    assert moving_class.query(ROOMS) == MOVED
    moving_class.over = {"untracked": "classes.class_room"}
    move(moving_class, 4)
    assert moving_class.query("SELECT valid_from, valid_to FROM history.classes WHERE class_id = 501") == [
        (night(1), None)
    ]
    assert moving_class.query("SELECT class_room FROM classes WHERE class_id = 501") == [("B 4",)]
    assert moving_class.query(
        "SELECT snapshot_date, class_room FROM snapshots.classes WHERE class_id = 501 ORDER BY 1"
    )[0] == (night(1), "B 1")
    assert moving_class.query("SELECT DISTINCT change FROM changes WHERE table_name = 'classes'") == [("added",)]
    done = moving_class.tables()
    past.rebuild(moving_class.rollbook().writer())
    assert moving_class.tables() == done


def test_a_column_that_is_tracked_again_has_its_whole_history_back(moving_class: House) -> None:
    moving_class.over = {"untracked": "classes.class_room"}
    move(moving_class, 3)
    moving_class.over = {}
    move(moving_class, 3)
    assert moving_class.query(ROOMS) == MOVED


def test_a_change_is_refused_where_days_have_expired(moving_class: House) -> None:
    moving_class.over = {"keep_days": 1}
    for number in (4, 5):
        move(moving_class, number)
    before = moving_class.query(ROOMS)
    moving_class.over |= {"untracked": "classes.class_room"}
    with pytest.raises(ExpiredError, match=r"ROLLBOOK_UNTRACKED was changed \(classes.class_room\).*set it as it was"):
        move(moving_class, 6)
    assert moving_class.query(ROOMS) == before
    moving_class.over.pop("untracked")
    move(moving_class, 7)  # what was landed on night 6 is kept, and counts now
    assert [row[1] for row in moving_class.query(ROOMS)] == [night(n) for n in range(1, 8)]


# What no view or macro reads from history. Three more are declared untracked.
FREE = (
    *("class_assignment_activity.first_assignment_date", "class_assignment_activity.last_assignment_date"),
    *("class_assignment_activity.students_enrolled", "classes.class_code", "classes.class_dateadded"),
    *("classes.class_room", "classes.teacher_email", "classes.teacher_name", "institution.api_key_name"),
    *("institution.school_key", "institution.school_name", "student_activity.first_login_date"),
    *("student_details.payload", "student_summaries.completed_assessments", "student_summaries.total_assessments"),
    *("students.first_name", "students.last_name"),
)
DECLARED = {f"{t.name}.{c.name}" for t in TABLES.values() for c in t.untracked}
ALL = [f"{t.name}.{c.name}" for t in TABLES.values() for c in t.columns if c.name not in t.key]


def test_untracking_what_views_read_from_history_is_refused_and_names_them(tmp_path: Path) -> None:
    refused, at = {}, tmp_path / "warehouse"
    readers = catalog.readers_of_history(tables.leaving_untracked(", ".join(ALL)).untracked)
    for column in ("students.reference_id", "student_classes.class_title", *FREE):
        given = settings.load(fetches=False, warehouse=at, untracked=column, _env_file=None)
        try:
            assemble(given)
        except SettingError as error:
            refused[column] = error.message
    assert sorted(readers) == sorted({*ALL} - {*FREE} - DECLARED)
    known = {*catalog.VIEWS, *(macro.name for macro in catalog.macros())}
    assert all(names and {*names} <= known for names in readers.values())
    assert refused == {
        "students.reference_id": "ROLLBOOK_UNTRACKED holds 'students.reference_id', which has to be in the history for"
        " student_identities, student_timeline, students_to_watch, students_to_watch_as_of: leave it out",
        "student_classes.class_title": "ROLLBOOK_UNTRACKED holds 'student_classes.class_title', which has to be in the"
        " history for enrollment_changes, enrollment_spans, student_timeline, students_to_watch,"
        " students_to_watch_as_of, transfers: leave it out",
    }


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param(", ".join(FREE), id="all"),
        *(weekly(column, name=column) for column in FREE),
    ],
)
@pytest.mark.parametrize("first", [1, 2])
def test_every_other_column_can_be_untracked_from_any_night_on(columns: str, first: int, tmp_path: Path) -> None:
    """One process has both declarations, as where a service is started again with another setting."""
    with new_house(students(2), pseudonymous=True) as house:
        for number in (1, 2, 3):
            if number == first:
                house.over["untracked"] = columns
            move(house, number)
            assert house.examined()["views_are_readable"] == []
        for view in catalog.VIEWS:
            house.query(f"FROM {view}")
        for column in columns.split(", "):
            table, _, name = column.partition(".")
            held = f"SELECT COUNT(*) FROM duckdb_columns() WHERE table_name = '{table}' AND column_name = '{name}'"
            assert house.query(f"{held} AND schema_name IN ('history', 'spans')") == [(0,)]
        assert house.query("SELECT class_room FROM classes WHERE class_id = 501") == [("B 3",)]
        oneroster.write(house.published, tmp_path / "roster")
        with (tmp_path / "roster" / "classes.csv").open(encoding="utf-8", newline="") as file:
            assert next(row["location"] for row in csv.DictReader(file)) == "B 3"
        house.over.pop("untracked")
        move(house, 4)
        assert house.examined()["views_are_readable"] == []
        assert house.query(ROOMS) == [*MOVED[:2], ("B 3", night(3), night(4)), ("B 4", night(4), None)]


def test_the_documented_example_is_accepted() -> None:
    example = settings.about(settings.Settings.model_fields["untracked"])["example"]
    assert {*example.split(", ")} <= {*FREE}


@pytest.mark.parametrize(
    ("named", "says"),
    [
        ("classes.room", "'classes.room', which is no column: write TABLE.COLUMN, such as classes.class_room"),
        ("class_room", "which is no column"),
        ("ops.syncs", "which is no column"),
        ("classes.class_id", "'classes.class_id', which is part of the table's key, and a key is always tracked"),
    ],
)
def test_a_name_that_cannot_be_left_untracked_is_a_setting_error(named: str, says: str) -> None:
    with pytest.raises(SettingError, match=f"^ROLLBOOK_UNTRACKED holds .*{says}"):
        settings.load(fetches=False, untracked=named, _env_file=None)


def test_the_declared_untracked_columns_stay_untracked() -> None:
    declared = {name: table.untracked for name, table in TABLES.items()}
    both = "student_activity.days_since_last_activity, classes.class_room"
    assert settings.load(fetches=False, untracked=both, _env_file=None).untracked == (
        "classes.class_room, student_activity.days_since_last_activity"
    )
    left = tables.leaving_untracked(both)
    assert [c.name for c in left.tables["classes"].untracked] == ["class_room"]
    assert left.tables["student_activity"].untracked == declared["student_activity"]
    assert {name: table.untracked for name, table in TABLES.items()} == declared


def test_two_institutions_in_one_process_each_keep_their_setting() -> None:
    with new_house(students(2), untracked="classes.class_room") as one, new_house(students(2)) as other:
        for number in (1, 2, 3):
            for house in (one, other):
                house.service.classes = [school_class(501, class_room=f"B {number}"), school_class(502)]
            opened = one.at(number).rollbook(), other.at(number).rollbook()  # both, before either syncs
            for each in opened:
                sync(each.writer())
        assert one.query("SELECT valid_from, valid_to FROM history.classes WHERE class_id = 501") == [(night(1), None)]
        assert one.query("SELECT class_room FROM classes WHERE class_id = 501") == [("B 3",)]
        assert other.query(ROOMS) == MOVED
        for house in (one, other):
            assert house.examined()["views_are_readable"] == []
