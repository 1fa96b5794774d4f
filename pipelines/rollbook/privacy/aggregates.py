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
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Any

from rollbook.errors import ArgumentError
from rollbook.export.query import disarmed
from rollbook.store.database import connect
from rollbook.store.published import PUBLISHED, check_is_there
from rollbook.store.statements import statements
from rollbook.store.warehouse import BUILD
from rollbook.util import files
from rollbook.views.catalog import PARTS
from rollbook.views.editable import TERMS, Term, read_terms

sql = statements("rollbook.privacy")

FOLDER = "aggregates"

# The noise is the sum of the largest contributions times these, each with a random sign and a factor of 0.5 to 1.5.
_WEIGHTS = (0.6, 0.4, 0.3, 0.2)
# The least size with noise. The noise of a size is 2.25 at most, so no group of fewer than 20 is shown.
_LEAST = 25
_SIZES = ((200, "200 or more"), (100, "100 to 199"), (50, "50 to 99"), (0, "20 to 49"))
_BAND = 10
_APART = timedelta(days=30)


def figure(
    secret: str, measure: str, students: int, total: float, largest: Sequence[float], members: int
) -> tuple[str, str] | None:
    """Return what may be shown of one measure of a group: its size and its average, as ranges. None if it is too small.

    The group's `students` have values from 0 to 100, with their `total` and the four `largest`. `members` is a number
    that depends on who the students are, and on nothing else: within a release, which has one `secret`, the same
    students have the same noise. Several courses of one class must not average it out.
    """
    random = Random(f"{secret} {measure} {members}")  # noqa: S311 - seeded with a secret of 32 bytes
    size = students + _noise([1] * len(_WEIGHTS), random)
    if size < _LEAST:
        return None
    # By the true size: a noisy one would be off by several percent of a small group.
    average = (total + _noise(largest, random)) / students
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
    check_is_there(published)
    wanted = [Term("", day, day)] if day else [t for t in read_terms(root / TERMS) if t.last_day < today]
    released: list[date] = []
    too_close: list[str] = []
    with files.aside(root / BUILD) as scratch, connect(published, scratch=scratch, read_only=True) as con:
        landed = [on for (on,) in con.execute("SELECT snapshot_date FROM spans.days ORDER BY ALL").fetchall()]
        if day is not None and day not in landed:
            before = [on for on in landed if on < day][-1:]
            near = "".join(f": name {on}, the last landed day before it" for on in before)
            raise ArgumentError(f"Nothing was landed on {day}{near}")
        for term in wanted:
            last, state = term.last_day, [on for on in landed if term.first_day <= on <= term.last_day][-1:]
            path = folder / f"{last}.csv"
            if not state or (day is None and path.exists()):
                continue
            earlier = [date.fromisoformat(name[:-4]) for name in sorted(files.names(folder)) if name.endswith(".csv")]
            close = [other for other in earlier if abs(other - last) < _APART]
            if close and day is not None:
                raise ArgumentError(
                    f"{close[0]} was released already, and releases are at least {_APART.days} days apart: whoever has"
                    " several of the same records can average out their noise"
                )
            if close:
                too_close.append(term.name)
                continue
            rows = con.execute(sql("aggregates", day=f"DATE '{state[0]}'", **PARTS)).fetchall()
            _write(path, state[0], rows, mode)
            released.append(last)
    return released, too_close


def _write(path: Path, landed: date, rows: Iterable[tuple[Any, ...]], mode: int) -> None:
    """Write a release, from the groups of a `landed` day, and the README beside it."""
    secret, text = secrets.token_hex(32), io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("day", "level", "id", "name", "measure", "students", "percent"))
    for level, ident, name, measure, *values in rows:
        if shown := figure(secret, measure, *values):
            writer.writerow((landed, level, ident, disarmed(name), measure, *shown))
    files.folder(path.parent, files.folder_mode(mode))
    files.write(path.parent / "README.txt", Path(__file__).with_name("aggregates.txt").read_bytes(), mode)
    # With the mark: without it, Excel does not read UTF-8.
    files.write(path, text.getvalue().encode("utf-8-sig"), mode)
