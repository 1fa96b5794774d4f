"""What the tests of `sync` share: an empty warehouse whose service has one class, nights of records, a held night."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pipelines.errors import HeldError
from pipelines.landing.manifest import Hold, Verdict
from tests.support.nights import House, Told, folder, night, plainly
from tests.support.records import classes, student
from tests.support.service import Service

Record = dict[str, Any]
Records = list[Record]


@pytest.fixture
def house() -> Iterator[House]:
    with folder() as root, plainly(), Service(classes=classes(1)) as service:
        yield House(root / "warehouse", service)


def sync(house: House, number: int, students_: list[Record], classes_: list[Record] | None = None) -> None:
    house.service.students = students_
    if classes_ is not None:
        house.service.classes = classes_
    house.at(number).sync()


def first_night(house: House, records: Records) -> Told:
    house.service.students = records
    house.at(1).sync()
    return Told().night(1, records, house.service.classes)


def is_held(house: House, day: int, records: Records, **arguments: Any) -> HeldError:
    """Sync a night that is held: exit 3, and not a byte of what readers see is another."""
    before = house.at(day).state()
    house.service.students = records
    with pytest.raises(HeldError) as caught:
        house.sync(**arguments)
    assert caught.value.exit_code == 3
    assert house.state() == before
    manifest = house.landings(night(day))[-1]
    assert isinstance(caught.value.report, Hold)
    assert (manifest.verdict, manifest.reason) == (Verdict.HELD, caught.value.report.reason)
    assert manifest.counts == caught.value.report.counts
    return caught.value


def changed(records: Records, count: int) -> Records:
    """The records, of which the first few have another name."""
    return [student(r["id"], name="Pupil Renamed") if i < count else r for i, r in enumerate(records)]
