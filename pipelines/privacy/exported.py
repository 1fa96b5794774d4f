"""Which files in the export folder hold a student. An erasure deletes them: an export can be repeated.

A file counts as holding a student when one line has the email, the reference id, the full name, the picture's address,
or the first and the last name; or the id, in a file that has a column of student ids.
"""

from __future__ import annotations

import codecs
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import unescape
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

EXPORTS = "exports"

_ENDS_ROW = re.compile(r"</row>")
_BATCH = 10_000
_MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16", codecs.BOM_UTF8: "utf-8-sig"}


@dataclass(frozen=True)
class Traits:
    """What identifies a student in a file: the id, one text, or a pair of texts in one line."""

    student: int
    texts: tuple[str, ...] = ()
    pairs: tuple[tuple[str, str], ...] = ()


# Identifying columns, in the order of names_of_student.sql; the last two identify only together.
NAMES = ("email", "reference_id", "name", "profile_image", "first_name", "last_name")


def traits_of(student: int, names: Iterable[Sequence[str | None]]) -> Traits:
    """The traits of a student, from all names the student ever had (rows of `NAMES`)."""
    rows = list(names)
    texts = tuple(text for n in range(4) for text in sorted({row[n] or "" for row in rows}) if text)
    pairs = tuple(sorted({(first, last) for *_, first, last in rows if first and last}))
    return Traits(student, texts, pairs)


def holding(warehouse: Path, traits: Traits) -> list[Path]:
    """The files in the export folder that hold a student, sorted."""
    found = (p for p in sorted((warehouse / EXPORTS).rglob("*")) if p.is_file() and not p.is_symlink())
    return [path for path in found if holds(path, traits)]


def holds(path: Path, traits: Traits) -> bool:
    """Whether a file holds a student. A file that does not match its suffix is searched as text."""
    names, has_id, by_id = _names(traits), _has_id(traits.student), False
    for number, line in enumerate(_lines(path)):
        if number == 0:
            by_id = re.search(r"student_?id|\bid\b", line, re.IGNORECASE) is not None
        if names(line) or (by_id and has_id(line)):
            return True
    return False


def is_damaged(path: Path) -> bool:
    """Whether a file does not match its suffix: `holds` then searched it as text, and may have missed something."""
    try:
        if path.suffix.lower() == ".parquet":
            pq.ParquetFile(path).close()
        elif path.suffix.lower() in (".xlsx", ".zip"):
            zipfile.ZipFile(path).close()
    except (OSError, pa.ArrowException, zipfile.BadZipFile):
        return True
    return False


def identifies(text: str, traits: Traits) -> bool:
    """Whether a text, such as a reason, identifies the student."""
    return _names(traits)(text) or _has_id(traits.student)(text)


def _names(traits: Traits) -> Callable[[str], bool]:
    alone = [_token(text) for text in traits.texts if text.strip()]
    pairs = [(_token(a), _token(b)) for a, b in traits.pairs if a.strip() and b.strip()]
    return lambda line: any(t.search(line) for t in alone) or any(a.search(line) and b.search(line) for a, b in pairs)


def _has_id(student: int) -> Callable[[str], bool]:
    # A number by itself: not part of a date, a decimal, a reference or an address.
    ident = re.compile(rf"(?<![\w.@-]){student}(?![\w@-]|\.\d)")
    return lambda line: ident.search(line) is not None


def _token(text: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(text.strip())}(?!\w)", re.IGNORECASE)


def _lines(path: Path) -> Iterator[str]:
    """The lines of a file, or the rows of a sheet or Parquet file, as text. The first is the heading."""
    try:
        if path.suffix.lower() == ".parquet":
            yield from _rows(path)
            return
        if zipfile.is_zipfile(path):
            yield from _sheets(path)
            return
    except (OSError, pa.ArrowException, zipfile.BadZipFile):
        pass
    content = path.read_bytes()
    encoding = next((name for mark, name in _MARKS.items() if content.startswith(mark)), "utf-8")
    yield from content.decode(encoding, errors="replace").replace('""', '"').splitlines()


def _rows(path: Path) -> Iterator[str]:
    with pq.ParquetFile(path) as file:
        yield " ".join(file.schema_arrow.names)
        for batch in file.iter_batches(_BATCH):
            yield from _joined(batch.columns)


def _joined(columns: Sequence[pa.Array]) -> Iterable[str]:
    return (" | ".join(map(str, row)) for row in zip(*(c.to_pylist() for c in columns), strict=True))


def _sheets(path: Path) -> Iterator[str]:
    with zipfile.ZipFile(path) as book:
        parts = sorted(book.namelist(), key=lambda name: "worksheets/" not in name)
        for name in parts:
            yield from (
                re.sub(r"<[^>]*>", " ", unescape(row))
                for row in _ENDS_ROW.split(book.read(name).decode(errors="replace"))
            )
