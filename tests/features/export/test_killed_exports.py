"""Exports that are killed: what readers and systems find then, and who removes what is left."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from rollbook.features.export import oneroster
from rollbook.features.pages.commands import write_pages
from rollbook.features.pages.progress import Chosen
from rollbook.reading.formats import Format
from rollbook.reading.query import export
from rollbook.util import files
from tests.support.nights import House, new_house, night
from tests.support.processes.kills import die_at_step, forked, killed_or_done
from tests.support.processes.servers import until
from tests.support.records import classes, student, students
from tests.support.warehouses.erasures import erase

pytestmark = pytest.mark.nights

TEXT = b"student_id,name\n7,Zebedee Canarybird\n"


def hidden(folder: Path) -> list[Path]:
    """The half-written files below a folder."""
    return sorted(folder.rglob(f"{files.HANDED_OUT}*{files.PARTIAL}"))


def _hang(target: Path) -> None:
    with files.handing_out(target) as file:
        file.write(TEXT)
        file.flush()
        signal.pause()


def leave(target: Path) -> None:
    """Begin to write a file, and be killed."""
    process = forked(_hang, target)
    until(lambda: hidden(target.parent) and hidden(target.parent)[0].stat().st_size, 30, every=0.02)
    process.kill()
    process.join(10)


@pytest.fixture
def night_of_6() -> Iterator[House]:
    with new_house(students(6), classes(2)) as house:
        house.night(1)
        yield house


@pytest.mark.parametrize("swept_by", ["export", "roster", "writer", "erasure"])
def test_what_a_killed_export_leaves_is_removed(night_of_6: House, swept_by: str) -> None:
    exports = files.folder(night_of_6.warehouse / "exports" / "of the office")
    leave(exports / "list.csv")
    assert [path.read_bytes() for path in hidden(exports)] == [TEXT]
    if swept_by == "export":
        export(
            night_of_6.published, "roster", Format.CSV, exports / "roster.csv", scratch=night_of_6.warehouse / "build"
        )
        assert [path.name for path in exports.iterdir()] == ["roster.csv"]
    elif swept_by == "roster":
        oneroster.write(night_of_6.published, exports)
    elif swept_by == "writer":
        with night_of_6.rollbook().writer().writing():
            pass
    else:
        erase(night_of_6, 1)
    assert hidden(night_of_6.warehouse) == []


def test_what_a_running_export_writes_is_not_swept(night_of_6: House) -> None:
    exports = files.folder(night_of_6.warehouse / "exports")
    with files.handing_out(exports / "list.csv") as file:
        file.write(TEXT)
        with night_of_6.rollbook().writer().writing():
            pass
        with files.handing_out(exports / "other.csv"):
            pass
        assert len(hidden(exports)) == 1
    assert (exports / "list.csv").read_bytes() == TEXT
    assert hidden(exports) == []


def test_a_half_written_file_of_somebody_else_stays(tmp_path: Path) -> None:
    """A link in a folder that others may write to, and a name that is not ours."""
    theirs = [tmp_path / "theirs", tmp_path / f"{files.HANDED_OUT}notes.txt"]
    for path in theirs:
        path.write_text("theirs")
    link = tmp_path / f"{files.HANDED_OUT}x{files.PARTIAL}"
    link.symlink_to(theirs[0])
    files.sweep_handed_out(tmp_path)
    assert [path.read_text() for path in theirs] == ["theirs", "theirs"]
    assert link.is_symlink()


# --- OneRoster -------------------------------------------------------------------------------------------------------


def _roster(published: Path, folder: Path, die_at: int) -> None:
    die_at_step(die_at)
    oneroster.write(published, folder)


def test_a_killed_roster_is_never_a_mixture_of_days_under_a_manifest(night_of_6: House, tmp_path: Path) -> None:
    """A system takes a folder by its manifest."""
    folder = tmp_path / "roster"
    oneroster.write(night_of_6.published, folder)
    night_of_6.night(2, students(6, first=2))
    for die_at in (1, 4, len(oneroster.FILES) + 1):
        assert (folder / "manifest.csv").exists()
        assert killed_or_done(forked(_roster, night_of_6.published, folder, die_at))
        assert not (folder / "manifest.csv").exists()
        oneroster.write(night_of_6.published, folder)
    assert hidden(folder) == []


# --- progress reports ------------------------------------------------------------------------------------------------


def _pages(warehouse: Path, die_at: int) -> None:
    die_at_step(die_at)
    write_pages(warehouse, Chosen(), since=None, pdf=False)


@pytest.mark.parametrize("earlier", [2, 1])
def test_killed_pages_leave_the_older_ones(night_of_6: House, earlier: int) -> None:
    """Before the older ones are set aside, and before the new ones take their place."""
    night_of_6.night(2, [*students(5), student(6, name="Older Name")])
    write = partial(write_pages, night_of_6.warehouse, Chosen(), since=None, pdf=False)
    write()
    folder = night_of_6.warehouse / "exports" / "pages"
    older = {path.name for path in (folder / "all" / "students").iterdir()}
    night_of_6.night(3, students(5))
    # Each page of a student, a class and the teacher, the index, and the two moves.
    steps = 5 + 2 + len([*(folder / "all" / "teachers").iterdir()]) + 1 + 2
    assert killed_or_done(forked(_pages, night_of_6.warehouse, steps + 1 - earlier))
    there = folder / ("all.before" if earlier == 1 else "all")
    assert {path.name for path in (there / "students").iterdir()} == older
    assert "Older Name" in (there / "students" / "6.html").read_text(encoding="utf-8")
    with night_of_6.rollbook().writer().writing():
        pass
    assert {path.name for path in folder.iterdir()} == {there.name}
    write()
    assert {path.name for path in folder.iterdir()} == {"all"}
    assert len([*(folder / "all" / "students").iterdir()]) == 5
    assert night(3).isoformat()[:4] in (folder / "all" / "index.html").read_text(encoding="utf-8")
