"""Receives a fetch's bodies: a landing in progress whose rows are staged as the bodies arrive."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import ClassVar

from pipelines import files
from pipelines.errors import MachineError
from pipelines.ingest.ingest import Flattened, Ingest, StagedPart
from pipelines.ingest.process import IngestProcess
from pipelines.landing.bodies import LandingFolder, LandingPlace
from pipelines.landing.manifest import Landed, Manifest, Received, Verdict
from pipelines.landing.raw import RawStore

log = logging.getLogger(__name__)

# A set of at least this many records is worth starting a second process.
LARGE = 5_000
# Passing a socket to a child process by its file descriptor works on POSIX only.
POSIX = os.name == "posix"


class Intake:
    """Begins landings in `raw/`, and keeps the last one's staged rows in `aside` until they are taken."""

    # The second process that was started ahead, for this process's next landing in any intake.
    _ahead: ClassVar[IngestProcess | None] = None

    def __init__(self, raw: RawStore, aside: Path) -> None:
        self._raw = raw
        self._aside = aside
        self._staged: tuple[date, Flattened] | None = None

    @classmethod
    def start_ahead(cls, expected: int) -> None:
        """Start a second process now, to be ready for the first page, unless few records are `expected`."""
        if cls._ahead is None and POSIX and expected >= LARGE:
            cls._ahead = IngestProcess()

    @classmethod
    def stop(cls) -> None:
        """End the second process that was started ahead, if it was not used."""
        if cls._ahead is not None:
            cls._ahead.close()
            cls._ahead = None

    def begin(self, day: date, expected: int = 0) -> StagingWriter:
        """Start the day's next landing. `expected` is how many records its largest set may have; 0 if unknown."""
        self._staged = None
        place = self._raw.reserve(day)
        # A folder per process: a killed sync's second process may live a moment longer and must not write here.
        aside = files.empty(self._aside / f"landing={place.landing}-{os.getpid()}")
        self.start_ahead(expected)
        process, Intake._ahead = Intake._ahead, None
        if process is None:
            return StagingWriter(self, place, Ingest(place.partial, aside))
        process.begin(place.partial, aside)
        return StagingWriter(self, place, process)

    def keep(self, day: date, staged: Flattened) -> None:
        """Keep the staged rows of a finished landing."""
        self._staged = day, staged

    def take(self, manifest: Manifest) -> Flattened | None:
        """Return the rows that were staged when this landing was fetched; None if there are none."""
        if self._staged is None:
            return None
        day, staged = self._staged
        return staged if (day, staged.landing) == (manifest.snapshot_date, manifest.landing) else None

    def clear(self) -> None:
        """Remove all staged rows: they are part of the lake now, or no longer needed."""
        self._staged = None
        files.empty(self._aside)


class StagingWriter:
    """A landing in progress, which also stages the rows of its bodies. `finish` or `abandon` ends it."""

    def __init__(self, intake: Intake, place: LandingPlace, ingest: Ingest | IngestProcess) -> None:
        self.snapshot_date = place.snapshot_date
        self.landing = place.landing
        self._intake = intake
        self._place = place
        self._ingest = ingest

    def add(self, received: Received, content: bytes) -> None:
        """Take one body, without erased students."""
        if (admitted := self._place.gate.admit(received, content)) is not None:
            self._ingest.add(*admitted)

    def bodies(self, draft: Manifest, set_name: str) -> Iterator[Landed]:
        """Yield what `RawStore.bodies` would yield if the landing were finished now with this manifest."""
        return self._place.opened(draft, self._ingest.flush()).bodies(set_name)

    def finish(self, manifest: Manifest) -> Manifest:
        """Make everything durable and turn the folder into a landing; returns the manifest as written."""
        manifest = self._place.commit(manifest, self._ingest.seal())
        if manifest.verdict is not Verdict.FAILED and (parts := self._staged(manifest)) is not None:
            self._intake.keep(self.snapshot_date, Flattened(self.landing, tuple(parts)))
        self._ingest.close()
        return manifest

    def _staged(self, manifest: Manifest) -> list[StagedPart] | None:
        """Return the finished landing's staged parts. A failure here only costs time: the bodies are durable."""
        try:
            parts = self._ingest.staged(LandingFolder(self._place.final, manifest))
        except (MachineError, OSError, RuntimeError) as error:
            log.warning("Staging during the fetch failed (%s); reading the landing again", type(error).__name__)
            return None
        if parts is None:
            log.warning("Staging during the fetch failed (%s); reading the landing again", self._ingest.ended_by)
        return parts

    def abandon(self) -> None:
        """Remove everything written."""
        self._ingest.close()
        self._place.abandon()
