"""The pages of `rollbook explore` in a real browser, on a desk and on a phone: right rows, and no request elsewhere."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from pipelines.explore.pages import ROWS, cell
from tests.support.processes.exploring import Explored, exploring, fits, rows, staying_home, table
from tests.support.warehouses.school import DAYS, LAST, School

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(400)]


def texts(cells: Locator) -> list[str]:
    return [text.strip() for text in cells.all_inner_texts()]


def has_rows(table: Locator, expected: list[list[str]]) -> None:
    """Wait until a table has these rows, and fail if it never does."""
    deadline = time.monotonic() + 60
    while rows(table) != expected and time.monotonic() < deadline:
        table.page.wait_for_timeout(200)
    assert rows(table) == expected


def as_shown(found: list[tuple[Any, ...]]) -> list[list[str]]:
    return [[cell(value) for value in row] for row in found]


def type_into(page: Page, label: str, text: str) -> None:
    page.get_by_label(label).fill(text)
    page.get_by_label(label).press("Enter")


@pytest.mark.parametrize("page", [390], indirect=True, ids=["phone"])
def test_from_the_school_to_a_student_to_watch(page: Page, explored: Explored, fortnight: School) -> None:
    ((students, completion, score, active, classes, watched),) = fortnight.rows(
        "SELECT students, average_completion_rate, average_score, active_percent,"
        " (SELECT COUNT(*) FROM classes WHERE class_status = 1), (SELECT COUNT(*) FROM students_to_watch)"
        f" FROM progress_daily WHERE snapshot_date = '{LAST}'"
    )
    with staying_home(page, explored):
        page.goto(explored.address)
        expect(page.locator(".rb-verdict p").first).to_have_text("Last night is complete.")
        shown = texts(page.locator(".rb-figures dd:not(.rb-note)"))
        assert shown == [cell(value) for value in (students, classes, watched, completion, score, active)]
        assert fits(page)
        page.get_by_role("button", name="Newly to watch", exact=True).click()
        first = table(page, "student", "why").locator("a").first
        name = first.inner_text()
        first.click()
        expect(page.locator(".rb-heading h2").nth(1)).to_have_text(name)
        expect(page.get_by_text("History of the summary").first).to_be_visible()


def test_a_class_has_its_facts_its_trend_and_its_roster(page: Page, explored: Explored, fortnight: School) -> None:
    ((key, title, teacher),) = fortnight.rows(
        "SELECT class_id, class_title, teacher_name FROM classes WHERE class_status = 1 ORDER BY student_count DESC, 1 LIMIT 1"
    )
    listed = (
        "SELECT name, CASE WHEN total_assignments > 0 THEN completion_rate END AS c, average_score, last_activity_date"
        f" FROM student_progress JOIN student_classes USING (student_id) WHERE class_id = {key}"
    )
    ((part,),) = fortnight.rows(f"SELECT UPPER(LEFT(name, 4)) FROM ({listed}) ORDER BY name LIMIT 1")
    some = fortnight.rows(f"{listed} AND UPPER(name) LIKE '%{part}%' ORDER BY c NULLS LAST, name, student_id")
    with staying_home(page, explored):
        page.goto(explored.page("class"))
        type_into(page, "Find a class", str(key))
        expect(page.locator(".rb-heading h2").nth(1)).to_have_text(title)
        expect(page.locator(".rb-heading p").nth(1)).to_contain_text(f"taught by {teacher}")
        expect(page.locator("figure.rb-line polyline")).to_have_count(3)
        type_into(page, "Name", part)
        expect(page.get_by_text(f"1 to {len(some)} of {len(some)} students")).to_be_visible()
        has_rows(table(page, "student", "last active"), as_shown(some))
        assert fits(page)


def test_a_student_has_a_timeline_and_a_history(page: Page, explored: Explored, fortnight: School) -> None:
    ((key, name),) = fortnight.rows(
        "SELECT student_id, ANY_VALUE(name) FROM history.student_summaries JOIN students USING (student_id)"
        " GROUP BY student_id ORDER BY COUNT(*) DESC, student_id LIMIT 1"
    )
    versions = (
        "SELECT valid_from, valid_to, total_assignments, completed_assignments,"
        " CASE WHEN total_assignments > 0 THEN completion_rate END, average_score, total_time_minutes"
        f" FROM history.student_summaries WHERE student_id = {key} ORDER BY valid_from DESC LIMIT {ROWS}"
    )
    told = f"SELECT snapshot_date, description FROM student_timeline WHERE student_id = {key}"
    with staying_home(page, explored):
        page.goto(explored.page("student", student_id=key))
        expect(page.locator(".rb-heading h2").nth(1)).to_have_text(name)
        has_rows(table(page, "from", "until"), as_shown(fortnight.rows(versions)))
        newest = fortnight.rows(f"{told} ORDER BY snapshot_date DESC, what, description LIMIT {ROWS}")
        has_rows(table(page, "day", "what changed"), as_shown(newest))
        assert fits(page)
        table(page, "class", "course", "joined").locator("a").first.click()
        expect(page.get_by_text("Students of the class").first).to_be_visible()


def test_two_dates_are_compared_either_way_round(page: Page, explored: Explored, fortnight: School) -> None:
    day = DAYS[3]
    values = fortnight.rows(
        f"SELECT students FROM progress_daily WHERE snapshot_date IN ('{day}', '{LAST}') ORDER BY snapshot_date"
    )
    ((most,),) = fortnight.rows(
        f"SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM changes_between('{day}', '{LAST}')"
        " GROUP BY table_name, column_name, change)"
    )
    with staying_home(page, explored):
        page.goto(explored.page("compare"))
        page.get_by_label("Compare").select_option(str(LAST))
        page.get_by_label("with", exact=True).select_option(str(day))
        compared = table(page, "the institution", str(day), str(LAST))
        expect(compared).to_be_visible()
        assert rows(compared)[0][:3] == ["students", *(cell(students) for (students,) in values)]
        assert rows(table(page, "records", "how often"))[0][3] == cell(most)
        expect(table(page, "student", "score before")).to_be_visible()
        assert fits(page)


def test_any_table_is_filtered_sorted_turned_over_and_downloaded(
    page: Page, explored: Explored, fortnight: School, tmp_path: Path
) -> None:
    some = "FROM roster WHERE class_title ILIKE '%bio%' ORDER BY student_id DESC"
    ((total, fitting),) = fortnight.rows("SELECT COUNT(*), COUNT(*) FILTER (class_title ILIKE '%bio%') FROM roster")
    with staying_home(page, explored):
        page.goto(explored.page("tables"))
        number = page.locator("input[aria-roledescription='Number field']")
        number.fill("2")
        number.press("Enter")
        expect(page.get_by_text(f"{ROWS + 1} to {2 * ROWS} of {total:,} rows")).to_be_visible()
        page.get_by_label("Only rows where").click()
        page.get_by_role("option", name="class_title", exact=True).click()
        page.get_by_placeholder("value").fill("bio")
        page.get_by_placeholder("value").press("Enter")
        page.get_by_label("Sorted by").click()
        page.get_by_role("option", name="student_id", exact=True).click()
        page.get_by_text("highest first").click()
        expect(page.get_by_text(f"of {fitting:,} rows")).to_be_visible()
        shown = table(page, "class_title", "student_id")
        ((highest,), *_) = fortnight.rows(f"SELECT student_id {some} LIMIT {ROWS}")
        expect(shown.locator("tbody tr").first).to_contain_text(str(highest))
        assert fits(page)
        with page.expect_download() as download:
            page.get_by_text("Download all of these rows as CSV").click()
        assert download.value.suggested_filename == "roster.csv"
        download.value.save_as(tmp_path / "roster.csv")
        lines = (tmp_path / "roster.csv").read_text(encoding="utf-8-sig").splitlines()
        assert len(lines) == fitting + 1


def test_a_page_that_is_loaded_again_sees_the_newer_night(browser: Browser, small: School, tmp_path: Path) -> None:
    with exploring(small.warehouse, tmp_path / "run") as explored, browser.new_context() as context:
        first = context.new_page()
        first.goto(explored.page("watch"))
        expect(first.get_by_text("Only one day has been landed so far")).to_be_visible()
        small.sync(DAYS[1])
        second = context.new_page()
        second.goto(explored.page("watch"))
        expect(second.get_by_text(f"Compared with the landed day before, {DAYS[0]}.")).to_be_visible()
        first.reload()
        expect(first.get_by_text(f"Compared with the landed day before, {DAYS[0]}.")).to_be_visible()
        small.published.unlink()
        first.reload()
        expect(first.get_by_text("rollbook.duckdb does not exist yet: run")).to_be_visible()
        assert explored.stop() == 0
