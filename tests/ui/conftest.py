"""Shared by the browser tests of the UI."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1600, "height": 1300})
    page.set_default_timeout(60_000)
    yield page
    page.close()
