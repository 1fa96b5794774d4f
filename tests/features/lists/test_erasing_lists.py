"""An erased student leaves the school's own lists: the files, the landings, the history, and every later save."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rollbook.night import past
from rollbook.night.past import always
from rollbook.rights import erasure
from tests.support.nights import House, new_house, night
from tests.support.records import classes, students

LISTS = {
    "years.csv": "student_id,year\n1,10\n7,7\n",
    "tutors.csv": "reference_id;tutor\nr-7;secret tutor\nR-1;Ms A\n",
    "support.csv": "email,note\nPupil.7@school.example,secret note\npupil.1@school.example,reader\n",
}


@pytest.fixture
def school_with_lists() -> Iterator[House]:
    """A school whose three lists name student 7 by id, reference and email, after two nights."""
    with new_house(students(9), classes(3)) as house:
        save(house)
        house.night(1)
        house.night(2)
        yield house


def save(house: House) -> None:
    """The office saves its lists."""
    for name, text in LISTS.items():
        path = house.warehouse / "own" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def everything(root: Path) -> bytes:
    """All bytes of the warehouse's files, with the bodies of the landings."""
    return b"".join(path.read_bytes() for path in root.rglob("*") if path.is_file())


def test_erased_student_leaves_files_landings_and_history(school_with_lists: House) -> None:
    rollbook = school_with_lists.rollbook()
    done = erasure.erase(rollbook.writer(), 7, reason="request 12", confirm=lambda found: found.counts["lines"] == 6)
    assert done.counts["lists"] == 3
    assert "lines of the school's own lists in own/, removed | 3" in done.text
    for name in ("years", "tutors", "support"):
        assert {row[0] for row in school_with_lists.query(f"FROM history.own_{name}")} == {1}
        assert (school_with_lists.warehouse / "own" / f"{name}.csv").read_text().count("\n") == 2
    for landing in rollbook.raw.folders():
        text = b"".join(content for _, content in landing.contents(landing.pages()))
        assert b"secret" not in text
        assert b"upil.7@" not in text.lower()
    assert b"secret" not in everything(school_with_lists.warehouse)


def test_a_list_that_is_saved_again_brings_nobody_back(school_with_lists: House) -> None:
    erasure.erase(school_with_lists.rollbook().writer(), 7, reason="request 12", confirm=lambda _: True)
    save(school_with_lists)
    school_with_lists.night(3, students=[s for s in students(9) if s["id"] != 7])
    for name in ("years", "tutors", "support"):
        assert {row[0] for row in school_with_lists.query(f"FROM own_{name}")} == {1}
    assert school_with_lists.query("SELECT * FROM data_quality WHERE about LIKE 'own_%'") == []
    past.rebuild(school_with_lists.rollbook().writer(), confirm=always)
    assert school_with_lists.query("FROM history.own_tutors") == [(1, "Ms A", night(1), None)]


def test_subject_access_shows_what_lists_say(school_with_lists: House, tmp_path: Path) -> None:
    from rollbook.rights import subject

    target = tmp_path / "7.zip"
    subject.write(subject.gather(school_with_lists.warehouse, 7), target)
    with zipfile.ZipFile(target) as bundle:
        assert "secret note" in bundle.read("csv/history.own_support.csv").decode()
        assert "7" in bundle.read("csv/main.students_own.csv").decode()
