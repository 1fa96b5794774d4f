"""How the command reads its arguments, and what its help looks like."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from rollbook.cli import app

DAYS = [
    ("sync", "--date", "{}"),
    ("backfill", "{}", "2026-09-01"),
    ("discard", "{}"),
    ("district", "sync", "--date", "{}"),
    ("access", "--since", "{}"),
]


@pytest.mark.parametrize("command", DAYS, ids=lambda command: command[0])
@pytest.mark.parametrize("text", ["2026-13-01", "yesterday", "01.09.2026", "2026-9-1T00:00", "2026-09-01\x1b[2J"])
def test_invalid_days_are_refused_with_an_example(command: tuple[str, ...], text: str) -> None:
    result = CliRunner().invoke(app, [part.format(text) for part in command], env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert "is not a day: write one like 2026-09-01" in result.output
    assert "\x1b[2J" not in result.output
