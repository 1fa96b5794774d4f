"""Shared by every test: a machine without Rollbook's settings, hypothesis on a busy machine, the browser.

Fixtures that only one folder needs belong in that folder's conftest.
"""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn

import pytest
from hypothesis import settings
from playwright.sync_api import Browser, expect, sync_playwright

from tests.support.features import OF_THE_CORE, the_core_alone
from tests.support.nights import House, new_house
from tests.support.processes.commands import dagster_home
from tests.support.records import classes, students
from tests.support.warehouses.begun import PLAYED
from tests.support.warehouses.school import fortnight as fortnight  # fixtures: warehouses that are played once for all
from tests.support.warehouses.school import small as small
from tests.support.warehouses.school import small_synced as small_synced
from tests.support.wire.listeners import Webhook, webhook

# Tests sync often, and each sync must fetch; tests of the cache set it. Here too, for fixtures made once for all.
os.environ["ROLLBOOK_CACHE_MINUTES"] = "0"
# Dagster's days are fixed when its definitions are first imported, which may be while tests are collected.
os.environ["ROLLBOOK_FIRST_DATE"] = "2026-08-01"

# The lives of the campaign are new ones each time; the processes that run the tests must agree on them.
os.environ.setdefault("CAMPAIGN_SEED", str(secrets.randbelow(10**9)))

# No deadline: on a busy machine an example's time says nothing about the code; pytest-timeout ends what hangs.
settings.register_profile("rollbook", deadline=None, print_blob=True)
# In CI the same examples each time: a red run there must be one that anybody can repeat.
settings.register_profile("ci", settings.get_profile("rollbook"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "rollbook")

# They run first, so that no core waits for them at the end; the very first waits for minutes to pass.
LONGEST = (
    "test_daemon.py",
    "test_browser_backfill.py",
    "test_erase.py",
    "test_removal.py",
    "test_job.py",
    "test_requests.py",
    "test_prune.py",
    "test_browser_explore.py",
    "test_serve_ui.py",
    "test_campaign.py",
    "test_year.py",
    "test_kill.py",
    "test_history_model.py",
    "test_rebuild.py",
    "test_untracked.py",
    "test_discard.py",
    "test_asked.py",
    "test_identities.py",
    "test_proof.py",
    "test_pseudonymous.py",
    "test_cli.py",
    "test_loss.py",
    "test_definitions.py",
    "test_provenance.py",
    "test_breaks.py",
    "test_declaring.py",
    "test_contacts.py",
    "test_deltas.py",
    "test_walk_property.py",
    "test_dbt.py",
    "test_order.py",
    "test_views.py",
    "test_browser_foreign.py",
    "test_canaries.py",
)

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM_FLAGS = [
    "--no-sandbox",  # there is none for root, as which CI runs
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def pytest_configure(config: pytest.Config) -> None:
    """Make a folder for warehouses that are played once for all processes of this run."""
    if not hasattr(config, "workerinput"):
        played = TemporaryDirectory(prefix="rollbook-tests-")
        os.environ[PLAYED] = played.name
        config.add_cleanup(played.cleanup)


def pytest_report_header() -> str:
    """The seed with which the campaign can be played again."""
    return f"CAMPAIGN_SEED={os.environ['CAMPAIGN_SEED']}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first; within a file the order stays."""
    rank = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path.name, len(rank)))


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test sees none of the settings, and none of the Dagster instances, of the person who runs it."""
    for name in list(os.environ):
        if name.startswith(("ROLLBOOK_", "DAGSTER_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("ROLLBOOK_CACHE_MINUTES", "0")


@pytest.fixture(scope="module", autouse=True)
def _features(request: pytest.FixtureRequest) -> Iterator[None]:
    """The nights of the core's tests are of the core alone."""
    folder = request.path.relative_to(Path(__file__).parent).parts[0]
    is_whole = folder not in OF_THE_CORE or request.node.get_closest_marker("every_feature")
    with nullcontext() if is_whole else the_core_alone():
        yield


@pytest.fixture(autouse=True)
def _usual_umask() -> None:
    """A test begins with the umask of most machines: a command that ran in this process before set a stricter one."""
    os.umask(0o022)


@pytest.fixture(autouse=True)
def _stays_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command with a secret in its environment begins anew without it: here it would take the tests along."""

    def execve(*_: object) -> NoReturn:
        pytest.fail("this command begins its process anew: give it the secret in a file")

    monkeypatch.setattr(os, "execve", execve)


@pytest.fixture
def hook() -> Iterator[Webhook]:
    """A chat service to tell."""
    with webhook() as listener:
        yield listener


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of an installed Chromium; without one the test fails in CI, and is skipped elsewhere."""
    path = next(filter(None, map(shutil.which, CHROMIUMS)), None)
    if path is None:
        message = "no Chromium on PATH: install the package 'chromium'"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return path


@pytest.fixture(scope="module")
def chromium_flags() -> list[str]:
    """Chromium's arguments; a file may add to it."""
    return CHROMIUM_FLAGS


@pytest.fixture(scope="module")
def browser(chromium: str, chromium_flags: list[str]) -> Iterator[Browser]:
    """A headless Chromium of this file's tests, which wait for what they expect as long as a busy machine needs."""
    expect.set_options(timeout=60_000)
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium, args=chromium_flags)
        yield running
        running.close()


@pytest.fixture
def school_of_20() -> Iterator[House]:
    with new_house(students(20), classes(3)) as house:
        yield house


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Dagster home of its own, and a wide terminal."""
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "300")
    return dagster_home(tmp_path)


@pytest.fixture
def commanded_school(school_of_20: House, home: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    """The house as a command sees it."""
    for name, value in school_of_20.environment().items():
        monkeypatch.setenv(name, value)
    return school_of_20
