"""Alerts for failed, held, late and long unproven syncs, and for the first good one after.

alerts.py     which outcomes are reported, the text, the outbox, and its delivery
channels.py   sends one message to the addresses of ROLLBOOK_NOTIFY
commands.py   `rollbook notify`
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rollbook.features.feature import Feature

if TYPE_CHECKING:
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

    def listener(self, rollbook: Rollbook) -> Listener:
        """Reports how syncs end."""
        from rollbook.features.alerts.alerts import Alerts

        return Alerts(rollbook.place, rollbook.settings, rollbook.clock)

    def lines(self, rollbook: Rollbook) -> Iterator[Finding]:
        """Whom alerts reach."""
        from rollbook.features.alerts.addresses import AlertSettings
        from rollbook.health.finding import Finding, Level

        if names := ", ".join(AlertSettings.of(rollbook.settings).notify_names):
            yield Finding("alerts", Level.OK, f"go to {names} (nothing was sent now)")
        else:
            yield Finding(
                "alerts",
                Level.WARNING,
                "nobody is told of a failed or a held night: set ROLLBOOK_NOTIFY, and try it with `rollbook notify --test`",
            )


FEATURE = AlertMessages()
