"""What a new field and a new endpoint cost: lines in `tables.py` alone, tried on a copy of the package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.nights import FIRST, House, night
from tests.support.records import school_class, student
from tests.support.wire.service import Service

PACKAGE = Path(__file__).parent.parent / "pipelines"
SYNC = """
import sys
from datetime import datetime
from pipelines.settings import load
from pipelines.compose import compose
now = datetime.fromisoformat(sys.argv[1])
compose(load(_env_file=None), clock=lambda: now).sync()
"""
ROOMS = """        Set("rooms", endpoint="buildings/rooms", key="room_id", id_field="room.id", walked=True, names=("room_name",)),
"""
ROOM_TABLE = """        Table(
            "rooms",
            set="rooms",
            key=("room_id",),
            comment="One row per room.",
            columns=(
                Column("room_id", "BIGINT", "The room's id.", source="room.id", id=True, required=True),
                Column("room_name", "VARCHAR", "The room's name."),
            ),
        ),
"""


def sync_with(house: House, copy: Path) -> None:
    """Sync tonight with another copy of the package, in a process of its own."""
    environment = {**os.environ, **house.environment(), "PYTHONPATH": str(copy)}
    command = [sys.executable, "-c", SYNC, house.now.isoformat()]
    done = subprocess.run(command, check=False, cwd=copy, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A folder with a copy of the package."""
    shutil.copytree(PACKAGE, tmp_path / "copy" / "pipelines", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "copy"


def declare(copy: Path, lines: str, *, before: str) -> None:
    """Add lines to the copy's declarations, before the only line that begins like this."""
    tables = copy / "pipelines" / "tables.py"
    declared = tables.read_text()
    assert declared.count(before) == 1
    tables.write_text(declared.replace(before, lines + before))


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_field_is_one_line_from_the_service_to_the_history(tmp_path: Path, copy: Path) -> None:
    with Service([student(1, house="Red"), student(2)], [school_class(501)]) as service:
        house = House(tmp_path / "w", service)
        house.at(1).sync()
        line = '                Column("house", "VARCHAR", "The house that the student belongs to."),\n'
        declare(copy, line, before='                Column("reference_id", "VARCHAR", "The institution')
        service.students[1]["house"] = "Blue"
        house.at(2)
        sync_with(house, copy)
    assert house.query("SELECT student_id, house FROM students ORDER BY 1") == [(1, "Red"), (2, "Blue")]
    assert house.query("SELECT student_id, house, valid_from, valid_to FROM history.students ORDER BY 1, 3") == [
        (1, None, FIRST, night(2)),
        (1, "Red", night(2), None),
        (2, None, FIRST, night(2)),
        (2, "Blue", night(2), None),
    ]
    comments = "SELECT comment FROM duckdb_columns() WHERE column_name = 'house' AND schema_name IN ('main', 'history')"
    assert house.query(comments)[:2] == [("The house that the student belongs to.",)] * 2


@pytest.mark.timeout(180)
def test_an_endpoint_is_a_set_and_a_table_and_its_records_are_walked_proven_and_removed(
    tmp_path: Path, copy: Path
) -> None:
    with Service([student(1)], [school_class(501)]) as service:
        service.others["buildings/rooms"] = [{"room": {"id": i}, "room_name": f"Room {i}"} for i in range(1, 131)]
        house = House(tmp_path / "w", service)
        declare(copy, ROOMS, before='        Set(\n            "auth",\n')
        declare(copy, ROOM_TABLE, before='        Table(\n            "student_details",\n')
        house.at(1)
        sync_with(house, copy)
        del service.others["buildings/rooms"][0]
        house.at(2)
        sync_with(house, copy)
        searched = [r.search for r in service.asked("buildings/rooms", search=True)]
    assert searched == ["Room 1"]
    assert house.query("SELECT COUNT(*), MIN(room_id), MAX(room_name) FROM rooms") == [(129, 2, "Room 99")]
    assert house.query("SELECT room_id, valid_from, valid_to FROM history.rooms ORDER BY 1 LIMIT 2") == [
        (1, FIRST, night(2)),
        (2, FIRST, None),
    ]
    assert house.query("SELECT set_name, received, proven FROM ops.sync_sets WHERE set_name = 'rooms' ORDER BY 2") == [
        ("rooms", 129, True),
        ("rooms", 130, True),
    ]
    assert house.query("SELECT room_id, change FROM changes WHERE change = 'removed'") == [(1, "removed")]
