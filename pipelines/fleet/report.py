"""The fleet's page: which institutions are up to date and which are not, and where the contract drifts.

The outcomes of the last nights are read from the fleet's folder, so they are current; only figures and drift come from
`fleet.duckdb`, if there is one. It names institutions and no pupils; an undeclared field is named only if several
records have it, since a single record's field name may be anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment

from pipelines import files, pages
from pipelines.export.query import run_query
from pipelines.fleet.file import standing
from pipelines.institutions import Registry
from pipelines.store import parts
from pipelines.store.published.fleet_file import FleetFile
from pipelines.store.statements import statements
from pipelines.text import count_of, printable

sql = statements("pipelines.fleet")

FILE = "fleet-report.html"
# A field that this many records have in one sync comes from the service, and does not describe one pupil.
LEAST_RECORDS = 5
# The newest day may be yesterday: before tonight's sync, or in a zone behind UTC.
ON_TIME = timedelta(days=1)

UP_TO_DATE, LATE, HELD, FAILED, PAUSED, NEVER = "up to date", "late", "held", "failed", "paused", "never synced"
# The most urgent come first.
STATES = (FAILED, HELD, LATE, NEVER, PAUSED, UP_TO_DATE)


@dataclass(frozen=True)
class Line:
    """One institution: its name and school, its state, its newest published day, and a message about the state."""

    name: str
    school: str
    state: str
    newest_day: date | None
    said: str
    in_registry: bool


@dataclass(frozen=True)
class Page:
    """The content of the page; `built_at` is when fleet.duckdb, the source of figures and drift, was built."""

    at: datetime
    lines: Sequence[Line]
    built_at: datetime | None = None
    figures: Sequence[tuple[Any, ...]] = ()
    drift: Sequence[tuple[Any, ...]] = ()
    refused: Sequence[tuple[Any, ...]] = ()
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def verdict(self) -> str:
        """A summary in one sentence."""
        others = [f"{self.counts[s]:,} {s}" for s in STATES[:-1] if self.counts[s]]
        total = count_of(len(self.lines), "institution")
        return f"{self.counts[UP_TO_DATE]:,} of {total} up to date" + (f"; {', '.join(others)}." if others else ".")


def write(fleet: Path, registry: Registry, out: Path, at: datetime) -> Page:
    """Write the page to a file that only its owner can read; returns its content. `at` is the time shown (UTC)."""
    page = load(fleet, registry, at)
    files.write(out, _environment().get_template("page.html").render(page=page).encode())
    return page


def load(fleet: Path, registry: Registry, at: datetime) -> Page:
    """Load the page's content. Raises DamagedError for a fleet.duckdb that cannot be read."""
    given = {name: found for name in parts.givers(fleet) if (found := parts.note_of(fleet, name)) is not None}
    lines = [_line(row, at.date()) for row in standing.rows(fleet, registry, given, {})]
    lines.sort(key=lambda line: (STATES.index(line.state), line.name))
    counts = Counter(line.state for line in lines)
    file = FleetFile(fleet).path
    if not file.is_file():
        return Page(at, lines, counts=counts)
    return Page(
        at,
        lines,
        built_at=run_query(file, "SELECT published_at FROM spans.version").rows[0][0],
        figures=run_query(
            file,
            """
            SELECT
                institution, snapshot_date, students, active_classes, average_completion_rate,
                completion_vs_institutions, average_score
            FROM main.institutions_compared
            ORDER BY students DESC, institution
        """,
        ).rows,
        drift=run_query(file, sql("drift"), {"least": LEAST_RECORDS}).rows,
        refused=run_query(
            file,
            """
            SELECT institution, snapshot_date, rejected
            FROM (
                SELECT *, ROW_NUMBER() OVER w AS from_last
                FROM ops.syncs WHERE outcome = 'synced'
                WINDOW w AS (PARTITION BY institution ORDER BY snapshot_date DESC, landing DESC)
            )
            WHERE from_last = 1 AND rejected > 0
            ORDER BY rejected DESC, institution
            LIMIT 100
        """,
        ).rows,
        counts=counts,
    )


def _line(row: standing.Row, today: date) -> Line:
    day = row["newest_day"]
    newest = day if isinstance(day, date) else None
    outcome, paused = row["last_outcome"], str(row["paused"] or "")
    if paused:
        state, said = PAUSED, paused
    elif outcome in (HELD, FAILED):
        state, said = str(outcome), str(row["said"] or "")
    elif newest is None:
        state, said = NEVER, "It has published nothing yet."
    elif newest < today - ON_TIME:
        state, said = LATE, f"Nothing newer than {newest} was published."
    else:
        state, said = UP_TO_DATE, ""
    in_registry = bool(row["in_registry"])
    if not in_registry:
        state, said = PAUSED, "It left the registry; its data stays until `rollbook fleet forget`."
    return Line(str(row["institution"]), str(row["school_name"] or ""), state, newest, said, in_registry)


@cache
def _environment() -> Environment:
    return pages.environment("pipelines.fleet", cell=_cell)


def _cell(value: object) -> str:
    """A value as text; a dash if it is unknown."""
    if value is None:
        return "\N{EN DASH}"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.1f}" if isinstance(value, float) else printable(str(value))
