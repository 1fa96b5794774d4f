"""The fleet's database file, `fleet.duckdb`: where its versions are, and who may make or remove it.

It lies beside the institutions' folders and is a link to the newest version, as an institution's own file is. What is
in it is made in `fleet`; here is what must not wait for that: one builder at a time, and no version that holds a
student who was erased.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from pipelines import files
from pipelines.errors import BusyError
from pipelines.store.versions import FOLDER, Versions

FILE = "fleet.duckdb"
BUILD, LOCK = "_build", "lock"
# Seconds. A build of a large fleet takes minutes; an erasure waits for it, so that none of its versions is missed.
WAIT_FOR_BUILD = 900.0


class FleetFile:
    """The file of one fleet: `fleet` is its folder, `mode` that of the next version."""

    def __init__(self, fleet: Path, mode: int = files.PRIVATE_FILE) -> None:
        self.root = fleet.parent
        self.path = self.root / FILE
        self.build = fleet / BUILD
        self.next = self.build / "next.duckdb"
        self.links = self.build / "links"
        self.scratch = self.build / "spill"
        self.rollups = self.build / "rollups"
        self.lakes = self.build / "lakes"
        self.histories = self.build / "histories"
        self.versions = Versions(self.root, mode, files.folder_mode(mode), name=FILE, folder=FOLDER)

    @contextmanager
    def building(self, timeout: float = 0.0) -> Iterator[None]:
        """Be the one who makes or removes the file. Raises BusyError when another process is at it."""
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
        for folder in (self.links, self.scratch, self.rollups, self.lakes, self.histories):
            files.empty(folder)
        self.versions.sweep()

    def publish(self) -> None:
        """Lead readers to the next version. The one before stays until the next build, for who is just opening it."""
        self.versions.prepare()
        self.versions.retire(leaving=0)
        self.versions.show(self.versions.add(self.next))

    def remove(self) -> int:
        """Remove every version of it, and whatever a build under way has read; returns how many versions there were.

        Raises BusyError where a build does not end.
        """
        if not self.path.is_symlink() and not self.path.exists() and not self.build.exists():
            return 0
        with self.building(timeout=WAIT_FOR_BUILD):
            self.sweep()
            found = self.versions.all()
            self.versions.clear()
        return len(found)
