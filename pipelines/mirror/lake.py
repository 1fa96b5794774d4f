"""The lake of a copy, for engines that read it in place."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from hashlib import sha256
from pathlib import Path

import msgspec

from pipelines.errors import MirrorError
from pipelines.mirror.bucket import Bucket, folder_of
from pipelines.mirror.catalog import SNAPSHOTS, File, newest
from pipelines.store.lake import DAY_RECORD, DayRecord

AT_ONCE = 8  # parallel requests for small objects


@dataclass(frozen=True)
class CopiedLake:
    """The days of a copied lake, and the folder of each table with files: a path or a URL."""

    days: dict[date, DayRecord]
    places: dict[str, Path | str]


def copied_lake(url: str, folder: str) -> CopiedLake | None:
    """The lake in a copy, by its current catalog; None if nothing was ever copied.

    Engines read whole folders: raises MirrorError if these do not hold exactly what the catalog lists.
    """
    bucket = Bucket(url, folder)
    catalog = newest(bucket)
    if catalog is None:
        return None
    lake = {path: file for path, file in catalog.files.items() if path.startswith(SNAPSHOTS)}
    if bucket.sizes(SNAPSHOTS.rstrip("/")) != {path: file.size for path, file in lake.items()}:
        raise _other_files(bucket)
    with ThreadPoolExecutor(AT_ONCE) as threads:
        paths = [path for path in lake if path.endswith(f"/{DAY_RECORD}")]
        days = {record.snapshot_date: record for record in threads.map(lambda p: _record(bucket, p, lake[p]), paths)}
    tables = {path.split("/")[1] for path in lake if path.endswith(".parquet")}
    return CopiedLake(days, {table: _place(f"{bucket.url}/{SNAPSHOTS}{table}") for table in tables})


def _record(bucket: Bucket, path: str, file: File) -> DayRecord:
    """One day's record. Raises MirrorError if it does not match the catalog."""
    try:
        content = bucket.read(path)
    except FileNotFoundError:
        content = b""
    if sha256(content).hexdigest() != file.sha256:
        raise _other_files(bucket)
    return msgspec.json.decode(content, type=DayRecord)


def _other_files(bucket: Bucket) -> MirrorError:
    return MirrorError(
        f"{bucket.url} holds other snapshots than its catalog lists. If a sync is copying right now, run this again"
        " when it is done; otherwise run `rollbook mirror sync`"
    )


def _place(url: str) -> Path | str:
    """The URL; for a copy in a folder, its path."""
    return folder_of(url) if url.startswith("file:") else url
