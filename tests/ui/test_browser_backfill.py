"""A backfill as an operator does it: `rollbook serve`, a browser, an asset's page, a range of days, Launch.

Everything is real: the webserver, the daemon, Chromium, the warehouse. One day of the range was never landed, and a day
has a held landing; the rest were flattened wrongly and must come right (G8). Of the day that was never landed, the
operator reads why it was skipped: on the pages of the backfill, of the run and of each asset.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from rollbook.night import past
from tests.support.nights import folder
from tests.support.processes.kills import Job, killed_or_done, start
from tests.support.processes.servers import serving
from tests.support.warehouses.fortnight import DAYS, FIRST, HELD, copy, export, landed, rollbook

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(600)]

LANDED = DAYS[:8]
NEVER = DAYS[5]
RANGE = DAYS[2:8]
RECORDS = ("main", "history", "spans")

# Seconds, on a machine that is busy with other things.
DONE_WITHIN = 240.0

SKIPPED = f"1 of 6 days: {NEVER} (nothing was landed)"
WHY = f"nothing was landed on {NEVER}, and the service keeps no history"


@pytest.fixture(scope="module")
def warehouses() -> Iterator[tuple[Path, Path]]:
    """A warehouse without one day and with every class's room wrong, and a twin, on which `backfill` was called."""
    with landed(LANDED) as (source, _), folder() as root, folder() as twin:
        copy(source, root, [d for d in LANDED if d != NEVER])
        killed_or_done(start(Job("rebuild", root, "http://127.0.0.1:9", FIRST, LANDED[-1], wrongly=True)))
        copy(root, twin)
        past.backfill(rollbook(twin), RANGE[0], RANGE[-1])
        yield root, twin


def launch(page: Page, url: str, asset: str) -> None:
    """From an asset's page: Materialize, the range, Launch; then follow the link to the new backfill."""
    page.goto(f"{url}/assets/{asset}")
    page.get_by_role("button", name="Materialize").first.click()
    chosen = page.get_by_placeholder("No matching partitions")
    chosen.fill(f"[{RANGE[0]}...{RANGE[-1]}]")
    chosen.press("Enter")
    expect(page.get_by_text(f"{len(RANGE)} partitions", exact=True)).to_be_visible()
    page.get_by_role("button", name="Launch backfill").click()
    page.get_by_role("link", name="View", exact=True).first.click()
    page.wait_for_url("**/runs/b/*")


def test_an_operator_backfills_a_range_of_days_from_an_assets_page(
    warehouses: tuple[Path, Path], page: Page, tmp_path: Path
) -> None:
    warehouse, twin = warehouses
    published, home = warehouse / "rollbook.duckdb", tmp_path / "home"
    assert export(published, RECORDS) != export(twin / "rollbook.duckdb", RECORDS)

    settings = {
        "WAREHOUSE": warehouse,
        "BASE_URL": "http://127.0.0.1:9",  # nobody: a backfill fetches nothing
        "API_KEY": "k",
        "FIRST_DATE": FIRST,
        "CRON": "0 0 1 1 *",
    }
    with serving(home, {f"ROLLBOOK_{k}": str(v) for k, v in settings.items()}) as served:
        url = served.url
        # An instance without any run asks, on the pages of all other runs, about assets above that were never made.
        launch(page, url, "raw/students")
        backfill = page.url.split("?")[0]
        page.goto(f"{backfill}?tab=runs")
        expect(page.get_by_text("Success", exact=True).first).to_be_visible(timeout=DONE_WITHIN * 1000)
        expect(page.get_by_text("Failed", exact=True).first).to_be_visible(timeout=DONE_WITHIN * 1000)

        # The backfill's page counts the day that was never landed as failed, which is all that Dagster can say, and
        # shows the reason in the list of runs.
        expect(page.get_by_text(f"rollbook/skipped: {SKIPPED}").first).to_be_visible()

        # One run for the whole range; the log says what was skipped, and why.
        runs = {a.get_attribute("href") for a in page.locator("a[href^='/runs/']").all()} - {"/runs/"}
        (run,) = {r.split("?")[0] for r in runs if r and not r.startswith("/runs/b/")}
        page.goto(f"{url}{run}?logs=nothing%20was%20landed")
        expect(page.get_by_text(WHY, exact=True).first).to_be_visible()
        page.goto(f"{url}{run}?logs=is%20held")
        expect(page.get_by_text(f"{HELD}: landing 2 is held and was skipped")).to_be_visible()

        # Of each asset the landed days are marked, and no other.
        for asset in ("history/students", "snapshots/classes", "raw/students", "published/rollbook"):
            page.goto(f"{url}/assets/{asset}?view=partitions")
            expect(page.get_by_text(f"Materialized ({len(RANGE) - 1})")).to_be_visible()
            expect(page.get_by_text("Failed (0)")).to_be_visible()
        for day in RANGE:
            page.goto(f"{url}/assets/history/students?view=partitions&partition={day}")
            page.get_by_role("button", name="View all historical events (1)").click()
            event = page.get_by_role("dialog")
            expect(event.get_by_text("Observation" if day == NEVER else "Materialization")).to_be_visible()
            if day == NEVER:
                event.get_by_text(str(NEVER), exact=True).click()
                expect(event.get_by_text(WHY, exact=True)).to_be_visible()

        assert export(published, RECORDS) == export(twin / "rollbook.duckdb", RECORDS)
