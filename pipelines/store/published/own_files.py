"""Recognises the database files that Rollbook wrote, if they are unchanged.

An analyst may open the published file for writing, a restore may replace it, a disk may truncate it. The writer never
builds on such a file. `build/versions.json` lists what Rollbook wrote: size, mtime and inode, which are cheap to
compare, and the digest, for a file that was only copied or moved.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from pipelines import files
from pipelines.store.published.versions import target

FILE = "versions.json"
# More versions than are ever kept: older files were deleted long ago.
REMEMBERED = 12


class OwnFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file as written. `mtime` is in nanoseconds; `sha256` is None until it is computed."""

    size: int
    mtime: int
    inode: int
    sha256: str | None


class OwnFiles:
    """The notes about the database files of one warehouse."""

    def __init__(self, build: Path) -> None:
        self.path = build / FILE

    @property
    def is_there(self) -> bool:
        """Whether there are notes; a warehouse made by an earlier Rollbook has none."""
        return self.path.exists()

    def forget(self, path: Path) -> None:
        """Stop recognising a file that is damaged although its size and time are unchanged."""
        if path.is_file():
            inode = path.stat().st_ino
            digests = {v.sha256 for v in self._load() if v.inode == inode and v.sha256}
            self._save(v for v in self._load() if v.inode != inode and v.sha256 not in digests)

    def forget_all(self) -> None:
        """Stop recognising every file written so far."""
        self._save(())

    def note(self, *paths: Path, unread: bool = False) -> None:
        """Record files as written by Rollbook, as they are now.

        `unread` leaves the digests, which need a full read, to the next note of these files or the next writer.
        """
        self._save([*self._load(), *(_described(path, None if unread else files.digest(path)) for path in paths)])

    def recognises(self, path: Path, *, noting: bool = True) -> bool:
        """Whether a file is there and is what Rollbook wrote, byte for byte.

        A copied or moved file is noted, so that the next check is cheap. Only a writer may note: others pass
        `noting=False`.
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
    """Whether a database has a non-empty write-ahead log: changes that are not in its file yet."""
    wal = path.with_name(f"{path.name}.wal")
    return wal.is_file() and wal.stat().st_size > 0
