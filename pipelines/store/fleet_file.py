"""The fleet's own files, `fleet.duckdb` and `fleet-pseudonymous.duckdb`: where their versions are, and who may make or
remove them.

They lie beside the institutions' folders, and each is a link to its newest version, as an institution's own files are.
What is in them is made in `fleet`; here is what must not wait for that: one builder at a time, and no version that
holds a student who was erased.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from pipelines import files
from pipelines.errors import BusyError
from pipelines.store.versions import FOLDER, PSEUDONYMOUS_FOLDER, Versions

FILE, PSEUDONYMOUS = "fleet.duckdb", "fleet-pseudonymous.duckdb"
BUILD, LOCK = "_build", "lock"
# Seconds. A build of a large fleet takes minutes; an erasure waits for it, so that none of its versions is missed.
WAIT_FOR_BUILD = 900.0


class FleetFile:
    """One file of a fleet: `fleet` is the fleet's folder."""

    def __init__(self, fleet: Path, *, pseudonymous: bool = False) -> None:
        name, folder = (PSEUDONYMOUS, PSEUDONYMOUS_FOLDER) if pseudonymous else (FILE, FOLDER)
        self.is_pseudonymous = pseudonymous
        self.root = fleet.parent
        self.path = self.root / name
        self.build = fleet / BUILD
        self.next = self.build / ("next-pseudonymous.duckdb" if pseudonymous else "next.duckdb")
        # What the next version is made of: one folder a table, one Parquet file an institution.
        self.sources = self.build / ("pseudonymous" if pseudonymous else "links")
        self.scratch = self.build / "spill"
        self.rollups = self.build / ("rollups-pseudonymous" if pseudonymous else "rollups")
        self.lakes, self.histories = self.build / "lakes", self.build / "histories"
        self.versions = Versions(self.root, files.PRIVATE_FILE, files.PRIVATE_FOLDER, name=name, folder=folder)

    @contextmanager
    def building(self, timeout: float = 0.0) -> Iterator[None]:
        """Be the one who makes or removes files of this fleet. Raises BusyError when another process is at it."""
        files.folder(self.build)
        try:
            with FileLock(self.build / LOCK, timeout=timeout, mode=files.PRIVATE_FILE):
                yield
        except Timeout:
            raise BusyError(
                f"Another process is making {FILE}: wait until it is done, then run this again. What readers have stays"
            ) from None

    def sweep(self) -> None:
        """Remove what a killed build left half-done."""
        for leftover in (self.next, self.next.with_name(f"{self.next.name}.wal")):
            leftover.unlink(missing_ok=True)
        for folder in (self.sources, self.scratch, self.rollups, self.lakes, self.histories):
            files.empty(folder)
        self.versions.sweep()

    def publish(self, mode: int) -> None:
        """Lead readers to the next version, and let those read it whom `mode` lets.

        The one before stays until the next build, for who is just opening it.
        """
        self.versions.mode, self.versions.folder_mode = mode, files.folder_mode(mode)
        self.versions.prepare()
        self.versions.retire(leaving=0)
        self.versions.show(self.versions.add(self.next))

    def clear(self) -> int:
        """Remove every version of it; returns how many there were. For the one who makes or removes files."""
        found = self.versions.all()
        if found or self.path.is_symlink() or self.path.exists():
            self.versions.clear()
        return len(found)

    def remove(self) -> int:
        """Remove every version of it, and whatever a build under way has read; returns how many versions there were.

        Raises BusyError where a build does not end.
        """
        if not self.path.is_symlink() and not self.path.exists() and not self.build.exists():
            return 0
        with self.building(timeout=WAIT_FOR_BUILD):
            self.sweep()
            return self.clear()


def remove_all(fleet: Path) -> int:
    """Remove every version of both files; returns how many there were. Raises BusyError."""
    return sum(FleetFile(fleet, pseudonymous=p).remove() for p in (False, True))
