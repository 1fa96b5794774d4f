"""`rollbook sync --dry-run`: what a sync would do now, told before it is done, with nothing written anywhere."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
import stamina
import time_machine
from typer.testing import CliRunner

from rollbook.cli import app
from rollbook.errors import KeyRefusedError
from rollbook.night.diff import Diff, diff
from tests.support.nights import TRIES, House
from tests.support.records import student
from tests.support.warehouses.begun import begin
from tests.support.wire import faults

pytestmark = pytest.mark.nights


@pytest.fixture(autouse=True)
def _temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A temporary folder of its own, to look into."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))


def diff_now(house: House) -> Diff:
    with stamina.set_testing(True, attempts=TRIES, cap=True):
        return diff(house.rollbook().place, house.rollbook().settings, clock=house.rollbook().clock)


def everything(root: Path) -> dict[str, tuple[int, int]]:
    """Every file and folder: its size and when it was last written to; of build/, where a diff works, what is in it."""
    paths = {str(p): (p.lstat().st_size, p.lstat().st_mtime_ns) for p in (root, *root.rglob("*")) if p.exists()}
    paths.pop(str(root / "build"))
    return paths


def moved(of: Diff) -> dict[str, tuple[int, int, int, int]]:
    return {c.table: (c.before, c.added, c.changed, c.removed) for c in of.counts if c.added or c.changed or c.removed}


def a_normal_night(house: House) -> None:
    house.service.students[0]["name"] = "Another"
    house.service.students[1]["classes"] = []
    del house.service.students[5]
    house.service.students.append(student(99))


def a_landslide(house: House) -> None:
    del house.service.students[10:]


def a_changed_contract(house: House) -> None:
    for record in house.service.students:
        record["registration_date"] = "tomorrow"


def a_refused_key(house: House) -> None:
    house.service.on(faults.refused(401, "AUTH_REQUIRED"), path="students", page=1)


def test_it_says_what_the_sync_then_does(school_of_20: House) -> None:
    begin(school_of_20)
    a_normal_night(school_of_20.at(2))
    preview = diff_now(school_of_20)
    assert (preview.outcome, preview.reason) == ("synced", "")
    assert moved(preview) == {
        "students": (20, 1, 1, 1),
        "student_summaries": (20, 1, 0, 1),
        "student_activity": (20, 1, 0, 1),
        "student_classes": (20, 1, 0, 2),
    }
    assert school_of_20.sync().manifest.counts == preview.counts


@pytest.mark.parametrize("night", [a_normal_night, a_landslide, a_changed_contract, a_refused_key])
def test_nothing_is_written_in_any_case(school_of_20: House, night: Callable[[House], None]) -> None:
    """Not a file, not a folder, not a byte; and what was fetched is gone from the temporary folder."""
    begin(school_of_20)
    night(school_of_20.at(2))
    before = everything(school_of_20.warehouse)
    with pytest.raises(KeyRefusedError) if night is a_refused_key else nullcontext():
        diff_now(school_of_20)
    assert everything(school_of_20.warehouse) == before
    assert os.listdir(tempfile.gettempdir()) == []  # noqa: PTH208


@pytest.mark.parametrize(
    ("night", "says"),
    [(a_normal_night, "Would be synced"), (a_landslide, "Would be held"), (a_changed_contract, "Would fail")],
)
def test_the_command_exits_0_in_each_case(commanded_school: House, night: Callable[[House], None], says: str) -> None:
    begin(commanded_school)
    night(commanded_school)
    with time_machine.travel(commanded_school.now):  # the command goes by the machine's clock
        done = CliRunner().invoke(app, ["sync", "--dry-run"])
    assert done.exit_code == 0
    assert says in done.stdout
    assert "Nothing was written." in done.stdout
    assert "@" not in done.stdout  # no pupil's data
