"""Chooses when the cases of a test run: every day, with the slow tests, or weekly."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def daily(cases: Iterable[Any], *chosen: Any) -> list[Any]:
    """All cases, for `parametrize`: the chosen cases run every day, their neighbours with the weekly tests."""
    listed = list(cases)
    assert chosen, "no case would run every day"
    assert all(case in listed for case in chosen), "a case that is chosen is one of them"
    return [case if case in chosen else weekly(case) for case in listed]


def weekly(*values: Any, name: str | None = None) -> Any:
    """One case of several values, for `parametrize`, that runs with the weekly tests."""
    return pytest.param(*values, marks=pytest.mark.weekly, id=name)


def slow(*values: Any, name: str | None = None) -> Any:
    """One case of several values, for `parametrize`, that runs with the slow tests."""
    return pytest.param(*values, marks=pytest.mark.slow, id=name)
