"""The morning page, `warehouse/report.html`: last night and the last month, on one page for a head of department.

    morning.py   what the page says, asked of one open database
    charts.py    the charts: drawn once, as SVG for the page and as PNG for the run's metadata
    page.py      the page itself, from `page.html`

It is made from the published file, and counts; it names students only when told to (G12). Readers do not wait
for it, and a page that cannot be made keeps nothing from them.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import duckdb

from pipelines import files
from pipelines.errors import RollbookError
from pipelines.store.database import connect
from pipelines.store.warehouse import Warehouse

if TYPE_CHECKING:
    from pipelines.report.charts import Chart

log = logging.getLogger(__name__)

FILE = "report.html"


@dataclass(frozen=True)
class Report:
    """A morning page, and the charts on it; without personal data in them, whatever the page names."""

    page: str
    charts: Sequence[Chart]


def write_report(warehouse: Warehouse, *, at: datetime, names: bool = False, trouble: str = "") -> Report | None:
    """Make the page from what is published and write it beside it. None, and a warning in the log, if that fails.

    After the swap: the page must not mention what readers cannot see yet, and a page that fails must not keep the data
    from them.
    """
    if not warehouse.published.is_file():
        return None
    try:
        with connect(warehouse.published, scratch=warehouse.scratch, read_only=True) as con:
            made = make(con, at=at, names=names, trouble=trouble)
        if made is not None:
            files.write(warehouse.root / FILE, made.page.encode(), warehouse.mode)
    except (RollbookError, duckdb.Error) as error:
        log.warning("The morning page could not be made (%s)", type(error).__name__)
    except OSError as error:
        log.warning("The morning page could not be written (%s)", error.strerror)
    else:
        return made
    return None


def make(con: duckdb.DuckDBPyConnection, *, at: datetime, names: bool = False, trouble: str = "") -> Report | None:
    """The page of an open database, made at a moment (UTC); `trouble` says what has gone wrong since, in words.

    None, and a warning in the log, when it cannot be made: whatever the reason, the data are worth more than the page.
    """
    try:
        # Drawing takes half a second to load; a command that makes no page shall not wait for it.
        from pipelines.report import charts, morning, page

        said = morning.load_morning(con, names=names)
        drawn = charts.draw(said)
        return Report(page.render(said, drawn, at=at, trouble=trouble), drawn)
    except Exception as error:  # noqa: BLE001 - see above; the reason is named, its text may hold pupils' data
        log.warning("The morning page could not be made (%s); the data are published without it", type(error).__name__)
        return None
