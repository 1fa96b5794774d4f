"""The fleet's state in the text format that node exporters collect from a folder (Prometheus, version 0.0.4)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from pipelines import files
from pipelines.errors import ArgumentError
from pipelines.fleet.nights.outcomes import Kind
from pipelines.fleet.overview import NEVER, FleetStatus, InstitutionStatus

# The exporter runs under another account. There are counts, days and institutions' names in it, and no pupil.
MODE = 0o644
OUTCOMES = (Kind.SYNCED, Kind.HELD, Kind.FAILED, NEVER)
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

Labels = dict[str, str]
Sample = tuple[Labels, float]


def write(path: Path, known: FleetStatus) -> None:
    """Write the file whole or not at all. Raises ArgumentError when it cannot be written."""
    try:
        with files.handing_out(path) as file:
            os.fchmod(file.fileno(), MODE)
            file.write(text(known).encode())
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise ArgumentError(f"{path} cannot be written ({reason}): name a file in a folder that is there") from None


def text(known: FleetStatus) -> str:
    """All metrics, each with what it means."""
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


def _outcomes(status: InstitutionStatus) -> Iterator[Sample]:
    for outcome in OUTCOMES:
        yield {"outcome": str(outcome)}, float(status.outcome == outcome)


def _paused(status: InstitutionStatus) -> Iterator[Sample]:
    yield {}, float(bool(status.paused))


def _late(status: InstitutionStatus) -> Iterator[Sample]:
    yield {}, status.late_by or 0.0


def _ended(status: InstitutionStatus) -> Iterator[Sample]:
    if status.at is not None:
        yield {}, status.at.timestamp()


def _since(status: InstitutionStatus) -> Iterator[Sample]:
    if status.since is not None:
        yield {}, status.since.timestamp()


def _synced(status: InstitutionStatus) -> Iterator[Sample]:
    if status.synced_at is not None:
        yield {}, status.synced_at.timestamp()


def _seconds(status: InstitutionStatus) -> Iterator[Sample]:
    yield {}, status.seconds


def _requests(status: InstitutionStatus) -> Iterator[Sample]:
    yield {}, float(status.requests)


def _records(status: InstitutionStatus) -> Iterator[Sample]:
    for name, count in status.records.items():
        yield {"set": name}, float(count)


def _rejected(status: InstitutionStatus) -> Iterator[Sample]:
    yield {}, float(status.rejected)


def _refused(status: InstitutionStatus) -> Iterator[Sample]:
    yield {}, float(status.refused_nights)


_METRICS: tuple[tuple[str, str, Callable[[InstitutionStatus], Iterator[Sample]]], ...] = (
    ("sync_outcome", "1 for what the last sync came to, 0 for what it did not.", _outcomes),
    ("paused", "1 if the institution is left out of the nights.", _paused),
    ("late_seconds", "Seconds since the night that should have been synced; 0 if it was.", _late),
    ("sync_ended_timestamp_seconds", "When the last sync ended, whatever it came to.", _ended),
    ("sync_outcome_since_timestamp_seconds", "Since when the syncs end as the last one did.", _since),
    ("good_sync_timestamp_seconds", "When what readers see was fetched.", _synced),
    ("sync_duration_seconds", "How long the last sync took.", _seconds),
    ("sync_requests", "How many requests the last sync took.", _requests),
    ("sync_records", "How many records came in the last sync.", _records),
    ("sync_rejected_records", "How many records of the last sync were refused.", _rejected),
    ("key_refused_nights", "On how many nights in a row the service has refused the key.", _refused),
)
