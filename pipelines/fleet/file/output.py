"""The fleet's figures in the object store (`ROLLBOOK_LAKE`): the rollups as Parquet, one folder per version.

    fleet/versions/<version>/<rollup>.parquet   one version, never changed
    fleet/current/00000007.json                 a pointer to a version: the highest number is current

A version is complete, and was read back, before its pointer is created, and a pointer is created only if its number is
free. So one of two concurrent builders wins, and the other raises. The last three versions are kept. They hold figures
of institutions and of no pupil.
"""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

import msgspec

from pipelines import files
from pipelines.errors import MirrorError
from pipelines.mirror.bucket import Bucket, TakenError

FOLDER = "fleet"
KEPT = 3
_POINTER = re.compile(r"current/(\d{8})\.json")
_VERSION = re.compile(r"versions/(\w+)/")


class Pointer(msgspec.Struct, frozen=True, kw_only=True):
    """A version, when it was made (UTC), and the SHA-256 of each of its files by name."""

    number: int
    version: str
    made_at: datetime
    files: dict[str, str]


def publish(url: str, rollups: Path, version: str, made_at: datetime) -> Pointer:
    """Copy the rollups, a folder each, and make them the current version; returns its pointer.

    Raises MirrorError if the store refuses them, or if another builder was first; the current version is then
    unchanged.
    """
    bucket = Bucket(url, FOLDER)
    pointers, versions = _listed(bucket)
    found = {}
    for file in sorted(rollups.glob("*/*.parquet")):
        name = f"{file.parent.name}/{file.name}"
        found[name] = files.digest(file)
        bucket.put(f"versions/{version}/{name}", file, found[name])
    number = max(pointers, default=0) + 1
    pointer = Pointer(number=number, version=version, made_at=made_at, files=found)
    try:
        bucket.create(_pointer(number), msgspec.json.encode(pointer))
    except TakenError:
        bucket.delete(f"versions/{version}/{name}" for name in found)
        raise MirrorError(
            f"Another build was published to {bucket.url} at the same time, so this one is not current there. Build"
            " this fleet on one machine only"
        ) from None
    _retire(bucket, [*sorted(pointers), number], versions)
    return pointer


def current(url: str) -> Pointer | None:
    """The current version's pointer; None if nothing was published. Raises MirrorError."""
    bucket = Bucket(url, FOLDER)
    pointers, _ = _listed(bucket)
    return _read(bucket, max(pointers)) if pointers else None


def _retire(bucket: Bucket, numbers: list[int], versions: dict[str, list[str]]) -> None:
    """Remove older pointers and versions, except for the last ones."""
    kept = {pointer.version for number in numbers[-KEPT:] if (pointer := _read(bucket, number))}
    bucket.delete(_pointer(number) for number in numbers[:-KEPT])
    bucket.delete(name for version, names in versions.items() if version not in kept for name in names)


def _listed(bucket: Bucket) -> tuple[set[int], dict[str, list[str]]]:
    """The numbers of the pointers, and the objects of each version."""
    versions: dict[str, list[str]] = {}
    for name in bucket.sizes("versions"):
        if found := _VERSION.match(name):
            versions.setdefault(found[1], []).append(name)
    numbers = {int(found[1]) for name in bucket.sizes("current") if (found := _POINTER.fullmatch(name))}
    return numbers, versions


def _read(bucket: Bucket, number: int) -> Pointer | None:
    try:
        return msgspec.json.decode(bucket.read(_pointer(number)), type=Pointer)
    except FileNotFoundError:  # another builder has retired it
        return None
    except msgspec.MsgspecError:
        raise MirrorError(f"{_pointer(number)} at {bucket.url} cannot be read: remove it, and build again") from None


def _pointer(number: int) -> str:
    return f"current/{number:08d}.json"
