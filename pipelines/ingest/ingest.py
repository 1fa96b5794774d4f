"""Writes each body of a landing as it arrives, then decodes, flattens and stages it.

Each walk's rows are staged separately, since only the end of the fetch shows which walks count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from pipelines.flatten import Flattener
from pipelines.landing.bodies import BodyWriter, LandingFolder, Written, landed
from pipelines.landing.manifest import Drift, Landed, Received, Reject
from pipelines.store.staging import Staging
from pipelines.tables import SETS


class StagedPart(msgspec.Struct, frozen=True):
    """Staged bodies of one set: the folder of their rows, and their rejects and drift."""

    set: str
    folder: str
    records: int
    rejects: tuple[Reject, ...] = ()
    drift: tuple[Drift, ...] = ()


@dataclass(frozen=True)
class Flattened:
    """One landing, flattened and staged: its rows in several parts, with their rejects and drift."""

    landing: int
    parts: tuple[StagedPart, ...]

    @property
    def rejects(self) -> list[Reject]:
        """The refused records of all parts, in order."""
        return [r for part in self.parts for r in part.rejects]

    def of(self, set_name: str) -> list[StagedPart]:
        """Return the parts of one set, in order."""
        return [part for part in self.parts if part.set == set_name]

    def rejected(self) -> dict[str, int]:
        """Return the number of refused records per set that has any."""
        return {s: n for s in SETS if (n := sum(len(part.rejects) for part in self.of(s)))}

    @property
    def records(self) -> dict[str, int]:
        """The number of records per set, refused ones included."""
        return {s: sum(part.records for part in self.of(s)) for s in SETS}

    @property
    def drift(self) -> list[Drift]:
        """The undeclared fields, each with how many records had it."""
        seen: Counter[tuple[str, str, str]] = Counter()
        for part in self.parts:
            for d in part.drift:
                seen[d.set, d.field, d.type] += d.count
        return [Drift(s, f, t, n) for s in SETS for (of, f, t), n in sorted(seen.items()) if of == s]


class PartInProgress:
    """Flattens and stages bodies of one set, one after the other."""

    def __init__(self, set_name: str, folder: Path) -> None:
        self._flattener = Flattener(set_name)
        self._staging = Staging(folder)
        self._set_name = set_name
        self._folder = folder
        self._records = 0
        self._rejects: list[Reject] = []

    def add(self, body: Landed) -> None:
        """Add one body."""
        batch = self._flattener.add(body)
        if batch is not None:
            self._staging.add(batch.tables)
            self._records += batch.records
            self._rejects += batch.rejects

    def finish(self) -> StagedPart:
        """Stage the remaining rows and close the files."""
        batch = self._flattener.last()
        self._staging.add(batch.tables)
        self._staging.close()
        records, rejects = self._records + batch.records, (*self._rejects, *batch.rejects)
        return StagedPart(self._set_name, str(self._folder), records, rejects, tuple(batch.drift))

    def close(self) -> None:
        """Close the files, ignoring I/O errors."""
        self._staging.abandon()


def stage(set_name: str, bodies: Iterable[Landed], folder: Path) -> StagedPart:
    """Flatten and stage landed bodies of one set into `folder`."""
    part = PartInProgress(set_name, folder)
    try:
        for body in bodies:
            part.add(body)
        return part.finish()
    finally:
        part.close()


class Ingest:
    """Writes the bodies of a landing in progress, and stages their rows.

    `partial` is the landing's folder while it is written, `aside` an empty folder for staged rows.
    """

    def __init__(self, partial: Path, aside: Path) -> None:
        self._aside = aside
        self._bodies = BodyWriter(partial)
        self._parts: dict[tuple[str, int], PartInProgress] = {}
        # The type of the error that ended staging, if any. Flattening the landing from raw/ will report the cause.
        self.ended_by = ""

    def add(self, received: Received, content: bytes) -> None:
        """Write one body. Its rows are staged unless it is a search's: only the end shows which searches count."""
        self._bodies.add(received, content)
        if received.kind != "search" and not self.ended_by:
            with self._staging():
                self._part(received.set, received.walk).add(landed(received, content))

    def flush(self) -> Written:
        """Flush the bodies so far, so that they can be read."""
        return self._bodies.flush()

    def seal(self) -> Written:
        """Make the bodies durable. No more may be added."""
        return self._bodies.seal()

    def staged(self, landing: LandingFolder) -> list[StagedPart] | None:
        """Return the parts of a finished landing that count, in order; None if staging ended early."""
        if not self.ended_by:
            with self._staging():
                return list(self._counted(landing))
        return None

    def _counted(self, landing: LandingFolder) -> Iterator[StagedPart]:
        for name in SETS:
            walk = landing.manifest.walk(name)
            for number in walk.counted if walk else (1,):
                yield self._part(name, number).finish()
            if landing.manifest.found(name):
                yield stage(name, landing.bodies(name, "search"), self._aside / f"{name}-searches")

    def close(self) -> None:
        """Close all files, ignoring I/O errors."""
        self._bodies.close()
        self._close_parts()

    def _part(self, set_name: str, walk: int) -> PartInProgress:
        if (set_name, walk) not in self._parts:
            self._parts[set_name, walk] = PartInProgress(set_name, self._aside / f"{set_name}-{walk}")
        return self._parts[set_name, walk]

    def _close_parts(self) -> None:
        for part in self._parts.values():
            part.close()

    @contextmanager
    def _staging(self) -> Iterator[None]:
        """End staging at the first error."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - such as a full disk: only the bodies matter, and they are written
            self.ended_by = type(error).__name__
            self._close_parts()
