"""All institutions of a registry at a glance: the outcome of each one's last night, and which are late. Read-only.

Reads each institution's state and its newest day's manifests but no database, so that a thousand take seconds. Also
writes it as a page, and in the text format that node exporters collect from a folder (Prometheus, version 0.0.4).

The page adds figures and where the contract drifts, from `fleet.duckdb` if there is one. It names institutions and no
pupils; an undeclared field is named only if several records have it, since a single record's field name may be
anything.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from pipelines import files, pages, settings
from pipelines.compose import compose
from pipelines.errors import ArgumentError, RollbookError
from pipelines.export.query import run_query
from pipelines.fleet.nights import Fleet, NightKind, NightOutcome, last_sync, load_state
from pipelines.operations.status import freshness
from pipelines.store.published.fleet_file import FleetFile
from pipelines.store.statements import statements
from pipelines.text import count_of, naming, printable

NEVER = "never"


class InstitutionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One institution. Times are UTC; unknown values are null.

    `last` is its last sync, by a fleet's run or by itself; null before the first. `paused` says why it is paused, and
    is empty if it is not. `readers_see` is the newest day that was synced, at `synced_at`. `late_by` is the seconds
    since a missed night was due.
    """

    institution: str
    last: NightOutcome | None = None
    paused: str = ""
    readers_see: date | None = None
    synced_at: datetime | None = None
    due: datetime | None = None
    late_by: float | None = None
    refused_nights: int = 0

    @property
    def outcome(self) -> str:
        """The last sync's outcome: synced, held, failed, or never."""
        return str(self.last.kind) if self.last else NEVER

    @property
    def shown(self) -> str:
        """The institution's state in one word."""
        if self.paused:
            return str(NightKind.PAUSED)
        return "late" if self.outcome == NightKind.SYNCED and self.late_by is not None else self.outcome

    @property
    def is_fine(self) -> bool:
        """Whether it needs no attention."""
        return self.shown == NightKind.SYNCED

    @property
    def why(self) -> str:
        """What happened, and what to do, in words."""
        if self.shown == "late" and self.due is not None:
            return f"the night of {self.due:%Y-%m-%d %H:%M} UTC was not synced: run `rollbook fleet sync`"
        return self.paused or (self.last.message if self.last else "")


class FleetStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What `rollbook fleet status` prints, also as JSON: the number of institutions by state, and each institution."""

    counts: dict[str, int]
    institutions: tuple[InstitutionStatus, ...]


def load_overview(fleet: Fleet) -> FleetStatus:
    """Read each institution's status. One that cannot be read is shown as failed, with the reason."""
    found = tuple(_look(fleet, name) for name in fleet.institutions)
    return FleetStatus(counts=dict(Counter(status.shown for status in found)), institutions=found)


def _look(fleet: Fleet, name: str) -> InstitutionStatus:
    state = load_state(fleet.path, name)
    known = InstitutionStatus(institution=name, paused=state.why_paused(name), refused_nights=len(state.refused))
    try:
        book = compose(settings.load(fetches=False, institution=name), clock=fleet.clock)
        last, good = last_sync(book.raw, state), book.newest()
        due, late_by = freshness(book, good)
    except (RollbookError, OSError) as error:
        message = naming(name, error.message) if isinstance(error, RollbookError) else type(error).__name__
        return replace(known, last=NightOutcome(kind=NightKind.FAILED, at=fleet.clock(), message=message))
    known = replace(known, last=last)
    if good is not None:
        known = replace(known, readers_see=good.snapshot_date, synced_at=good.finished_at)
    # One that was added only recently is not late.
    return replace(known, due=due.astimezone(UTC), late_by=late_by if last is not None else None)


def write_prometheus(path: Path, known: FleetStatus) -> None:
    """Write all metrics, each with its help text, atomically. Raises ArgumentError when the file cannot be written."""
    lines: list[str] = []
    for name, meaning, samples in _METRICS:
        lines += [f"# HELP rollbook_{name} {meaning}", f"# TYPE rollbook_{name} gauge"]
        for status in known.institutions:
            labelled = ((f'institution="{status.institution}"{more}', v) for more, v in samples(status).items())
            lines += [f"rollbook_{name}{{{labels}}} {value:.15g}" for labels, value in labelled if value is not None]
    try:
        with files.handing_out(path) as file:
            os.fchmod(file.fileno(), 0o644)  # the exporter runs under another account; it holds no pupils
            file.write(("\n".join(lines) + "\n").encode())
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise ArgumentError(f"{path} cannot be written ({reason}): name a file in an existing folder") from None


# A metric's samples of one institution, by their further labels; an unknown one is None. No label needs an escape.
_METRICS: tuple[tuple[str, str, Callable[[InstitutionStatus], Mapping[str, float | None]]], ...] = (
    (
        "sync_outcome",
        "1 for the outcome of the last sync, 0 for the others.",
        lambda s: {
            f',outcome="{outcome}"': s.outcome == outcome
            for outcome in (NightKind.SYNCED, NightKind.HELD, NightKind.FAILED, NEVER)
        },
    ),
    ("paused", "1 if the institution is paused.", lambda s: {"": bool(s.paused)}),
    ("late_seconds", "Seconds since a missed night was due; 0 if none was missed.", lambda s: {"": s.late_by or 0}),
    (
        "sync_ended_timestamp_seconds",
        "When the last sync ended, whatever its outcome.",
        lambda s: {"": s.last.at.timestamp() if s.last else None},
    ),
    (
        "good_sync_timestamp_seconds",
        "When the data that readers see was fetched.",
        lambda s: {"": s.synced_at.timestamp() if s.synced_at else None},
    ),
    ("sync_duration_seconds", "How long the last sync took.", lambda s: {"": s.last.seconds if s.last else None}),
    ("sync_requests", "How many requests the last sync took.", lambda s: {"": s.last.requests if s.last else None}),
    (
        "sync_records",
        "How many records the last sync received.",
        lambda s: {f',set="{name}"': count for name, count in s.last.received.items()} if s.last else {},
    ),
    (
        "sync_rejected_records",
        "How many records of the last sync were refused.",
        lambda s: {"": s.last.rejected if s.last else None},
    ),
    (
        "key_refused_nights",
        "On how many nights in a row the service has refused the key.",
        lambda s: {"": s.refused_nights},
    ),
)


sql = statements("pipelines.fleet")

FILE = "fleet-report.html"
# A field that this many records have in one sync comes from the service, and does not describe one pupil.
LEAST_RECORDS = 5
_NO_FIGURES: dict[str, Any] = {"built_at": None, "schools": {}, "figures": (), "drift": (), "refused": ()}
# The most urgent come first.
STATES = (NightKind.FAILED, NightKind.HELD, "late", NEVER, NightKind.PAUSED, NightKind.SYNCED)


def write(fleet: Fleet, out: Path) -> str:
    """Write the page to a file that only its owner can read; returns its summary in one sentence.

    Raises DamagedError for a fleet.duckdb that cannot be read.
    """
    status = load_overview(fleet)
    others = ", ".join(f"{status.counts[state]:,} {state}" for state in STATES[:-1] if status.counts.get(state))
    total = count_of(len(status.institutions), "institution")
    verdict = f"{status.counts.get(NightKind.SYNCED, 0):,} of {total} up to date{'; ' if others else ''}{others}."
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
