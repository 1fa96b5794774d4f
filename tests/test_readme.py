"""The README is true: the SQL and the Python run."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from rollbook.assembly import assemble
from rollbook.night import sync
from rollbook.sandbox import Sandbox
from rollbook.settings import ROOT, load
from tests.support.warehouses.school import School

README = (ROOT / "README.md").read_text()


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse of ten nights that end today."""
    today = datetime.now(UTC).date()
    days = [today - timedelta(days=n) for n in reversed(range(10))]
    with Sandbox(500, api_key="k", day=days[0]) as sandbox:
        rollbook = assemble(
            load(
                base_url=sandbox.url,
                api_key="k",
                warehouse=tmp_path_factory.mktemp("readme"),
                first_date=days[0],
                hold_changed_percent=100,
            )
        )
        for day in days:
            sandbox.day = day
            sync(rollbook.writer(), day)
    return rollbook.warehouse.published_file


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_it_has_at_most_900_words_outside_code() -> None:
    assert len(re.sub(r"```.*?```", "", README, flags=re.DOTALL).split()) <= 900


def test_it_begins_with_what_runs_it_and_with_the_demo() -> None:
    first = README.split("\n\n")[1]
    assert [
        word for word in ("Dagster", "assets", "schedule", "backfilled from Dagster's UI") if word not in first
    ] == []
    assert blocks("sh")[0].startswith("make demo ")


@pytest.mark.parametrize("word", ["landing", "landed", "proven", "held"])
def test_words_of_its_own_are_said_before_they_are_used(word: str) -> None:
    said = {"landed": "landing"}.get(word, word)
    assert README.index(f"**{said}**") < README.index(word)


@pytest.mark.slow
def test_every_query_in_it_runs_and_gives_rows(published: Path) -> None:
    queries = [q for block in blocks("sql") for q in block.split(";") if q.strip()]
    assert len(queries) >= 4
    with duckdb.connect(str(published), read_only=True) as con:
        for query in queries:
            assert con.execute(query).fetchall(), query


def test_what_it_shows_is_what_the_demo_answers(fortnight: School) -> None:
    samples = re.findall(
        r"```sql\n([^`]*?)```\n\n\|(.*?)\n\|[-|]*\n(.*?)\n\n", README.partition("## First queries")[0], flags=re.DOTALL
    )
    assert len(samples) == 2
    for query, heading, lines in samples:
        answer = fortnight.frame(query)
        assert [*answer.columns] == [name.strip() for name in heading.strip("| ").split("|")]
        shown = [tuple(cell.strip() for cell in line.strip("| ").split("|")) for line in lines.splitlines()]
        assert shown == [
            tuple("NULL" if value is None else str(value) for value in row) for row in fortnight.rows(query)
        ]


@pytest.mark.slow
def test_its_python_runs_and_gives_rows(published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = blocks("python")
    frames: dict[str, pd.DataFrame] = {}
    (tmp_path / "demo").symlink_to(published.parent)
    monkeypatch.setenv("ROLLBOOK_WAREHOUSE", str(tmp_path))
    exec(block, frames)  # noqa: S102 - the README's own lines
    assert not frames["watch"].empty
    assert not frames["changed"].empty
    assert not frames["moved"].empty
