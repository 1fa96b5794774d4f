"""Files that survive a crash: written aside, fsynced, renamed, the folder fsynced; the owner's alone (G12).

What is in the files is the business of those who write them.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import file_digest
from pathlib import Path
from typing import IO

from filelock import FileLock, Timeout

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700

# Half-written files carry this ending; no reader's glob matches it, and the next writer sweeps them up.
PARTIAL = ".partial"

# A process's own folder for a while, and the lock in it that tells whether the process is still there.
ASIDE, LOCK = "aside-", "lock"


def keep_private(home: str | None) -> None:
    """From here on, what this process and its children make is the owner's alone, and so is Dagster's `home`.

    Every entry says so first: the command, the code location, the UI. Dagster by itself leaves its databases and logs
    open to all; in a folder that others cannot enter, older ones are out of reach, too.
    """
    os.umask(0o077)
    if home and Path(home).is_absolute():
        with suppress(OSError):  # no such folder, or another account's: both are for `rollbook doctor` to say
            Path(home).chmod(PRIVATE_FOLDER)


def folder(path: Path, mode: int = PRIVATE_FOLDER) -> Path:
    """Make a folder (and those above it) that only its owner enters, unless `mode` says otherwise."""
    if not path.is_dir():
        folder(path.parent)
        path.mkdir(exist_ok=True)
        path.chmod(mode)
    return path


def sync(path: Path) -> None:
    """Have the disk hold a file's content, or a folder's list of names."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextmanager
def replacing(path: Path, mode: int = PRIVATE_FILE) -> Iterator[Path]:
    """Yield a name to write to; when the block ends well, that file takes the place of `path` at once and durably.

    A crash at any instant leaves either the old file or the new one.
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
    """Yield a file to write to; when the block ends well, it takes the place of `path` at once and durably.

    For folders that others may write to as well: its name cannot be foreseen, nothing that was put there is opened, and
    it is the owner's alone from its first byte on. A link in the place of `path` is replaced, and not followed.
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
    """A private folder for what one process needs for a while; removed when the block ends, however it ends.

    What a killed process leaves is for `sweep_aside`: a folder whose lock nobody holds is nobody's. Where this account
    may only read, it is made in the system's temporary folder instead.
    """
    place = within if os.access(within, os.W_OK | os.X_OK) else None
    while True:
        made = Path(tempfile.mkdtemp(prefix=ASIDE, dir=place))
        lock = FileLock(made / LOCK, mode=PRIVATE_FILE)
        with suppress(FileNotFoundError):  # swept before it was locked
            lock.acquire()
            break
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
        lock.release()


def sweep_aside(within: Path) -> None:
    """Remove what killed processes left of their folders `aside`; those of living ones stay."""
    for left in within.glob(f"{ASIDE}*"):
        with suppress(Timeout, FileNotFoundError), FileLock(left / LOCK, timeout=0):  # held, or gone by now
            shutil.rmtree(left, ignore_errors=True)


def write(path: Path, content: bytes, mode: int = PRIVATE_FILE) -> None:
    """Write a whole file durably, or leave the old one."""
    with replacing(path, mode) as aside:
        aside.write_bytes(content)


def empty(path: Path) -> Path:
    """A private folder with nothing in it."""
    shutil.rmtree(path, ignore_errors=True)
    return folder(path)


def digest(path: Path) -> str:
    """The SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
