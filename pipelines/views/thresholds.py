"""`warehouse/thresholds.csv`: the thresholds of the view `students_to_watch`, which the institution edits.

Each publish reads the file into the table `main.thresholds`, so a published file holds the thresholds it was made with.
`sql/_watch.sql` and `sql/progress_daily.sql` use them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import duckdb

from pipelines import files
from pipelines.views import editable
from pipelines.views.editable import Line, malformed

FILE = "thresholds.csv"
HEADER = ("name", "value", "meaning")


@dataclass(frozen=True)
class Threshold:
    """One line of the file: a value between 0 and `most`, and what it means."""

    name: str
    value: float
    meaning: str
    most: float


# Chosen so that a school of a few hundred students, most of them doing well, lists some tens of them. They ignore what
# happens to every student: a holiday of two weeks and a few days (21), a new student's first two weeks (14), and the
# first assignments of a term, each of which moves completion by more than falling_points (5). A threshold missing from
# the file has its default, so that older files stay valid.
DEFAULTS: tuple[Threshold, ...] = (
    Threshold("completion_below", 30, "Low completion: completion_rate under this, percent.", 100),
    Threshold("score_below", 50, "Low score: average_score under this.", 100),
    Threshold("inactive_days", 21, "Inactive: the last activity this many days ago or longer.", 36_500),
    Threshold("never_logged_in_days", 14, "Never logged in, and registered this many days ago or longer.", 36_500),
    Threshold("falling_points", 20, "Falling fast: completion or score fell by this many points or more.", 100),
    Threshold("falling_days", 7, "Falling fast: within this many days.", 36_500),
    Threshold(
        "least_assignments",
        5,
        "Low or falling completion: only with this many assignments or more; one of fewer moves it by over 20 points.",
        36_500,
    ),
)


def ensure(path: Path, mode: int = files.PRIVATE_FILE) -> None:
    """Write the file with the defaults if there is none."""
    editable.ensure(path, render(), mode)


def render(thresholds: tuple[Threshold, ...] = DEFAULTS) -> str:
    """Return the file's text."""
    return editable.render(HEADER, ((t.name, f"{t.value:g}", t.meaning) for t in thresholds))


def read(path: Path) -> tuple[Threshold, ...]:
    """Read every threshold: the file's value, or the default if the file lacks it.

    Raises SettingError, which names the line and what to write instead.
    """
    known = {t.name: t for t in DEFAULTS}
    found: dict[str, Threshold] = {}
    for line in editable.lines(path, HEADER, needed=2):
        name = line.cells[0]
        if name not in known:
            raise malformed(path, line.number, f"{name[:40]!r} is not a threshold; write one of {', '.join(known)}")
        if name in found:
            raise malformed(path, line.number, f"{name} is listed twice; keep one of the lines")
        found[name] = replace(known[name], value=_number(path, line, known[name]))
    return tuple(found.get(t.name, t) for t in DEFAULTS)


def _number(path: Path, line: Line, default: Threshold) -> float:
    text = line.cells[1]
    try:
        value = float(text.replace(",", ".") if line.decimal_comma else text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= default.most:  # also refuses nan
        advice = f"write a number from 0 to {default.most:g}, such as {default.value:g}"
        raise malformed(path, line.number, f"{default.name} is {text[:40]!r}; {advice}")
    return value


def fill(con: duckdb.DuckDBPyConnection, thresholds: tuple[Threshold, ...]) -> None:
    """Replace the rows of `main.thresholds`."""
    con.execute("DELETE FROM main.thresholds")
    con.executemany("INSERT INTO main.thresholds VALUES (?, ?, ?)", [(t.name, t.value, t.meaning) for t in thresholds])
