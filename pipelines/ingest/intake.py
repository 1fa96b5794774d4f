"""What a fetch hands its bodies to: a landing under way, whose rows are staged as the bodies come."""

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

# Records of a set from which on a second process is worth its start.
LARGE = 5_000
# Sockets are handed on to processes in this way on POSIX alone.
POSIX = os.name == "posix"


class Intake:
    """Begins landings in `raw/`, and keeps what was staged of the last one, in `aside`, until it is taken."""

    # A second process that waits for this process's next landing, whichever intake begins it: it is started before
    # there is any.
    _ahead: ClassVar[IngestProcess | None] = None

    def __init__(self, raw: RawStore, aside: Path) -> None:
        self._raw = raw
        self._aside = aside
        self._staged: tuple[date, Flattened] | None = None

    @classmethod
    def start_ahead(cls, expected: int | None) -> None:
        """Start a second process now, to be ready for the first page, unless so few records are expected.

        None: it is not known how many will come.
        """
        if cls._ahead is None and POSIX and (expected is None or expected >= LARGE):
            cls._ahead = IngestProcess()

    @classmethod
    def process(cls) -> IngestProcess:
        """Return a second process: the one that was started ahead, or a new one."""
        process, cls._ahead = cls._ahead or IngestProcess(), None
        return process

    @classmethod
    def stop(cls) -> None:
        """End a second process that was started ahead and is not needed."""
        if cls._ahead is not None:
            cls._ahead.close()
            cls._ahead = None

    def begin(self, day: date, expected: int = 0) -> StagingWriter:
        """Start the day's next landing. `expected` is how many records a set may have, if that is known."""
        self._staged = None
        place = self._raw.reserve(day)
        # A killed sync's second process may live a moment longer: it must not write where the next one does.
        aside = files.empty(self._aside / f"landing={place.landing}-{os.getpid()}")
        writer = StagingWriter(self, place, aside)
        if expected:
            writer.expect(expected)
        return writer

    def keep(self, day: date, staged: Flattened) -> None:
        """Keep what was staged of a finished landing."""
        self._staged = day, staged

    def take(self, manifest: Manifest) -> Flattened | None:
        """Return what was staged of a landing when it was fetched; None if nothing was."""
        if self._staged is None:
            return None
        day, staged = self._staged
        return staged if (day, staged.landing) == (manifest.snapshot_date, manifest.landing) else None

    def clear(self) -> None:
        """Remove all that is staged: it is part of the lake now, or nobody will need it."""
        self._staged = None
        files.empty(self._aside)


class StagingWriter:
    """A landing in progress, as `landing.bodies.LandingWriter` is one, that stages the rows of its bodies.

    The bodies are held back until it is known whether there are enough for a second process.
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
        """Say how many records a set has that is about to be walked."""
        if self._ingest is None:
            self._start(large=records >= LARGE and POSIX)

    def add(self, received: Received, content: bytes) -> None:
        """Take one body, without the students who were erased."""
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
        """Return what was staged of the finished landing. From here on, nothing that fails is worth more than time."""
        try:
            parts = ingest.staged(LandingFolder(self._place.final, manifest))
        except (MachineError, OSError, RuntimeError) as error:
            log.warning("What came could not be staged on the way (%s); it is read again", type(error).__name__)
            return None
        if parts is None:
            log.warning("What came could not be staged on the way (%s); it is read again", ingest.ended_by)
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
