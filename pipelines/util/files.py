"""Crash-safe private files (G12): write to a temporary name, fsync, rename, fsync the folder.

Nothing here knows what the files contain.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import file_digest
from pathlib import Path
from typing import IO, Generic, TypeVar

from filelock import FileLock, Timeout

T = TypeVar("T")

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700

# The suffix of half-written files. No reader's glob matches it, and the next writer removes them.
PARTIAL = ".partial"

# A process's temporary folder, and the lock in it that shows whether the process still runs.
ASIDE, LOCK = "aside-", "lock"
# Raised when another process removes the folder while its lock file is being locked.
_REMOVED = (FileNotFoundError, FileExistsError)


def keep_private(home: str | None) -> None:
    """Make new files of this process and its children, and Dagster's `home`, accessible to the owner only.

    Every entry point calls this first: the command, the code location, the UI. Dagster leaves its databases and logs
    world-readable; closing their folder also protects files that exist already.
    """
    os.umask(0o077)
    if home and Path(home).is_absolute():
        with suppress(OSError):  # missing, or another account's: `rollbook doctor` reports both
            Path(home).chmod(PRIVATE_FOLDER)


def folder(path: Path, mode: int = PRIVATE_FOLDER) -> Path:
    """Create a folder and its parents, accessible to the owner only unless `mode` says otherwise."""
    if not path.is_dir():
        folder(path.parent)
        path.mkdir(exist_ok=True)
        path.chmod(mode)
    return path


def folder_mode(mode: int) -> int:
    """Return the mode for the folders above a file of this mode: every reader must be able to enter them."""
    return mode | (mode & 0o444) >> 2 | PRIVATE_FOLDER


def names(path: Path | str) -> list[str]:
    """Return the names in a folder; none if it is missing. Takes a tenth of the time of `Path.glob`."""
    try:
        return os.listdir(path)  # noqa: PTH208 - only the names are needed
    except (FileNotFoundError, NotADirectoryError):
        return []


class Decoded(Generic[T]):
    """A cache of decoded small files, invalidated when a file's inode, modification time or size changes.

    Only for files that are replaced as a whole, as all files here are.
    """

    def __init__(self, decode: Callable[[bytes], T]) -> None:
        self._decode = decode
        self._known: dict[str, tuple[tuple[int, int, int], T]] = {}

    def read(self, path: str) -> T:
        """Return the decoded file, from the cache if it is unchanged. Raises OSError, and any error of `decode`."""
        with open(path, "rb") as file:  # noqa: PTH123 - thousands a night: a str costs a tenth of a Path
            stat = os.fstat(file.fileno())
            same = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
            known = self._known.get(path)
            if known is not None and known[0] == same:
                return known[1]
            decoded = self._decode(file.read())
        self._known[path] = same, decoded
        return decoded


def sync(path: Path) -> None:
    """Flush a file's content, or a folder's list of names, to disk (fsync)."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextmanager
def replacing(path: Path, mode: int = PRIVATE_FILE) -> Iterator[Path]:
    """Yield a temporary path to write to; if the block succeeds, that file replaces `path` atomically and durably.

    A crash at any moment leaves either the old file or the new one.
    """
    aside = path.with_name(f".{path.name}{PARTIAL}")
    try:
        yield aside
        aside.chmod(mode)
        sync(aside)
        aside.replace(path)
        sync(path.parent)
    finally:
        aside.unlink(missing_ok=True)


@contextmanager
def handing_out(path: Path) -> Iterator[IO[bytes]]:
    """Yield a file to write to; if the block succeeds, it replaces `path` atomically and durably.

    For folders that other accounts may write to: the temporary name is unpredictable, no existing file is opened, and
    only the owner can ever read the file. A link at `path` is replaced, not followed.
    """
    with tempfile.NamedTemporaryFile(prefix=".rollbook-", suffix=PARTIAL, dir=path.parent, delete=False) as file:
        aside = Path(file.name)
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            aside.replace(path)
            sync(path.parent)
        finally:
            aside.unlink(missing_ok=True)


@contextmanager
def aside(within: Path) -> Iterator[Path]:
    """Yield a private temporary folder; removed when the block ends, even by an exception.

    `sweep_aside` removes the folders of killed processes, whose locks are free. If this account may not write to
    `within`, the folder is made in the system's temporary folder instead.
    """
    place = within if os.access(within, os.W_OK | os.X_OK) else None
    while True:
        made = Path(tempfile.mkdtemp(prefix=ASIDE, dir=place))
        lock = FileLock(made / LOCK, mode=PRIVATE_FILE)
        with suppress(*_REMOVED):  # a sweep removed the folder before it was locked
            lock.acquire()
            break
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
        lock.release()


def sweep_aside(within: Path) -> None:
    """Remove the `aside` folders of killed processes, not those of running ones."""
    for left in within.glob(f"{ASIDE}*"):
        with suppress(Timeout, *_REMOVED), FileLock(left / LOCK, timeout=0):  # in use, or already gone
            shutil.rmtree(left, ignore_errors=True)


def write(path: Path, content: bytes, mode: int = PRIVATE_FILE) -> None:
    """Write a whole file atomically and durably; on an error the old one stays."""
    with replacing(path, mode) as aside:
        aside.write_bytes(content)


def empty(path: Path) -> Path:
    """Create a private folder, or empty it; returns its path."""
    shutil.rmtree(path, ignore_errors=True)
    return folder(path)


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
