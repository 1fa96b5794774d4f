"""Expires days now, without a sync."""

from __future__ import annotations

from datetime import date

from pipelines.sync import Rollbook


def prune(rollbook: Rollbook) -> list[date]:
    """Expire the days that ROLLBOOK_KEEP_DAYS does not keep; returns them. Raises what `Rollbook.publish` raises.

    The published views drop the days first, so that no view reads a deleted file.
    """
    with rollbook.writer():
        rollbook.ready()
        days = rollbook.recovery.expirable(rollbook.settings.keep_days)
        if days:
            rollbook.publish()
        return days
