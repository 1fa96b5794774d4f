"""A backfill as an operator does it: `rollbook serve`, a browser, an asset's page, a range of days, Launch.

Everything is real: the webserver, the daemon, Chromium, the warehouse. One day of the range was never landed, and is no
partition; a day has a held landing; all were flattened wrongly and must come right (G8). Then a day is discarded while
the server runs: the server loads the code again, but not while a backfill waits.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from rollbook.night import past
from rollbook.night.discard import discard
from rollbook.night.past import always
from tests.support.nights import folder
from tests.support.processes.kills import Job, killed_or_done, start
from tests.support.processes.servers import Served, serving, until
from tests.support.warehouses.days import DAYS, FIRST, HELD, copy, export, landed, rollbook

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(600)]

LANDED = DAYS[:8]
NEVER = DAYS[5]
RANGE = DAYS[2:8]
RECORDS = ("main", "history", "spans")

# Seconds, on a machine that is busy with other things.
DONE_WITHIN = 240.0


@pytest.fixture(scope="module")
def warehouses() -> Iterator[tuple[Path, Path]]:
    """A warehouse without one day and with every class's room wrong, and a twin, on which `backfill` was called."""
    with landed(LANDED) as (source, _), folder() as root, folder() as twin:
        copy(source, root, [d for d in LANDED if d != NEVER])
        killed_or_done(start(Job("rebuild", root, "http://127.0.0.1:9", FIRST, LANDED[-1], wrongly=True)))
        copy(root, twin)
        past.backfill(rollbook(twin).writer(), RANGE[0], RANGE[-1])
        yield root, twin


def launch(page: Page, url: str, asset: str, days: int) -> None:
    """From an asset's page: Materialize, the range, Launch; then follow the link to the new backfill."""
    page.goto(f"{url}/assets/{asset}")
    page.get_by_role("button", name="Materialize").first.click()
    chosen = page.get_by_placeholder("No matching partitions")
    chosen.fill(f"[{RANGE[0]}...{RANGE[-1]}]")
    chosen.press("Enter")
    expect(page.get_by_text(f"{days} partitions", exact=True)).to_be_visible()
    page.get_by_role("button", name="Launch backfill").click()
    page.get_by_role("link", name="View", exact=True).first.click()
    page.wait_for_url("**/runs/b/*")


def shown_days(served: Served, asset: str) -> list[str]:
    """The days that the UI has of an asset."""
    query = (
        "query($path: [String!]!) { assetNodeOrError(assetKey: {path: $path}) { ... on AssetNode { partitionKeys } } }"
    )
    keys: list[str] = served.ask(query, path=asset.split("/"))["assetNodeOrError"]["partitionKeys"]
    return keys


def status_of_backfills(served: Served) -> list[str]:
    query = "query { partitionBackfillsOrError { ... on PartitionBackfills { results { status } } } }"
    return [b["status"] for b in served.ask(query)["partitionBackfillsOrError"]["results"]]


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
        # The nights without Dagster are marked first.
        until(
            lambda: shown_days(served, "raw/students")[: len(LANDED) - 1] == [str(d) for d in LANDED if d != NEVER], 60
        )
        page.goto(served.address)
        page.goto(f"{url}/assets/published/rollbook?view=partitions")
        expect(page.get_by_text(f"Materialized ({len(LANDED) - 1})")).to_be_visible(timeout=DONE_WITHIN * 1000)

        # From one asset's page; it makes all, in one run.
        launch(page, url, "raw/students", len(RANGE) - 1)
        backfill = page.url.split("?")[0]
        page.goto(f"{backfill}?tab=runs")
        expect(page.get_by_text("Success", exact=True).first).to_be_visible(timeout=DONE_WITHIN * 1000)
        expect(page.get_by_text("Succeeded", exact=True).first).to_be_visible(timeout=DONE_WITHIN * 1000)
        runs = {a.get_attribute("href") for a in page.locator("a[href^='/runs/']").all()} - {"/runs/"}
        (run,) = {r.split("?")[0] for r in runs if r and not r.startswith("/runs/b/")}
        page.goto(f"{url}{run}?logs=is%20held")
        expect(page.get_by_text(f"{HELD}: landing 2 is held and was skipped")).to_be_visible()

        # Of each asset the landed days are marked, and no others.
        for asset in ("tables/students", "tables/classes", "raw/students", "published/rollbook"):
            page.goto(f"{url}/assets/{asset}?view=partitions")
            expect(page.get_by_text(f"Materialized ({len(LANDED) - 1})")).to_be_visible()
            expect(page.get_by_text("Failed (0)")).to_be_visible()
        page.goto(f"{url}/assets/tables/students?view=partitions&partition={RANGE[0]}")
        expect(page.get_by_role("button", name="View all historical events (2)")).to_be_visible()
        assert export(published, RECORDS) == export(twin / "rollbook.duckdb", RECORDS)

        # A day is discarded: the server loads the code again, which has one day less, but not before the end of a
        # backfill that was launched before.
        launch(page, url, "tables/classes", len(RANGE) - 1)
        discard(rollbook(warehouse).writer(), RANGE[-1], None, reason="a wrong clock", confirm=always)
        waiting = True
        while waiting:
            days, statuses = shown_days(served, "raw/students"), status_of_backfills(served)
            waiting = "REQUESTED" in statuses
            assert not waiting or str(RANGE[-1]) in days
            time.sleep(1)
        until(lambda: str(RANGE[-1]) not in shown_days(served, "raw/students"), 90)
        assert status_of_backfills(served)[1:] == ["COMPLETED_SUCCESS"]
        page.goto(f"{url}/assets/published/rollbook?view=events&partition={RANGE[-1]}")
        expect(page.get_by_role("cell", name="discarded", exact=True).first).to_be_visible(timeout=60_000)
