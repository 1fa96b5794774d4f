"""What the app asks of the file of all institutions."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from pipelines.explore import pages
from pipelines.explore.pages import Book, FleetBook, Selection, open_book, sql
from tests.support.nights import night
from tests.support.records import classes, students
from tests.support.warehouses.district import District, new_district

ASH, BIRCH, CEDAR = "ash", "birch", "cedar"


@pytest.fixture(scope="module")
def played() -> Iterator[District]:
    with new_district([ASH, BIRCH], CEDAR) as made:
        made.house(ASH).night(1, students(4), classes(1))
        made.house(BIRCH).night(2, students(3), classes(1))
        made.build()
        yield made


@pytest.fixture
def district(played: District) -> Iterator[District]:
    with played.in_environment():
        yield played


def test_it_is_opened_where_no_institution_is_named(district: District, monkeypatch: pytest.MonkeyPatch) -> None:
    book = open_book()
    assert isinstance(book, FleetBook)
    assert (book.school, book.days, book.trouble) == ("3 institutions", [night(2), night(1)], "")
    assert list(pages.pages_of(book)) == ["institutions", "tables"]
    assert pages.page_asked({"page": "student"}, book) == pages.INSTITUTIONS
    monkeypatch.setenv("ROLLBOOK_INSTITUTION", ASH)
    one = open_book()
    assert type(one) is Book
    assert one.published == district.warehouse / ASH / "rollbook.duckdb"
    assert pages.page_asked({"page": "student"}, one) == pages.STUDENT


def test_its_first_page_shows_each_institution_and_no_pupil(district: District) -> None:
    shown = "".join(pages.institutions(FleetBook()))
    for text in (ASH, BIRCH, CEDAR, str(night(1)), str(night(2))):
        assert text in shown
    assert "Pupil" not in shown


def test_it_shows_the_chosen_ones_and_those_that_are_behind_first(district: District) -> None:
    book = FleetBook()
    stands = {row[0]: row[4] for row in book.rows("", sql("institutions"), chosen=[])}
    assert stands == {CEDAR: "never synced", ASH: "up to date", BIRCH: "up to date"}
    assert list(stands) == [CEDAR, ASH, BIRCH]
    assert [row[0] for row in book.rows("", sql("institutions"), chosen=[BIRCH])] == [BIRCH]
    many = "".join(pages.institutions(book, [ASH] * (pages.DRAWN_MOST + 2)))
    assert "2 more of the chosen institutions are in the table only." in many


def test_any_table_is_filtered_by_institution_downloaded_and_logged(district: District) -> None:
    book = FleetBook()
    relations = book.relations()
    assert {"institutions", "institutions_daily", "students", "roster", "history.students"} <= relations.keys()
    chosen = Selection(relations["students"], "institution", "is", BIRCH, "student_id")
    assert [row[:2] for row in book.selected(chosen).rows(1)] == [(BIRCH, 1), (BIRCH, 2), (BIRCH, 3)]
    assert len(book.csv(chosen).splitlines()) == 4
    log = next((district.warehouse / "fleet" / "private").glob("access-*.jsonl")).read_text().splitlines()
    assert [json.loads(line)["students"] for line in log[-2:]] == [3, 3]
    assert BIRCH not in "".join(log)
