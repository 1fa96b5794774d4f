"""The charts of the morning page, on the publish asset in Dagster's UI."""

from __future__ import annotations

import base64
import re
from html import unescape
from pathlib import Path

import pytest

from tests.support import graph
from tests.support.nights import new_house
from tests.support.records import classes, students

pytestmark = pytest.mark.slow

TITLES = {"Students to watch, by class", "Completion, score and activity", "The nightly syncs"}


def test_the_publish_asset_shows_the_charts_of_the_page_without_a_name(tmp_path: Path) -> None:
    over = {"first_date": "2026-11-01", "hold_changed_percent": "100", "report_names": "1"}
    with new_house(students(60), classes(2), **over) as house:
        # Everybody is worth a look, so that there is a class to draw.
        house.warehouse.mkdir()
        (house.warehouse / "thresholds.csv").write_text("name,value\ncompletion_below,100\nscore_below,100\n")
        with graph.job(house, tmp_path / "home") as job:
            results = [job.nightly(house, number) for number in (1, 2)]
            assert all(result.success for result in results)
        names = {name for (name,) in house.query("SELECT name FROM students")}
    (metadata,) = [metadata for asset, _, metadata in graph.marked(results[-1]) if asset == "published/rollbook"]
    shown = {title: metadata[title] for title in metadata if title in TITLES}
    assert set(shown) == TITLES
    for title, markdown in shown.items():
        found = re.fullmatch(r"!\[(.+)\]\(data:image/svg\+xml;base64,([\w+/=]+)\)", markdown)
        assert found, (title, markdown[:200])
        svg = base64.b64decode(found[2]).decode()
        assert svg.startswith("<svg ")
        assert not [name for name in names if name in unescape(found[1] + svg)]
