"""Recognises the database files that this warehouse wrote, if they are unchanged.

An analyst may open the published file for writing, a restore may replace it, a disk may truncate it. The writer never
builds on such a file. Each file ends with a mark, after what DuckDB reads: how many students had been erased when the
file was written, and a keyed digest of everything before it. So a file of any age is recognised wherever it was copied
to, and one that was edited, cut short or written by another warehouse is not.

The key is the warehouse's own, in `private/erasures/` (`landing.erased`). Without it, no file can be proven to be ours.
"""

from __future__ import annotations

import hmac
import os
import shutil
from pathlib import Path

from pipelines.landing.erased import Memory
from pipelines.store.published.versions import target

# The mark: the number of erasures (big-endian), and the HMAC-SHA-256.
_NUMBER, _DIGEST = 8, 32
_MARK = _NUMBER + _DIGEST
_CHUNK = 1 << 20


class OwnFiles:
    """The files of one warehouse."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        # Whether a file is ours, by its inode, modification time and size: a large file takes a while to read.
        self._known: dict[tuple[int, int, int], bool] = {}

    def mark(self, file: Path) -> None:
        """Mark a finished file that has no mark yet. The first time, this makes the warehouse's key."""
        if not self.memory.read().key:
            self.memory.write(self.memory.begun())
        remembered = self.memory.read()
        with file.open("ab") as opened:
            opened.write(len(remembered.erased).to_bytes(_NUMBER, "big"))
        with file.open("ab") as opened:
            opened.write(_digest(file, bytes.fromhex(remembered.key), file.stat().st_size))

    def is_unmodified(self, path: Path) -> bool:
        """Whether a file is there and is what this warehouse wrote, byte for byte."""
        file = target(path)
        if file is None or _has_wal(path) or _has_wal(file):
            return False
        stat = file.stat()
        seen = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
        if seen not in self._known:
            self._known[seen] = self._is_marked(file, stat.st_size)
        return self._known[seen]

    def lacks_erasures(self, path: Path) -> bool:
        """Whether a file is ours and was written before the last erasure, so that it may hold an erased student."""
        erasures = self.memory.count
        if not erasures or (file := target(path)) is None or file.stat().st_size < _MARK:
            return False
        with file.open("rb") as opened:
            opened.seek(-_MARK, os.SEEK_END)
            number = int.from_bytes(opened.read(_NUMBER), "big")
        return number < erasures and self.is_unmodified(path)

    def copy(self, source: Path, copy: Path) -> None:
        """Copy a file, to be changed: without its mark, if it is ours."""
        shutil.copyfile(source, copy)
        if self.is_unmodified(source):
            os.truncate(copy, copy.stat().st_size - _MARK)

    def forget(self) -> None:
        """Read each file again before it is recognised: one of them is damaged."""
        self._known.clear()

    def _is_marked(self, file: Path, size: int) -> bool:
        key = bytes.fromhex(self.memory.read().key)
        if not key or size < _MARK:
            return False
        with file.open("rb") as opened:
            opened.seek(-_DIGEST, os.SEEK_END)
            mark = opened.read()
        return hmac.compare_digest(mark, _digest(file, key, size - _DIGEST))


def _digest(file: Path, key: bytes, length: int) -> bytes:
    """The keyed digest of a file's first `length` bytes."""
    digest = hmac.new(key, b"database file:", "sha256")
    with file.open("rb") as opened:
        while length > 0 and (piece := opened.read(min(length, _CHUNK))):
            digest.update(piece)
            length -= len(piece)
    return digest.digest()


def _has_wal(path: Path) -> bool:
    """Whether a database has a non-empty write-ahead log: changes that are not in its file yet."""
    wal = path.with_name(f"{path.name}.wal")
    return wal.is_file() and wal.stat().st_size > 0
