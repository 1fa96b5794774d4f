"""A backfill of one of three institutions, as an operator of a district launches it: an asset's page, days, a name."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest
from playwright.sync_api import Page, expect

from tests.support.processes.commands import run_command
from tests.support.processes.servers import serving
from tests.support.warehouses.district import new_district

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(900)]

# Seconds, on a machine that is busy with other things.
DONE_WITHIN = 300.0


def test_an_operator_backfills_one_of_three_institutions_and_no_other_is_touched(page: Page, tmp_path: Path) -> None:
    today = datetime.now(UTC).date()
    yesterday = today - timedelta(days=1)
    with new_district(["ash", "birch"], ["cedar"]) as district:
        district.write(defaults='cron = "0 0 1 1 *"')
        env = district.environment()
        synced = run_command("fleet", "sync", env=env)
        assert synced.returncode == 0, synced.stderr
        asked = district.asked()
        files = {name: (district.warehouse / name / "rollbook.duckdb").resolve() for name in district.schools}
        with serving(tmp_path / "home", env) as served:
            page.goto(f"{served.url}/assets/history/students")
            page.get_by_role("button", name="Materialize").first.click()
            page.get_by_role("button", name="Confirm").click()  # all assets are made together, and Dagster says so
            days = page.get_by_placeholder("ex: 2026-08-01")
            days.fill(f"[{yesterday}...{today}]")
            days.press("Enter")
            page.get_by_text("Select a partition or create one").first.click()
            page.locator("[class*=popover]").last.get_by_text("birch", exact=True).first.click()
            page.keyboard.press("Escape")
            expect(page.get_by_text("2 partitions", exact=True)).to_be_visible()
            page.get_by_role("button", name="Launch backfill").click()
            page.get_by_role("link", name="View", exact=True).first.click()
            page.wait_for_url("**/runs/b/*")
            page.goto(f"{page.url.split('?')[0]}?tab=runs")
            expect(page.get_by_text("Success", exact=True).first).to_be_visible(timeout=DONE_WITHIN * 1000)
            expect(page.get_by_text("rollbook/institution: birch").first).to_be_visible()
            page.screenshot(path=tmp_path / "backfill.png")

            (run,) = served.runs()
            tags = run["tags"]
            assert run["status"] == "SUCCESS"
            assert tags["dagster/asset_partition_range_start"] == f"{yesterday}|birch"
            assert tags["dagster/asset_partition_range_end"] == f"{today}|birch"
            assert tags["rollbook/host"] == district["birch"].url.removeprefix("http://")

            # Each institution's morning page, and the list of them.
            page.goto(f"{served.url}/report.html")
            expect(page.get_by_role("link")).to_have_text(["ash", "birch", "cedar"])
            page.get_by_role("link", name="cedar").click()
            page.wait_for_url("**/report/cedar.html")
            assert page.goto(f"{served.url}/report/nobody.html").status == 404  # type: ignore[union-attr]

            with dg.DagsterInstance.from_config(str(tmp_path / "home")) as instance:
                marked = instance.get_materialized_partitions(dg.AssetKey(["published", "rollbook"]))
            served.stop()
            assert served.process.returncode == 0, served.log.read_text()[-2000:]
        now = {name: (district.warehouse / name / "rollbook.duckdb").resolve() for name in district.schools}
        assert marked == {f"{today}|birch"}
        assert {name for name in files if files[name] != now[name]} == {"birch"}
        assert district.asked() == asked  # a backfill fetches nothing
