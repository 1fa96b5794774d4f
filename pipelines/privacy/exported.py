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
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

EXPORTS = "exports"

# Above a heading, somebody may have put a title.
_HEADING_WITHIN = 10  # lines
# In a workbook's XML. A spreadsheet program keeps texts in a part of their own, and a cell has a text's number.
_TYPES, _SHARED = "[Content_Types].xml", "xl/sharedStrings.xml"
# Parts that every spreadsheet program adds: they cannot be searched, and need not be.
_NO_RECORDS = re.compile(r"printerSettings\d*\.bin$|\.(jpe?g|png|emf)$|/$", re.IGNORECASE)
_ENDS_ROW = re.compile(r"</(?:\w+:)?(?:table-)?row>")
_ENDS_TEXT = re.compile(r"</(?:\w+:)?si>|<(?:\w+:)?si\s*/>")
# How a text is spoken, which Japanese workbooks have between its pieces.
_SOUND = re.compile(r"<(?:\w+:)?rPh\b.*?</(?:\w+:)?rPh>", re.DOTALL)
_REFERS = re.compile(r"""<(?:\w+:)?c\b[^>]*\bt=["']s["'][^>]*>\s*<(?:\w+:)?v>(\d+)(?=<)""")
_TAG = re.compile(r"<[^>]*>")
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
    return [path for path in _exports(warehouse) if holds(path, traits)]


def unreadable(warehouse: Path) -> list[Path]:
    """The files in the export folder that `is_unreadable`, sorted."""
    return [path for path in _exports(warehouse) if is_unreadable(path)]


def _exports(warehouse: Path) -> list[Path]:
    return [p for p in sorted((warehouse / EXPORTS).rglob("*")) if p.is_file() and not p.is_symlink()]


def holds(path: Path, traits: Traits) -> bool:
    """Whether a file holds a student. One that `is_unreadable` is searched as text."""
    names, has_id = _names(traits), _has_id(traits.student)

    def found(lines: Iterable[str]) -> bool:
        by_id = False
        for number, line in enumerate(lines):
            if number < _HEADING_WITHIN and not by_id:
                by_id = re.search(r"student_?id|\bid\b", line, re.IGNORECASE) is not None
            if names(line) or (by_id and has_id(line)):
                return True
        return False

    try:
        return any(found(lines) for lines in _parts(path.name, path))
    except Exception:  # noqa: BLE001 - whatever a damaged file makes its reader raise must not stop an erasure
        try:
            return found(_lines(path.read_bytes()))
        except OSError:
            return False


def is_unreadable(path: Path) -> bool:
    """Whether a file is damaged, encrypted or of an unknown kind: `holds` then searched it as text, and may have missed
    something.
    """
    try:
        for lines in _parts(path.name, path):
            for _ in lines:
                pass
    except Exception:  # noqa: BLE001 - as in `holds`
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
    ident = re.compile(rf"(?<![\w.@-]){student}(?:\.0+)?(?![\w@-]|\.\d)")
    return lambda line: ident.search(line) is not None


def _token(text: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(text.strip())}(?!\w)", re.IGNORECASE)


def _parts(name: str, file: Path | BytesIO) -> Iterator[Iterable[str]]:
    """The lines of each part of a file, as text: a sheet's or Parquet file's are its rows, the first is the heading.

    Raises what its reader raises for a damaged or encrypted file, and RuntimeError for an unknown kind; in a ZIP file
    after all other parts.
    """
    suffix = Path(name).suffix.lower()
    if suffix == ".parquet":
        # A file in a ZIP file is read whole, so that its errors are known before the next part.
        yield _rows(file) if isinstance(file, Path) else list(_rows(file))
    elif suffix in (".xlsx", ".zip") or zipfile.is_zipfile(file):
        failed: Exception | None = None
        with zipfile.ZipFile(file) as zipped:
            names = zipped.namelist()
            shared = _texts(zipped.read(_SHARED).decode(errors="replace")) if _SHARED in names else []
            for part in names:
                try:
                    if part == _SHARED:  # also texts that no cell refers to any more
                        yield map(unescape, shared)
                    elif part.endswith((".xml", ".rels")):
                        yield _sheet_rows(zipped.read(part).decode(errors="replace"), shared)
                    elif not (_TYPES in names and _NO_RECORDS.search(part)):
                        yield from _parts(part, BytesIO(zipped.read(part)))
                except Exception as error:  # noqa: BLE001 - the other parts are read
                    failed = error
        if failed is not None:
            raise failed
    else:
        content = file.read_bytes() if isinstance(file, Path) else file.getvalue()
        yield _lines(content)
        if _is_binary(content):
            raise RuntimeError("neither text nor a known kind of file")


def _is_binary(content: bytes) -> bool:
    return b"\0" in content and not content.startswith(tuple(_MARKS))


def _lines(content: bytes) -> list[str]:
    encoding = next((name for mark, name in _MARKS.items() if content.startswith(mark)), "utf-8")
    try:
        if _is_binary(content):  # such as a workbook of before 2007, which has a zero after each letter
            text = content.replace(b"\0", b"").decode(errors="replace")
        else:
            text = content.decode(encoding)
    except UnicodeDecodeError:  # a spreadsheet program on Windows saves CSV so
        text = content.decode("cp1252", errors="replace")
    return text.replace('""', '"').splitlines()


def _rows(source: Path | BytesIO) -> Iterator[str]:
    with pq.ParquetFile(source) as file:
        yield " ".join(file.schema_arrow.names)
        for batch in file.iter_batches(_BATCH):
            yield from _joined(batch.columns)


def _joined(columns: Sequence[pa.Array]) -> Iterable[str]:
    return (" | ".join(map(str, row)) for row in zip(*(c.to_pylist() for c in columns), strict=True))


def _texts(part: str) -> list[str]:
    """The texts that cells refer to by number; a text with fonts is in several pieces."""
    return [_TAG.sub("", _SOUND.sub("", text)) for text in _ENDS_TEXT.split(part)]


def _sheet_rows(part: str, shared: Sequence[str]) -> Iterator[str]:
    def text(cell: re.Match[str]) -> str:
        number = int(cell[1])
        return shared[number] if number < len(shared) else ""

    for row in _ENDS_ROW.split(part):
        yield unescape(_TAG.sub(" ", _REFERS.sub(text, row)))
