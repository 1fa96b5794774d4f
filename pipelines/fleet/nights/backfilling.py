"""One institution's backfill, for a run over several: rebuilds past days from their landings. It needs no key."""

from __future__ import annotations

from datetime import date
from enum import StrEnum

import msgspec

from pipelines.errors import HeldError, NothingLandedError
from pipelines.sync import Rollbook, always, within_hold


class Kind(StrEnum):
    """How an institution's backfill ended. `skipped`: none of the days was landed."""

    REBUILT = "rebuilt"
    SKIPPED = "skipped"
    HELD = "held"
    FAILED = "failed"


class Rebuilt(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a backfill: the days that were rebuilt, and why others were not. `rows` counts by table."""

    kind: Kind
    message: str = ""
    days: tuple[date, ...] = ()
    skipped: dict[date, str] = {}
    rows: dict[str, int] = {}


def rebuild(book: Rollbook, first: date, last: date, *, confirmed: bool) -> Rebuilt:
    """Rebuild the landed days of a range. Unless `confirmed`, raises HeldError if it would remove too many rows."""
    try:
        done = book.backfill(first, last, confirm=always if confirmed else within_hold)
    except NothingLandedError as error:
        return Rebuilt(kind=Kind.SKIPPED, message=error.message)
    rows = {c.table: c.before + c.added - c.removed for c in done.counts}
    return Rebuilt(kind=Kind.REBUILT, days=tuple(done.rebuilt), skipped=done.skipped, rows=rows)


def unfinished(error: Exception, message: str) -> Rebuilt:
    """The result of a backfill that ended with an error."""
    return Rebuilt(kind=Kind.HELD if isinstance(error, HeldError) else Kind.FAILED, message=message)
