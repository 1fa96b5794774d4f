"""The fleet's page: which institutions are up to date and which are not, and where the contract drifts.

The outcomes of the last nights are read from the fleet's folder, so they are current; only figures and drift come from
`fleet.duckdb`, if there is one. It names institutions and no pupils; an undeclared field is named only if several
records have it, since a single record's field name may be anything.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipelines import files, pages
from pipelines.export.query import run_query
from pipelines.fleet.nights import Fleet
from pipelines.fleet.outcomes import Kind
from pipelines.fleet.overview import NEVER, load_overview
from pipelines.store.published.fleet_file import FleetFile
from pipelines.store.statements import statements
from pipelines.text import count_of, printable

sql = statements("pipelines.fleet")

FILE = "fleet-report.html"
# A field that this many records have in one sync comes from the service, and does not describe one pupil.
LEAST_RECORDS = 5
_NO_FIGURES: dict[str, Any] = {"built_at": None, "schools": {}, "figures": (), "drift": (), "refused": ()}
# The most urgent come first.
STATES = (Kind.FAILED, Kind.HELD, "late", NEVER, Kind.PAUSED, Kind.SYNCED)


def write(fleet: Fleet, out: Path) -> str:
    """Write the page to a file that only its owner can read; returns its summary in one sentence.

    Raises DamagedError for a fleet.duckdb that cannot be read.
    """
    status = load_overview(fleet)
    others = ", ".join(f"{status.counts[state]:,} {state}" for state in STATES[:-1] if status.counts.get(state))
    total = count_of(len(status.institutions), "institution")
    verdict = f"{status.counts.get(Kind.SYNCED, 0):,} of {total} up to date{'; ' if others else ''}{others}."
    file = FleetFile(fleet.path).path
    page = pages.environment("pipelines.fleet", cell=_cell).get_template("page.html").render(
        at=fleet.clock(),
        verdict=verdict,
        institutions=sorted(status.institutions, key=lambda s: (STATES.index(s.shown), s.institution)),
        **(_figures(file) if file.is_file() else _NO_FIGURES),
    )  # fmt: skip
    files.write(out, page.encode())
    return verdict


def _figures(file: Path) -> dict[str, Any]:
    """What the page has from fleet.duckdb; `built_at` is when that was built."""
    figures = """
        SELECT
            institution, snapshot_date, students, active_classes, average_completion_rate, completion_vs_institutions,
            average_score
        FROM main.institutions_compared
        ORDER BY students DESC, institution
    """
    refused = """
        SELECT institution, snapshot_date, rejected
        FROM ops.syncs WHERE outcome = 'synced'
        QUALIFY ROW_NUMBER() OVER (PARTITION BY institution ORDER BY snapshot_date DESC, landing DESC) = 1
            AND rejected > 0
        ORDER BY rejected DESC, institution
        LIMIT 100
    """
    return {
        "built_at": run_query(file, "SELECT published_at FROM spans.version").rows[0][0],
        "schools": dict(run_query(file, "SELECT institution, school_name FROM main.institutions").rows),
        "figures": run_query(file, figures).rows,
        "drift": run_query(file, sql("drift"), {"least": LEAST_RECORDS}).rows,
        "refused": run_query(file, refused).rows,
    }


def _cell(value: object) -> str:
    """A value as text; a dash if it is unknown."""
    if value is None:
        return "\N{EN DASH}"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.1f}" if isinstance(value, float) else printable(str(value))
