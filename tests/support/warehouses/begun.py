"""First nights that many tests begin with: played once for all processes that run tests, and then copied.

For tests of what comes afterwards. A test of the first night, with requests or messages, plays that night:
`House.night(1)`. Until the next publish, a copy's views lead to the first lake.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from filelock import FileLock

from rollbook.assembly import names
from tests.support.features import every_feature
from tests.support.nights import ChangingNights, House
from tests.support.records import Records

# The folder of what was played, which the first process of a test run makes and removes (`tests.conftest`).
PLAYED = "TESTS_PLAYED"


def begin(house: House, students: Records | None = None, classes: Records | None = None, *, nights: int = 1) -> House:
    """Leave a new house as `house.night(1, students, classes)` does, and more nights of the same. The service is asked
    nothing for nights that were played.
    """
    if students is not None:
        house.service.students = students
    if classes is not None:
        house.service.classes = classes

    def play() -> None:
        for number in range(1, nights + 1):
            house.night(number)

    _copy_or_play(house, str(nights), play)
    return house.at(nights)


def begin_changing(house: House, count: int) -> ChangingNights:
    """Nights of a new house, as `ChangingNights(house).play(count)` leaves them."""

    def play() -> None:
        nights = begin_changing(house, count - 1) if count > 1 else ChangingNights(house)
        nights.play(1)

    _copy_or_play(house, f"{count} changing", play)
    return ChangingNights(house).play(count, is_begun=True)


def made_once(name: str, make: Callable[[Path], None], *, as_now: bool = False) -> Path:
    """A folder that is made once for all processes that run tests, with every feature unless `as_now`. To be copied or
    read, not changed.
    """
    folder, is_whole = Path(os.environ[PLAYED], name), Path(os.environ[PLAYED], f"{name}.whole")
    with FileLock(f"{folder}.lock"):
        if not is_whole.exists():
            with pytest.MonkeyPatch.context() as patch, nullcontext() if as_now else every_feature():
                patch.delenv("ROLLBOOK_INSTITUTIONS", raising=False)  # of a district that is there just now
                make(folder)
            is_whole.touch()
    return folder


def _copy_or_play(house: House, nights: str, play: Callable[[], None]) -> None:
    """Copy into a house what was played; else play it, and keep a copy for the next house."""
    assert not house.warehouse.exists(), "a house that has begun"

    def keep(kept: Path) -> None:
        play()
        for number, folder in enumerate(_folders(house)):
            shutil.copytree(folder, kept / str(number), symlinks=True)

    kept = made_once(_key(house, nights), keep, as_now=True)
    for number, folder in enumerate(_folders(house)):
        if not folder.exists():
            shutil.copytree(kept / str(number), folder, symlinks=True)


def _folders(house: House) -> list[Path]:
    """The warehouse, and a copy in a folder if any."""
    return [house.warehouse, *(Path(urlsplit(house.over[name]).path) for name in ("lake",) if name in house.over)]


def _key(house: House, nights: str) -> str:
    """All that the nights depend on: the service, the features and the settings, without the copy's place and alerts."""
    service = house.service
    served = service.students, service.classes, service.details, service.school, service.key, service.cap
    over = {name: value for name, value in house.over.items() if name not in ("lake", "notify")}
    return sha256(repr((served, names(), over, "lake" in house.over, nights)).encode()).hexdigest()
