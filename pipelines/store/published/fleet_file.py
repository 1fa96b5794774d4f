"""The fleet's own files, `fleet.duckdb` and `fleet-pseudonymous.duckdb`: their paths, versions and build lock.

They are stored beside the institutions' folders, and each is a link to its newest version, like an institution's own
files. `fleet` makes their content; this module ensures that there is one builder at a time, and that an erasure can
remove every version.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from pipelines import files
from pipelines.errors import BusyError
from pipelines.store.published.clean_copy import remove
from pipelines.store.published.versions import FOLDER, PSEUDONYMOUS_FOLDER, Versions

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
        self.scratch = self.build / "spill"
        # What an engine reads and writes: one folder per table.
        self.work = self.build / ("work-pseudonymous" if pseudonymous else "work")
        self.sources, self.rollups = self.work / "tables", self.work / "rollups"
        self.versions = Versions(self.root, files.PRIVATE_FILE, files.PRIVATE_FOLDER, name=name, folder=folder)

    @contextmanager
    def building(self, timeout: float = 0.0) -> Iterator[None]:
        """Hold the fleet's build lock. Raises BusyError if another process holds it for `timeout` seconds."""
        files.folder(self.build)
        try:
            with FileLock(self.build / LOCK, timeout=timeout, mode=files.PRIVATE_FILE):
                yield
        except Timeout:
            raise BusyError(
                f"Another process is making {FILE}: wait until it is done, then run this again. Readers keep the"
                " present file"
            ) from None

    def sweep(self) -> None:
        """Remove what a killed build left half-done."""
        remove(self.next)
        for folder in (self.work, self.scratch):
            files.empty(folder)
        self.versions.sweep()

    def publish(self, mode: int) -> None:
        """Point readers to the next version, with the file mode `mode`.

        The version before it stays until the next build, for readers that are just opening it.
        """
        self.versions.mode, self.versions.folder_mode = mode, files.folder_mode(mode)
        self.versions.prepare()
        self.versions.retire(leaving=0)
        self.versions.show(self.versions.add(self.next))

    def clear(self) -> int:
        """Remove every version; returns how many there were. Requires the build lock."""
        found = self.versions.all()
        if found or self.path.is_symlink() or self.path.exists():
            self.versions.clear()
        return len(found)

    def remove(self) -> int:
        """Remove every version, and the inputs of an unfinished build; returns how many versions there were.

        Raises BusyError if a build does not end within WAIT_FOR_BUILD.
        """
        if not self.path.is_symlink() and not self.path.exists() and not self.build.exists():
            return 0
        with self.building(timeout=WAIT_FOR_BUILD):
            self.sweep()
            return self.clear()


def remove_all(fleet: Path) -> int:
    """Remove every version of both files; returns how many there were. Raises BusyError."""
    return sum(FleetFile(fleet, pseudonymous=p).remove() for p in (False, True))
