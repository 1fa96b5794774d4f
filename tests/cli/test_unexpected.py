"""An unexpected error: its kind and place are shown, and never its text, which may quote a record."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from rollbook.settings import ROOT
from tests.support.nights import new_house
from tests.support.processes.commands import dagster_home
from tests.support.records import classes, students

pytestmark = pytest.mark.nights

QUOTED = "Pupil Number7 <pupil.7@school.example>"

# Each makes one call fail as a library might, with a record in its text.
IN_A_STAGE = f"from rollbook import night\ndef fail(*_, **__): raise ValueError({QUOTED!r})\nnight.snapshot = fail"
IN_A_COMMAND = (
    f"from rollbook.reading import query\ndef fail(*_, **__): raise KeyError({QUOTED!r})\nquery.open_published = fail"
)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    home = dagster_home(tmp_path_factory.mktemp("home"))
    with new_house(students(9), classes(2)) as house:
        house.service.now = lambda: datetime.now(UTC)  # the command goes by the machine's clock
        yield {"DAGSTER_HOME": str(home), "COLUMNS": "500", **house.environment()}


def run(environment: dict[str, str], broken: str, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    program = f"{broken}\nfrom rollbook.cli import main\nmain()"
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=os.environ | environment | more, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("broken", "typed", "says"),
    [
        pytest.param(IN_A_STAGE, "sync", r"ValueError in rollbook/night/__init__\.py", marks=pytest.mark.slow),
        (IN_A_COMMAND, "sql SELECT", r"KeyError in rollbook/reading/query\.py"),
    ],
)
def test_an_unexpected_error_is_told_by_its_kind_and_place(
    environment: dict[str, str], broken: str, typed: str, says: str
) -> None:
    done = run(environment, broken, *typed.split())
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(
        rf"Error: It ended with an unexpected error \({says}, line \d+\)\. Run it again with ROLLBOOK_DEBUG=1 to see the"
        r" traceback. It may quote pupils' records: read it before you share it\n",
        done.stderr,
    )


def test_all_of_it_is_shown_to_who_asks_for_it(environment: dict[str, str]) -> None:
    done = run(environment, IN_A_COMMAND, "sql", "SELECT 1", ROLLBOOK_DEBUG="1")
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert QUOTED in done.stderr
