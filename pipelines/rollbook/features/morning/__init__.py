"""The morning page, `report.html`.

page.py      writes it after each publish, and says on it what went wrong
morning.py   its data, charts and text; `page.html` is its template
served.py    shows it beside Dagster's UI
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rollbook.feature import Feature

if TYPE_CHECKING:
    from starlette.routing import Route

    from rollbook.night.listeners import Listener
    from rollbook.opened import Rollbook


class Morning(Feature):
    """Last night and the last month, on one page."""

    name = "morning"
    settings = "rollbook.features.morning.settings:MorningSettings"

    def listener(self, opened: Rollbook) -> Listener:
        """Writes the page."""
        from rollbook.features.morning.page import MorningPage

        return MorningPage(opened.place, opened.settings, lambda: [each.remark() for each in opened.listeners])

    def routes(self) -> Sequence[Route]:
        """The morning pages."""
        from rollbook.features.morning.served import ROUTES

        return ROUTES


FEATURE = Morning()
