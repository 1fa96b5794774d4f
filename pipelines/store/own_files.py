"""Which database files Rollbook wrote, and whether they are still as it wrote them.

An analyst may open the published file for writing, a backup may put another one in its place, a disk may cut it short.
The writer builds on no such file. What it wrote is noted in `build/versions.json`: the size, the time and the inode,
which cost nothing to compare, and the digest, for a file that was only copied or moved.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from pipelines import files
from pipelines.store.versions import target

FILE = "versions.json"
# More than are ever kept; a file that is older than these was deleted long ago.
REMEMBERED = 12


class OwnFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file as it was written. `mtime` is in nanoseconds; `sha256` is None until the file was read for it."""

    size: int
    mtime: int
    inode: int
    sha256: str | None


class OwnFiles:
    """What is noted of the database files of one warehouse."""

    def __init__(self, build: Path) -> None:
        self.path = build / FILE

    @property
    def is_there(self) -> bool:
        """Whether anything was ever noted; a warehouse made by an earlier Rollbook has no notes."""
        return self.path.exists()

    def forget(self, path: Path) -> None:
        """Stop vouching for a file that turned out to be damaged although its size and time are unchanged."""
        if path.is_file():
            inode = path.stat().st_ino
            digests = {v.sha256 for v in self._load() if v.inode == inode and v.sha256}
            self._save(v for v in self._load() if v.inode != inode and v.sha256 not in digests)

    def forget_all(self) -> None:
        """Stop vouching for every file: none that was written so far may be built on."""
        self._save(())

    def note(self, *paths: Path, unread: bool = False) -> None:
        """Note files as they are now: Rollbook wrote them, and vouches for what is in them.

        `unread` leaves the digests for the next note of these files, or the next writer: that takes reading them.
        """
        self._save([*self._load(), *(_described(path, None if unread else files.digest(path)) for path in paths)])

    def recognises(self, path: Path, *, noting: bool = True) -> bool:
        """Whether a file is there and is what Rollbook wrote, byte for byte.

        A copied or moved file is noted, so that the next check is cheap, unless `noting` is false: only a writer may.
        """
        file = target(path)
        if file is None or _has_wal(path) or _has_wal(file):
            return False
        known = self._load()
        stat = path.stat()
        same = [v for v in known if (v.size, v.mtime, v.inode) == (stat.st_size, stat.st_mtime_ns, stat.st_ino)]
        if same:
            if noting and not any(v.sha256 for v in same):
                self.note(path)
            return True
        if stat.st_size not in {v.size for v in known}:
            return False
        found = _described(path, files.digest(path))
        if found.sha256 not in {v.sha256 for v in known}:
            return False
        if noting:
            self._save([*known, found])
        return True

    def _load(self) -> list[OwnFile]:
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=list[OwnFile])
        except (OSError, msgspec.DecodeError):
            return []

    def _save(self, versions: Iterable[OwnFile]) -> None:
        latest = list({(v.inode, v.mtime): v for v in versions}.values())[-REMEMBERED:]
        files.write(self.path, msgspec.json.encode(latest))


def _described(path: Path, sha256: str | None) -> OwnFile:
    stat = path.stat()
    return OwnFile(size=stat.st_size, mtime=stat.st_mtime_ns, inode=stat.st_ino, sha256=sha256)


def _has_wal(path: Path) -> bool:
    """Whether somebody wrote to a database and did not finish: what is in the log belongs to its content."""
    wal = path.with_name(f"{path.name}.wal")
    return wal.is_file() and wal.stat().st_size > 0
