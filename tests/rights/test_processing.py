"""The record of processing says what is true: of the declarations, of the settings, and of a warehouse."""

from __future__ import annotations

import re
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from rollbook.reading import access
from rollbook.rights.processing import render
from rollbook.settings import Settings, load
from rollbook.tables import TABLES
from rollbook.views import contacted
from tests.support.nights import new_house, night
from tests.support.processes.commands import run_at
from tests.support.records import classes, students
from tests.support.tiers import daily

pytestmark = [pytest.mark.nights, pytest.mark.every_feature]

AT = datetime(2026, 11, 22, tzinfo=UTC)


def settings(**over: Any) -> Settings:
    return load(fetches=False, **{"_env_file": None, **over})


def text(**over: Any) -> str:
    return render(settings(**over), at=AT, home=Path("/srv/dagster_home"), run_days=400)


def row(shown: str, first: str) -> list[str]:
    """The cells of the one row of a table that begins with this cell."""
    (line,) = re.findall(rf"^\| {re.escape(first)} \|.*$", shown, flags=re.MULTILINE)
    return [cell.strip() for cell in line.strip("|").split(" | ")]


def test_personal_columns_follow_the_declarations() -> None:
    kinds = {
        (table, column): personal
        for table, columns in re.findall(r"^### ([\w.]+)$(.*?)(?=^##)", text(), flags=re.MULTILINE | re.DOTALL)
        for column, personal in re.findall(r"^\| `(\w+)` \| [^|]* \| ([^|]*?) *\|", columns, flags=re.MULTILINE)
    }
    for t in TABLES.values():
        for c in t.columns:
            assert (kinds[t.name, c.name] == "identifies") == bool(c.personal), f"{t.name}.{c.name}"
    assert kinds["students", "name"] == "identifies"
    assert kinds["student_summaries", "average_score"] == "about a student"
    assert kinds["classes", "teacher_id"] == "about a person"
    assert kinds["classes", "class_room"] == ""
    assert kinds["ops.rejects", "position"] == "about a student"
    assert {kinds["main.changes", c] for c in ("old_value", "new_value")} <= {"about a student", "identifies"}


def places(over: Settings) -> dict[Path, str]:
    """The places that the record names, with their modes."""
    rows = re.findall(r"^\| `(/[^`]+)` \|[^|]*\|[^|]*\((\d+)\) \|", render(over, at=AT), flags=re.MULTILINE)
    return {Path(path): mode for path, mode in rows}


@pytest.mark.parametrize("mode", daily(["600", "640"], "640"))
def test_it_names_all_that_is_in_a_warehouse_with_its_mode(mode: str) -> None:
    with new_house(students(3), classes(1), published_mode=mode) as house:
        for number in (1, 2):
            house.night(number)
        access.note(house.warehouse, "sql")
        contacted.add(house.warehouse, 1, night(2), night(9))
        done = run_at(house.warehouse, "export", "students")
        assert done.returncode == 0, done.stderr
        listed = places(house.settings())
        there = {path: f"{stat.S_IMODE(path.stat().st_mode):o}" for path in house.warehouse.iterdir()}
    assert there == {path: mode for path, mode in listed.items() if path in there}
    assert {path.name for path in listed.keys() - there.keys()} <= {
        "rollbook-pseudonymous.duckdb",
        "pseudonymous",
    }


def test_it_says_who_may_read_and_who_receives() -> None:
    shown = text(
        warehouse="/srv/w", published_mode="644", report_names=True, ui_hosts="rollbook.school.example",
        base_url="https://records.example.org", api_key="S3CRET-KEY",
        notify="mailtos://user:S3CRET@mail.example.org?to=it@school.example",
    )  # fmt: skip
    assert row(shown, "`/srv/w/rollbook.duckdb`")[2] == "every account of this machine (444)"
    assert row(shown, "`/srv/w/raw`")[2] == "its owner (700)"
    assert row(shown, "`/srv/w/private`")[2] == "its owner (700)"
    assert "names students to watch" in row(shown, "`/srv/w/report.html`")[1]
    assert "the records service (records.example.org)" in shown
    assert "(students by reference\\_id" not in shown
    assert "students by reference_id or email" in shown
    for reader in (
        "browsers that reach the UI as rollbook.school.example",
        r"everybody who has the UI's token \(`rollbook open`\), while",
    ):
        assert re.search(
            rf"\| {reader}[^|]*\| Dagster's UI and the morning page: [^|]*, no names of students \|", shown
        )
    assert re.search(r"\| alerts, address 1 \(mailtos\) \|", shown)
    assert "S3CRET" not in shown
    closed = text(published_mode="600")
    assert "its owner (400)" in closed
    assert "nobody: `ROLLBOOK_NOTIFY` is not set" in closed
    assert "counts only, no names" in closed
    assert "the records service at *to be filled in*" in closed
