"""Answers as files: the same rows in each format, text that stays text, and nothing half-written."""

from __future__ import annotations

import csv
import io
import os
import stat
import subprocess
import sys
import unicodedata
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import openpyxl
import pyarrow.parquet as pq
import pytest

from rollbook.errors import ArgumentError, NothingLandedError
from rollbook.reading import excel
from rollbook.reading import query as module
from rollbook.reading.formats import Format, check_target
from rollbook.reading.query import export
from rollbook.settings import ROOT
from rollbook.store.database import literal
from rollbook.views import catalog
from tests.support.reading import writable
from tests.support.warehouses.school import LAST, School

NASTY = [
    '=HYPERLINK("http://x.example","click")', "+1+1", "-2+3", "@SUM(A1)", "\tx", "\rx", "\uff1d1", "=", "http://x.example",
]  # fmt: skip


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture(params=list(Format))
def form(request: pytest.FixtureRequest) -> Format:
    return Format(request.param)


def write(school: School, question: str, form: Format, out: Path) -> int:
    return export(school.published, question, form, out, scratch=out.parent)


def read(out: Path, form: Format) -> list[list[Any]]:
    """The rows of a file, the heading first."""
    if form is Format.CSV:
        with out.open(encoding="utf-8-sig", newline="") as file:
            return list(csv.reader(file))
    if form is Format.XLSX:
        sheet = openpyxl.load_workbook(io.BytesIO(out.read_bytes())).worksheets[0]
        return [list(row) for row in sheet.iter_rows(min_row=2, values_only=True)]
    table = pq.read_table(out)
    return [table.column_names, *(list(r.values()) for r in table.to_pylist())]


def plain(name: str) -> str:
    """A name without its accents and case, by which people sort."""
    letters = (c for c in unicodedata.normalize("NFD", name) if not unicodedata.combining(c))
    return unicodedata.normalize("NFC", "".join(letters)).lower()


def test_a_named_view_comes_in_the_order_people_read(fortnight: School, out: Path) -> None:
    write(fortnight, "students_to_watch", Format.PARQUET, out)
    heading, *rows = read(out, Format.PARQUET)
    severity, name, key = (heading.index(column) for column in ("severity", "name", "student_id"))
    assert rows == sorted(rows, key=lambda row: (-row[severity], plain(row[name]), row[name], row[key])) != []
    ordered = {view.name: view for view in catalog.views() if view.order}
    assert {"roster", "student_progress", "teacher_overview"} < ordered.keys()
    for view in ordered.values():
        assert {term.split()[0] for term in view.order} <= {column for column, _ in view.columns}


def test_whole_rows_come_back_as_they_were(fortnight: School, out: Path, form: Format) -> None:
    query = """SELECT student_id, name, registration_date, completion_rate, has_ever_logged_in, class_titles
               FROM student_progress ORDER BY student_id LIMIT 40"""
    write(fortnight, query, form, out)
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert [p.name for p in out.parent.iterdir()] == ["out"]
    want = fortnight.rows(query)
    heading, *rows = read(out, form)
    names, headings = ["student_id", "name", "registration_date"], ["Student id", "Name", "Registration date"]
    assert heading[:3] == (headings if form is Format.XLSX else names)
    if form is Format.CSV:
        assert out.read_bytes().startswith(b"\xef\xbb\xbf")  # else Excel does not read umlauts
        words = {None: "", True: "true", False: "false"}
        assert rows == [[words[v] if v is None or isinstance(v, bool) else str(v) for v in row] for row in want]
    else:
        words = {True: "yes", False: "no"} if form is Format.XLSX else {}
        told = [[words.get(v, v) if isinstance(v, bool) else v for v in row] for row in want]
        assert [[v.date() if isinstance(v, datetime) else v for v in row] for row in rows] == told


@pytest.fixture
def nasty(fortnight: School, tmp_path: Path) -> School:
    """A file in which students call themselves formulas."""
    school = fortnight.copy(tmp_path / "w")
    with duckdb.connect(writable(school.published)) as con:
        ids = [r[0] for r in con.execute("SELECT student_id FROM students ORDER BY 1 LIMIT ?", [len(NASTY)]).fetchall()]
        for student, name in zip(ids, NASTY, strict=True):
            con.execute("UPDATE students SET name = ? WHERE student_id = ?", [name, student])
    return school


QUERY = f"SELECT name, student_id FROM students ORDER BY student_id LIMIT {len(NASTY)}"


def test_a_csv_cell_that_would_run_is_disarmed_and_numbers_are_not(nasty: School, out: Path) -> None:
    write(nasty, f"SELECT name, -student_id AS less FROM ({QUERY})", Format.CSV, out)
    names = [row[0] for row in read(out, Format.CSV)[1:]]
    assert names == [f"'{n}" if n != "http://x.example" else n for n in NASTY]
    assert all(row[1].startswith("-") for row in read(out, Format.CSV)[1:])


SPLIT = {
    "Ann;=1+1": "Ann;'=1+1",
    "Ann\t@SUM(A1)": "Ann\t'@SUM(A1)",
    "Ann\r\n-1": "Ann\r\n'-1",
    "=1;;+1; =2": "'=1;;'+1;' =2",
    'Ann;"=1': "Ann;'\"=1",
    "Ann;\uff1d1": "Ann;'\uff1d1",
    "Ann-Marie; a=b, =c": "Ann-Marie; a=b, =c",
}


def test_csv_text_does_not_run_where_semicolons_or_tabs_separate_columns(fortnight: School, out: Path) -> None:
    values = ", ".join(f"({n}, CAST({literal(text)} AS VARCHAR))" for n, text in enumerate(SPLIT))
    write(fortnight, f"SELECT name FROM (VALUES {values}) AS v(n, name) ORDER BY n", Format.CSV, out)
    assert [row[0] for row in read(out, Format.CSV)[1:]] == list(SPLIT.values())
    assert [module.disarmed(text) for text in SPLIT] == list(SPLIT.values())  # as for a heading


def test_an_excel_cell_is_text_even_if_it_looks_like_a_formula(nasty: School, out: Path) -> None:
    write(nasty, QUERY, Format.XLSX, out)
    sheet = openpyxl.load_workbook(io.BytesIO(out.read_bytes())).worksheets[0]
    cells = [row[0] for row in sheet.iter_rows(min_row=3)]
    assert [c.data_type for c in cells] == ["s"] * len(NASTY)
    assert [c.value.replace("_x000D_", "\r") for c in cells] == NASTY
    assert not any(c.hyperlink for c in cells)


def test_an_excel_column_fits_its_longest_text_and_keeps_its_format(fortnight: School, out: Path) -> None:
    write(fortnight, "SELECT reason, last_activity_date, is_missing_work FROM students_to_watch", Format.XLSX, out)
    sheet = openpyxl.load_workbook(io.BytesIO(out.read_bytes())).worksheets[0]
    ((longest,),) = fortnight.rows("SELECT MAX(LENGTH(reason)) FROM students_to_watch")
    widths = [round(sheet.column_dimensions[letter].width) for letter in "ABC"]
    assert widths == [pytest.approx(min(longest + 2, 120), abs=1), pytest.approx(22, abs=1), pytest.approx(20, abs=1)]
    assert sheet["B3"].number_format == "yyyy-mm-dd"


def test_a_day_before_1900_is_text_in_excel(fortnight: School, out: Path) -> None:
    """Excel counts days from 1900 on; a typing error of a year is common enough in dates of registration."""
    days = "DATE '1899-12-31', DATE '1900-03-01', TIMESTAMP '1899-12-31 10:00:00', DATE '0019-09-01'"
    write(fortnight, f"SELECT UNNEST([1]), {days}", Format.XLSX, out)
    assert read(out, Format.XLSX)[1][1:] == [
        "1899-12-31",
        datetime(1900, 3, 1),  # noqa: DTZ001 - as openpyxl reads it
        "1899-12-31 10:00:00",
        "0019-09-01",
    ]


def test_an_excel_file_names_its_day_and_has_a_sheet_a_value(fortnight: School, out: Path) -> None:
    export(fortnight.published, "roster", Format.XLSX, out, scratch=out.parent, sheet_by="class_title")
    book = openpyxl.load_workbook(io.BytesIO(out.read_bytes()))
    titles = [t for (t,) in fortnight.rows("SELECT DISTINCT class_title FROM roster ORDER BY 1")]
    name = [c.value for c in book[titles[0]][2]].index("Name")
    assert book.sheetnames == titles
    at = [c.value for c in book[titles[0]][2]].index("Class title")
    for title in titles:
        shown = [row[at] for row in book[title].iter_rows(min_row=3, values_only=True)]
        assert set(shown) == {title}
        names = [row[name] for row in book[title].iter_rows(min_row=3, values_only=True)]
        assert names == sorted(names, key=plain)
        assert [(len(shown),)] == fortnight.rows(f"SELECT COUNT(*) FROM roster WHERE class_title = '{title}'")
    assert book[titles[0]]["A1"].value == f"Roster, Linden Vale School 1, {LAST}"
    write(fortnight, "roster", Format.XLSX, out)
    assert openpyxl.load_workbook(io.BytesIO(out.read_bytes())).sheetnames == ["roster"]
    with pytest.raises(
        ArgumentError, match="There is no column nothing to make sheets by: choose from class_title, name"
    ):
        export(fortnight.published, "roster", Format.XLSX, out, scratch=out.parent, sheet_by="nothing")


@pytest.mark.parametrize(
    ("titles", "expected"),
    [
        (["History", "Art"], ["Art", "History (2)"]),  # Excel keeps the name for itself
        (["\U0001f3a8" * 20], ["\U0001f3a8" * 15]),  # Excel counts an emoji twice
        (["Year 9 Advanced Maths with Mr O'Brien"], ["Year 9 Advanced Maths with Mr O"]),
        ([" 'Tis the season"], ["Tis the season"]),
        (["a\tb\nc\x01"], ["a b c"]),
        (["A", "a", "A (2)"], ["A", "a (2)", "A (2) (2)"]),
        (["Year 10", "\u00e9cole", "Year 9", "Zoo", "Eco"], ["Eco", "\u00e9cole", "Year 9", "Year 10", "Zoo"]),
        ([f"Introduction to computer science {n:03}" for n in range(120)], None),
    ],
)
def test_any_title_of_a_class_names_a_sheet(
    fortnight: School, out: Path, titles: list[str], expected: list[str] | None
) -> None:
    query = f"FROM (VALUES {', '.join(f'({literal(title)})' for title in titles)}) AS t(title)"
    export(fortnight.published, query, Format.XLSX, out, scratch=out.parent, sheet_by="title")
    names = openpyxl.load_workbook(io.BytesIO(out.read_bytes())).sheetnames
    assert sorted(map(str.lower, names)) == sorted(map(str.lower, expected or names))
    assert (len({name.lower() for name in names}), "history" in map(str.lower, names)) == (len(titles), False)


def test_names_of_sheets_are_what_excel_takes(fortnight: School, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = ["A/B", "A:B", "x" * 40, "x" * 50, "'quoted'", "", None]
    written = ", ".join("(NULL)" if value is None else f"({literal(value)})" for value in values)
    query = f"FROM (VALUES {written}) AS t(v)"
    export(fortnight.published, query, Format.XLSX, out, scratch=out.parent, sheet_by="v")
    shown = openpyxl.load_workbook(io.BytesIO(out.read_bytes())).sheetnames
    assert sorted(shown) == sorted(["rollbook", "quoted", "A B", "A B (2)", "x" * 31, f"{'x' * 27} (2)", "(none)"])
    monkeypatch.setattr(excel, "SHEETS", 3)
    with pytest.raises(ArgumentError, match="v has more than 3 values"):
        export(fortnight.published, query, Format.XLSX, out, scratch=out.parent, sheet_by="v")


def test_no_link_that_somebody_planted_is_written_through(fortnight: School, tmp_path: Path, form: Format) -> None:
    victim, folder = tmp_path / "victim", tmp_path / "shared"
    victim.write_text("precious")
    folder.mkdir()
    for name in ("f", ".f.partial", ".f.partial.plain"):
        (folder / name).symlink_to(victim)
    write(fortnight, "course_overview", form, folder / "f")
    assert victim.read_text() == "precious"
    assert not (folder / "f").is_symlink()
    assert stat.S_IMODE((folder / "f").stat().st_mode) == 0o600


def test_headings_that_pupils_wrote_are_disarmed_too(nasty: School, out: Path) -> None:
    names = ", ".join(f"'{n}'" for n in ('=HYPERLINK("http://x.example","click")', "+1+1"))
    write(nasty, f"PIVOT students ON name IN ({names}) USING COUNT(*) GROUP BY is_registered", Format.CSV, out)
    assert read(out, Format.CSV)[0] == ["is_registered", '\'=HYPERLINK("http://x.example","click")', "'+1+1"]


def test_a_query_that_fails_on_its_way_leaves_the_older_file(fortnight: School, out: Path, form: Format) -> None:
    out.write_text("older")
    with pytest.raises(ArgumentError, match="DuckDB refused the query: .*so far and no further"):
        write(fortnight, "SELECT IF(i < 50000, i, ERROR('so far and no further')) FROM range(60000) t(i)", form, out)
    assert (out.read_text(), os.listdir(out.parent)) == ("older", ["out"])  # noqa: PTH208


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
@pytest.mark.parametrize("form", [Format.CSV, Format.PARQUET])
def test_a_large_answer_takes_little_memory(fortnight: School, out: Path, form: Format) -> None:
    """Two million rows of 200 bytes: 400 MB, which pass through in batches."""
    program = f"""
from pathlib import Path
from rollbook.reading.formats import Format
from rollbook.reading.query import export
def peak(): return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024
small = "SELECT i, repeat('x', 200) AS a FROM range(20000) t(i)"
export(Path({str(fortnight.published)!r}), small, Format({form.value!r}), Path({str(out)!r}), scratch=Path({str(out.parent)!r}))
before = peak()
large = "SELECT i, repeat('x', 190) || i AS a FROM range(2000000) t(i)"
export(Path({str(fortnight.published)!r}), large, Format({form.value!r}), Path({str(out)!r}), scratch=Path({str(out.parent)!r}))
print(peak() - before)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True, timeout=110
    )
    assert 0 < float(done.stdout) < 200  # MB


def test_more_rows_than_excel_holds_are_refused_and_the_older_file_stays(
    fortnight: School, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(excel, "ROWS", 100)
    out.write_text("older")
    with pytest.raises(ArgumentError, match="more than the 100 rows that an Excel sheet holds: use --format csv"):
        write(fortnight, "roster", Format.XLSX, out)
    assert out.read_text() == "older"


def test_a_missing_folder_and_a_warehouse_without_syncs_are_named(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="is not a folder"):
        check_target(tmp_path / "nowhere" / "f.csv")
    with pytest.raises(ArgumentError, match="is a device"):
        check_target(Path("/dev/null"))
    (tmp_path / "district.duckdb").symlink_to("published/district.1.duckdb")
    with pytest.raises(ArgumentError, match="the warehouse's own files"):
        check_target(tmp_path / "district.duckdb")
    with pytest.raises(NothingLandedError, match="rollbook sync"):
        export(tmp_path / "rollbook.duckdb", "roster", Format.CSV, tmp_path / "f.csv", scratch=tmp_path)


def test_excel_without_its_extra_says_what_to_install(
    fortnight: School, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "xlsxwriter", None)  # as where the package is not installed
    with pytest.raises(ArgumentError, match=r"need the extra `excel`: pip install 'rollbook\[excel\]'"):
        export(fortnight.published, "FROM students", Format.XLSX, out, scratch=out.parent)
    assert list(out.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ("rooster", 'Table with name rooster does not exist!\nDid you mean "roster'),
        ("DELETE FROM students", "DELETE could do more"),
        ("SELECT 1; SELECT 2", "Ask one query at a time"),
        ("SELECT nothing FROM roster", "DuckDB refused the query"),
        ("SELECT FROM WHERE", "DuckDB does not understand"),
    ],
)
def test_invalid_queries_are_refused_in_a_sentence(fortnight: School, out: Path, question: str, message: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        write(fortnight, question, Format.CSV, out)
    assert message in raised.value.message
    assert not out.exists()
