"""`rollbook.open()`: what an analyst's notebook gets, in which types, and what is noted of it."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pandas.io.formats.style import Styler

import rollbook
from rollbook.errors import ArgumentError, NothingLandedError
from rollbook.features.notebook.book import Book
from rollbook.reading import access
from rollbook.settings import ROOT
from tests.support.warehouses.school import DAYS, LAST, School

pytestmark = pytest.mark.nights

BEFORE = DAYS[-3]
SEVEN = "SELECT name FROM students WHERE student_id = "


@pytest.fixture(scope="module")
def book(fortnight: School) -> Book:
    return Book(fortnight.warehouse)


def test_every_answer_is_a_frame_with_the_rows_that_sql_gives(book: Book, fortnight: School) -> None:
    student = fortnight.rows("SELECT MIN(student_id) FROM students_to_watch")[0][0]
    asked = {
        "FROM students": book.table("students"),
        "FROM ops.syncs": book.table("ops.syncs"),
        f"FROM students_as_of(DATE '{BEFORE}')": book.table("students", BEFORE),
        f"FROM students_to_watch_as_of(DATE '{BEFORE}')": book.to_watch(str(BEFORE)),
        "FROM students_to_watch": book.to_watch(),
        f"FROM history.student_classes WHERE student_id = {student}": book.history(
            "student_classes", student_id=student
        ),
        "FROM history.classes": book.history("classes"),
        f"FROM changes WHERE snapshot_date >= DATE '{BEFORE}'": book.changes(BEFORE),
        f"FROM changes WHERE snapshot_date = DATE '{BEFORE}'": book.changes(str(BEFORE), BEFORE),
        f"FROM student_timeline WHERE student_id = {student}": book.student(student),
        "FROM changes_since(NULL, NULL)": book.changes_since(),
        "SELECT name FROM students WHERE student_id = 1": book.query(
            "SELECT name FROM students WHERE student_id = $id", {"id": 1}
        ),
    }
    for sql, frame in asked.items():
        there = fortnight.rows(f"SELECT COUNT(*) FROM ({sql})")[0][0]
        columns = [name for name, *_ in fortnight.rows(f"DESCRIBE {sql}")]
        assert (len(frame), [*frame.columns]) == (there, columns), sql
    assert list(book.changes(BEFORE)["snapshot_date"].unique()) == [*DAYS[-3:]]
    for watched in (book.to_watch(), book.to_watch(BEFORE)):
        assert list(watched["severity"]) == sorted(watched["severity"], reverse=True)
    assert set(book.to_watch()["student_id"]) == {
        i for (i,) in fortnight.rows("SELECT student_id FROM students_to_watch")
    }


def test_columns_keep_their_types_where_values_are_missing(book: Book) -> None:
    progress = book.table("student_progress")
    assert progress["last_activity_date"].isna().any()
    kinds = {
        "student_id": pd.Int64Dtype(),
        "name": pd.StringDtype("pyarrow"),
        "total_assignments": pd.Int64Dtype(),
        "average_score": "float64",
        "last_activity_date": pd.ArrowDtype(pa.date32()),
    }
    assert {name: progress.dtypes[name] for name in kinds} == kinds
    flags = book.to_watch().dtypes
    assert flags["is_inactive"] == pd.BooleanDtype()
    sums = "SELECT SUM(total_assignments) AS s, SUM(total_assignments) * 1e0 AS d, COUNT(*) AS n FROM student_progress"
    assert [str(kind) for kind in book.query(sums).dtypes] == ["Int64", "float64", "Int64"]
    # A sum that no whole number of 64 bits holds stays a decimal.
    assert str(book.query("SELECT SUM(9223372036854775807) AS s FROM range(4)").dtypes["s"]) == "object"


def test_tables_says_what_a_row_of_each_is(book: Book) -> None:
    tables = book.tables().set_index(["schema", "name"])
    assert tables.loc[("main", "roster"), "a_row"].startswith("One row per ")
    assert tables["a_row"].notna().all()
    assert (
        tables.loc[("main", "terms"), "a_row"]
        == "One row per term, as terms.csv beside this file had it at the last publish."
    )
    assert tables.index[0][0] == "main"


def test_arrow_and_polars_have_the_same_rows(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = book.arrow().table("classes")
    assert isinstance(rows, pa.Table)
    assert rows.num_rows == len(book.table("classes"))
    monkeypatch.setitem(sys.modules, "polars", SimpleNamespace(from_arrow=lambda rows: ("polars", rows)))
    assert book.polars().table("classes") == ("polars", rows)


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda b: b.table("student"), "There is no table or view 'student': did you mean students"),
        (lambda b: b.table("x; DROP TABLE students"), "; `tables\\(\\)` lists all"),
        (lambda b: b.table("roster", LAST), "roster cannot be read as of a day: choose from class_"),
        (lambda b: b.history("roster"), "There is no history of roster: choose from students, "),
        (lambda b: b.history("students", id=7), "id is not part of the key of students: student_id"),
        (lambda b: b.changes("yesterday"), "'yesterday' is not a day: write it as 2026-09-01"),
        (lambda b: b.query(f"{SEVEN}?", 7), "Give the values of a query as a list for \\?, or as a dict for \\$name"),
        (lambda b: b.query(f"{SEVEN}?", "7"), "Give the values of a query as a list"),
        (lambda b: b.query(f"{SEVEN}?", [object()]), "DuckDB refused the query"),
        (lambda b: b.query(f"{SEVEN}?", [b.table("classes")]), "DuckDB refused the query"),
        (lambda b: b.query(f"{SEVEN}?", [pd.Series([object()])]), "DuckDB refused the query"),
        (lambda b: b.query(f"{SEVEN}?", []), "DuckDB refused the query"),
        (lambda b: b.changes(pd.NaT), "NaT is not a day"),
        (lambda b: b.query("DELETE FROM students"), "Queries are read-only"),
        (lambda b: b.query("FROM read_csv('/etc/passwd')"), "read_csv"),
    ],
)
def test_what_cannot_be_answered_says_what_to_ask(book: Book, ask: Callable[[Book], object], says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        ask(book)


@pytest.mark.parametrize(
    ("sql", "values"),
    [
        (f"{SEVEN}?", lambda one: [one]),
        (f"{SEVEN}$1", lambda one: (one,)),
        (f"{SEVEN}?", lambda one: pd.Series([one], dtype="Int64")),
        (f"{SEVEN}$id", lambda one: {"id": np.int64(one)}),
        (f"{SEVEN}$id", lambda one: {"id": pa.scalar(one)}),
        (f"{SEVEN[:-2]}IN $ids", lambda one: {"ids": pd.Series([one, None], dtype="Int64")}),
        (f"{SEVEN[:-2]}IN ?", lambda one: [np.array([one])]),
        (f"{SEVEN[:-2]}IN ?", lambda one: [pd.Index([one])]),
        (f"{SEVEN}? AND ? IS NULL", lambda one: [one, pd.NA]),
    ],
)
def test_a_question_takes_values_as_duckdb_pandas_and_numpy_have_them(
    book: Book, fortnight: School, sql: str, values: Callable[[int], Any]
) -> None:
    ((one, name),) = fortnight.rows("SELECT student_id, name FROM students ORDER BY 1 LIMIT 1")
    assert list(book.query(sql, values(one))["name"]) == [name]


@pytest.mark.parametrize(
    "day",
    [
        pd.Timestamp(BEFORE),
        np.datetime64(BEFORE),
        np.datetime64(BEFORE, "ns"),
        pa.scalar(BEFORE),
        pd.Series([BEFORE], dtype="datetime64[ns]")[0],
    ],
)
def test_a_day_may_be_pandas_or_numpys(book: Book, day: Any) -> None:
    asked = "SELECT DISTINCT CAST(snapshot_date AS DATE) AS day FROM changes WHERE snapshot_date = ?"
    assert list(book.query(asked, [day])["day"]) == [BEFORE]
    assert book.table("classes", day).equals(book.table("classes", BEFORE))
    assert book.changes(day).equals(book.changes(BEFORE))


def test_an_open_book_shows_the_newest_night_and_notes_who_was_shown(small: School) -> None:
    book = rollbook.open(small.published)  # the file, or the folder
    before = book.query("SELECT MAX(snapshot_date) AS day FROM changes")
    small.sync(DAYS[1])
    assert list(before["day"]) == [DAYS[0]]
    assert list(book.query("SELECT MAX(snapshot_date) AS day FROM changes")["day"]) == [DAYS[1]]
    students = book.table("students")["student_id"]
    book.history("students", student_id=students.min())
    with pytest.raises(ArgumentError):
        book.query("SELECT nothing FROM students WHERE name = 'Zaphod'")
    shown = [(entry.kind, entry.students, entry.what) for entry in access.entries(small.warehouse)[0]]
    assert shown[-3:] == [
        ("notebook", len(students), "FROM students"),
        ("notebook", 1, "FROM history.students WHERE student_id = $student_id ORDER BY student_id, valid_from"),
        ("notebook", None, "SELECT nothing FROM students WHERE name = ?"),
    ]


def test_an_analysts_own_connection_in_the_process_is_left_alone(book: Book, tmp_path: Path) -> None:
    """As warehouse/README.md opens it: DuckDB gives all connections to a file in a process one configuration."""
    file, out = book.warehouse / "rollbook.duckdb", tmp_path / "own.csv"
    count = "SELECT COUNT(*) AS n FROM students"
    with duckdb.connect(file, read_only=True) as own:
        for _ in range(2):
            assert list(book.query(count)["n"]) == [len(book.table("students"))]
            own.execute("SET threads = 1")
            own.execute(f"COPY ({count}) TO '{out}'")
            assert own.execute(f"FROM read_csv('{out}')").fetchall() == own.execute(count).fetchall()
            with pytest.raises(ArgumentError):
                book.query(f"FROM read_csv('{out}')")
    book.query(count)
    with duckdb.connect(file, read_only=True) as own:
        assert own.execute(f"FROM read_csv('{out}')").fetchall() == own.execute(count).fetchall()


def test_it_answers_in_jupyter_without_ipywidgets(book: Book) -> None:
    code = f"""
import sys
from types import SimpleNamespace
kernel = SimpleNamespace(config={{"IPKernelApp": {{}}}})
sys.modules |= {{"IPython": SimpleNamespace(get_ipython=lambda: kernel), "ipywidgets": None}}
import rollbook
print(len(rollbook.open({str(book.warehouse)!r}).table("classes")))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=100)
    assert done.stdout == f"{len(book.table('classes'))}\n", done.stderr


def test_threads_share_a_book(book: Book) -> None:
    asked = [f"SELECT {n} AS n, COUNT(*) AS students FROM students_to_watch_as_of(DATE '{BEFORE}')" for n in range(12)]
    with ThreadPoolExecutor(2) as threads:
        answers = [*threads.map(book.query, asked)]
    assert [int(answer["n"].iloc[0]) for answer in answers] == [*range(12)]
    assert len({int(answer["students"].iloc[0]) for answer in answers}) == 1


def test_it_opens_what_the_settings_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLLBOOK_WAREHOUSE", str(tmp_path / "w"))
    assert rollbook.open().warehouse == tmp_path / "w"
    assert rollbook.open(demo=True).warehouse == tmp_path / "w" / "demo"
    with pytest.raises(NothingLandedError, match="does not exist yet: run `rollbook sync` first"):
        rollbook.open().to_watch()
    (tmp_path / "institutions.toml").write_text('[ash]\nbase_url = "http://ash.example"\napi_key = { env = "ASH" }\n')
    monkeypatch.setenv("ROLLBOOK_INSTITUTIONS", str(tmp_path / "institutions.toml"))
    assert rollbook.open(institution="ash").warehouse == tmp_path / "w" / "ash"
    with pytest.raises(ArgumentError, match="name one of the institutions"):
        rollbook.open()


def test_days_are_taken_as_dates_or_as_text(book: Book) -> None:
    assert book.table("classes", date.fromisoformat("2026-09-25")).equals(book.table("classes", "2026-09-25"))


def test_lines_are_drawn_over_days_in_their_order(book: Book) -> None:
    days = book.query("SELECT snapshot_date, average_score, students FROM progress_daily")
    html = book.lines(days.iloc[::-1])._repr_html_()
    assert html == book.lines(days)._repr_html_()
    assert "Average score</text>" in html
    assert f">{days['students'].iloc[-1]}</text>" in html
    assert html.count('stroke="var(--strong)"') == 2 * 3, "a line, and a dot at each end"
    with pytest.raises(ArgumentError, match="A line needs two days or more, and snapshot_date has 1"):
        book.lines(days.head(1))


def test_the_notebook_answers_six_questions_with_a_chart_each(
    fortnight: School, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "demo").symlink_to(fortnight.warehouse)
    monkeypatch.setenv("ROLLBOOK_WAREHOUSE", str(tmp_path))
    cells = json.loads((ROOT / "warehouse" / "explore.ipynb").read_text("utf-8"))["cells"]
    assert [cell.get("outputs", []) for cell in cells if cell.get("outputs")] == [], "its output would hold names"
    assert len([cell for cell in cells if "".join(cell["source"]).startswith("## ")]) == 6 + 1
    names: dict[str, Any] = {}
    tables, sizes, drawings = [], [], []
    setup, *asked = ("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    exec(setup, names)  # noqa: S102 - the notebook's own lines
    for source in asked:
        *before, last = ast.parse(source).body
        assert isinstance(last, ast.Expr)
        exec(compile(ast.Module(before, []), "explore.ipynb", "exec"), names)  # noqa: S102 - the notebook's own lines
        shown = eval(compile(ast.Expression(last.value), "explore.ipynb", "eval"), names)  # noqa: S307
        if isinstance(shown, Styler):
            tables.append(shown)
            sizes.append(len(shown.data))  # type: ignore[attr-defined]
        else:
            drawings.append(shown._repr_html_())
    assert sizes == [20, len(names["classes"]), len(names["changes"]), 20, len(names["book"].tables())]
    assert len(names["classes"]) > 1, "in October few classes have enough assignments to be compared"
    assert len(drawings) == 2
    assert all("linear-gradient" in table.to_html() for table in tables[:-1]), "a bar in each"
    sides = re.findall(r" td\.col\d {\s+text-align: (\w+)", tables[0].to_html())
    assert sides == ["left", "right", "left", "left"], "name, severity, reason, classes"
