"""Shared by the tests of what `rollbook share` serves: two nights, of which the second is published."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes.desks import Nights, sharing


@pytest.fixture
def nights(tmp_path: Path) -> Nights:
    """A warehouse after two nights."""
    nights = Nights(tmp_path / "w")
    nights.publish(1)
    nights.publish(2)
    return nights


@pytest.fixture
def port(nights: Nights) -> Iterator[int]:
    """The port on which its file is served."""
    with sharing(nights.root) as port:
        yield port
