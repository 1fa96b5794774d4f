"""Reads the school's own lists as spreadsheet programs save them, and refuses the rest by line."""

from __future__ import annotations

import pytest

from rollbook.landing.own import MOST_LINES, UnreadableListError, read


@pytest.mark.parametrize(
    "content",
    [
        b"student_id,year\n1,10\n",
        b"\xef\xbb\xbfStudent ID;Year\r\n 1 ; 10 \r\n;\r\n",
        b"student_id\tyear\r1\t10\r",
        "student_id,year,,\n1,10,,\n".encode("utf-16"),
        b'"Student-ID","YEAR"\n"1","10"\n\n',
    ],
    ids=["plain", "semicolons", "old Mac", "UTF-16 with empty columns", "quoted"],
)
def test_what_spreadsheet_programs_save_is_read(content: bytes) -> None:
    listed = read(content)
    assert (listed.about, listed.columns, listed.remark) == (("student_id",), ("year",), "")
    assert [(line.number, line.who, line.values) for line in listed.lines] == [(2, ("1",), {"year": "10"})]


def test_windows_text_is_read_with_a_remark() -> None:
    listed = read("student_id,note\n1,Zo\xeb \x80 5\n".replace("\x80", "\u20ac").encode("cp1252"))
    assert listed.lines[0].values == {"note": "Zo\xeb \u20ac 5"}
    assert "save it as CSV UTF-8" in listed.remark


def test_columns_may_be_named_in_any_alphabet() -> None:
    assert read("student_id,Förderung,Jahrgangs-Stufe\n1,ja,10\n".encode()).columns == ("förderung", "jahrgangs_stufe")


@pytest.mark.parametrize(
    ("content", "line", "problem"),
    [
        (b"", 1, "the heading is missing"),
        (b"pupil,year\n1,10\n", 1, "'pupil', which does not say whom a line is about: name it student_id, "),
        (b"student_id,year,Year \n1,10,11\n", 1, "two columns are named year"),
        (b"student_id,2nd\n1,10\n", 1, "'2nd' is not the name of a column"),
        (b"student_id,email\n1,a@b\n", 1, "'email' is a name of Rollbook's own"),
        (b'student_id,note\n1,"two\nlines"\n', 2, "a quotation mark is not closed"),
        (b"student_id,note\n1,one,two\n", 2, "it has more cells than the heading"),
        (b"student_id,note\n1,a\x00b\n", 2, "it is not text"),
        (b"student_id,note\n1," + b"x" * 1001, 2, "a cell has 1,001 characters"),
        (b"PK\x03\x04rest", 1, "it is an Excel file, not CSV"),
        (b"student_id\n" + b"1\n" * (MOST_LINES + 1), MOST_LINES + 2, "a list has 10,000 at most"),
        (b"student_id" + b"".join(b",c%d" % n for n in range(101)), 1, "it has 101 columns; a list has 100 at most"),
    ],
)
def test_what_cannot_be_read_is_refused_by_line(content: bytes, line: int, problem: str) -> None:
    with pytest.raises(UnreadableListError) as refused:
        read(content)
    assert refused.value.line == line
    assert problem in refused.value.problem
