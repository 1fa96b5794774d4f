"""Chooses the cases of a test that run every day."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def daily(cases: Iterable[Any], *chosen: Any) -> list[Any]:
    """All cases, for `parametrize`: the chosen cases run every day, the rest with the slow tests."""
    listed = list(cases)
    assert all(case in listed for case in chosen), "a case that is chosen is one of them"
    return [case if case in chosen else pytest.param(case, marks=pytest.mark.slow) for case in listed]


def weekly(*values: Any) -> Any:
    """One case of several values, for `parametrize`, that runs with the weekly tests."""
    return pytest.param(*values, marks=pytest.mark.weekly)


def slow(*values: Any, name: str | None = None) -> Any:
    """One case of several values, for `parametrize`, that runs with the slow tests."""
    return pytest.param(*values, marks=pytest.mark.slow, id=name)
