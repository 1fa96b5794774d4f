"""Lists of students narrowed by the school's own lists, and a page for each of their columns."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from starlette.datastructures import QueryParams

from rollbook.errors import ArgumentError
from rollbook.features.explore import pages
from rollbook.features.explore.book import Book
from tests.support.nights import House, new_house
from tests.support.records import classes, student, within

pytestmark = pytest.mark.nights


@pytest.fixture(scope="module")
def school_of_two_years() -> Iterator[House]:
    """Ten students, of whom five are in year 9 and three to watch, after two nights."""
    poor = within("summary", completion_rate=5.0, completed_assignments=1, average_score=20.0)
    people = [student(i, **(poor if i in (1, 2, 8) else {})) for i in range(1, 11)]
    with new_house(people, classes(2)) as house:
        own = house.warehouse / "own"
        own.mkdir(parents=True)
        lines = [f"{i},{'9' if i < 6 else '10'},{'ABC'[i % 3]}" for i in range(1, 11)]
        (own / "years.csv").write_text("\n".join(["student_id,year,tutor_group", *lines]))
        (own / "notes.csv").write_text("\n".join(["student_id,note", *(f"{i},note {i}" for i in range(1, 11))]))
        house.night(1)
        house.night(2)
        yield house


def shown(house: House, page: Any, query: str = "") -> dict[str, Any]:
    """The values of a page's template, for the query of an address."""
    book = Book(house.warehouse)
    with book.open():
        values: dict[str, Any] = page(book, QueryParams(query))
    return values


def test_lists_are_narrowed_by_each_column(school_of_two_years: House) -> None:
    every = shown(school_of_two_years, pages.students)
    assert [*every["own"].choices] == ["note", "year", "tutor_group"]
    assert every["own"].choices["year"] == [("9", False), ("10", False)]
    ninth = shown(school_of_two_years, pages.students, "own.year=9&own.tutor_group=B")
    assert ninth["title"] == "Students: year 9: tutor group B"
    assert [row[0] for row in ninth["listing"].rows] == [1, 4]
    watched = shown(school_of_two_years, pages.watch, "own.year=9")
    assert sorted(row[0] for row in watched["listing"].rows) == [1, 2]
    assert watched["listing"].total == 2
    listed = shown(school_of_two_years, partial(pages.school_class, key=501), "own.year=10")
    assert sorted(row[0] for row in listed["listing"].rows) == [6, 7, 8, 9, 10]
    with pytest.raises(ArgumentError, match="No list of the school's own has a column 'house'"):
        shown(school_of_two_years, pages.students, "own.house=red")


def test_a_page_shows_each_value_of_a_column(school_of_two_years: House) -> None:
    found = shown(school_of_two_years, pages.by, "column=year")
    assert [(row.value, row.students, row.watched) for row in found["groups"]] == [("9", 5, 2), ("10", 5, 1)]
    expected = school_of_two_years.query(
        "SELECT AVG(completion_rate) FROM student_progress JOIN students_own USING (student_id) WHERE year = '9'"
    )[0][0]
    assert found["groups"][0].completion == pytest.approx(expected)
    assert "9: completion, %: " in found["charts"][0].alt
    with pytest.raises(ArgumentError, match="No list of the school's own has such a column"):
        shown(school_of_two_years, pages.by, "column=house")
