"""The pages of `rollbook explore` in a real browser, on a desk and on a phone: one click from a number to its rows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, ViewportSize, expect

from rollbook.features.explore.book import PRINTED, ROWS
from rollbook.features.explore.server import cell
from rollbook.reading.charts import short_date
from tests.support.processes.exploring import Explored, exploring, fits, rows, staying_home, table
from tests.support.tiers import weekly
from tests.support.warehouses.school import DAYS, LAST, School

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(400)]


NOTHING_SCROLLS = "[...document.querySelectorAll('.cards')].every(list => list.scrollWidth <= list.clientWidth)"


# An A4 page, in pixels.
PAPER: ViewportSize = {"width": 794, "height": 1123}


def texts(cells: Locator) -> list[str]:
    return [text.strip() for text in cells.all_inner_texts()]


def as_shown(rows: list[tuple[Any, ...]]) -> list[list[str]]:
    return [[cell(value, LAST) for value in row] for row in rows]


def chosen(page: Page, name: str) -> Locator:
    return page.get_by_role("combobox", name=name, exact=True)


def heading(page: Page) -> Locator:
    return page.get_by_role("heading", level=1)


def test_from_a_number_of_the_school_to_its_students_and_back(
    page: Page, explored: Explored, fortnight: School
) -> None:
    ((watched, missing),) = fortnight.rows("SELECT COUNT(*), COUNT(*) FILTER (is_missing_work) FROM students_to_watch")
    with staying_home(page, explored):
        page.goto(explored.address)
        assert "access_token" not in page.url
        expect(page).to_have_title(re.compile("^School today"))
        expect(page.locator(".figures strong").first).to_have_text(str(watched))
        page.get_by_role("row", name=re.compile("missing work")).get_by_role("link").click()
        expect(page).to_have_url(explored.page("/watch?reason=is_missing_work"))
        expect(chosen(page, "Reason")).to_have_value("is_missing_work")
        assert len(rows(table(page, "severity", "since"))) == missing
        page.get_by_role("link", name="Newly to watch").click()
        expect(page).to_have_title(re.compile("^Newly to watch"))
        page.go_back()
        expect(page).to_have_title(re.compile("^To watch"))
        first = table(page, "severity", "since").locator("tbody a").first
        name = first.inner_text()
        first.click()
        expect(heading(page)).to_have_text(name)
        page.reload()
        expect(heading(page)).to_have_text(name)
        expect(page.locator(".alert")).to_contain_text("To watch since")
        assert fits(page)


def test_a_class_is_found_and_leads_to_its_students(page: Page, explored: Explored, fortnight: School) -> None:
    ((key, title, teacher),) = fortnight.rows(
        "SELECT class_id, class_title, teacher_name FROM classes WHERE class_status = 1 ORDER BY student_count DESC, 1 LIMIT 1"
    )
    some = fortnight.rows(
        f"SELECT name, average_score FROM student_progress JOIN student_classes USING (student_id) WHERE class_id = {key}"
        " ORDER BY average_score DESC NULLS LAST, CASE WHEN total_assignments > 0 THEN completion_rate END NULLS LAST,"
        f" name LIMIT {ROWS}"
    )
    with staying_home(page, explored):
        page.goto(explored.address)
        page.get_by_role("navigation").get_by_role("link", name="Classes").click()
        page.get_by_label("Find a class").fill(str(key))
        page.get_by_role("button", name="Show").click()
        page.get_by_role("link", name=title, exact=True).click()
        expect(heading(page)).to_have_text(title)
        expect(page.locator("main > .quiet").first).to_contain_text(f"taught by {teacher}")
        expect(page.locator("figure")).to_have_count(3)
        for _ in range(2):  # ascending, then descending
            page.get_by_role("link", name="score", exact=True).click()
        expect(page).to_have_url(explored.page(f"/class/{key}?sort=score&desc=1"))
        assert [[row[0], row[3]] for row in rows(table(page, "student", "last active"))] == as_shown(some)
        assert fits(page)


def test_a_search_from_any_page_leads_to_teachers_and_whom_to_watch(
    page: Page, explored: Explored, fortnight: School
) -> None:
    ((teacher, watched),) = fortnight.rows(
        "SELECT teacher_name, to_watch FROM teacher_overview ORDER BY to_watch DESC LIMIT 1"
    )
    with staying_home(page, explored):
        page.goto(explored.address)
        page.goto(explored.page("/compare"))
        page.keyboard.press("/")
        page.keyboard.type(f"/{teacher}")
        search = page.get_by_role("searchbox", name="Search")
        expect(search).to_have_value(f"/{teacher}")
        search.fill(teacher)
        page.keyboard.press("Enter")
        page.locator("a[href^='/teacher/']", has_text=teacher).click()  # a student may have the name, too
        expect(heading(page)).to_have_text(teacher)
        page.get_by_role("link", name=str(watched), exact=True).first.click()
        expect(page.get_by_text(f"of {watched}.")).to_be_visible()
        chosen(page, "Reason").select_option("is_low_completion")
        page.get_by_role("button", name="Show").click()
        expect(page.get_by_text("Only of the teacher")).to_contain_text(teacher)
        page.get_by_role("link", name="Show all").click()
        expect(page).to_have_url(re.compile("reason=is_low_completion"))
        assert "teacher=" not in page.url
        page.get_by_role("button", name="Spoken to").first.click()
        expect(page.get_by_role("link", name="1 spoken to")).to_be_visible()
        expect(page).to_have_url(re.compile("reason=is_low_completion"))
        page.get_by_role("link", name="1 spoken to").click()
        expect(page.get_by_text("1 to 1 of 1.")).to_be_visible()
        page.get_by_role("button", name="Undo", exact=True).click()
        expect(page.get_by_text("None.")).to_be_visible()
        assert fits(page)


def test_the_pages_run_no_script_but_their_own(page: Page, explored: Explored) -> None:
    """A name that would be a script does not run, even if it were not escaped."""
    page.goto(explored.address)
    for attempt in (
        "document.body.append(Object.assign(document.createElement('script'), {text: 'window.ran = 1'}))",
        "document.body.insertAdjacentHTML('beforeend', `<img src=data:x onerror='window.ran = 1'>`)",
    ):
        with page.expect_console_message(lambda said: "Content Security Policy" in said.text):
            page.evaluate(attempt)
        assert page.evaluate("window.ran") is None


def test_a_student_who_was_spoken_to_leaves_the_list(browser: Browser, small: School, tmp_path: Path) -> None:
    with exploring(small.warehouse, tmp_path / "run") as running, browser.new_page() as page:
        page.set_default_timeout(60_000)
        with staying_home(page, running):
            page.goto(running.address)
            page.get_by_role("link", name="To watch", exact=True).click()
            students = table(page, "severity", "since").locator("tbody a")
            names = texts(students)
            students.first.click()
            expect(heading(page)).to_have_text(names[0])
            page.get_by_role("button", name="Save").click()
            expect(page.get_by_text("off the list until").first).to_be_visible()
            page.get_by_role("link", name="To watch", exact=True).click()
            assert texts(students) == names[1:]
            page.get_by_role("button", name="Spoken to").first.click()
            assert texts(students) == names[2:]
            page.get_by_role("button", name="Undo", exact=True).click()
            assert texts(students) == names[1:], "one click undoes the note that was just made"


def test_two_dates_lead_to_the_changes_between_them(page: Page, explored: Explored) -> None:
    with staying_home(page, explored):
        page.goto(explored.address)
        page.get_by_role("link", name="Two dates").click()
        chosen(page, "Compare").select_option(str(LAST))
        chosen(page, "with").select_option(str(DAYS[3]))
        page.get_by_role("button", name="Show").click()
        expect(table(page, "figure", short_date(DAYS[3]), short_date(LAST))).to_be_visible()
        assert fits(page)
        page.get_by_text(re.compile("kinds of changes")).click()
        link = table(page, "record", "how often").locator("tbody a").first
        often = link.inner_text()
        link.click()
        expect(page.get_by_text(re.compile(f"of {often}\\."))).to_be_visible()


def test_any_table_is_filtered_sorted_turned_over_and_downloaded(
    page: Page, explored: Explored, fortnight: School, tmp_path: Path
) -> None:
    some = "FROM roster WHERE class_title ILIKE '%bio%' ORDER BY student_id DESC"
    ((total, fitting),) = fortnight.rows("SELECT COUNT(*), COUNT(*) FILTER (class_title ILIKE '%bio%') FROM roster")
    with staying_home(page, explored):
        page.goto(explored.address)
        page.goto(explored.page("/table/roster"))
        page.get_by_role("link", name="Next page").click()
        expect(page.get_by_text(f"{ROWS + 1} to {2 * ROWS} of {total:,}.")).to_be_visible()
        chosen(page, "Column").select_option("class_title")
        page.get_by_label("Value").fill("bio")
        page.get_by_role("button", name="Show").click()
        for _ in range(2):
            page.get_by_role("link", name="student_id", exact=True).click()
        expect(page.get_by_text(f"of {fitting:,}.")).to_be_visible()
        ((highest,), *_) = fortnight.rows(f"SELECT student_id {some} LIMIT {ROWS}")
        expect(page.locator("tbody tr").first).to_contain_text(str(highest))
        assert fits(page)
        with page.expect_download() as download:
            page.get_by_role("link", name="Download all as CSV").click()
        assert download.value.suggested_filename == "roster.csv"
        download.value.save_as(tmp_path / "roster.csv")
        lines = (tmp_path / "roster.csv").read_text(encoding="utf-8-sig").splitlines()
        assert len(lines) == fitting + 1


def test_what_is_printed_is_the_whole_list(page: Page, explored: Explored, fortnight: School) -> None:
    ((watched,), (roster,)) = fortnight.rows(
        "SELECT COUNT(*) FROM students_to_watch UNION ALL SELECT COUNT(*) FROM roster"
    )
    assert ROWS < watched <= PRINTED < roster
    page.goto(explored.address)
    for path, printed, says in (
        ("/watch?page=2", watched, f"{watched} in all."),
        ("/table/roster", ROWS, f"1 to {ROWS} of {roster:,}. The others are in the CSV"),
    ):
        page.goto(explored.page(path))
        rows = page.locator("tbody tr:visible")
        on_screen = rows.count()
        assert on_screen == min(ROWS, watched - ROWS if "watch" in path else ROWS)
        page.emulate_media(media="print")
        expect(rows).to_have_count(printed)
        expect(page.locator("main p.quiet:visible").filter(has_text=says)).to_have_count(1)
        page.emulate_media(media="screen")


@pytest.mark.parametrize("scheme", ["light", weekly("dark")])
@pytest.mark.parametrize("width", [1280, 390])
def test_every_page_can_be_read_and_reached_by_everybody(
    browser: Browser, explored: Explored, fortnight: School, width: int, scheme: Any
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    ((student, a_class, teacher, course),) = fortnight.rows(
        "SELECT student_id, class_id, c.teacher_id, c.course_id FROM students_to_watch JOIN student_classes USING (student_id)"
        " JOIN classes AS c USING (class_id) ORDER BY severity DESC LIMIT 1"
    )
    paths = ["/", "/watch", "/watch?show=gone", "/classes", f"/class/{a_class}", "/students", f"/student/{student}"]
    paths += ["/teachers", f"/teacher/{teacher}", f"/course/{course}", "/search?text=an", f"/watch?teacher={teacher}"]
    titles = []
    size: ViewportSize = {"width": width, "height": 900}
    with browser.new_context(viewport=size, color_scheme=scheme, bypass_csp=True) as context:
        page = context.new_page()
        page.goto(explored.page("/"))  # the form that asks for the token
        assert Axe().run(page).violations_count == 0
        page.goto(explored.address)
        for path in (
            *paths,
            f"/why?table=student_summaries&key={student}&show=on",
            "/compare",
            "/tables",
            "/table/roster",
            "/class/1",
        ):
            page.goto(explored.page(path))
            violations = Axe().run(page)
            assert violations.violations_count == 0, (path, violations.generate_report())
            assert fits(page), path
            # On a phone each row is a card, and on paper nothing is cut.
            if width > 390:
                page.set_viewport_size(PAPER)
                page.emulate_media(media="print")
            assert page.evaluate(NOTHING_SCROLLS), path
            assert fits(page), path
            page.set_viewport_size(size)
            page.emulate_media(media="screen")
            titles.append(page.title())
        page.goto(explored.page("/table/roster"))
        wide = page.get_by_role("region", name="roster")
        wide.focus()
        assert wide.evaluate("node => document.activeElement === node")
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") is (scheme == "light")
    assert len({*titles}) == len(titles)


def test_the_next_click_sees_the_newer_night(browser: Browser, small: School, tmp_path: Path) -> None:
    with exploring(small.warehouse, tmp_path / "run") as explored, browser.new_context() as context:
        page = context.new_page()
        page.goto(explored.address)
        expect(page.get_by_text("There is no night before to compare with")).to_be_visible()
        small.sync(DAYS[1])
        page.get_by_role("link", name="School today").click()
        expect(page.get_by_text("There is no night before to compare with")).to_have_count(0)
        small.published.unlink()
        page.reload()
        expect(page.get_by_text("rollbook.duckdb does not exist yet: run")).to_be_visible()
        assert explored.stop() == 0
