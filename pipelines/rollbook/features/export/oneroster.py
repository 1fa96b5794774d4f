"""The roster as other systems take it: OneRoster 1.2, the CSV files of its rostering.

Each file is one statement, `sql/oneroster_*.sql`. A `sourcedId` is the kind and the service's id, and so stays; after
the id of a person before, also the first day of the present person. With a day, the files hold what changed after that
day (a delta): a record that has gone is `tobedeleted`, and `dateLastModified` is the landed day that first showed the
change. Values that the service does not state are left blank.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from rollbook import __version__
from rollbook.errors import ArgumentError
from rollbook.reading.formats import check_target
from rollbook.reading.query import open_published
from rollbook.store.statements import statements
from rollbook.util import files

sql = statements("rollbook.features.export")

FILES = ("academicSessions", "classes", "courses", "enrollments", "orgs", "roles", "users")
# The further files that the specification knows.
ABSENT = (
    *("categories", "classResources", "courseResources", "demographics", "lineItemLearningObjectiveIds", "lineItems"),
    *("lineItemScoreScales", "resources", "resultLearningObjectiveIds", "results", "resultScoreScales", "scoreScales"),
    *("userProfiles", "userResources"),
)


def write(
    published: Path, folder: Path, since: date | None = None, *, before: Callable[[int], None] | None = None
) -> dict[str, int]:
    """Write the files into a folder, which is made if need be; returns the number of rows of each.

    `before` is called when all rows are read but no file is written, with the number of students in them. Only the
    owner may read the files. Raises NothingLandedError before the first publish, and ArgumentError for a folder that
    cannot be written to, or a `since` after the newest landed day.
    """
    read: dict[str, tuple[list[str], list[tuple[Any, ...]]]] = {}
    with open_published(published) as con:
        newest = con.execute("SELECT MAX(snapshot_date) FROM spans.days").fetchall()[0][0]
        if since is not None and since > newest:
            raise ArgumentError(f"Nothing was landed after {since}: the newest landed day is {newest}")
        for name in FILES:
            query = sql(f"oneroster_{name}", since=since is not None)
            rows = con.execute(query, {} if since is None else {"since": since})
            read[name] = [column[0] for column in rows.description or ()], rows.fetchall()
    if not folder.exists():
        check_target(folder)
        files.folder(folder)
    for name in (*FILES, "manifest"):
        check_target(folder / f"{name}.csv")
    if before is not None:
        before(sum(str(row[0]).startswith("student-") for row in read["users"][1]))
    # Until all files are of one day, the folder has no manifest: no system takes it then.
    manifest = folder / "manifest.csv"
    manifest.unlink(missing_ok=True)
    files.sync(folder)
    for name, (columns, rows_read) in read.items():
        _write(folder / f"{name}.csv", columns, rows_read)
    _write(manifest, ("propertyName", "value"), _manifest("bulk" if since is None else "delta"))
    return {name: len(rows_read) for name, (_, rows_read) in read.items()}


def _manifest(kind: str) -> list[tuple[str, str]]:
    given = dict.fromkeys(ABSENT, "absent") | dict.fromkeys(FILES, kind)
    return [
        ("manifest.version", "1.0"),
        ("oneroster.version", "1.2"),
        *((f"file.{name}", how) for name, how in sorted(given.items(), key=lambda each: each[0].lower())),
        ("source.systemName", "Rollbook"),
        ("source.systemCode", __version__),
    ]


def _write(path: Path, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Write a file as the specification wants it: UTF-8 without a mark, commas, a heading; blank is missing."""
    text = io.StringIO()
    csv.writer(text).writerows((columns, *(["" if value is None else value for value in row] for row in rows)))
    with files.handing_out(path) as file:
        file.write(text.getvalue().encode())
