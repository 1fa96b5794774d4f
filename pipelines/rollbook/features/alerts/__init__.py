"""Alerts for failed, held, late and long unproven syncs, and for the first good one after.

alerts.py     which outcomes are reported, the text, the outbox, and its delivery
channels.py   sends one message to the addresses of ROLLBOOK_NOTIFY
commands.py   `rollbook notify`
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rollbook.feature import Feature

if TYPE_CHECKING:
    import dagster as dg

    from rollbook.defs.resources import School
    from rollbook.health.finding import Finding
    from rollbook.night.listeners import Listener
    from rollbook.opened import Rollbook


class AlertMessages(Feature):
    """Messages about nights that went wrong."""

    name = "alerts"
    settings = "rollbook.features.alerts.addresses:AlertSettings"

    def commands(self) -> None:
        """`rollbook notify`."""
        from rollbook.features.alerts import commands  # noqa: F401 - it adds itself

    def listener(self, opened: Rollbook) -> Listener:
        """Reports how syncs end."""
        from rollbook.features.alerts.alerts import Alerts

        return Alerts(opened.place, opened.settings, opened.clock)

    def lines(self, opened: Rollbook) -> Iterator[Finding]:
        """Whom alerts reach."""
        from rollbook.features.alerts.addresses import AlertSettings
        from rollbook.health.finding import Finding, Level

        if names := ", ".join(AlertSettings.of(opened.settings).notify_names):
            yield Finding("alerts", Level.OK, f"go to {names} (nothing was sent now)")
        else:
            says = "nobody is told of a failed or a held night: set ROLLBOOK_NOTIFY, and try"
            says += " it with `rollbook notify`"
            yield Finding("alerts", Level.WARNING, says)

    def definitions(self, school: School) -> dg.Definitions | None:
        """Watches for nights that did not come and syncs that were killed."""
        from rollbook.features.alerts import definitions

        return definitions.definitions(school)


FEATURE = AlertMessages()
