"""Expiring days now, without a sync."""

from __future__ import annotations

from datetime import date

from pipelines.sync import Rollbook


def prune(rollbook: Rollbook) -> list[date]:
    """Expire what ROLLBOOK_KEEP_DAYS does not keep. Returns the days. Raises what `Rollbook.publish` raises.

    They leave the views of the published file first, so that no view reads a file that is gone.
    """
    with rollbook.writer():
        rollbook.ready()
        days = rollbook.retention.expirable(rollbook.settings.keep_days)
        if days:
            rollbook.publish()
        return days
