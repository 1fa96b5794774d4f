"""The fleet's state in the text format that node exporters collect from a folder (Prometheus, version 0.0.4)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from pipelines import files
from pipelines.errors import ArgumentError
from pipelines.fleet.nights.outcomes import Kind
from pipelines.fleet.overview import NEVER, FleetStatus, InstitutionStatus

# The exporter runs under another account. The file has counts, days and institutions' names, but no pupils.
MODE = 0o644
OUTCOMES = (Kind.SYNCED, Kind.HELD, Kind.FAILED, NEVER)
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

Labels = dict[str, str]
Sample = tuple[Labels, float]


def write(path: Path, known: FleetStatus) -> None:
    """Write the file atomically. Raises ArgumentError when it cannot be written."""
    try:
        with files.handing_out(path) as file:
            os.fchmod(file.fileno(), MODE)
            file.write(text(known).encode())
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise ArgumentError(f"{path} cannot be written ({reason}): name a file in an existing folder") from None


def text(known: FleetStatus) -> str:
    """All metrics, each with its help text."""
    lines: list[str] = []
    for name, meaning, samples in _METRICS:
        lines += [f"# HELP rollbook_{name} {meaning}", f"# TYPE rollbook_{name} gauge"]
        for institution in known.institutions:
            for labels, value in samples(institution):
                lines.append(f"rollbook_{name}{_labels(institution.institution, labels)} {value:.15g}")
    return "\n".join(lines) + "\n"


def _labels(institution: str, labels: Labels) -> str:
    named = {"institution": institution, **labels}
    return "{" + ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in named.items()) + "}"


def _known(value: float | None) -> list[Sample]:
    return [] if value is None else [({}, float(value))]


def _time(moment: datetime | None) -> list[Sample]:
    return _known(None if moment is None else moment.timestamp())


_METRICS: tuple[tuple[str, str, Callable[[InstitutionStatus], Sequence[Sample]]], ...] = (
    (
        "sync_outcome",
        "1 for the outcome of the last sync, 0 for the others.",
        lambda s: [({"outcome": str(outcome)}, float(s.outcome == outcome)) for outcome in OUTCOMES],
    ),
    ("paused", "1 if the institution is paused.", lambda s: _known(bool(s.paused))),
    ("late_seconds", "Seconds since a missed night was due; 0 if none was missed.", lambda s: _known(s.late_by or 0)),
    ("sync_ended_timestamp_seconds", "When the last sync ended, whatever its outcome.", lambda s: _time(s.at)),
    ("sync_outcome_since_timestamp_seconds", "Since when syncs have the last outcome.", lambda s: _time(s.since)),
    ("good_sync_timestamp_seconds", "When the data that readers see was fetched.", lambda s: _time(s.synced_at)),
    ("sync_duration_seconds", "How long the last sync took.", lambda s: _known(s.seconds)),
    ("sync_requests", "How many requests the last sync took.", lambda s: _known(s.requests)),
    (
        "sync_records",
        "How many records the last sync received.",
        lambda s: [({"set": name}, float(count)) for name, count in s.records.items()],
    ),
    ("sync_rejected_records", "How many records of the last sync were refused.", lambda s: _known(s.rejected)),
    (
        "key_refused_nights",
        "On how many nights in a row the service has refused the key.",
        lambda s: _known(s.refused_nights),
    ),
)
