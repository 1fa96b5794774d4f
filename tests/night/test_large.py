"""A first night of 100,000 students: two connections write tables of several row groups at once."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from rollbook.assembly import assemble
from rollbook.night import sync
from rollbook.sandbox import Sandbox
from rollbook.settings import load
from tests.support.nights import folder
from tests.support.reading import opened

DAY = date(2026, 11, 20)


@pytest.mark.slow
def test_a_first_night_of_many_students_publishes_each_row() -> None:
    with folder() as root, Sandbox(100_000, day=DAY, api_key="k") as service:
        given: dict[str, Any] = {
            "base_url": service.url,
            "api_key": "k",
            "warehouse": Path(root, "warehouse"),
            "first_date": DAY,
        }
        rollbook = assemble(load(**given, _env_file=None), clock=lambda: datetime(2026, 11, 20, 3, tzinfo=UTC))
        due = sync(rollbook.writer(), DAY).day.rows
        with opened(rollbook.warehouse.published_file) as con:
            for name, rows in due.items():
                for schema in ("main", "history") if name != "observed" else ():
                    assert con.execute(f"SELECT COUNT(*) FROM {schema}.{name}").fetchall() == [(rows,)], name
