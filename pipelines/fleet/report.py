"""The fleet's page: which institutions are up to date and which are not, and where the contract drifts.

The outcomes of the last nights are read from the fleet's folder, so they are current; only figures and drift come from
`fleet.duckdb`, if there is one. It names institutions and no pupils; an undeclared field is named only if several
records have it, since a single record's field name may be anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment

from pipelines import files, pages
from pipelines.export.query import run_query
from pipelines.fleet.nights.outcomes import Kind
from pipelines.fleet.nights.runner import Fleet
from pipelines.fleet.overview import NEVER, FleetStatus, load_overview
from pipelines.store.published.fleet_file import FleetFile
from pipelines.store.statements import statements
from pipelines.text import count_of, printable

sql = statements("pipelines.fleet")

FILE = "fleet-report.html"
# A field that this many records have in one sync comes from the service, and does not describe one pupil.
LEAST_RECORDS = 5
# The most urgent come first.
STATES = (Kind.FAILED, Kind.HELD, "late", NEVER, Kind.PAUSED, Kind.SYNCED)


@dataclass(frozen=True)
class Page:
    """The content of the page; `built_at` is when fleet.duckdb, the source of all but `status`, was built."""

    at: datetime
    status: FleetStatus
    built_at: datetime | None = None
    schools: Mapping[str, str] = field(default_factory=dict)
    figures: Sequence[tuple[Any, ...]] = ()
    drift: Sequence[tuple[Any, ...]] = ()
    refused: Sequence[tuple[Any, ...]] = ()

    @property
    def verdict(self) -> str:
        """A summary in one sentence."""
        counts = self.status.counts
        others = [f"{counts[s]:,} {s}" for s in STATES[:-1] if counts.get(s)]
        total = count_of(len(self.status.institutions), "institution")
        return f"{counts.get(Kind.SYNCED, 0):,} of {total} up to date" + (f"; {', '.join(others)}." if others else ".")


def write(fleet: Fleet, out: Path) -> Page:
    """Write the page to a file that only its owner can read; returns its content.

    Raises DamagedError for a fleet.duckdb that cannot be read.
    """
    page = _load(fleet)
    files.write(out, _environment().get_template("page.html").render(page=page).encode())
    return page


def _load(fleet: Fleet) -> Page:
    found = load_overview(fleet)
    by_state = sorted(found.institutions, key=lambda s: (STATES.index(s.shown), s.institution))
    status = FleetStatus(counts=found.counts, institutions=tuple(by_state))
    file = FleetFile(fleet.path).path
    if not file.is_file():
        return Page(fleet.clock(), status)
    return Page(
        fleet.clock(),
        status,
        built_at=run_query(file, "SELECT published_at FROM spans.version").rows[0][0],
        schools=dict(run_query(file, "SELECT institution, school_name FROM main.institutions").rows),
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
    )


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
