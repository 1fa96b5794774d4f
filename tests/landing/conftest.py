"""Shared by the tests of `landing`: an empty raw folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollbook.landing.raw import RawStore


@pytest.fixture
def raw(tmp_path: Path) -> RawStore:
    return RawStore(tmp_path / "warehouse" / "raw")
