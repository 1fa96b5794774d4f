"""What an erasure says it did, for the files of a data-protection officer: without the person."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from pipelines import __version__, files

# What is counted, in the order in which it is told.
LABELS = {
    "landings": "landings that held the student, in raw/",
    "bodies": "bodies in them that were written again or removed",
    "records": "records taken out of bodies",
    "rejects": "refused records taken out",
    "searches": "notes of a search for the student, in manifests",
    "days": "days of the lake that were written again, in snapshots/",
    "rows": "rows of the published file",
    "expired": "days of which only the history was left",
    "versions": "published files that were replaced or removed",
    "altered": "altered copies in build/ that were removed",
    "exports": "files in exports/ that were deleted",
    "codes": "codes of the pseudonymous file that were forgotten",
    "releases": "weeks of figures given away that no longer say that the student was among them",
    "fleet": "versions of fleet.duckdb and fleet-pseudonymous.duckdb that were removed; `rollbook fleet build` makes"
    " them again without the student",
    "dagster": "texts of Dagster's records that were changed",
    "recognised": "records left that have the email or reference id, under another id or none",
}
TO_DO = (
    "Backups of the warehouse, of raw/ and of Dagster's folder still hold the student: delete them, or let them expire,"
    " and note by when. After one is put back, the next sync takes the student out of raw/ and snapshots/ again, as"
    " long as private/erasures/ is the newest one.",
    "The copy in an object store (ROLLBOOK_LAKE), if there is one, follows when the erasure ends: `rollbook mirror"
    " status` says whether it did. Old versions that the store itself keeps still hold the student: delete them.",
    "Copies taken elsewhere: files written with `rollbook export --out`, Parquet and CSV that others took from"
    " snapshots/, other databases that read the published file, spreadsheets, e-mails.",
    "Readers who had the file open before keep it until they close it: ask them to connect again.",
    "The disk may keep old blocks until they are used again: that is for its own encryption or disposal.",
    "The records service is not Rollbook's: it may list the student still.",
)


@dataclass(frozen=True)
class Certificate:
    """One erasure: which, why, from when to when, and the counts by what they count (see LABELS)."""

    number: int
    reason: str
    began_at: datetime
    finished_at: datetime
    counts: Mapping[str, int]
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
            "The history and the morning page were made again without the student. Everybody else's rows are as they"
            " were. Counts that the service states of a class stay as it stated them. A keyed hash of the id is kept in"
            " private/erasures/, so that the student stays out of every later landing, rebuild, restore and backfill.",
            "",
            "Still to do, by a person:",
            "",
            *(f"- {each}" for each in (*self.left_open, *TO_DO)),
            "",
        ]
        return "\n".join(lines)

    def path(self, folder: Path) -> Path:
        """The file in which it is kept."""
        return folder / f"certificate-{self.number}.md"

    def keep(self, folder: Path) -> Path:
        """Write it into the private folder of erasures; returns the file."""
        path = self.path(folder)
        files.write(path, self.text().encode())
        return path
