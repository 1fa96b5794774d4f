"""A page shows one night: of the file that it has open, whatever is published or asked meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from rollbook.features.explore import book
from rollbook.features.explore.book import Book
from tests.support.nights import new_house, night
from tests.support.records import classes, students

pytestmark = pytest.mark.nights


def count(page: Book) -> int:
    """A figure of the open night, which is computed once."""
    return int(page.once("students", lambda: page.read("SELECT COUNT(*) FROM students")[1][0][0]))


def test_a_publish_during_a_page_leaves_both_nights_whole() -> None:
    with new_house(students(5), classes(1)) as house:
        house.night(1)
        page = Book(house.warehouse)
        with page.open():
            house.night(2, students(6))
            assert count(page) == 5
        later = Book(house.warehouse)
        with later.open():
            assert count(later) == 6


class Contended(dict[str, Any]):
    """The kept values, while another view stores its own as soon as this one has."""

    def __setitem__(self, name: str, _: Any) -> None:
        super().__setitem__(name, ("another night", "another list"))


def test_a_view_gets_the_list_that_it_made(monkeypatch: pytest.MonkeyPatch) -> None:
    with new_house(students(4), classes(1)) as house:
        house.night(1)
        monkeypatch.setattr(book, "cache", Contended())
        page = Book(house.warehouse)
        with page.open():
            assert page.once("list", lambda: "its own", night(1)) == "its own"
