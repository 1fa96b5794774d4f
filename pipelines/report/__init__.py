"""The morning page, `warehouse/report.html`: last night and the last month, on one page for a head of department.

    morning.py   the page's data, queried from one open database
    charts.py    lays out the charts; `chart.svg` draws them
    page.py      renders the page from `page.html`, and the charts as images for the run's metadata

It is made from the published file and shows counts; it names students only if a setting says so (G12). It is made after
the publish, so it never delays or blocks the data.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import duckdb

from pipelines import files
from pipelines.errors import RollbookError
from pipelines.store.database import connect
from pipelines.store.warehouse import Warehouse

log = logging.getLogger(__name__)

FILE = "report.html"


@dataclass(frozen=True)
class Report:
    """A morning page, and its charts as Markdown by title. They hold no personal data, even if the page does."""

    page: str
    charts: Mapping[str, str]


def write_report(
    warehouse: Warehouse, *, at: datetime, names: bool = False, trouble: str = "", unproven: Sequence[str] = ()
) -> Report | None:
    """Make the page from the published file and write it next to it. If it fails, log a warning and return None.

    Call it after the swap: the page must not show what readers cannot see yet, and its failure must not block the data.
    """
    if not warehouse.published.is_file():
        return None
    try:
        with connect(warehouse.published, scratch=warehouse.scratch, read_only=True) as con:
            report = make(con, at=at, names=names, trouble=trouble, unproven=unproven)
        if report is not None:
            files.write(warehouse.root / FILE, report.page.encode(), warehouse.mode)
    except (RollbookError, duckdb.Error) as error:
        log.warning("The morning page could not be made (%s)", type(error).__name__)
    except OSError as error:
        log.warning("The morning page could not be written (%s)", error.strerror)
    else:
        return report
    return None


def make(
    con: duckdb.DuckDBPyConnection,
    *,
    at: datetime,
    names: bool = False,
    trouble: str = "",
    unproven: Sequence[str] = (),
) -> Report | None:
    """Make the page from an open database. `at` is the time shown (UTC), `trouble` what has gone wrong since the data,
    `unproven` what is wrong with sets that stay unproven.

    If it fails for any reason, logs a warning and returns None: the data matter more than the page.
    """
    try:
        # Commands that make no page should not wait for Jinja.
        from pipelines.report import charts, morning, page

        content = morning.load_morning(con, names=names)
        drawn = charts.draw(content)
        html = page.render(content, drawn, at=at, trouble=trouble, unproven=unproven)
        return Report(html, {chart.heading: page.picture(chart) for chart in drawn})
    except Exception as error:  # noqa: BLE001 - see above; only its type is logged, its text may hold pupils' data
        log.warning("The morning page could not be made (%s); the data are published without it", type(error).__name__)
        return None
