"""The fleet's state in the text format that node exporters collect from a folder (Prometheus, version 0.0.4)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from pipelines import files
from pipelines.errors import ArgumentError
from pipelines.fleet.outcomes import Kind
from pipelines.fleet.overview import NEVER, FleetStatus, InstitutionStatus

# The exporter runs under another account. The file has counts, days and institutions' names, but no pupils.
MODE = 0o644
OUTCOMES = (Kind.SYNCED, Kind.HELD, Kind.FAILED, NEVER)


def write(path: Path, known: FleetStatus) -> None:
    """Write all metrics, each with its help text, atomically. Raises ArgumentError when the file cannot be written."""
    lines: list[str] = []
    for name, meaning, samples in _METRICS:
        lines += [f"# HELP rollbook_{name} {meaning}", f"# TYPE rollbook_{name} gauge"]
        for status in known.institutions:
            labelled = ((f'institution="{status.institution}"{more}', v) for more, v in samples(status).items())
            lines += [f"rollbook_{name}{{{labels}}} {value:.15g}" for labels, value in labelled if value is not None]
    try:
        with files.handing_out(path) as file:
            os.fchmod(file.fileno(), MODE)
            file.write(("\n".join(lines) + "\n").encode())
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise ArgumentError(f"{path} cannot be written ({reason}): name a file in an existing folder") from None


# A metric's samples of one institution, by their further labels; an unknown one is None. No label needs an escape.
_METRICS: tuple[tuple[str, str, Callable[[InstitutionStatus], Mapping[str, float | None]]], ...] = (
    (
        "sync_outcome",
        "1 for the outcome of the last sync, 0 for the others.",
        lambda s: {f',outcome="{outcome}"': s.outcome == outcome for outcome in OUTCOMES},
    ),
    ("paused", "1 if the institution is paused.", lambda s: {"": bool(s.paused)}),
    ("late_seconds", "Seconds since a missed night was due; 0 if none was missed.", lambda s: {"": s.late_by or 0}),
    (
        "sync_ended_timestamp_seconds",
        "When the last sync ended, whatever its outcome.",
        lambda s: {"": s.last.at.timestamp() if s.last else None},
    ),
    (
        "sync_outcome_since_timestamp_seconds",
        "Since when syncs have the last outcome.",
        lambda s: {"": s.since.timestamp() if s.since else None},
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
