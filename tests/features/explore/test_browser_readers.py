"""The staff room in a real browser: a head of year, a tutor and a teacher, at a desk and on a phone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.processes.exploring import fits
from tests.support.processes.proxies import listening, token_in
from tests.support.processes.servers import free_port
from tests.support.tiers import weekly
from tests.support.warehouses.staff import HEADER, Staff, staff_room

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(400)]

READERS = ("year10@school.example", "tutor@school.example", "teacher2@school.example")


@pytest.fixture(scope="module")
def staff(tmp_path_factory: pytest.TempPathFactory) -> Staff:
    """The school with readers."""
    return staff_room(tmp_path_factory.mktemp("staff") / "w")


@pytest.fixture(scope="module")
def room(staff: Staff, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The address of its app behind the door, and the token: the browser stands in for a proxy on this machine."""
    folder, port = tmp_path_factory.mktemp("room"), free_port()
    url = f"http://127.0.0.1:{port}"
    settings = {"LOGIN_HEADER": HEADER, "LOGIN_PROXIES": "127.0.0.1", "EXPLORE_URL": url}
    given = {f"ROLLBOOK_{name}": value for name, value in settings.items()}
    with listening(staff.warehouse, folder, f"127.0.0.1:{port}", given):
        yield url, token_in(folder)


@contextmanager
def signed_in(browser: Browser, room: tuple[str, str], login: str, width: int) -> Iterator[Page]:
    url, token = room
    headers = {"Authorization": f"Bearer {token}", HEADER: login}
    with browser.new_context(
        viewport={"width": width, "height": 900}, base_url=url, extra_http_headers=headers, bypass_csp=True
    ) as context:
        page = context.new_page()
        page.set_default_timeout(60_000)
        yield page


@pytest.mark.parametrize("login", READERS)
@pytest.mark.parametrize("width", [1280, weekly(390)])
def test_a_reader_goes_from_the_morning_to_a_student_and_back(
    browser: Browser, room: tuple[str, str], staff: Staff, login: str, width: int
) -> None:
    with signed_in(browser, room, login, width) as page:
        page.goto("/")
        expect(page).to_have_title(re.compile("^My morning"))
        expect(page.locator("header")).to_contain_text(f"signed in as {login}")
        expect(page.locator(".figures").first).to_contain_text(f"of {len(staff.students(login))} students")
        first = page.locator("ul.plain a").first
        name = first.inner_text()
        first.click()
        expect(page.get_by_role("heading", level=1)).to_have_text(name)
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_text("Spoken to: off the list until")).to_be_visible()
        expect(page.get_by_role("cell", name=login)).to_be_visible()
        page.get_by_role("navigation").get_by_role("link", name="My morning").click()
        expect(page.locator("ul.plain")).not_to_contain_text(name)
        page.goto("/watch?show=spoken")
        page.get_by_role("button", name="Undo", exact=True).click()
        expect(page.get_by_role("button", name="Undo", exact=True)).to_have_count(0)
        page.goto("/")
        page.locator("a[href^='/class/']").first.click()
        expect(page.get_by_role("heading", name="Students of the class")).to_be_visible()
        assert fits(page)


@pytest.mark.parametrize("width", [1280, 390])
def test_every_page_of_a_reader_can_be_read_by_everybody(
    browser: Browser, room: tuple[str, str], staff: Staff, width: int
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    login = READERS[1]
    student, small = min(staff.students(login)), min(staff.classes(login) - staff.averaged(login))
    paths = ["/", "/watch", "/classes", "/teachers", "/students", "/compare", "/tables", "/search?text=anna"]
    paths += [f"/student/{student}", f"/class/{small}", "/class/1", "/table/roster", "/table/progress_daily"]
    paths += [f"/why?table=students&key={student}&show=on"]
    for who, listed in ((login, paths), ("nobody@school.example", ["/", "/watch"]), ("stranger@school.example", ["/"])):
        with signed_in(browser, room, who, width) as page:
            for path in listed:
                page.goto(path)
                violations = Axe().run(page)
                assert violations.violations_count == 0, (path, violations.generate_report())
                assert fits(page), path
