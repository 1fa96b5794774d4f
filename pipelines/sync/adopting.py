"""Publishes histories that were computed elsewhere (`rollbook fleet rebuild`), with the checks of every publish."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.errors import BehindError
from pipelines.landing.manifest import TableCounts
from pipelines.store.history import Computed
from pipelines.sync.policy import Confirm, within_hold
from pipelines.sync.recovery import Base

if TYPE_CHECKING:
    from pipelines.sync.rollbook import Rollbook


def adopt(book: Rollbook, computed: Computed, confirm: Confirm = within_hold) -> tuple[TableCounts, ...]:
    """Publish histories computed from this warehouse's lake; returns the changes in each current table.

    Raises BehindError if the lake has changed since, ExpiredError or LostError if `raw/` lacks days, HeldError for an
    unconfirmed loss, and the errors of a publish. Readers then keep the published file.
    """
    with book.writer(recover=False):
        book.retention.refuse_to_lose()
        book.recovery.check_raw()
        if {day: record.digest for day, record in book.lake.days().items()} != computed.days:
            raise BehindError("Its snapshots have changed since: run `rollbook fleet rebuild` again")
        gone = book.landings.discarded_days()
        merged = book.merger.merge(Base(None), book.lake, gone, None, full_refresh=True, computed=computed)
        book.confirm_loss(confirm)
        book.publish()
        return tuple(merged.counts)
