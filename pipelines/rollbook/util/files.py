"""Crash-safe private files (G12): write to a temporary name, fsync, rename, fsync the folder.

Nothing here knows what the files contain. Missing features of a file system are reported with the name: a network share
may have no locks or no file modes, and may not replace a file that is open.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import file_digest
from pathlib import Path
from typing import IO, Any, Generic, TypeVar

from filelock import FileLock, Timeout

from rollbook.util import machine

log = logging.getLogger(__name__)

T = TypeVar("T")

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700

# The suffix of half-written files. No reader's glob matches this ending, and the next writer removes such files.
PARTIAL = ".partial"

# How the name of a half-written file begins that is handed out: such files stand in anybody's folder.
HANDED_OUT = ".rollbook-"

# A process's temporary folder, and the lock inside, which shows whether the process still runs.
ASIDE, LOCK = "aside-", "lock"
# Raised when another process removes the folder during the locking.
_REMOVED = (FileNotFoundError, FileExistsError)

# Errors of file systems without the requested feature.
_NOT_OFFERED = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL)
_NO_LOCKS = (*_NOT_OFFERED, errno.ENOLCK)
_NO_MODES = (*_NOT_OFFERED, errno.EPERM, errno.EACCES)
_NO_FOLDER_SYNC = (*_NOT_OFFERED, errno.EPERM, errno.EACCES, errno.EBADF, errno.EISDIR)
# Errors of a network share while another program has the file open, and how long to wait before each new try (s).
_IN_USE = (errno.EBUSY, errno.ETXTBSY, errno.EPERM, errno.EACCES)
RETRY_WAITS = (0.1, 0.4, 1.5)
# The disks whose folders cannot be flushed, by their numbers: each is told once.
reported_disks: set[int] = set()


class Lock(FileLock):
    """The operating system's lock: a killed process leaves none behind. Only the owner may use the lock's file."""

    def __init__(self, path: Path, timeout: float = -1) -> None:
        super().__init__(path, timeout=timeout, mode=PRIVATE_FILE, fallback_to_soft=False)

    def acquire(self, *args: Any, **kwargs: Any) -> Any:
        """Lock. Raises Timeout, and NotOfferedError where the file system has no locks."""
        try:
            return super().acquire(*args, **kwargs)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            place = Path(self.lock_file).parent
            raise machine.NotOfferedError(
                error.errno,
                f"The file system of {place} ({machine.file_system(place)}) has no locks ({error.strerror}), so two"
                " processes could write at once. Mount it with locks (NFS: with its lock service), or keep that folder"
                " on a local disk",
            ) from None


def keep_private(home: str | None) -> None:
    """Make new files of this process and of children, and Dagster's `home`, accessible to the owner only.

    Every entry point does so first: the command, the code location, the UI. Dagster leaves its databases and logs
    world-readable; closing the folder also protects files that exist already.
    """
    os.umask(0o077)
    if home and Path(home).is_absolute():
        with suppress(OSError):  # missing, or another account's: `rollbook doctor` reports both
            Path(home).chmod(PRIVATE_FOLDER)


def folder(path: Path, mode: int = PRIVATE_FOLDER) -> Path:
    """Create a folder with the parents, accessible to the owner only unless `mode` says otherwise."""
    if not path.is_dir():
        folder(path.parent)
        path.mkdir(exist_ok=True)
        set_mode(path, mode)
    return path


def note_holder(lock: Path, says: str) -> None:
    """Note who holds a lock, in a file next to it, for `holder`."""
    note = lock.with_suffix(".txt")
    with suppress(OSError):  # what is locked for reports a full disk itself
        note.write_text(says, encoding="utf-8")
        set_mode(note, PRIVATE_FILE)


def holder(lock: Path) -> str:
    """Return who holds a lock, as noted."""
    try:
        return lock.with_suffix(".txt").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return "just started"


def set_mode(path: Path, mode: int) -> None:
    """Make a file or folder accessible to those whom `mode` lets in, and to nobody else.

    Some network shares refuse or ignore modes. If others could then read more than `mode` allows, raises
    NotOfferedError; if they can read less, that is all right.
    """
    try:
        path.chmod(mode)
    except OSError as error:
        if error.errno not in _NO_MODES or path.stat().st_uid != os.geteuid():
            raise
    if (current := stat.S_IMODE(path.stat().st_mode)) & 0o077 & ~mode:
        raise machine.NotOfferedError(
            errno.ENOTSUP,
            f"{path} cannot be made private: its file system ({machine.file_system(path)}) leaves it the mode"
            f" {current:03o}, so other accounts of this machine could read pupils' records. Mount it for this account"
            f" only (CIFS: uid={machine.account()},file_mode=0600,dir_mode=0700), or set ROLLBOOK_WAREHOUSE to a folder"
            " on another disk",
        )


def folder_mode(mode: int) -> int:
    """Return the mode for the folders above a file of a mode: every reader must be able to enter."""
    return mode | (mode & 0o444) >> 2 | PRIVATE_FOLDER


def names(path: Path | str) -> list[str]:
    """Return the names in a folder; none if the folder is missing. Takes a tenth of the time of `Path.glob`."""
    try:
        return os.listdir(path)  # noqa: PTH208 - only the names are needed
    except (FileNotFoundError, NotADirectoryError):
        return []


def identity(status: os.stat_result) -> tuple[int, int, int]:
    """What tells a file from one that replaced it: the inode, the modification time and the size."""
    return status.st_ino, status.st_mtime_ns, status.st_size


class Decoded(Generic[T]):
    """A cache of decoded small files, invalidated when a file's inode, modification time or size changes.

    Only for files that are replaced as a whole, as all files here are. `decode` gets the content and the path.
    """

    def __init__(self, decode: Callable[[bytes, str], T]) -> None:
        self._decode = decode
        self._known: dict[str, tuple[tuple[int, int, int], T]] = {}

    def read(self, path: str) -> T:
        """Return the decoded file, from the cache if unchanged. Raises OSError, and any error of `decode`."""
        with open(path, "rb") as file:  # noqa: PTH123 - thousands a night: a str costs a tenth of a Path
            same = identity(os.fstat(file.fileno()))
            cached = self._known.get(path)
            if cached is not None and cached[0] == same:
                return cached[1]
            decoded = self._decode(file.read(), path)
        self._known[path] = same, decoded
        return decoded


def sync(path: Path) -> None:
    """Flush a file's content, or a folder's list of names, to disk (fsync).

    Some network shares cannot flush a folder: that is a warning, once for each disk.
    """
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    except OSError as error:
        status = os.fstat(fd)
        if error.errno not in _NO_FOLDER_SYNC or not stat.S_ISDIR(status.st_mode):
            raise
        if status.st_dev not in reported_disks:
            reported_disks.add(status.st_dev)
            log.warning(
                "The file system of %s (%s) cannot flush a folder (%s): after a power failure, the newest files may be"
                " missing, and the next sync makes or fetches them again",
                *(path, machine.file_system(path), error.strerror),
            )
    finally:
        os.close(fd)


def move(source: Path, target: Path) -> Path:
    """Rename a file or folder, replacing a file at `target`; returns `target`.

    A network share may refuse while another program has the file open: the move is tried again for two seconds. Raises
    OSError, with EBUSY where only that explains the refusal.
    """
    waits = iter(RETRY_WAITS)
    while True:
        try:
            return source.replace(target)
        except OSError as error:
            if error.errno not in _IN_USE:
                raise
            if (wait := next(waits, None)) is None:
                ours = all(os.access(path.parent, os.W_OK | os.X_OK) for path in (source, target))
                raise OSError(errno.EBUSY if ours else error.errno, error.strerror, str(target)) from None
            time.sleep(wait)


@contextmanager
def replacing(path: Path, mode: int = PRIVATE_FILE) -> Iterator[Path]:
    """Yield a temporary path to write to; if the block succeeds, that file replaces `path` atomically and durably.

    A crash at any moment leaves either the old or the new file. The temporary file is new, so nothing is written
    through a link that another account has put there.
    """
    aside = path.with_name(f".{path.name}{PARTIAL}")
    aside.unlink(missing_ok=True)
    os.close(os.open(aside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE_FILE))
    try:
        yield aside
        set_mode(aside, mode)
        sync(aside)
        move(aside, path)
        sync(path.parent)
    finally:
        aside.unlink(missing_ok=True)


@contextmanager
def handing_out(path: Path) -> Iterator[IO[bytes]]:
    """Yield a file to write to; if the block succeeds, the file replaces `path` atomically and durably.

    For folders that other accounts may write to: the temporary name is unpredictable, no existing file is opened, and
    only the owner can ever read the file. A link at `path` is replaced, not followed. What killed processes left in the
    folder is removed first.
    """
    sweep_handed_out(path.parent)
    with _opened_aside(path.parent) as file:
        aside = Path(file.name)
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            move(aside, path)
            sync(path.parent)
        finally:
            aside.unlink(missing_ok=True)


def _opened_aside(folder: Path) -> IO[bytes]:
    """Return a new temporary file, locked for as long as it is open: so `sweep_handed_out` knows that it is in use."""
    while True:
        file = tempfile.NamedTemporaryFile(prefix=HANDED_OUT, suffix=PARTIAL, dir=folder, delete=False)  # noqa: SIM115
        with suppress(OSError):  # a file system without locks: nobody sweeps there
            fcntl.flock(file, fcntl.LOCK_EX)
        if Path(file.name).exists():  # else a sweep removed it before the locking
            return file
        file.close()


def sweep_handed_out(folder: Path) -> None:
    """Remove the half-written files that killed processes left in a folder, not those of running processes."""
    for name in names(folder):
        if name.startswith(HANDED_OUT) and name.endswith(PARTIAL):
            with suppress(OSError):  # in use, another account's, already gone, or on a file system without locks
                _remove_unlocked(folder / name)


def _remove_unlocked(path: Path) -> None:
    fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
    finally:
        os.close(fd)


@contextmanager
def aside(within: Path) -> Iterator[Path]:
    """Yield a private temporary folder; removed when the block ends, even by an exception.

    `sweep_aside` removes the folders of killed processes, whose locks are free. If this account may not write to
    `within`, the folder is made in the system's temporary folder instead.
    """
    place = within if os.access(within, os.W_OK | os.X_OK) else None
    while True:
        folder = Path(tempfile.mkdtemp(prefix=ASIDE, dir=place))
        lock = Lock(folder / LOCK)
        with suppress(*_REMOVED):  # a sweep removed the folder before the locking
            lock.acquire()
            break
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        lock.release()


def sweep_aside(within: Path) -> None:
    """Remove the `aside` folders of killed processes, not of running processes."""
    for left in within.glob(f"{ASIDE}*"):
        with suppress(Timeout, *_REMOVED), Lock(left / LOCK, timeout=0):  # in use, or already gone
            shutil.rmtree(left, ignore_errors=True)


def write(path: Path, content: bytes, mode: int = PRIVATE_FILE) -> None:
    """Write a whole file atomically and durably; on an error the old file stays."""
    with replacing(path, mode) as aside:
        aside.write_bytes(content)


def empty(path: Path) -> Path:
    """Create a private folder, or empty the folder; returns the path."""
    shutil.rmtree(path, ignore_errors=True)
    return folder(path)


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
