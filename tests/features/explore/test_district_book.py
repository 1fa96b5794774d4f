"""The app's queries of the file of all institutions."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from starlette.datastructures import QueryParams

from rollbook.features.explore import pages
from rollbook.features.explore.book import Book, DistrictBook, new_book
from tests.support.nights import night
from tests.support.records import classes, students
from tests.support.warehouses.district import District, new_district

pytestmark = pytest.mark.nights

ASH, BIRCH, CEDAR = "ash", "birch", "cedar"


@pytest.fixture(scope="module")
def played() -> Iterator[District]:
    with new_district([ASH, BIRCH], CEDAR) as district:
        district.house(ASH).night(1, students(4), classes(1))
        district.house(BIRCH).night(2, students(3), classes(1))
        district.build()
        yield district


@pytest.fixture
def built_district(played: District) -> Iterator[District]:
    with played.in_environment():
        yield played


def test_it_is_opened_where_no_institution_is_named(built_district: District, monkeypatch: pytest.MonkeyPatch) -> None:
    book = new_book()
    assert isinstance(book, DistrictBook)
    with book.open():
        assert (book.school, book.days) == ("3 institutions", [night(2), night(1)])
    monkeypatch.setenv("ROLLBOOK_INSTITUTION", ASH)
    one = new_book()
    assert type(one) is Book
    assert one.published == built_district.warehouse / ASH / "rollbook.duckdb"


def test_it_shows_the_chosen_ones_and_those_that_are_behind_first(built_district: District) -> None:
    book = DistrictBook()
    with book.open():
        everyone = pages.institutions(book, QueryParams())["listing"].rows
        chosen = pages.institutions(book, QueryParams(f"institution={BIRCH}"))["listing"].rows
        many = pages.institutions(book, QueryParams([("institution", ASH)] * (pages.MAX_DRAWN + 2)))
    assert [(row[0], row[4]) for row in everyone] == [
        (CEDAR, "never synced"),
        (ASH, "up to date"),
        (BIRCH, "up to date"),
    ]
    assert [row[0] for row in chosen] == [BIRCH]
    assert many["more"] == 2
    assert book.students == 0


def test_any_table_is_filtered_by_institution_and_downloaded(built_district: District) -> None:
    book = DistrictBook()
    with book.open():
        assert {"institutions", "institutions_daily", "students", "roster", "history.students"} <= book.relations.keys()
        params = QueryParams(f"column=institution&comparison=is&value={BIRCH}&sort=student_id")
        values = pages.table(book, params, "students")
        text = book.csv(values["listing"], values["what"]).read()
    assert [row[:2] for row in values["listing"].rows] == [(BIRCH, 1), (BIRCH, 2), (BIRCH, 3)]
    assert (book.students, len(text.splitlines())) == (3, 4)
    log = next((built_district.warehouse / "district" / "private").glob("access-*.jsonl")).read_text()
    assert json.loads(log.splitlines()[-1])["students"] == 3
    assert BIRCH not in log
