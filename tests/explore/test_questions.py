"""What the pages ask, compared with the published views and with what the views said a night before."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import duckdb
import pytest

from pipelines.errors import NothingLandedError
from pipelines.explore import pages
from pipelines.explore.pages import ROWS, Book, Selection, find, sql
from pipelines.export import Format
from pipelines.export.query import export
from tests.support.warehouses.school import DAYS, FIRST, LAST, School

WATCHED = "SELECT student_id FROM students_to_watch"
SECOND = FIRST + timedelta(days=1)


@pytest.fixture
def book(fortnight: School) -> Book:
    return Book(fortnight.warehouse)


def turned(book: Book, *, newly: bool) -> set[int]:
    """The ids of all who are newly to watch, or no longer."""
    found = pages.watch(book, book.days[0], "", newly=newly)
    return {row[0] for page in range(1, found.pages + 1) for row in found.rows(page)}


def test_who_is_newly_to_watch_is_who_the_view_named_tonight_and_not_the_night_before(small: School) -> None:
    before = {key for (key,) in small.rows(WATCHED)}
    # After nine days most pupils have worked: without this, the night would be held.
    small.sync(FIRST + timedelta(days=9), hold_changed_percent=100)
    now = {key for (key,) in small.rows(WATCHED)}
    book = Book(small.warehouse)
    assert now - before
    assert turned(book, newly=True) == now - before
    listed = {key for (key,) in small.rows("SELECT student_id FROM students")}
    assert turned(book, newly=False) & listed == (before - now) & listed


def test_the_reasons_of_a_day_are_those_of_the_view(book: Book, fortnight: School) -> None:
    (now, before) = book.rows("watch_counts", sql("watch_counts"), day=LAST, before=DAYS[-2])
    flags = ("is_falling", "is_never_logged_in", "is_inactive", "is_low_completion", "is_low_score")
    sums = ", ".join(f"COUNT(*) FILTER ({flag})" for flag in flags)
    assert now == (LAST, *fortnight.rows(f"SELECT COUNT(*), {sums} FROM students_to_watch")[0])
    assert before[0] == DAYS[-2]
    assert sum(now[2:]) > now[1] > 0


def test_students_are_found_by_any_text_as_data_and_those_who_left_as_well(book: Book, fortnight: School) -> None:
    ((key, name, reference),) = fortnight.rows("SELECT student_id, name, reference_id FROM students ORDER BY 1 LIMIT 1")
    for text in (str(key), name.upper(), reference, f"  {name} "):
        assert key in find(book, "find_students", text).values()
    for text in ("' OR 1=1 --", "%", "$text", "nobody has this name"):
        assert find(book, "find_students", text) == {}
    ((gone, since),) = fortnight.rows(
        "SELECT student_id, MAX(valid_to) FROM history.students WHERE student_id NOT IN (SELECT student_id FROM students)"
        " GROUP BY 1 ORDER BY 1 LIMIT 1"
    )
    ((label, found),) = find(book, "find_students", str(gone)).items()
    assert found == gone
    assert label.endswith(f"left {since}")


@pytest.mark.parametrize(
    ("column", "comparison", "value", "condition"),
    [
        ("name", "contains", "AN", "name ILIKE '%an%'"),
        ("student_id", "is", "none", "FALSE"),
        ("class_count", "is", "3", "class_count = 3"),
        ("class_count", "is not", "3", "class_count IS DISTINCT FROM 3"),
        ("completion_rate", "is at least", "50", "completion_rate >= 50"),
        ("completion_rate", "is at most", "9.5", "completion_rate <= 9.5"),
        ("registration_date", "is at most", "2026-01-31", "registration_date <= '2026-01-31'"),
        ("completion_rate", "is at least", "half", "FALSE"),
        ("average_score", "is empty", "", "average_score IS NULL"),
        ("average_score", "is not empty", "", "average_score IS NOT NULL"),
        ("name", "contains", "", "TRUE"),
        (None, "contains", "x", "TRUE"),
    ],
)
def test_a_filter_is_that_condition(
    book: Book, fortnight: School, column: str | None, comparison: str, value: str, condition: str
) -> None:
    relation = book.relations()["student_progress"]
    found = book.selected(Selection(relation, column, comparison, value, "student_id", descending=True))
    expected = f"FROM student_progress WHERE {condition} ORDER BY student_id DESC LIMIT {ROWS}"
    assert found.rows(1) == fortnight.rows(expected)
    assert found.total == fortnight.rows(f"SELECT COUNT(*) FROM student_progress WHERE {condition}")[0][0]


def test_a_download_is_what_rollbook_export_writes_of_the_selection(
    book: Book, fortnight: School, tmp_path: Path
) -> None:
    """So it holds all of its rows, and text that a spreadsheet program would run as a formula is disarmed."""
    some = Selection(book.relations()["students"], "name", "contains", "a", "student_id")
    made = book.csv(some)
    query = "FROM students WHERE name ILIKE '%a%' ORDER BY student_id"
    rows = export(fortnight.published, query, Format.CSV, tmp_path / "students.csv", scratch=tmp_path)
    assert made == (tmp_path / "students.csv").read_bytes()
    assert rows == book.selected(some).total > ROWS


def test_a_page_that_is_opened_later_sees_the_newer_night_though_another_reads(small: School) -> None:
    early = Book(small.warehouse)
    with early.reading() as con:
        with pytest.raises(duckdb.Error, match="read-only"):
            con.execute("DELETE FROM students")
        small.sync(SECOND)
        late = Book(small.warehouse)
        assert late.days == [SECOND, FIRST]
        assert early.days == [FIRST]
    assert Book(small.warehouse).before(SECOND) == FIRST


def test_without_a_published_file_there_is_a_sentence(small: School) -> None:
    small.published.unlink()
    with pytest.raises(NothingLandedError, match="does not exist yet: run `rollbook sync` first$"):
        Book(small.warehouse).relations()
    assert Book(small.warehouse).trouble == f"{small.published} does not exist yet: run `rollbook sync` first"
