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
    def start_ahead(cls, expected: int | None) -> None:
        """Start a second process now, to be ready for the first page, unless few records are `expected`.

        None: the number is unknown.
        """
        if cls._ahead is None and POSIX and (expected is None or expected >= LARGE):
            cls._ahead = IngestProcess()

    @classmethod
    def process(cls) -> IngestProcess:
        """Return the second process that was started ahead, or a new one."""
        process, cls._ahead = cls._ahead or IngestProcess(), None
        return process

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
        writer = StagingWriter(self, place, aside)
        if expected:
            writer.expect(expected)
        return writer

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
    """A landing in progress, like `landing.bodies.LandingWriter`, that also stages the rows of its bodies.

    Bodies are held in memory until `expect` shows whether a second process is worth it.
    """

    def __init__(self, intake: Intake, place: LandingPlace, aside: Path) -> None:
        self.snapshot_date = place.snapshot_date
        self.landing = place.landing
        self._intake = intake
        self._place = place
        self._aside = aside
        self._held: list[tuple[Received, bytes]] = []
        self._ingest: Ingest | IngestProcess | None = None

    def expect(self, records: int) -> None:
        """Announce how many records the next walked set has."""
        if self._ingest is None:
            self._start(large=records >= LARGE and POSIX)

    def add(self, received: Received, content: bytes) -> None:
        """Take one body, without erased students."""
        if (admitted := self._place.gate.admit(received, content)) is None:
            return
        received, content = admitted
        if self._ingest is None:
            self._held.append((received, content))
        else:
            self._ingest.add(received, content)

    def bodies(self, draft: Manifest, set_name: str) -> Iterator[Landed]:
        """Yield what `RawStore.bodies` would yield if the landing were finished now with this manifest."""
        return self._place.opened(draft, self._started().flush()).bodies(set_name)

    def finish(self, manifest: Manifest) -> Manifest:
        """Make everything durable and turn the folder into a landing; returns the manifest as written."""
        ingest = self._started()
        manifest = self._place.commit(manifest, ingest.seal())
        if manifest.verdict is not Verdict.FAILED and (parts := self._staged(ingest, manifest)) is not None:
            self._intake.keep(self.snapshot_date, Flattened(self.landing, tuple(parts)))
        ingest.close()
        return manifest

    def _staged(self, ingest: Ingest | IngestProcess, manifest: Manifest) -> list[StagedPart] | None:
        """Return the finished landing's staged parts. A failure here only costs time: the bodies are durable."""
        try:
            parts = ingest.staged(LandingFolder(self._place.final, manifest))
        except (MachineError, OSError, RuntimeError) as error:
            log.warning("Staging during the fetch failed (%s); reading the landing again", type(error).__name__)
            return None
        if parts is None:
            log.warning("Staging during the fetch failed (%s); reading the landing again", ingest.ended_by)
        return parts

    def abandon(self) -> None:
        """Remove everything written."""
        if self._ingest is not None:
            self._ingest.close()
        self._place.abandon()

    def _started(self) -> Ingest | IngestProcess:
        return self._ingest or self._start(large=False)

    def _start(self, *, large: bool) -> Ingest | IngestProcess:
        if large:
            self._ingest = self._intake.process()
            self._ingest.begin(self._place.partial, self._aside)
        else:
            self._ingest = Ingest(self._place.partial, self._aside)
        for received, content in self._held:
            self._ingest.add(received, content)
        self._held.clear()
        return self._ingest
