"""Shared by the tests of `rollbook explore`: the app over the fortnight, and pages of it on a desk and on a phone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.support.processes.exploring import Explored, exploring
from tests.support.tiers import weekly
from tests.support.warehouses.school import School

WIDTHS = (1280, 390)


@pytest.fixture(scope="module")
def explored(fortnight: School, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Explored]:
    """The app over the fortnight, on a port of its own."""
    with exploring(fortnight.warehouse, tmp_path_factory.mktemp("explore")) as running:
        yield running


@pytest.fixture(params=[WIDTHS[0], weekly(WIDTHS[1])])
def page(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page at a desk's width, then at a phone's."""
    with browser.new_context(viewport={"width": request.param, "height": 900}, accept_downloads=True) as context:
        page = context.new_page()
        page.set_default_timeout(60_000)
        yield page
