"""`readers.csv`: what counts in it, what is refused in one line, and what `rollbook readers` says of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollbook.errors import SettingError
from rollbook.features.explore import readers
from rollbook.features.explore.readers import Readers
from rollbook.features.explore.seen import seen
from tests.support.processes.asgi import ask
from tests.support.processes.commands import run_at
from tests.support.warehouses.staff import READERS, STUDENTS, as_reader, door, staff_room

pytestmark = pytest.mark.nights


def written(folder: Path, content: str | bytes) -> Path:
    path = folder / "readers.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_lines_of_a_login_add_up_as_spreadsheets_save_them(tmp_path: Path) -> None:
    path = written(
        tmp_path, '\ufefflogin;sees\r\n Anna@School.example ;Year = 10\r\n;\r\nanna@school.example;"TEACHER"\r\n'
    )
    assert readers.read(path) == {"anna@school.example": {"year=10": 2, "teacher": 4}}
    assert Readers(tmp_path, teachers=False).sees("anna@school.example") == {"year=10", "teacher"}
    assert Readers(tmp_path, teachers=True).sees("other@school.example") == {"teacher"}
    assert readers.read(tmp_path / "none.csv") == {}


@pytest.mark.parametrize(
    ("content", "line", "problem"),
    [
        ("who,sees\na,all\n", 1, "the heading must be login,sees"),
        ("", 1, "the heading must be login,sees"),
        ("login,sees\na,all\nA ,ALL\n", 3, "it says the same as line 2; remove one of them"),
        ("login,sees\na,year\n", 2, "sees is 'year'; write all, teacher, or a column of an own list, as year=10"),
        ("login,sees\na,\n", 2, "sees is ''; write all, teacher, or a column of an own list, as year=10"),
        ("login,sees\n,all\n", 2, "the login is missing; write it as the sign-in gives it"),
        ("login,sees\na,year=10,year=11\n", 2, "there are more than two cells; write login,sees, and another line for more"),
        ("login,sees\n" + "".join(f"a{n},all\n" for n in range(100_000)), 10_002, "there are more than 10,000 lines; name fewer readers"),
        (b"PK\x03\x04\x14\x00\xe9\xff", 1, "it is not a CSV text file; save it as CSV (UTF-8)"),
        ('login,sees\na,"all\nb,all\n', 2, 'a quotation mark is not closed in its cell; a cell has no line breaks, and "" for a quote'),
    ],
)  # fmt: skip
def test_a_damaged_file_is_one_line_and_shows_nobody_anything(
    tmp_path: Path, content: str | bytes, line: int, problem: str
) -> None:
    path = written(tmp_path, content)
    for read in (lambda: readers.read(path), lambda: Readers(tmp_path, teachers=True).sees("a")):
        with pytest.raises(SettingError) as refused:
            read()
        assert refused.value.message == f"{path}, line {line}: {problem}. Correct the line, or remove it"


def test_a_line_counts_from_the_next_request(tmp_path: Path) -> None:
    staff = staff_room(tmp_path / "w")
    room, login = door(staff), "new@school.example"

    def status() -> int:
        return ask(room, "/students", as_reader(login)).status

    assert status() == 403
    told = ask(room, "/", as_reader(login)).text
    assert ("signed in as <strong" in told, "readers.csv" in told, "/students" in told) == (True, True, False)
    path = written(staff.warehouse, f"{READERS}{login},year=8\n")
    assert status() == 200
    written(staff.warehouse, f"{READERS}{login},year=8,\n,x\n")
    for who in (login, "head@school.example"):
        answer = ask(room, "/students", as_reader(who))
        assert (answer.status, str(path) in answer.text, "readers.csv" in answer.text) == (503, False, False)
    path.unlink()
    assert status() == 403
    written(staff.warehouse, f"login,sees\n{login},year=8\n")
    mine = ask(door(staff, teachers=True), "/", as_reader(login)).text
    assert ("You see year 8:" in mine, "Nobody is yours" in mine) == (True, False)
    path.unlink()
    assert (
        "Nobody is yours as the classes that you teach" in ask(door(staff, teachers=True), "/", as_reader(login)).text
    )
    assert ask(door(staff, teachers=True), "/students", as_reader("teacher3@school.example")).status == 200


def test_the_command_says_whom_each_reader_sees(tmp_path: Path) -> None:
    staff = staff_room(tmp_path / "w")
    said = [
        (each.login.partition("@")[0], each.students, each.classes, each.problems)
        for each in seen(staff.warehouse, teachers=False)
    ]
    alone = {
        login: (len(staff.students(login)), len(staff.classes(login)))
        for login in readers.read(staff.warehouse / "readers.csv")
    }
    assert said == [
        ("head", len(STUDENTS) - 2, 15, []),
        *((login.partition("@")[0], *counts, []) for login, counts in alone.items() if counts != (0, 0)),
        ("nobody", 0, 0, ["line 9: no student has 14 as year in a list of the school's own"]),
    ]
    emails = {each.login for each in seen(staff.warehouse, teachers=True)}
    assert {f"teacher{n}@school.example" for n in range(1, 5)} <= emails
    shown = run_at(staff.warehouse, "readers", ROLLBOOK_TEACHERS_SEE_THEIRS="1", COLUMNS="140")
    assert (shown.returncode, "teacher1@school.example" in shown.stdout, "line 9: no student" in shown.stdout) == (
        0,
        True,
        True,
    )
    path = written(staff.warehouse, "login,sees\na,b\n")
    refused = run_at(staff.warehouse, "readers")
    assert (refused.returncode, f"{path}, line 2: sees is 'b'" in refused.stderr.replace("\n", " ")) == (2, True)
    path.unlink()
    assert "has no line yet" in run_at(staff.warehouse, "readers").stdout
