"""contacted.csv: who was spoken to, and rests at the end of lists until a day."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path

import duckdb
import pytest

from rollbook.errors import SettingError
from rollbook.landing.records import MAX_ID
from rollbook.util import files
from rollbook.util.text import decoded
from rollbook.views import contacted
from rollbook.views.contacted import Contacted

HEADING = "student_id,on,until\n"
ON, UNTIL = date(2026, 11, 20), date(2026, 12, 4)
TODAY = date.today()  # noqa: DTZ011 - as a person writes it
ONE, OTHER = Contacted(7, ON, UNTIL), Contacted(8, ON, UNTIL)


@pytest.mark.parametrize(
    "text",
    [
        HEADING + "7,2026-11-20,2026-12-04\n8,2026-11-20,2026-12-04\n",
        "\ufeffStudent_ID;On;Until\r\n 7 ; 20.11.2026;4.12.2026\r\n;;\r\n8;20.11.2026;4.12.2026\r\n",
    ],
)
def test_what_spreadsheet_programs_save_is_read(tmp_path: Path, text: str) -> None:
    assert contacted.read(tmp_path) == ()
    (tmp_path / "contacted.csv").write_text(text, encoding="utf-8")
    assert contacted.read(tmp_path) == (ONE, OTHER)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("student,on\n", "line 1: the heading must be student_id,on,until"),
        (HEADING + "Ada,2026-11-20,2026-12-04\n", "line 2: student_id is 'Ada'; write a number"),
        (HEADING + f"{MAX_ID + 1},2026-11-20,2026-12-04\n", f"line 2: student_id is '{MAX_ID + 1}'; write a number"),
        (HEADING + "7,2026-11-20\n", "line 2: until is ''; write a date"),
        (HEADING + '7,"2026-11-20,2026-12-04\n', "line 2: a quotation mark is not closed"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "contacted.csv").write_text(text, encoding="utf-8")
    with pytest.raises(SettingError, match=message) as refused:
        contacted.read(tmp_path)
    assert refused.value.message.endswith("Correct the line, or remove it")
    # A line that cannot be read may be about somebody who is erased, so nobody is named in it any more.
    contacted.forget(tmp_path, nobody, lambda text: text.replace("Ada", "(erased)"))
    assert (tmp_path / "contacted.csv").read_text() == text.replace("Ada,2026-11-20,2026-12-04\n", "")


def test_a_contacted_student_rests_from_that_day_and_returns_on_the_last(tmp_path: Path) -> None:
    contacted.add(tmp_path, 7, ON, UNTIL, "head@school.example")
    contacted.add(tmp_path, MAX_ID, ON + timedelta(days=1), UNTIL)
    days = (ON - timedelta(days=1), ON, UNTIL - timedelta(days=1), UNTIL)
    with duckdb.connect() as con:
        con.execute("CREATE TABLE student_identities (student_id BIGINT, first_day DATE, is_reused BOOLEAN)")
        noted = contacted.contacts(tmp_path, con)
        assert [sorted(contacted.resting(noted, day)) for day in days] == [[], [7], [7, MAX_ID], []]
        contacted.add(tmp_path, 7, ON + timedelta(days=1), UNTIL - timedelta(days=1))
        assert contacted.resting(contacted.contacts(tmp_path, con), days[2])[7].until == UNTIL, (
            "the one that lasts longest"
        )
        con.execute("INSERT INTO student_identities VALUES (7, $1, TRUE)", [ON + timedelta(days=1)])
        assert [each.by for each in contacted.contacts(tmp_path, con)] == ["", ""], "one was the previous holder's"
    assert stat.S_IMODE((tmp_path / "contacted.csv").stat().st_mode) == 0o600


def test_every_contact_is_kept_and_undoing_removes_one(tmp_path: Path) -> None:
    later = UNTIL + timedelta(days=7)
    for on, until, by in ((ON, UNTIL, "a"), (UNTIL, later, "a"), (UNTIL, later, "b"), (UNTIL, later, "b")):
        contacted.add(tmp_path, 7, on, until, by)
    every = [Contacted(7, ON, UNTIL, "a"), Contacted(7, UNTIL, later, "a"), Contacted(7, UNTIL, later, "b")]
    assert contacted.read(tmp_path) == (*every,), "a second click says the same"
    contacted.undo(tmp_path, every[1])
    contacted.undo(tmp_path, every[1])
    assert contacted.read(tmp_path) == (every[0], every[2])


def test_many_who_note_at_once_lose_nothing(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda student: contacted.add(tmp_path, student, ON, UNTIL, f"by {student}"), range(1, 41)))
    assert {each.student_id for each in contacted.read(tmp_path)} == {*range(1, 41)}


def test_what_a_person_saves_meanwhile_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, times = tmp_path / "contacted.csv", 0
    path.write_text(HEADING)

    def saved_meanwhile(content: bytes) -> tuple[str, str]:
        nonlocal times
        times += 1
        if times == 1:
            path.write_text(HEADING + "8,2026-11-20,2026-12-04,from Excel\n")
        return decoded(content)

    monkeypatch.setattr(contacted, "decoded", saved_meanwhile)
    contacted.add(tmp_path, 7, ON, UNTIL)
    assert path.read_text() == HEADING + "8,2026-11-20,2026-12-04,from Excel\n7,2026-11-20,2026-12-04\n"


def nobody(student: int, on: date) -> bool:
    return False


def seven(student: int, on: date) -> bool:
    return student == 7


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (HEADING + "7,2026-11-20,2026-12-04\n8,2026-11-20,2026-12-04\n", HEADING + "8,2026-11-20,2026-12-04\n"),
        # As it was saved, with what a person added, malformed lines of others, and without a heading.
        (
            "\ufeffStudent_ID;On;Until;note\r\n 7 ;20.11.2026;4.12.2026;asked\r\n\r\n8;20.11.2026;4.12.2026;like Bob, 7\r\n",
            "\ufeffStudent_ID;On;Until;note\r\n\r\n8;20.11.2026;4.12.2026;like (erased), 7\r\n",
        ),
        (HEADING + '"7",,\n7\n8,soon\n70,2026-11-07,7\n', HEADING + "8,soon\n70,2026-11-07,7\n"),
        ("7,2026-11-20,2026-12-04\n8,2026-11-20,2026-12-04", "8,2026-11-20,2026-12-04"),
        ("", ""),
        (HEADING, HEADING),
    ],
)
@pytest.mark.parametrize("coding", ["utf-8", "utf-16", "cp1252"])
def test_a_students_lines_are_forgotten_and_the_others_stay(tmp_path: Path, text: str, left: str, coding: str) -> None:
    contacted.forget(tmp_path, seven, str)
    assert not (tmp_path / "contacted.csv").exists()
    if coding == "cp1252":
        text, left = (f"{each.removeprefix(chr(0xFEFF))}9,2026-11-20,2026-12-04,Zo\xeb\n" for each in (text, left))
    path = tmp_path / "contacted.csv"
    path.write_bytes(text.encode(coding))
    assert contacted.lines_about(tmp_path, seven) == text.count("\n") - left.count("\n")
    contacted.forget(tmp_path, seven, lambda added: added.replace("Bob", "(erased)"))
    assert path.read_bytes().decode(coding) == left


def test_a_note_that_a_stale_save_lacks_is_put_back_once(tmp_path: Path) -> None:
    path, today = tmp_path / "contacted.csv", date.today()  # noqa: DTZ011 - as a person writes it
    until = today + timedelta(days=14)
    contacted.add(tmp_path, 7, ON, UNTIL)
    opened = path.read_text()
    contacted.add(tmp_path, 8, today, until, "a")
    contacted.add(tmp_path, 9, today, until, "b")
    contacted.undo(tmp_path, Contacted(9, today, until, "b"))
    path.write_text(opened.replace("\n7", "\n5,2026-11-20,2026-12-04\n7"))  # saved with a line more, and without 8

    def students() -> list[int]:
        return sorted(each.student_id for each in contacted.read(tmp_path))

    assert students() == [5, 7, 8], "before anything writes"
    contacted.add(tmp_path, 10, today, until)
    assert students() == [5, 7, 8, 10]
    assert f"8,{today},{until},a" in path.read_text()
    path.write_text("".join(line for line in path.open() if not line.startswith(("8", "7"))))
    assert students() == [5, 10], "who removes it again means it, and what was noted long ago is a person's to remove"
    contacted.forget(tmp_path, lambda student, on: student == 10, str)
    assert students() == [5]
    assert "10" not in (tmp_path / "private" / "noted.csv").read_text().replace(str(today), "").replace(str(until), "")


@pytest.fixture
def stale_save(tmp_path: Path) -> Path:
    """A warehouse in which a colleague noted student 8 today, and a spreadsheet program then saved without that."""
    contacted.add(tmp_path, 7, ON, UNTIL)
    opened = (tmp_path / "contacted.csv").read_text()
    contacted.add(tmp_path, 8, TODAY, TODAY + timedelta(days=14), "a")
    (tmp_path / "contacted.csv").write_text(opened)
    return tmp_path


def test_what_a_save_lacks_is_put_back_without_another_note(stale_save: Path) -> None:
    path = stale_save / "contacted.csv"
    was = path.read_text()
    contacted.put_back(stale_save)
    assert path.read_text() == f"{was.strip()}\n8,{TODAY},{TODAY + timedelta(days=14)},a\n"
    assert not (stale_save / "private" / "noted.csv").exists(), "put back once"
    path.unlink()
    contacted.add(stale_save, 9, TODAY, TODAY + timedelta(days=14))
    path.unlink()
    contacted.put_back(stale_save)
    assert not path.exists(), "a missing file keeps last night's contacts, and one with a line would end the others"


@pytest.mark.parametrize("failing", ["contacted.csv", "noted.csv"])
def test_a_write_that_fails_loses_no_colleagues_contact(
    stale_save: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    real = files.write

    def full(path: Path, content: bytes, *mode: int) -> None:
        if path.name == failing:
            raise OSError(28, "No space left on device")
        real(path, content, *mode)

    with monkeypatch.context() as patched:
        patched.setattr(files, "write", full)
        with pytest.raises(OSError, match="No space left"):
            contacted.add(stale_save, 9, TODAY, TODAY + timedelta(days=14))
    read = {each.student_id for each in contacted.read(stale_save)}
    assert read == ({7, 8} if failing == "contacted.csv" else {7, 8, 9}), (
        "and one that is not in the file does not count"
    )
    contacted.add(stale_save, 9, TODAY, TODAY + timedelta(days=14))
    assert [each.student_id for each in contacted.read(stale_save)] == [7, 8, 9]


def test_a_rest_that_a_person_changes_counts_and_can_be_undone(tmp_path: Path) -> None:
    path, until, later = tmp_path / "contacted.csv", TODAY + timedelta(days=14), TODAY + timedelta(days=40)
    contacted.add(tmp_path, 8, TODAY, until, "a")
    opened = path.read_text()
    path.write_text(opened.replace(str(until), str(later)))
    edited = Contacted(8, TODAY, later, "a")
    assert contacted.read(tmp_path) == (edited,)
    contacted.undo(tmp_path, edited)
    assert contacted.read(tmp_path) == ()
    # Two notes of a day are two, also where a save lacks the second one.
    contacted.add(tmp_path, 8, TODAY, until, "a")
    contacted.add(tmp_path, 8, TODAY, later, "a")
    path.write_text(opened)
    assert contacted.read(tmp_path) == (Contacted(8, TODAY, until, "a"), edited)


def test_a_contact_noted_during_an_erasure_brings_nobody_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    until, changing = TODAY + timedelta(days=14), "rollbook.views.contacted._changing"
    contacted.add(tmp_path, 7, TODAY, until)
    real = contacted._changing  # when it ends, others may write

    @contextmanager
    def with_a_click(root: Path) -> Iterator[None]:
        with real(root):
            yield
        monkeypatch.setattr(changing, real)
        contacted.add(root, 8, TODAY, until)

    monkeypatch.setattr(changing, with_a_click)
    contacted.forget(tmp_path, seven, str)
    assert [each.student_id for each in contacted.read(tmp_path)] == [8]


@pytest.mark.parametrize("coding", ["utf-8", "cp1252"])
def test_noting_keeps_the_file_as_a_person_saved_it(tmp_path: Path, coding: str) -> None:
    path, mark = tmp_path / "contacted.csv", "\ufeff" if coding == "utf-8" else ""
    before = (
        f'{mark}student_id;on;until;by whom;note\r\n7;20.11.2026;4.12.2026;Ms Who;"Zo\xeb; b"\r\n8;20.11.2026;4.12.2026'
    )
    path.write_bytes(before.encode(coding))
    path.chmod(0o640)
    contacted.add(tmp_path, 9, ON, UNTIL)
    assert path.read_bytes().decode(coding) == f"{before}\r\n9;2026-11-20;2026-12-04;;\r\n"
    contacted.add(tmp_path, 7, UNTIL, UNTIL + timedelta(days=7), "head@school.example")
    with_by = before.replace(";note", ";note;by")
    assert path.read_bytes().decode(coding) == (
        f"{with_by}\r\n9;2026-11-20;2026-12-04;;\r\n7;2026-12-04;2026-12-11;;;head@school.example\r\n"
    )
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    contacted.undo(tmp_path, contacted.read(tmp_path)[-1])
    assert [(each.student_id, each.by, each.added) for each in contacted.read(tmp_path)] == [
        (7, "", ("Ms Who", "Zo\xeb; b")),
        (8, "", ()),
        (9, "", ("", "")),
    ]
    contacted.undo(tmp_path, Contacted(7, ON, UNTIL))
    assert "Ms Who" not in path.read_bytes().decode(coding), "the line of a contact that was undone"


def test_a_cell_without_a_heading_does_not_become_who_noted_it(tmp_path: Path) -> None:
    path = tmp_path / "contacted.csv"
    path.write_text(HEADING + "7,2026-11-20,2026-12-04,phoned\n")
    contacted.add(tmp_path, 8, ON, UNTIL, "head")
    assert path.read_text() == (
        "student_id,on,until,,by\n7,2026-11-20,2026-12-04,phoned\n8,2026-11-20,2026-12-04,,head\n"
    )
    assert [(each.by, each.added) for each in contacted.read(tmp_path)] == [("", ("phoned",)), ("head", ("",))]


def test_a_login_that_the_files_characters_cannot_write_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "contacted.csv"
    path.write_bytes((HEADING + "7,2026-11-20,2026-12-04,Zo\xeb\n").encode("cp1252"))
    contacted.add(tmp_path, 8, ON, UNTIL, "\u0142ucja")
    assert [each.by for each in contacted.read(tmp_path)] == ["", "\u0142ucja"]
    assert path.read_text("utf-8-sig").splitlines()[1].endswith("Zo\xeb")
