"""The morning page, `warehouse/report.html`: last night and the last month, on one page for a head of department.

It is made from the published file (by `morning`) and shows counts; it names students only if a setting says so (G12).
It is made after the publish, so it never delays or blocks the data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from types import MappingProxyType

import duckdb

from rollbook.errors import ArgumentError, BusyError, HeldError, NotConfirmedError, RollbookError, SettingError
from rollbook.features.morning.settings import MorningSettings
from rollbook.landing.manifest import Hold
from rollbook.night.listeners import ErasureUnderWay, Listener
from rollbook.night.place import Place
from rollbook.settings import Settings
from rollbook.store.database import connect
from rollbook.store.published import REPORT
from rollbook.store.schema import check_format
from rollbook.tables import TABLES, WALKED
from rollbook.util import files
from rollbook.views import contacted

FILE = REPORT


class MorningPage(Listener):
    """Writes the page of one warehouse."""

    name = FILE

    def __init__(self, place: Place, settings: Settings, remarks: Callable[[], list[str]]) -> None:
        """`remarks` returns the sentences for the page's foot."""
        self.place = place
        self.settings = settings
        self.remarks = remarks
        self.path = place.warehouse.root / FILE

    def on_published(self, at: datetime) -> None:
        """Make the page from the published file."""
        self._write(at)

    def failed(self, error: RollbookError, at: datetime) -> None:
        """Say on the page what went wrong since the data."""
        if not isinstance(error, (ArgumentError, BusyError, NotConfirmedError)):  # user errors are not shown to readers
            self._write(at, on_page(error), error.message)

    def erased(self, erased: ErasureUnderWay) -> None:  # noqa: ARG002 - any student may be on it
        """Remove the page, which may name the student."""
        self.path.unlink(missing_ok=True)

    def _write(self, at: datetime, trouble: str = "", advice: str = "") -> None:
        place, published = self.place, self.place.warehouse.published_file
        if not published.is_file():
            self.path.unlink(missing_ok=True)
            return
        unproven = [u.description for u in place.landings.long_unproven()]
        with connect(published, scratch=place.warehouse.scratch, read_only=True) as con:
            check_format(con, published.name)
            if not con.execute("SELECT 1 FROM spans.days LIMIT 1").fetchall():  # all of it was discarded
                self.path.unlink(missing_ok=True)
                return
            mine, remarks = MorningSettings.of(self.settings), self.remarks()
            resting = dict[int, date]()
            try:
                today = at.astimezone(self.settings.zone).date()
                noted = contacted.resting(contacted.contacts(place.warehouse.root, con), today)
                resting = {student: each.until for student, each in noted.items()}
            except SettingError as error:  # it hides nobody, and the page says so
                remarks.append(error.message)
            page = make(
                con,
                at=at,
                names=mine.report_names,
                resting=resting,
                trouble=trouble,
                advice=advice,
                unproven=unproven,
                remarks=[*filter(None, remarks)],
                explore_url=mine.explore_url,
            )
        files.write(self.path, page.encode(), place.warehouse.mode)


def make(
    con: duckdb.DuckDBPyConnection,
    *,
    at: datetime,
    names: bool = False,
    resting: Mapping[int, date] = MappingProxyType({}),
    trouble: str = "",
    advice: str = "",
    unproven: Sequence[str] = (),
    remarks: Sequence[str] = (),
    explore_url: str = "",
) -> str:
    """Return the page's HTML, from an open database. For the parameters see `morning.render`."""
    # Commands that make no page should not wait for Jinja.
    from rollbook.features.morning import morning

    content = morning.load_morning(con, names=names, resting=resting)
    charts = morning.draw(content)
    return morning.render(
        content,
        charts,
        at=at,
        trouble=trouble,
        advice=advice,
        unproven=unproven,
        remarks=remarks,
        explore_url=explore_url,
    )


def on_page(error: RollbookError) -> str:
    """The morning page's text about an error. Its readers know students and classes, not tables or commands."""
    if not isinstance(error, HeldError) or not isinstance(error.report, Hold):
        return "Last night's sync did not work, so nothing newer is known yet. The next one that works makes up for it."
    counts = [c for c in error.report.counts if not TABLES[c.table].is_list]
    removed = [f"{c.removed:,} of {c.before:,} {c.table}" for c in counts if c.table in WALKED and c.removed]
    # One of a set's tables has a row per record, so the largest count is close to the number of records.
    most = {name: max((c.altered for c in counts if TABLES[c.table].set == name), default=0) for name in WALKED}
    lost = {
        name: max((n for c in counts if TABLES[c.table].set == name for _, n in c.vanished.values()), default=0)
        for name in WALKED
    }
    parts = [f"{' and '.join(removed)} would no longer be listed"] if removed else []
    for numbers, would in ((most, "the records of {} would change"), (lost, "figures of {} would vanish")):
        if of := " and ".join(f"{number:,} {name}" for name, number in numbers.items() if number):
            parts.append(would.format(of))
    changes = "; ".join(parts) or "many students would be in other classes"
    return f"More would change than on a normal night, so a person must approve it first: {changes}."
