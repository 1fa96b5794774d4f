"""`rollbook serve --demo` in a real browser, after a real demo: what an operator sees at a glance, also after a
failure.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.support.processes.commands import UNREACHABLE, dagster_home, run_command, run_in_dagster
from tests.support.processes.servers import Served, free_port, serving, until

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(600)]


@dataclass
class Demo:
    """A demo of three nights, of which the last is a run, a failed run, and the server over both."""

    served: Served
    failed: str


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("demo")
    return {"ROLLBOOK_WAREHOUSE": str(folder / "warehouse"), "DAGSTER_HOME": str(dagster_home(folder / "home"))}


@pytest.fixture(scope="module")
def demo(environment: dict[str, str]) -> Iterator[Demo]:
    rollbook(environment, "demo", "--days", "3", "--students", "120")
    warehouse = Path(environment["ROLLBOOK_WAREHOUSE"], "demo")
    its_own = {"ROLLBOOK_WAREHOUSE": str(warehouse), "DAGSTER_HOME": str(warehouse / "dagster_home")}
    failed = run_in_dagster(warehouse / "dagster_home", environment | its_own | UNREACHABLE | {"ROLLBOOK_DEMO": "1"})
    assert failed.returncode == 1, failed.stderr
    assert not (warehouse.parent / "rollbook.duckdb").exists()
    with serving(warehouse / "dagster_home", environment, "--demo") as served:
        runs = served.runs()
        assert [r["status"] for r in runs] == ["FAILURE", "SUCCESS"]
        yield Demo(served, runs[0]["runId"])


@pytest.fixture
def page(page: Page, demo: Demo) -> Page:
    """A page that has the token."""
    page.goto(demo.served.address)
    return page


def rollbook(environment: dict[str, str], *arguments: str, exits: int = 0) -> None:
    done = run_command(*arguments, env=environment)
    assert done.returncode == exits, done.stderr


def test_a_second_server_on_a_dagster_home_is_refused(demo: Demo, environment: dict[str, str]) -> None:
    done = run_command("serve", "--demo", "--port", str(free_port()), env=environment)
    assert done.returncode == 1
    assert f"(process {demo.served.process.pid} of " in done.stderr
    assert f", http://127.0.0.1:{demo.served.port}): two of them would start every night twice" in done.stderr
    assert demo.served.answers()


def test_an_asset_shows_a_description_columns_and_plots(page: Page, demo: Demo) -> None:
    page.goto(f"{demo.served.url}/assets/tables/student_summaries")
    expect(page.get_by_text("One row per student whose summary was ever stated")).to_be_visible()
    expect(page.get_by_text("Assignment completion, percent, 0 to 100;")).to_be_visible()
    page.goto(f"{demo.served.url}/assets/raw/students")
    page.get_by_text("Plots", exact=True).click()
    for plotted in ("bytes", "requests", "retries", "seconds", "dagster/partition_row_count"):
        expect(page.get_by_text(plotted, exact=True).first).to_be_visible()
    assert page.locator("canvas").count() >= 5


def test_the_published_file_shows_its_checks_and_freshness(page: Page, demo: Demo) -> None:
    page.goto(f"{demo.served.url}/assets/published/rollbook")
    expect(page.get_by_text("Passing").first).to_be_visible()
    expect(page.get_by_text("Fails if more than 26 hours since last materialization")).to_be_visible()
    page.goto(f"{demo.served.url}/assets/published/rollbook?view=checks")
    for name in ("is_fresh", "nothing_held", "is_consistent"):
        expect(page.get_by_text(name).first).to_be_visible()
    expect(page.get_by_text("Succeeded")).to_have_count(3)


def test_the_published_file_links_to_the_morning_page(page: Page, demo: Demo) -> None:
    page.goto(f"{demo.served.url}/assets/published/rollbook")
    with page.expect_popup() as opened:
        page.get_by_role("link", name="/report.html").first.click()
    morning = opened.value
    assert morning.url == f"{demo.served.url}/report.html"
    expect(morning.locator(".verdict, .trouble").first).to_be_visible()
    assert morning.evaluate("() => window.origin") == "null"
    morning.close()


def test_a_failed_run_says_what_to_do_where_one_looks_first(page: Page, demo: Demo) -> None:
    page.goto(f"{demo.served.url}/runs/{demo.failed}")
    message = page.get_by_text(re.compile(r"^Failed: 127\.0\.0\.1:9 gave no usable answer .* run the sync again")).first
    expect(message).to_be_visible()
    assert "dagster._core" not in message.inner_text().splitlines()[0]


def test_the_launchpad_offers_the_three_options_with_their_meaning(page: Page, demo: Demo) -> None:
    page.goto(f"{demo.served.url}/asset-groups/")
    page.get_by_role("button", name="Materialize all").first.click(modifiers=["Shift"])
    for line in ("confirm: false", "details: none", "force: false"):
        expect(page.get_by_text(line).first).to_be_visible()


def test_the_commands_nights_are_green_within_a_minute(page: Page, demo: Demo) -> None:
    """The last night's run went well, too, but today a run has failed since."""
    page.goto(f"{demo.served.url}/assets/tables/classes?view=partitions")
    expect(page.get_by_text("Materialized (2)")).to_be_visible()
    expect(page.get_by_text("Failed (1)")).to_be_visible()
    expect(page.get_by_text("Missing (0)")).to_be_visible()


def test_the_servers_log_is_quiet_while_nothing_happens(demo: Demo) -> None:
    """The test before has waited for a sensor's tick."""
    assert [line for line in demo.served.log.read_text().splitlines() if "dagster.daemon" in line] == []


def test_a_killed_server_restarts_on_its_port_with_its_runs(environment: dict[str, str]) -> None:
    home, port = Path(environment["DAGSTER_HOME"]).parent / "killed", free_port()
    real = environment | UNREACHABLE | {"DAGSTER_HOME": str(dagster_home(home))}
    assert run_in_dagster(home, real).returncode == 1
    with serving(home, real, port=port) as served:
        os.kill(served.process.pid, signal.SIGKILL)
        served.process.wait(10)
        until(lambda: not served.family(), 120)  # the children went, too
    with serving(home, real, port=port) as served:
        assert [run["status"] for run in served.runs()] == ["FAILURE"]
        served.stop()
        assert served.process.returncode == 0
        until(lambda: not served.family(), 120)  # the code servers notice by themselves that nobody asks any more
