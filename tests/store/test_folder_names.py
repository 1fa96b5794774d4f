"""Any folder may hold a warehouse: no path is a pattern, a partition or SQL."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from rollbook import settings
from rollbook.errors import SettingError
from rollbook.night import past
from rollbook.reading.query import lock, open_published
from tests.support.nights import House, folder, night
from tests.support.reading import rows
from tests.support.records import classes, student
from tests.support.wire.service import Service

pytestmark = pytest.mark.nights

NAMES = st.text(alphabet="=*[]{}'\"%~#$:;, \n😀éaZ1", min_size=1, max_size=12).filter(
    lambda name: name.strip(" ") == name
)


# What is a partition, a pattern, or a sign in SQL, an address or a region to some reader of files.
ODD = ("name=Zed", "school_id=7", "snapshot_date=2020-01-01", "x*y", "[ab]", "it's", "%41", "s3:")


@pytest.mark.slow
@given(names=st.lists(NAMES, min_size=4, max_size=4))
@example(names=ODD)
@hypothesis_settings(max_examples=3, suppress_health_check=[HealthCheck.too_slow])
def test_every_value_is_right_below_folders_with_any_names(names: Sequence[str]) -> None:
    with folder() as root, Service([student(1), student(2)], classes(1)) as service:
        (root / "xy" / "warehouse").mkdir(parents=True)  # a neighbour that the name, as a pattern, may match
        house = House(root.joinpath(*names, "warehouse"), service)
        for number in (1, 2):
            service.students = [student(1, name=f"Pupil {number}"), student(2)]
            house.at(number).sync(over={"hold_changed_percent": 100})
        named = [(1, "Pupil 2"), (2, "Pupil Number2")]
        assert house.query("SELECT student_id, name FROM students ORDER BY 1") == named
        assert house.query("SELECT snapshot_date, name FROM snapshots.students WHERE student_id = 1 ORDER BY 1") == [
            (night(1), "Pupil 1"),
            (night(2), "Pupil 2"),
        ]
        tables = house.tables()
        past.rebuild(house.rollbook().writer())
        assert house.tables() == tables
        with open_published(house.published) as con:
            lock(con, house.published, "SELECT 1")
            assert con.execute("SELECT DISTINCT name FROM snapshots.students ORDER BY 1").fetchall() == [
                ("Pupil 1",),
                ("Pupil 2",),
                ("Pupil Number2",),
            ]


def test_rows_come_from_the_named_folder_not_a_matching_neighbour() -> None:
    with folder() as root, Service([student(1)], classes(1)) as service:
        for name, called in (("xay", "Ann"), ("x*y", "Ben"), ("name=Zed", "Cem")):
            service.students = [student(1, name=called)]
            House(root / name, service).at(1).sync()
        read = "SELECT name FROM snapshots.students"
        assert rows(root / "x*y" / "rollbook.duckdb", read) == [("Ben",)]
        assert rows(root / "name=Zed" / "rollbook.duckdb", read) == [("Cem",)]


@pytest.mark.parametrize("name", ["q?z", "back\\slash"])
def test_a_folder_where_duckdb_opens_no_database_is_refused_by_its_setting(name: str, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="^ROLLBOOK_WAREHOUSE leads below a folder with .* name another folder"):
        settings.load(fetches=False, warehouse=tmp_path / name / "warehouse", _env_file=None)
