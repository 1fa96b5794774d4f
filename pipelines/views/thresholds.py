"""`warehouse/thresholds.csv`: the limits that the view `students_to_watch` uses, for the institution to edit.

Read at each publish into the table `main.thresholds`, so that a published file holds the thresholds it was made with.
They are used in `sql/students_to_watch.sql`.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path

import duckdb

from pipelines import files
from pipelines.errors import SettingError

FILE = "thresholds.csv"
HEADER = ("name", "value", "meaning")
# Far more than six lines need; a larger file is another file, saved here by mistake.
MAX_BYTES = 100_000


@dataclass(frozen=True)
class Threshold:
    """One line of the file: a value between 0 and `most`, and what it means."""

    name: str
    value: float
    meaning: str
    most: float


DEFAULTS: tuple[Threshold, ...] = (
    Threshold("completion_below", 30, "Low completion: completion_rate under this, percent.", 100),
    Threshold("score_below", 50, "Low score: average_score under this.", 100),
    Threshold("inactive_days", 30, "Inactive: the last activity this many days ago or longer.", 36_500),
    Threshold("never_logged_in_days", 7, "Never logged in, and registered this many days ago or longer.", 36_500),
    Threshold("falling_points", 20, "Falling fast: completion or score fell by this many points or more.", 100),
    Threshold("falling_days", 7, "Falling fast: within this many days.", 36_500),
)


def ensure(path: Path, mode: int = files.PRIVATE_FILE) -> None:
    """Write the file with the defaults if there is none."""
    if not path.exists():
        files.write(path, render().encode(), mode)


def render(thresholds: tuple[Threshold, ...] = DEFAULTS) -> str:
    """The file's text."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEADER)
    writer.writerows((t.name, f"{t.value:g}", t.meaning) for t in thresholds)
    return text.getvalue()


def read(path: Path) -> tuple[Threshold, ...]:
    """Read every threshold: the file's value, or the default if the file does not have it.

    Accepts what spreadsheet programs write: a byte order mark, semicolons and decimal commas. Raises SettingError,
    which names the line and what to write instead.
    """
    lines = _text(path).splitlines()
    delimiter = ";" if lines and lines[0].count(";") > lines[0].count(",") else ","
    rows = list(csv.reader(lines, delimiter=delimiter))
    first = tuple(cell.strip().lower() for cell in rows[0]) if rows else ()
    if first[:2] != HEADER[:2]:
        raise _wrong(path, 1, f"the heading must be {','.join(HEADER)}")
    known = {t.name: t for t in DEFAULTS}
    found: dict[str, Threshold] = {}
    for number, row in enumerate(rows[1:], start=2):
        cells = [cell.strip() for cell in row]
        if not any(cells):
            continue
        name = cells[0]
        if name not in known:
            raise _wrong(path, number, f"{name[:40]!r} is not a threshold; write one of {', '.join(known)}")
        if name in found:
            raise _wrong(path, number, f"{name} is listed twice; keep one of the lines")
        default = known[name]
        value = _number(path, number, default, cells[1] if len(cells) > 1 else "", decimal_comma=delimiter == ";")
        found[name] = Threshold(name, value, default.meaning, default.most)
    return tuple(found.get(t.name, t) for t in DEFAULTS)


def _text(path: Path) -> str:
    content = path.read_bytes()
    try:
        if len(content) > MAX_BYTES:
            raise ValueError
        return content.decode("utf-8-sig")
    except ValueError:
        raise _wrong(path, 1, "it is not a CSV text file; save it as CSV (UTF-8)") from None


def _number(path: Path, line: int, default: Threshold, text: str, *, decimal_comma: bool) -> float:
    try:
        value = float(text.replace(",", ".") if decimal_comma else text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= default.most:  # which also refuses what is not a number at all (nan)
        advice = f"write a number from 0 to {default.most:g}, such as {default.value:g}"
        raise _wrong(path, line, f"{default.name} is {text[:40]!r}; {advice}")
    return value


def _wrong(path: Path, line: int, what: str) -> SettingError:
    return SettingError(
        f"{path}, line {line}: {what}. Nothing was published and nothing is lost; correct the line, or remove the file"
        " to get the defaults back, and sync again"
    )


def fill(con: duckdb.DuckDBPyConnection, thresholds: tuple[Threshold, ...]) -> None:
    """Replace the rows of `main.thresholds`."""
    con.execute("DELETE FROM main.thresholds")
    con.executemany("INSERT INTO main.thresholds VALUES (?, ?, ?)", [(t.name, t.value, t.meaning) for t in thresholds])
