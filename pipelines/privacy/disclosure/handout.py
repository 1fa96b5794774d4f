"""The folder to give away: a CSV and a Parquet file for each released week, and a README.txt that explains them.

An existing file is never overwritten. A missing one is written from the record of the release.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from string import Template

from pipelines import files
from pipelines.errors import ArgumentError
from pipelines.export.formats import disarmed
from pipelines.privacy.disclosure.releases import COLUMNS, Release

README = "README.txt"
TEXT = Path(__file__).with_name("aggregates.txt")
TEXTS = ("level", "name", "measure", "suppressed")
DAYS = ("week_begins", "members_since")


def holds(folder: Path, week: str) -> bool:
    """Whether this folder has a file of the week."""
    return any((folder / f"{week}.{ending}").exists() for ending in ("csv", "parquet"))


def write(folder: Path, releases: Sequence[Release], k: int, mode: int) -> tuple[str, ...]:
    """Write what is missing; returns the names of CSV files that differ from their release.

    Raises ArgumentError when `folder` is not a folder.
    """
    if folder.exists() and not folder.is_dir():
        raise ArgumentError(f"{folder} is not a folder: name another one with --out")
    files.folder(folder, mode | (mode & 0o444) >> 2)
    altered = []
    for release in releases:
        as_csv, as_parquet = folder / f"{release.name}.csv", folder / f"{release.name}.parquet"
        content = _csv(release)
        if not as_csv.exists():
            _put(as_csv, content, mode)
        elif as_csv.read_bytes() != content:
            altered.append(as_csv.name)
        if not as_parquet.exists():
            _put(as_parquet, _parquet(release), mode)
    _put(folder / README, Template(TEXT.read_text(encoding="utf-8")).substitute(k=k).encode(), mode)
    return tuple(altered)


def _put(path: Path, content: bytes, mode: int) -> None:
    with files.handing_out(path) as file:
        file.write(content)
        Path(file.name).chmod(mode)


def _csv(release: Release) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in release.rows:
        writer.writerow(disarmed(row[column]) for column in COLUMNS)
    return text.getvalue().encode("utf-8-sig")  # without the byte order mark, Excel does not read it as UTF-8


def _parquet(release: Release) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = (
        {column: pa.int64() for column in COLUMNS}
        | dict.fromkeys(TEXTS, pa.string())
        | dict.fromkeys(DAYS, pa.date32())
    )
    columns = {
        column: [
            date.fromisoformat(row[column]) if column in DAYS and row[column] is not None else row[column]
            for row in release.rows
        ]
        for column in COLUMNS
    }
    sink = io.BytesIO()
    pq.write_table(pa.table(columns, schema=pa.schema(list(kinds.items()))), sink, compression="zstd")
    return sink.getvalue()
