"""The district's own files, `district.duckdb` and `district-pseudonymous.duckdb`: stored next to the institutions'
folders, and published as `published` says.

`district` makes their content; here it is ensured that there is one builder at a time, and that an erasure can remove
every version.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import Timeout

from rollbook.errors import BusyError
from rollbook.store.published import (
    DISTRICT_FILE,
    DISTRICT_PSEUDONYMOUS,
    FOLDER,
    PSEUDONYMOUS_FOLDER,
    Versions,
    remove,
    unwritten,
)
from rollbook.util import files

DISTRICT_BUILD, LOCK = "_build", "lock"
# Seconds. A build of a large district takes minutes; an erasure waits for it, so that none of its versions is missed.
WAIT_FOR_BUILD = 900.0
# The page about all institutions, beside their folders.
DISTRICT_REPORT = "district-report.html"


class DistrictFile:
    """One file of a district: `district` is the district's folder."""

    def __init__(self, district: Path, *, pseudonymous: bool = False) -> None:
        name, folder = (DISTRICT_PSEUDONYMOUS, PSEUDONYMOUS_FOLDER) if pseudonymous else (DISTRICT_FILE, FOLDER)
        self.is_pseudonymous = pseudonymous
        self.root = district.parent
        self.path = self.root / name
        self.build = district / DISTRICT_BUILD
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
        """Hold the district's build lock. Raises BusyError if another process holds it for `timeout` seconds."""
        files.folder(self.build)
        try:
            with files.Lock(self.build / LOCK, timeout=timeout):
                yield
        except Timeout:
            raise BusyError(
                f"Another process is making {DISTRICT_FILE}: wait until it is done, then run this again. Readers keep"
                " the present file"
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
