"""contacted.csv: who was spoken to, and rests at the end of lists until a day."""

from __future__ import annotations

import stat
from datetime import date, timedelta
from pathlib import Path

import duckdb
import pytest

from rollbook.errors import SettingError
from rollbook.landing.records import MAX_ID
from rollbook.views import editable
from rollbook.views.editable import Contacted

HEADING = "student_id,on,until\n"
ON, UNTIL = date(2026, 11, 20), date(2026, 12, 4)
ONE, OTHER = Contacted(7, ON, UNTIL), Contacted(8, ON, UNTIL)


@pytest.mark.parametrize(
    "text",
    [
        HEADING + "7,2026-11-20,2026-12-04\n8,2026-11-20,2026-12-04\n",
        "\ufeffStudent_ID;On;Until\r\n 7 ; 20.11.2026;4.12.2026\r\n;;\r\n8;20.11.2026;4.12.2026\r\n",
    ],
)
def test_what_spreadsheet_programs_save_is_read(tmp_path: Path, text: str) -> None:
    assert editable.read_contacted(tmp_path) == ()
    (tmp_path / "contacted.csv").write_text(text, encoding="utf-8")
    assert editable.read_contacted(tmp_path) == (ONE, OTHER)


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
        editable.read_contacted(tmp_path)
    assert refused.value.message.endswith("Correct the line, or remove it")
    # A line that cannot be read may be about somebody who is erased, so nobody is named in it any more.
    editable.forget(tmp_path, nobody, lambda text: text.replace("Ada", "(erased)"))
    assert (tmp_path / "contacted.csv").read_text() == text.replace("Ada,2026-11-20,2026-12-04\n", "")


def test_a_contacted_student_rests_from_that_day_and_returns_on_the_last(tmp_path: Path) -> None:
    editable.contact(tmp_path, 7, ON, UNTIL)
    editable.contact(tmp_path, MAX_ID, ON + timedelta(days=1), UNTIL)
    days = (ON - timedelta(days=1), ON, UNTIL - timedelta(days=1), UNTIL)
    with duckdb.connect() as con:
        con.execute("CREATE TABLE student_identities (student_id BIGINT, first_day DATE, is_reused BOOLEAN)")
        assert [sorted(editable.resting(tmp_path, day, con)) for day in days] == [[], [7], [7, MAX_ID], []]
    editable.contact(tmp_path, 7, UNTIL, UNTIL + timedelta(days=7))
    assert editable.read_contacted(tmp_path) == (
        Contacted(MAX_ID, ON + timedelta(days=1), UNTIL),
        Contacted(7, UNTIL, UNTIL + timedelta(days=7)),
    )
    editable.contact(tmp_path, 7, UNTIL, None)
    assert [each.student_id for each in editable.read_contacted(tmp_path)] == [MAX_ID]
    assert stat.S_IMODE((tmp_path / "contacted.csv").stat().st_mode) == 0o600


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
    editable.forget(tmp_path, seven, str)
    assert not (tmp_path / "contacted.csv").exists()
    if coding == "cp1252":
        text, left = (f"{each.removeprefix(chr(0xFEFF))}9,2026-11-20,2026-12-04,Zo\xeb\n" for each in (text, left))
    path = tmp_path / "contacted.csv"
    path.write_bytes(text.encode(coding))
    assert editable.lines_about(tmp_path, seven) == text.count("\n") - left.count("\n")
    editable.forget(tmp_path, seven, lambda added: added.replace("Bob", "(erased)"))
    assert path.read_bytes().decode(coding) == left


def test_saving_keeps_the_columns_that_a_person_added(tmp_path: Path) -> None:
    path = tmp_path / "contacted.csv"
    path.write_text(
        '\ufeffstudent_id;on;until;by whom;note\n7;20.11.2026;4.12.2026;Ms Who;"a; b"\n8;20.11.2026;4.12.2026\n',
        encoding="utf-8",
    )
    editable.contact(tmp_path, 9, ON, UNTIL)
    editable.contact(tmp_path, 7, UNTIL, UNTIL + timedelta(days=7))
    assert path.read_text(encoding="utf-8") == (
        "\ufeffstudent_id;on;until;by whom;note\n8;2026-11-20;2026-12-04\n9;2026-11-20;2026-12-04\n"
        '7;2026-12-04;2026-12-11;Ms Who;"a; b"\n'
    )
    editable.contact(tmp_path, 7, UNTIL, None)
    assert [(each.student_id, each.added) for each in editable.read_contacted(tmp_path)] == [(8, ()), (9, ())]
