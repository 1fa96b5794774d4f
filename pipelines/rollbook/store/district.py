"""The fleet's own files, `fleet.duckdb` and `fleet-pseudonymous.duckdb`: stored next to the institutions' folders, and
published as `published` says.

`fleet` makes their content; here it is ensured that there is one builder at a time, and that an erasure can remove
every version.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import Timeout

from rollbook.errors import BusyError
from rollbook.store.published import (
    FLEET_FILE,
    FLEET_PSEUDONYMOUS,
    FOLDER,
    PSEUDONYMOUS_FOLDER,
    Versions,
    remove,
    unwritten,
)
from rollbook.util import files

FLEET_BUILD, LOCK = "_build", "lock"
# Seconds. A build of a large fleet takes minutes; an erasure waits for it, so that none of its versions is missed.
WAIT_FOR_BUILD = 900.0
# The page about all institutions, beside their folders.
FLEET_REPORT = "fleet-report.html"


class FleetFile:
    """One file of a fleet: `fleet` is the fleet's folder."""

    def __init__(self, fleet: Path, *, pseudonymous: bool = False) -> None:
        name, folder = (FLEET_PSEUDONYMOUS, PSEUDONYMOUS_FOLDER) if pseudonymous else (FLEET_FILE, FOLDER)
        self.is_pseudonymous = pseudonymous
        self.root = fleet.parent
        self.path = self.root / name
        self.build = fleet / FLEET_BUILD
        self.next = self.build / ("next-pseudonymous.duckdb" if pseudonymous else "next.duckdb")
        self.scratch = self.build / "spill"
        # Written by the tasks of an engine: a file for each institution.
        self.work = self.build / ("parts-pseudonymous" if pseudonymous else "parts")
        self.versions = Versions(self.root, files.PRIVATE_FILE, files.PRIVATE_FOLDER, name=name, folder=folder)

    def part(self, name: str) -> Path:
        """The file of one institution's rows."""
        return self.work / f"{name}.duckdb"

    @contextmanager
    def building(self, timeout: float = 0.0) -> Iterator[None]:
        """Hold the fleet's build lock. Raises BusyError if another process holds it for `timeout` seconds."""
        files.folder(self.build)
        try:
            with files.Lock(self.build / LOCK, timeout=timeout):
                yield
        except Timeout:
            raise BusyError(
                f"Another process is making {FLEET_FILE}: wait until it is done, then run this again. Readers keep the"
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
        self.versions.mode, self.versions.folder_mode = unwritten(mode), files.folder_mode(mode)
        self.versions.prepare()
        self.versions.retire(leaving=0)
        self.versions.activate(self.versions.add(self.next))

    def remove(self) -> int:
        """Remove every version, and the inputs of an unfinished build; returns how many versions there were.

        Raises BusyError if a build does not end within WAIT_FOR_BUILD.
        """
        if not self.path.is_symlink() and not self.path.exists() and not self.build.exists():
            return 0
        with self.building(timeout=WAIT_FOR_BUILD):
            self.sweep()
            return self.versions.clear()
