"""First nights that many tests begin with: played once in this process, and then copied.

For tests of what comes afterwards. A test of the first night, with requests or messages, plays that night:
`House.night(1)`. Until the next publish, a copy's views lead to the first lake.
"""

from __future__ import annotations

import shutil
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from tests.support.nights import ChangingNights, House, make_folder
from tests.support.records import Records

# The newest stay; each holds some ten megabytes of memory a night.
KEPT = 6

_played: dict[bytes, TemporaryDirectory[str]] = {}


def begin(house: House, students: Records | None = None, classes: Records | None = None, *, nights: int = 1) -> House:
    """Leave a new house as `house.night(1, students, classes)` does, and more nights of the same. The service is asked
    nothing for nights that were played.
    """
    if students is not None:
        house.service.students = students
    if classes is not None:
        house.service.classes = classes
    key = _key(house, nights)
    if not _is_copied(house, key):
        for number in range(1, nights + 1):
            house.night(number)
        _keep(house, key)
    return house.at(nights)


def begin_changing(house: House, count: int) -> ChangingNights:
    """Nights of a new house, as `ChangingNights(house).play(count)` leaves them."""
    nights = ChangingNights(house)
    key = _key(house, f"{count} changing")
    if _is_copied(house, key):
        return nights.play(count, is_begun=True)
    if count > 1:
        nights = begin_changing(house, count - 1)
    nights.play(1)
    _keep(house, key)
    return nights


def _is_copied(house: House, key: bytes) -> bool:
    """Copy into a house what was played, if anything."""
    assert not house.warehouse.exists(), "a house that has begun"
    if key in _played:
        for number, folder in enumerate(_folders(house)):
            shutil.copytree(Path(_played[key].name, str(number)), folder, symlinks=True)
    return key in _played


def _keep(house: House, key: bytes) -> None:
    """Keep what was played."""
    _played[key] = make_folder()
    for number, folder in enumerate(_folders(house)):
        shutil.copytree(folder, Path(_played[key].name, str(number)), symlinks=True)
    for old in list(_played)[:-KEPT]:
        _played.pop(old).cleanup()


def _folders(house: House) -> list[Path]:
    """The warehouse, and a copy in a folder if any."""
    return [house.warehouse, *(Path(urlsplit(house.over[name]).path) for name in ("lake",) if name in house.over)]


def _key(house: House, nights: object) -> bytes:
    """All that the nights depend on: the service and the settings, without the copy's place and the alerts."""
    service = house.service
    served = service.students, service.classes, service.details, service.school, service.key, service.cap
    over = {name: value for name, value in house.over.items() if name not in ("lake", "notify")}
    return sha256(repr((served, over, "lake" in house.over, nights)).encode()).digest()
