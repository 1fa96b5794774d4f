"""Every later version opens the warehouse of each release, and brings it to its format; an earlier one says what to do.

There is no later format yet, so one is invented: a copy of this version, in which a manifest's `bytes_received` is
`bytes_read`, and so is the column of `ops.syncs`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from rollbook.errors import OtherVersionError
from rollbook.features.explore.book import Book
from rollbook.features.export import oneroster
from rollbook.features.pages import progress
from rollbook.features.pages.progress import Chosen
from rollbook.landing.formats import FORMAT
from rollbook.night import past
from rollbook.night.past import always
from rollbook.reading.query import run_query
from rollbook.settings import ROOT
from rollbook.views.catalog import VIEWS
from tests.support.nights import House, findings_of, folder
from tests.support.processes.upgrading import formats_of, upgrade
from tests.support.tiers import daily
from tests.support.warehouses import released
from tests.support.warehouses.released import RELEASES

pytestmark = pytest.mark.nights

INVENTED = FORMAT + 1
# What DuckDB 1.4 and later can open.
STORAGE = "SELECT tags['storage_version'] FROM duckdb_databases() WHERE database_name = current_database()"
# More than an upgrade takes.
MOST_STEPS = 12
RENAMED = ("bytes_received", "bytes_read")
UPGRADE = f"""
def _renamed(content: Content) -> Content:
    return {{"bytes_read" if name == "bytes_received" else name: value for name, value in content.items()}}


UPGRADES[{FORMAT}] = Upgrade(
    {{"Manifest": _renamed}}, ("ALTER TABLE ops.syncs RENAME bytes_received TO bytes_read",)
)
"""


@pytest.fixture(scope="module")
def next_version(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source root of the invented version."""
    source = tmp_path_factory.mktemp("next") / "pipelines"
    shutil.copytree(ROOT / "pipelines", source, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (*source.rglob("*.py"), *source.rglob("*.sql")):
        text = path.read_text("utf-8")
        if (changed := re.sub(rf"\b{RENAMED[0]}\b", RENAMED[1], text)) != text:
            path.write_text(changed, "utf-8")
    formats, fetch = source / "rollbook" / "landing" / "formats.py", source / "rollbook" / "source" / "fetch.py"
    raised = formats.read_text("utf-8").replace(f"\nFORMAT = {FORMAT}\n", f"\nFORMAT = {INVENTED}\n")
    formats.write_text(raised + UPGRADE, "utf-8")
    fetch.write_text(fetch.read_text("utf-8").replace("rollbook=__version__", 'rollbook="0.9.0"'), "utf-8")
    return source


def as_named_next(release: str) -> dict[str, released.Told]:
    """What readers had of the release, in the invented version's names."""
    facts: dict[str, released.Told] = json.loads(json.dumps(released.facts(release)).replace(*RENAMED))
    return facts


def tried(source: Path, release: str, root: Path, steps: Iterable[int]) -> list[dict[str, Any]]:
    """What the invented version makes of a release's warehouse, killed before each of some steps."""
    (root / "facts.json").write_text(json.dumps(as_named_next(release)), "utf-8")
    command = [sys.executable, "-m", "tests.support.processes.upgrading", release, str(root), *map(str, steps)]
    env = os.environ | {"PYTHONPATH": f"{source}{os.pathsep}{ROOT}"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_warehouse_of_the_first_format_is_kept() -> None:
    assert "0.1.0" in RELEASES


@pytest.mark.story
@pytest.mark.parametrize("release", RELEASES)
def test_a_release_is_opened_and_goes_on_with_the_same_rows(release: str) -> None:
    facts = released.facts(release)
    with released.opened(release) as house:
        upgrade(house)
        assert formats_of(house) == [FORMAT]
        assert released.told(house, facts["kept"]) == facts["kept"]
        for view in VIEWS:
            house.query(f"FROM {view}")
        said = [finding.says for finding in findings_of(house.rollbook()) if "in format" in finding.says]
        assert [says.endswith(f"of them only in the history, in format {FORMAT}") for says in said] == [True]
        released.go_on(house)
        assert released.told(house, facts["gone_on"]) == facts["gone_on"]
        assert house.query(STORAGE) == [("v1.4.0+",)]
        assert {rule: found for rule, found in house.examined().items() if found} == {}


@pytest.mark.parametrize("release", RELEASES)
def test_a_release_is_made_again_from_what_must_be_backed_up(release: str) -> None:
    kept = released.facts(release)["kept"]
    current = {name: rows for name, rows in kept.items() if name.startswith("main.") and name != "main.changes"}
    with released.opened(release) as house:
        for name in ("snapshots", "pseudonymous"):
            shutil.rmtree(house.warehouse / name)
        upgrade(house)
        assert released.told(house, kept) == kept
        past.rebuild(house.rollbook().writer(), confirm=always, accept_loss=True)
        assert released.told(house, current) == current


@pytest.mark.slow
@pytest.mark.parametrize("release", RELEASES)
def test_a_later_version_brings_it_up_and_this_one_says_so(release: str, next_version: Path) -> None:
    with folder() as root, released.opened(release) as house:
        (said,) = tried(next_version, release, root, [0])
        assert said == {"killed": False, "formats": [INVENTED]} | as_named_next(release)
        theirs = House(root / "warehouse", house.service, **house.over).at(9)
        for work in (
            theirs.sync,
            Book(theirs.warehouse).open().__enter__,
            lambda: run_query(theirs.published, "students"),
            lambda: oneroster.write(theirs.published, root / "roster"),
            lambda: progress.make(theirs.published, root / "pages", Chosen(), scratch=root),
        ):
            with pytest.raises(OtherVersionError, match="Nothing was changed: install Rollbook 0.9.0 or newer"):
                work()


@pytest.mark.slow
@pytest.mark.parametrize("steps", daily([(2, 8), range(1, MOST_STEPS + 1)], (2, 8)), ids=str)
@pytest.mark.parametrize("release", RELEASES)
def test_a_killed_upgrade_is_finished_by_the_next_writer(
    release: str, steps: Sequence[int], next_version: Path, tmp_path: Path
) -> None:
    kept = as_named_next(release)["kept"]
    outcomes = tried(next_version, release, tmp_path, steps)
    assert [outcome["killed"] for outcome in outcomes][:2] == [True, True]
    assert outcomes[-1]["killed"] == (steps[-1] < MOST_STEPS)
    for outcome in outcomes:
        assert (outcome["formats"], outcome["kept"]) == ([INVENTED], kept)
