"""The catalog of a copy: every file with its digest. Catalogs are numbered; the highest one is current.

    _mirror/catalog-00000007.json

A catalog is created only if its number is free (compare-and-swap), so two concurrent writers cannot both follow the
sixth. Files of `raw/` are stored under path and digest, so a catalog's files never change. A snapshot keeps its path,
because other engines read it; if a restore finds one that differs from the catalog, it is rebuilt from `raw/`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import date, datetime

import msgspec

from pipelines.errors import MirrorError
from pipelines.mirror.bucket import Bucket, TakenError

FOLDER = "_mirror"
SNAPSHOTS, RAW = "snapshots/", "raw/"
_NUMBER = re.compile(rf"{FOLDER}/catalog-(\d{{8}})\.json")
_DAY = re.compile(r"/snapshot_date=(\d{4}-\d\d-\d\d)/")
_DISCARDED = re.compile(r"/discarded=(\d+)$")

# A landing's files, by name: the path of each, and the file.
Files = dict[str, tuple[str, "File"]]


class File(msgspec.Struct, frozen=True):
    """One file: its size in bytes, and its SHA-256 in hex."""

    size: int
    sha256: str


class Catalog(msgspec.Struct, frozen=True, kw_only=True):
    """All files of the copy by path in the warehouse. `warehouse` is the random id of the owner."""

    number: int
    warehouse: str
    school_id: int | None
    made_at: datetime
    rollbook: str
    files: dict[str, File]

    def days(self) -> list[date]:
        """The landed days, in order."""
        return days_of(self.files)

    def write(self, bucket: Bucket) -> None:
        """Make this the current catalog. Raises MirrorError when another writer was first."""
        try:
            bucket.create(f"{FOLDER}/catalog-{self.number:08}.json", msgspec.json.encode(self))
        except TakenError:
            raise MirrorError(
                f"Another warehouse was copied to {bucket.url} at the same time, so this one's copy does not count."
                " Let one machine alone sync this institution"
            ) from None


def newest(bucket: Bucket) -> Catalog | None:
    """The current catalog; None if nothing was ever copied. Raises MirrorError."""
    for _ in range(3):
        numbers = sorted(name for name in bucket.sizes(FOLDER) if _NUMBER.fullmatch(name))
        if not numbers:
            return None
        try:
            return msgspec.json.decode(bucket.read(numbers[-1]), type=Catalog)
        except FileNotFoundError:  # a newer one has just replaced it
            continue
        except msgspec.DecodeError:
            break
    raise MirrorError(
        f"{bucket.url}/{FOLDER} holds a catalog that cannot be read: delete it there, then run `rollbook mirror sync`,"
        " which copies everything that is missing"
    )


def stored_as(path: str, file: File) -> str:
    """The object's name: a snapshot's path, since engines read it; otherwise path and digest."""
    return path if path.startswith(SNAPSHOTS) else f"{path}.{file.sha256[:16]}"


def days_of(paths: Iterable[str]) -> list[date]:
    """The landed days, in order."""
    return sorted({day for path in paths if path.startswith(RAW) and (day := day_of(path))})


def day_of(path: str) -> date | None:
    """The day of a file of a landing or of a snapshot; None for any other file."""
    found = _DAY.search(path)
    return date.fromisoformat(found[1]) if found else None


def sources(paths: Mapping[str, File]) -> dict[str, Files]:
    """What cannot be rebuilt: each landing by its folder, whether or not it is discarded, and each other file alone."""
    found: dict[str, Files] = {}
    for path, file in paths.items():
        if not path.startswith(SNAPSHOTS):
            folder, name = path.rsplit("/", 1) if day_of(path) else (path, path)
            found.setdefault(_DISCARDED.sub(r"/landing=\1", folder), {})[name] = (path, file)
    return found


def is_old(name: str, newest: int) -> bool:
    """Whether an object is a superseded catalog."""
    found = _NUMBER.fullmatch(name)
    return found is not None and int(found[1]) < newest
