"""A first night, and a later night that is held."""

from __future__ import annotations

from typing import Any

import pytest

from rollbook.errors import HeldError
from rollbook.landing.manifest import Hold, Verdict
from tests.support.nights import Expected, House, night
from tests.support.records import Records
from tests.support.warehouses.begun import begin


def first_night(house: House, records: Records) -> Expected:
    """Play the first night; returns what the tables must hold."""
    begin(house, records)
    return Expected().night(1, records, house.service.classes)


def is_held(house: House, number: int, records: Records, **arguments: Any) -> Hold:
    """Sync a night that is held: exit 3, and not a byte of what readers see changes."""
    before = house.at(number).state()
    with pytest.raises(HeldError) as caught:
        house.night(number, records, **arguments)
    assert caught.value.exit_code == 3
    assert house.state() == before
    hold = caught.value.report
    assert isinstance(hold, Hold)
    manifest = house.landings(night(number))[-1]
    assert (manifest.verdict, manifest.reason, manifest.counts) == (Verdict.HELD, hold.reason, hold.counts)
    return hold
