"""ROLLBOOK_UNTRACKED names columns that make no versions; a change of the setting computes the history again (G6)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rollbook import settings, tables
from rollbook.errors import ExpiredError, SettingError
from rollbook.night import past
from rollbook.tables import TABLES
from tests.support.nights import House, new_house, night
from tests.support.records import school_class, students

ROOMS = "SELECT class_room, valid_from, valid_to FROM history.classes WHERE class_id = 501 ORDER BY valid_from"
MOVED = [("B 1", night(1), night(2)), ("B 2", night(2), night(3)), ("B 3", night(3), None)]


@pytest.fixture
def house() -> Iterator[House]:
    """Three nights of a class that is in another room each night."""
    try:
        with new_house(students(2)) as house:
            for number in (1, 2, 3):
                move(house, number)
            yield house
    finally:
        tables.leave_untracked(frozenset())


def move(house: House, number: int) -> None:
    """Sync a night on which the class is in the room of that number."""
    house.service.classes = [school_class(501, class_room=f"B {number}"), school_class(502)]
    house.at(number).sync()


def test_an_untracked_column_makes_no_versions_and_stays_current(house: House) -> None:
    assert house.query(ROOMS) == MOVED
    house.over = {"untracked": "classes.class_room"}
    move(house, 4)
    assert house.query("SELECT valid_from, valid_to FROM history.classes WHERE class_id = 501") == [(night(1), None)]
    assert house.query("SELECT class_room FROM classes WHERE class_id = 501") == [("B 4",)]
    assert house.query("SELECT snapshot_date, class_room FROM snapshots.classes WHERE class_id = 501 ORDER BY 1")[
        0
    ] == (night(1), "B 1")
    assert house.query("SELECT DISTINCT change FROM changes WHERE table_name = 'classes'") == [("added",)]
    done = house.tables()
    past.rebuild(house.rollbook())
    assert house.tables() == done


def test_a_column_that_is_tracked_again_has_its_whole_history_back(house: House) -> None:
    house.over = {"untracked": "classes.class_room"}
    move(house, 3)
    house.over = {}
    move(house, 3)
    assert house.query(ROOMS) == MOVED


def test_a_change_is_refused_where_days_have_expired(house: House) -> None:
    house.over = {"keep_days": 1}
    for number in (4, 5):
        move(house, number)
    before = house.query(ROOMS)
    house.over |= {"untracked": "classes.class_room"}
    with pytest.raises(ExpiredError, match=r"ROLLBOOK_UNTRACKED was changed \(classes.class_room\).*set it as it was"):
        move(house, 6)
    assert house.query(ROOMS) == before
    house.over.pop("untracked")
    move(house, 7)  # what was landed on night 6 is kept, and counts now
    assert [row[1] for row in house.query(ROOMS)] == [night(n) for n in range(1, 8)]


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
    assert [c.name for c in TABLES["classes"].untracked] == ["class_room"]
    settings.load(fetches=False, _env_file=None)
    assert {name: table.untracked for name, table in TABLES.items()} == declared
