"""First nights that many tests begin with: played once in this process, and copied from then on.

For tests of what comes afterwards. One that looks at the first night itself, at its requests or its messages, plays it:
`House.night(1)`. Until its next publish a copy's views of the lake lead to where it was played.
"""

from __future__ import annotations

import shutil
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.nights import House, make_folder
from tests.support.records import Records

# The newest of them stay; each holds some ten megabytes of memory.
KEPT = 6

_played: dict[bytes, TemporaryDirectory[str]] = {}


def begin(house: House, students: Records | None = None, classes: Records | None = None) -> House:
    """Leave a new house as `house.night(1, students, classes)` does. The service is asked nothing if it was played."""
    assert not house.warehouse.exists(), "a house that has begun"
    if students is not None:
        house.service.students = students
    if classes is not None:
        house.service.classes = classes
    key = _key(house.at(1))
    if key in _played:
        shutil.copytree(_played[key].name, house.warehouse, symlinks=True, dirs_exist_ok=True)
        return house
    house.sync()
    _played[key] = make_folder()
    shutil.copytree(house.warehouse, Path(_played[key].name), symlinks=True, dirs_exist_ok=True)
    for old in list(_played)[:-KEPT]:
        _played.pop(old).cleanup()
    return house


def _key(house: House) -> bytes:
    """All that the first night depends on: the service and the settings."""
    service = house.service
    served = service.students, service.classes, service.details, service.school, service.key, service.cap
    return sha256(repr((served, house.over)).encode()).digest()
