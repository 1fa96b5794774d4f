"""The pages of `rollbook district explore` in a real browser, on a desk and on a phone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from rollbook.reading.charts import short_date
from tests.support.nights import night
from tests.support.processes.exploring import Explored, exploring, fits, rows, staying_home, table
from tests.support.records import classes, students
from tests.support.warehouses.district import District, new_district

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(400)]

ASH, BIRCH, LONG = "ash", "birch", "linden-vale-and-a-long-name-for-an-academy"


@pytest.fixture(scope="module")
def birch_behind() -> Iterator[District]:
    """Birch is two days behind the others."""
    with new_district([ASH, BIRCH], LONG) as district:
        for number in range(1, 6):
            district.house(ASH).night(number, students(20 + number), classes(3))
            district.house(LONG).night(number, students(60 + number), classes(5))
            if number <= 3:
                district.house(BIRCH).night(number, students(40 + number), classes(4))
        district.build()
        yield district


@pytest.fixture(scope="module")
def shown(birch_behind: District, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Explored]:
    with exploring(
        birch_behind.warehouse, tmp_path_factory.mktemp("district"), command=("district", "explore")
    ) as running:
        yield running


def test_institutions_are_chosen_and_each_has_its_trend(page: Page, shown: Explored) -> None:
    with staying_home(page, shown):
        page.goto(shown.address)
        expect(page.get_by_text("3 institutions, records of")).to_be_visible()
        expect(page.locator("figure")).to_have_count(3)
        listed = table(page, "institution", "stands")
        assert [[row[n] for n in (0, 2, 3, 4)] for row in rows(listed)] == [
            [BIRCH, short_date(night(3)), "2 days behind", "43"],
            [ASH, short_date(night(5)), "up to date", "25"],
            [LONG, short_date(night(5)), "up to date", "65"],
        ]
        assert fits(page)

        page.get_by_label("Only these institutions").select_option([LONG, ASH])
        page.get_by_role("button", name="Show").click()
        expect(page.locator("figure")).to_have_count(6)
        assert [row[0] for row in rows(listed)] == [ASH, LONG]
        assert fits(page)

        page.goto(shown.page("/"))
        page.get_by_role("link", name=BIRCH).click()
        expect(page.locator("h2")).to_have_text([BIRCH])
        expect(page.locator("figure")).to_have_count(3)
        assert [row[0] for row in rows(listed)] == [BIRCH]
