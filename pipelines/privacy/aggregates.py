"""Figures that may leave the building: the school's and its courses', once a term, with noise and in bands.

    aggregates/2026-12-18.csv   one release, named by its day: a row per group and measure
    aggregates/README.txt       what the figures mean, and what they do not promise (`aggregates.txt`)

No group of fewer than 20 students is shown. Each figure gets noise of the size of its largest contributions, and is
then shown as a band of 10; so even who knows the values of all other students learns little about the last one. Noise
that is drawn again and again averages out, so a release is written once and never again, whatever changes in the
records, and releases are at least a month apart.
"""

from __future__ import annotations

import csv
import io
import secrets
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import NamedTuple

import duckdb

from pipelines import files
from pipelines.errors import ArgumentError, NothingLandedError
from pipelines.export.formats import disarmed
from pipelines.store.database import connect
from pipelines.store.published.versions import PUBLISHED
from pipelines.store.statements import statements
from pipelines.store.warehouse import BUILD
from pipelines.views import terms
from pipelines.views.catalog import PARTS

_statement = statements("pipelines.privacy")

FOLDER = "aggregates"
_TEXT = Path(__file__).with_name("aggregates.txt")
_HEADING = ("day", "level", "id", "name", "measure", "students", "percent")

# The noise is the sum of the largest contributions times these, each with a random sign and a factor of 0.5 to 1.5.
_WEIGHTS = (0.6, 0.4, 0.3, 0.2)
# The least size with noise. The noise of a size is 2.25 at most, so no group of fewer than 20 is shown.
_LEAST = 25
_SIZES = ((200, "200 or more"), (100, "100 to 199"), (50, "50 to 99"), (0, "20 to 49"))
_BAND = 10
_APART = timedelta(days=30)


class Cell(NamedTuple):
    """A group's values of one measure, each from 0 to 100: their number, their sum and the `largest` four.

    `members` is a number that depends on who the students are, and on nothing else.
    """

    level: str
    id: int | None
    name: str | None
    measure: str
    students: int
    total: float
    largest: Sequence[float]
    members: int


# What is shown of a cell: how many students it is about, and their average, both as a range.
Figure = tuple[str, str]


def figure(cell: Cell, secret: str) -> Figure | None:
    """Return what may be shown of a cell; None if the group is too small.

    Within a release, which has one `secret`, the same students have the same noise: several courses of one class must
    not average it out.
    """
    random = Random(f"{secret} {cell.measure} {cell.members}")  # noqa: S311 - seeded with a secret of 32 bytes
    size = cell.students + _noise([1] * len(_WEIGHTS), random)
    if size < _LEAST:
        return None
    # By the true size: a noisy one would be off by several percent of a small group.
    average = (cell.total + _noise(cell.largest, random)) / cell.students
    begins = min(max(int(average // _BAND) * _BAND, 0), 100 - _BAND)
    return next(text for least, text in _SIZES if size >= least), f"{begins} to {begins + _BAND}"


def _noise(contributions: Sequence[float], random: Random) -> float:
    return sum(
        weight * random.choice((-1, 1)) * random.uniform(0.5, 1.5) * contribution
        for weight, contribution in zip(_WEIGHTS, contributions, strict=False)
    )


def release(root: Path, day: date | None, *, today: date, mode: int) -> tuple[list[date], list[str]]:
    """Release the terms that are over and were not released yet, or one landed `day`.

    Returns the released days, and the terms that were not released since another released day is too close.

    Raises NothingLandedError before the first publish, and ArgumentError for a day that cannot be released.
    """
    published, folder = root / PUBLISHED, root / FOLDER
    if not published.exists():
        raise NothingLandedError(f"{published} does not exist yet: run `rollbook sync` first")
    released: list[date] = []
    too_close: list[str] = []
    with files.aside(root / BUILD) as scratch, connect(published, scratch=scratch, read_only=True) as con:
        if day is not None:
            _check(con, folder, day)
            _write(con, folder, day, day, mode)
            return [day], []
        for term in terms.read(root / terms.FILE):
            landed = _last_landed(con, term.first_day, term.last_day)
            if term.last_day >= today or landed is None or _path(folder, term.last_day).exists():
                continue
            if _close_to(folder, term.last_day):
                too_close.append(term.name)
            else:
                _write(con, folder, term.last_day, landed, mode)
                released.append(term.last_day)
    return released, too_close


def _check(con: duckdb.DuckDBPyConnection, folder: Path, day: date) -> None:
    """Raise ArgumentError unless this day may be released."""
    if _last_landed(con, day, day) is None:
        last = _last_landed(con, date.min, day)
        raise ArgumentError(
            f"Nothing was landed on {day}" + (f": name {last}, the last landed day before it" if last else "")
        )
    if other := _close_to(folder, day):
        raise ArgumentError(
            f"{other} was released already, and releases are at least {_APART.days} days apart: whoever has several"
            " of the same records can average out their noise"
        )


def _close_to(folder: Path, day: date) -> date | None:
    """The released day that is too close to this one, if any."""
    released = (date.fromisoformat(name.removesuffix(".csv")) for name in files.names(folder) if name.endswith(".csv"))
    return next((other for other in sorted(released) if abs(other - day) < _APART), None)


def _last_landed(con: duckdb.DuckDBPyConnection, first: date, last: date) -> date | None:
    query = "SELECT MAX(snapshot_date) FROM spans.days WHERE snapshot_date BETWEEN $first AND $last"
    row = con.execute(query, {"first": first, "last": last}).fetchone()
    return row[0] if row else None


def _write(con: duckdb.DuckDBPyConnection, folder: Path, day: date, landed: date, mode: int) -> None:
    """Write the release of a day, from the state of a `landed` one, and the README beside it."""
    secret = secrets.token_hex(32)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_HEADING)
    for row in con.execute(_statement("aggregates", day=f"DATE '{landed}'", **PARTS)).fetchall():
        cell = Cell(*row)
        if shown := figure(cell, secret):
            writer.writerow((landed, cell.level, cell.id, disarmed(cell.name), cell.measure, *shown))
    files.folder(folder, files.folder_mode(mode))
    files.write(folder / "README.txt", _TEXT.read_bytes(), mode)
    # With the mark: without it, Excel does not read UTF-8.
    files.write(_path(folder, day), text.getvalue().encode("utf-8-sig"), mode)


def _path(folder: Path, day: date) -> Path:
    return folder / f"{day}.csv"
