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

    def commands(self) -> None:
        """`rollbook notify`."""
        from rollbook.features.alerts import commands  # noqa: F401 - it adds itself

    def listener(self, rollbook: Rollbook) -> Listener:
        """Reports how syncs end."""
        from rollbook.features.alerts.alerts import Alerts

        return Alerts(rollbook.place, rollbook.settings, rollbook.clock)

    def lines(self, rollbook: Rollbook) -> Iterator[Finding]:
        """Whom alerts reach."""
        from rollbook.health.finding import Finding, Level

        names = ", ".join(rollbook.settings.notify_names)
        says = f"go to {names} (nothing was sent now)" if names else "go to nobody: ROLLBOOK_NOTIFY is not set"
        yield Finding("alerts", Level.OK, says)


FEATURE = AlertMessages()
