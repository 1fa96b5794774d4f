"""What the copy holds: every file with its digest. Each catalog has a number; the one with the highest counts.

    _mirror/catalog-00000007.json

A catalog is created only if no other has its number: two writers at once cannot both go on from the sixth. What `raw/`
holds is stored under its path and its digest, so a catalog's files never change under it; a snapshot keeps its path, by
which other engines read it, and is made again from `raw/` where a restore finds another one than the catalog says.
"""

from __future__ import annotations

import re
from datetime import date, datetime

import msgspec

from pipelines.errors import MirrorError
from pipelines.mirror.bucket import Bucket, TakenError

FOLDER = "_mirror"
SNAPSHOTS = "snapshots/"
_NUMBER = re.compile(rf"{FOLDER}/catalog-(\d{{8}})\.json")
_DAY = re.compile(r"/snapshot_date=(\d{4}-\d\d-\d\d)/")


class File(msgspec.Struct, frozen=True):
    """One file: its bytes and its SHA-256."""

    size: int
    sha256: str


class Catalog(msgspec.Struct, frozen=True, kw_only=True):
    """All files of the copy by their path in the warehouse. `warehouse` is the random id of whose copy it is."""

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
        """Make it the catalog that counts. Raises MirrorError when another writer was first."""
        try:
            bucket.create(_name(self.number), msgspec.json.encode(self))
        except TakenError:
            raise MirrorError(
                f"Another warehouse was copied to {bucket.url} at the same time, so this one's copy does not count."
                " Let one machine alone sync this institution"
            ) from None


def newest(bucket: Bucket) -> Catalog | None:
    """The catalog that counts; None where nothing was ever copied. Raises MirrorError."""
    for _ in range(3):
        numbers = sorted(name for name in bucket.sizes(FOLDER) if _NUMBER.fullmatch(name))
        if not numbers:
            return None
        try:
            return msgspec.json.decode(bucket.read(numbers[-1]), type=Catalog)
        except FileNotFoundError:  # a newer one has just taken its place
            continue
        except msgspec.DecodeError:
            break
    raise MirrorError(
        f"{bucket.url}/{FOLDER} holds a catalog that cannot be read: delete it there, then run `rollbook mirror sync`,"
        " which copies everything that is not there"
    )


def stored_as(path: str, file: File) -> str:
    """The object's name: a snapshot's path, by which engines read it; else the path and the digest."""
    return path if path.startswith(SNAPSHOTS) else f"{path}.{file.sha256[:16]}"


def days_of(paths: dict[str, File]) -> list[date]:
    """The days on which something was landed, in order."""
    found = {m[1] for path in paths if path.startswith("raw/") and (m := _DAY.search(path))}
    return sorted(map(date.fromisoformat, found))


def is_old(name: str, newest: int) -> bool:
    """Whether an object is a catalog that counts no longer."""
    found = _NUMBER.fullmatch(name)
    return found is not None and int(found[1]) < newest


def _name(number: int) -> str:
    return f"{FOLDER}/catalog-{number:08}.json"
