"""What is held about one student as one ZIP file: a page to read, and each section as JSON and CSV.

    index.html           everything, for people; self-contained
    json/<section>.json  rows as objects
    csv/<section>.csv    the same for spreadsheets, with formulas disarmed
    contents.json        the sections, their columns and what they mean

Pupils may choose their own names, so values are escaped in HTML and disarmed in CSV, as in exports.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from datetime import date, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from pipelines import files
from pipelines.errors import ArgumentError
from pipelines.export.formats import disarmed
from pipelines.privacy.subject_access.subject import PARTS, Section, Subject
from pipelines.text import printable

if TYPE_CHECKING:
    from jinja2 import Template


def check_target(out: Path, *, replace: bool) -> None:
    """Raise ArgumentError unless `out` can be written. An existing file is only overwritten with `replace`."""
    if not out.parent.is_dir():
        raise ArgumentError(f"{out.parent} is not a folder: make it first, or write elsewhere with --out")
    if out.is_dir():
        raise ArgumentError(f"{out} is a folder: name a file in it")
    if not replace and (out.exists() or out.is_symlink()):
        raise ArgumentError(f"{out} is there already: name another file, or write over it with --replace")


def write(subject: Subject, out: Path, *, replace: bool = False) -> None:
    """Write the ZIP file, whole or not at all; only the owner may read it. Raises ArgumentError as `check_target`."""
    check_target(out, replace=replace)
    with files.handing_out(out) as file, ZipFile(file, "w", ZIP_DEFLATED) as bundle:
        for name, content in _files(subject):
            info = ZipInfo(name, subject.at.timetuple()[:6])
            info.compress_type = ZIP_DEFLATED
            info.external_attr = files.PRIVATE_FILE << 16  # the mode when unpacked
            bundle.writestr(info, content)
        # Checked again: the file may have appeared while the landings were read.
        check_target(out, replace=replace)


def _files(subject: Subject) -> Iterator[tuple[str, bytes]]:
    yield "index.html", page(subject).encode(errors="replace")
    yield "contents.json", _json(_contents(subject))
    for section in subject.sections:
        names = [column.name for column in section.columns]
        yield f"json/{section.name}.json", _json([dict(zip(names, row, strict=True)) for row in section.rows])
        yield f"csv/{section.name}.csv", _csv(section)


def page(subject: Subject) -> str:
    """Render the page, as HTML."""
    return _template().render(subject=subject, parts=PARTS, made=f"{subject.at:%Y-%m-%d %H:%M} UTC")


@cache
def _template() -> Template:
    from pipelines import pages

    return pages.environment(__package__, shown=_shown).get_template("subject.html")


def _shown(value: Any) -> str:
    """A value for people. Characters that change the direction of neighbouring text are spelt out."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return printable(str(value), lines=True)


def _contents(subject: Subject) -> dict[str, Any]:
    return {
        "student_id": subject.student,
        "made_at": subject.at,
        "institution": subject.school,
        "remarks": subject.remarks,
        "sections": [
            {
                "name": section.name,
                "part": section.part,
                "meaning": section.meaning,
                "rows": len(section.rows),
                "columns": [{"name": c.name, "type": c.type, "meaning": c.meaning} for c in section.columns],
            }
            for section in subject.sections
        ],
    }


def _json(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, indent=1, default=_plain)
    return text.encode(errors="replace")


def _plain(value: Any) -> str:
    return value.isoformat() if isinstance(value, (date, datetime)) else str(value)


def _csv(section: Section) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([column.name for column in section.columns])
    writer.writerows([_cell(value) for value in row] for row in section.rows)
    return text.getvalue().encode("utf-8-sig", errors="replace")  # without the mark, Excel does not read it as UTF-8


def _cell(value: Any) -> Any:
    """A value for CSV. Text that a spreadsheet program would run gets a leading apostrophe, as in exports."""
    if value is None or isinstance(value, (int, float)):
        return "" if value is None else str(value).lower() if isinstance(value, bool) else value
    return disarmed(_plain(value))
