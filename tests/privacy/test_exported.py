"""Exports that somebody edited: a spreadsheet program writes other files than Rollbook does."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pytest
import xlsxwriter

from pipelines.privacy.exported import Traits, holds, is_unreadable

ANN = Traits(1042, texts=("ann@example.org", "Ann Lee"), pairs=(("Ann", "Lee"),))
HEADINGS = ("student_id", "first_name", "last_name", "score")


def saved(path: Path, *sheets: Sequence[Sequence[object]], cut: tuple[str, ...] = ()) -> Path:
    """A workbook as a spreadsheet program saves it: cells refer to texts in a part of their own. `cut`: a text in two
    fonts, below the rows."""
    with xlsxwriter.Workbook(path) as book:
        for rows in sheets:
            sheet = book.add_worksheet()
            for number, row in enumerate(rows):
                sheet.write_row(number, 0, row)
            if cut:
                sheet.write_rich_string(len(rows), 0, cut[0], book.add_format({"bold": True}), cut[1])
    assert "xl/sharedStrings.xml" in zipfile.ZipFile(path).namelist()
    return path


@pytest.mark.parametrize(
    ("row", "held"),
    [
        ((1042, None, None, 7), True),
        ((7, "Ann", "Lee", 5), True),
        ((7, "Ann", "Moss", 1042.5), False),
        ((7, "Bob", "Moss", "ann@example.org"), True),
        ((7, "Joanne", "Leeds", "1042-3"), False),
    ],
)
def test_a_workbook_that_was_saved_again_is_read_row_by_row(
    tmp_path: Path, row: tuple[object, ...], held: bool
) -> None:
    others = [(8, "Ann", "Moss", 1), (9, "Bob", "Lee", 2)]
    assert holds(saved(tmp_path / "saved.xlsx", [HEADINGS, *others, row]), ANN) == held


def test_a_text_in_two_fonts_is_one_text(tmp_path: Path) -> None:
    assert holds(saved(tmp_path / "bold.xlsx", [HEADINGS], cut=("An", "n Lee")), ANN)


def test_each_sheet_has_headings_of_its_own(tmp_path: Path) -> None:
    marks, ids = [("room", "score"), ("A1", 1042)], [("student_id", "score"), (1042, 1)]
    assert holds(saved(tmp_path / "both.xlsx", marks, ids), ANN)
    assert not holds(saved(tmp_path / "marks.xlsx", marks), ANN)


def test_each_file_in_a_zip_is_read_line_by_line_with_headings_of_its_own(tmp_path: Path) -> None:
    marks, names = "room,score\r\nA1,1042\r\n", "first_name,last_name\r\nAnn,Moss\r\nBob,Lee\r\n"
    for content, held in (({"a.csv": marks, "b.csv": names}, False), ({"a.csv": marks, "b.csv": "id\n1042\n"}, True)):
        with zipfile.ZipFile(tmp_path / "files.zip", "w") as zipped:
            for name, text in content.items():
                zipped.writestr(name, text)
        assert holds(tmp_path / "files.zip", ANN) == held


def test_a_damaged_file_in_a_zip_does_not_hide_the_others(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "sent.zip", "w") as zipped:
        zipped.writestr("damaged.xlsx", b"PK and no more")
        zipped.writestr("ids.csv", "id\n1042\n", zipfile.ZIP_DEFLATED)
    assert holds(tmp_path / "sent.zip", ANN)
    assert is_unreadable(tmp_path / "sent.zip")


def test_a_workbook_in_a_zip_is_read_as_a_workbook(tmp_path: Path) -> None:
    saved(tmp_path / "inner.xlsx", [HEADINGS, (1042, "", "", 1)])
    with zipfile.ZipFile(tmp_path / "sent.zip", "w") as zipped:
        zipped.write(tmp_path / "inner.xlsx", "report/inner.xlsx")
    assert holds(tmp_path / "sent.zip", ANN)
    assert not is_unreadable(tmp_path / "sent.zip")


@pytest.mark.parametrize(
    ("lines", "held"),
    [
        ("Marks of October\n\nstudent_id,score\n1042,1\n", True),
        ("room,score\nA1,1042\n" * 9 + "id\n1042\n", False),
        ('[{"student_id": 1042}]', True),
    ],
)
def test_a_title_may_stand_above_the_headings(tmp_path: Path, lines: str, held: bool) -> None:
    (tmp_path / "marks.csv").write_text(lines)
    assert holds(tmp_path / "marks.csv", ANN) == held


PREFIXED = {
    "[Content_Types].xml": "<Types/>",
    "xl/sharedStrings.xml": "<x:sst>" + "".join(f"<x:si><x:t>{text}</x:t></x:si>" for text in HEADINGS) + "</x:sst>",
    "xl/worksheets/sheet1.xml": "<x:row><x:c t='s'><x:v>0</x:v></x:c></x:row><x:row><x:c><x:v>{id}</x:v></x:c></x:row>",
    "xl/printerSettings/printerSettings1.bin": "\0\1042\0",
}
OPEN_DOCUMENT = {
    "content.xml": "<table:table-row><text:p>student_id</text:p></table:table-row>"
    "<table:table-row><text:p>Ann</text:p><text:p>{id}</text:p></table:table-row>"
    "<table:table-row><text:p>Lee</text:p></table:table-row>",
}


@pytest.mark.parametrize(("name", "parts"), [("prefixed.xlsx", PREFIXED), ("open.ods", OPEN_DOCUMENT)])
def test_a_workbook_of_another_program_is_read_row_by_row(tmp_path: Path, name: str, parts: dict[str, str]) -> None:
    for student, held in ((1042, True), (7, False)):
        with zipfile.ZipFile(tmp_path / name, "w") as zipped:
            for part, text in parts.items():
                zipped.writestr(part, text.replace("{id}", str(student)))
        assert (holds(tmp_path / name, ANN), is_unreadable(tmp_path / name)) == (held, False)


def test_a_file_of_an_unknown_kind_is_searched_and_said_to_be_unread(tmp_path: Path) -> None:
    for text, held in (("ann@example.org", True), ("bob@example.org", False)):
        (tmp_path / "old.xls").write_bytes(b"\xd0\xcf\x11\xe0\0" + text.encode("utf-16-le"))
        assert holds(tmp_path / "old.xls", ANN) == held
        assert is_unreadable(tmp_path / "old.xls")


@pytest.mark.parametrize("bit", ["encrypted", "cut"])
def test_a_file_that_cannot_be_read_stops_nothing_and_is_named_damaged(tmp_path: Path, bit: str) -> None:
    path = saved(tmp_path / "odd.xlsx", [HEADINGS, *[(n, "Bob", "Lee", n * 7) for n in range(500)]])
    content = bytearray(path.read_bytes())
    if bit == "encrypted":
        for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):  # the flags of each member
            start = content.find(mark)
            while start >= 0:
                content[start + at] |= 1
                start = content.find(mark, start + 4)
    else:
        middle = content.find(b"xl/worksheets/sheet1.xml") + 200
        content[middle : middle + 40] = bytes(40)
    path.write_bytes(content)
    assert not holds(path, ANN)
    assert is_unreadable(path)


def test_a_file_that_its_reader_chokes_on_stops_nothing(tmp_path: Path) -> None:
    with duckdb.connect() as con:
        con.execute(f"COPY (SELECT 1042 AS student_id, 'infinity'::TIMESTAMP AS at) TO '{tmp_path / 'odd.parquet'}'")
    assert not holds(tmp_path / "odd.parquet", ANN)
    assert is_unreadable(tmp_path / "odd.parquet")


def test_a_damaged_parquet_file_in_a_zip_does_not_hide_the_next_file(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "sent.zip", "w") as zipped:
        zipped.writestr("damaged.parquet", b"PAR1")
        zipped.writestr("ids.csv", "id\n1042\n", zipfile.ZIP_DEFLATED)
    assert holds(tmp_path / "sent.zip", ANN)


def test_a_binary_part_of_a_workbook_is_searched_or_said_to_be_unread(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "odd.xlsb", "w") as zipped:
        zipped.writestr("[Content_Types].xml", "<Types/>")
        zipped.writestr("xl/worksheets/sheet1.bin", b"\0\1bin")
    assert is_unreadable(tmp_path / "odd.xlsb")


@pytest.mark.parametrize("content", [b"student_id\n1042.0\n", "name\nAnn Lee\nJos\u00e9\n".encode("cp1252")])
def test_ids_as_decimals_and_files_of_windows_are_found(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    assert holds(tmp_path / "a.csv", ANN)


def test_a_name_with_an_accent_is_found_in_a_file_of_windows(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("first,last\nJos\u00e9,M\u00fcller\n".encode("cp1252"))
    assert holds(tmp_path / "a.csv", Traits(1, pairs=(("Jos\u00e9", "M\u00fcller"),)))
