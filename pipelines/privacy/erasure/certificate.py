"""The certificate of an erasure, for a data-protection officer's files. It does not say who was erased."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from pipelines import __version__, files

# What is counted, in the order of the certificate. `rollbook erase` shows the first ones before it erases, too.
LABELS = {
    "landings": "landings with the student, in raw/",
    "bodies": "bodies in them, rewritten or removed",
    "records": "records in these bodies, removed",
    "rejects": "refused records, removed",
    "searches": "searches for the student in manifests, removed",
    "days": "days of the lake, rewritten in snapshots/",
    "rows": "rows of the published file, removed",
    "expired": "expired days, of which only the history is left",
    "versions": "published files, made again",
    "altered": "altered copies in build/, removed",
    "exports": "files in exports/, deleted whatever they hold",
    "codes": "codes of the pseudonymous file, deleted",
    "fleet": "versions of fleet.duckdb and fleet-pseudonymous.duckdb, removed; `rollbook fleet build` makes them again"
    " without the student",
    "dagster": "texts in Dagster's records, changed",
    "recognised": "remaining records with the student's email or reference id, under another id or none",
}
TO_DO = (
    "Backups of the warehouse, of raw/ and of Dagster's folder still hold the student: delete them, or let them expire,"
    " and note by when. After a restore, the next sync removes the student from raw/, snapshots/ and published/ again,"
    " as long as private/erasures/ is the latest one.",
    "The copy in an object store (ROLLBOOK_LAKE), if there is one, is updated when the erasure ends: `rollbook"
    " mirror status` says whether it was. Old versions that the store keeps still hold the student: delete them.",
    "Copies taken elsewhere are yours to find: files written with `rollbook export --out`, exports that somebody moved"
    " or sent, Parquet and CSV that others took from snapshots/, other databases that read the published file.",
    "Readers who opened the file before the erasure keep the old one until they close it: ask them to connect again.",
    "The disk may keep old blocks until they are overwritten: disk encryption or secure disposal covers that.",
    "The records service is not part of Rollbook: it may still list the student.",
)


@dataclass(frozen=True)
class Certificate:
    """One erasure: its number, reason, start and end (UTC), counts by key (see LABELS), and deleted exports."""

    number: int
    reason: str
    began_at: datetime
    finished_at: datetime
    counts: Mapping[str, int]
    exports: tuple[str, ...] = ()
    left_open: tuple[str, ...] = field(default_factory=tuple)

    def text(self) -> str:
        """The certificate in Markdown."""
        lines = [
            f"# Erasure {self.number}",
            "",
            f"One student was erased by Rollbook {__version__}, from {self.began_at:%Y-%m-%d %H:%M:%S} to"
            f" {self.finished_at:%Y-%m-%d %H:%M:%S} UTC. This page does not say who.",
            "",
            f"Reason: {self.reason}",
            "",
            "| what | count |",
            "|---|--:|",
            *(f"| {label} | {self.counts[key]:,} |" for key, label in LABELS.items() if key in self.counts),
            "",
            "The history and the morning page were made again without the student. All other rows are unchanged, and so"
            " are the counts that the service states for a class. A keyed hash of the id is kept in private/erasures/,"
            " so that the student stays out of every later landing, rebuild, restore and backfill.",
            "",
            *(("Deleted, since they may have held the student:", "") if self.exports else ()),
            *(f"- `{name}`" for name in self.exports),
            *(("",) if self.exports else ()),
            "Still to do, by a person:",
            "",
            *(f"- {each}" for each in (*self.left_open, *TO_DO)),
            "",
        ]
        return "\n".join(lines)

    def path(self, folder: Path) -> Path:
        """The certificate's file in `folder`."""
        return folder / f"certificate-{self.number}.md"

    def keep(self, folder: Path) -> Path:
        """Write it into the private folder of erasures; return the file."""
        path = self.path(folder)
        files.write(path, self.text().encode())
        return path
