"""Landings that are taken back, and put back again."""

from __future__ import annotations

from datetime import date

from pipelines.errors import DamagedError, HeldError
from pipelines.operations import discard as discards
from pipelines.sync import always, within_hold
from tests.campaign import damage
from tests.campaign.campaign import Campaign
from tests.campaign.ledger import Key

BY_NUMBER = -1


def call(c: Campaign, day: date, number: int | None, *, discarded: bool, accept: bool) -> None:
    """Take a landing back, or put it back; without a number, the only one or the last counted one of its day."""
    confirm = always if accept else within_hold
    if discarded:
        discards.discard(c.rollbook, day, number, reason="the campaign says so", confirm=confirm)
    else:
        discards.undo_discard(c.rollbook, day, number, confirm=confirm)


def change(c: Campaign, key: Key, *, discarded: bool, number: int | None = BY_NUMBER) -> None:
    """Discard a landing, or put it back: what would take many rows away is held until somebody accepts it."""
    c.note(f"{key[0]} landing {key[1]} is {'discarded' if discarded else 'put back'}")
    day, number = key[0], key[1] if number == BY_NUMBER else number
    accept = False
    if c.ledger.would_lose(key, discarded=discarded):
        c.operate(lambda: call(c, day, number, discarded=discarded, accept=False), fails=HeldError)
        accept = True

    def once() -> None:
        try:
            call(c, day, number, discarded=discarded, accept=accept)
        except DamagedError:
            if (key in damage.landings(c.warehouse / "raw")) == discarded:
                raise  # the landing is where it was
            c.note("a snapshot turned out to be damaged when the landing had been moved")

    c.operate(once, done=lambda: c.ledger.become(key, discarded=discarded), behind=c.worn)
