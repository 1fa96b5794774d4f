"""The writer lock (G14): an advisory file lock, and a note that says which process holds it."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout

from pipelines import files
from pipelines.errors import BusyError

log = logging.getLogger(__name__)

# How long a second writer waits for the lock.
WAIT_SECONDS = 900.0


@contextmanager
def writer_lock(build: Path, now: datetime) -> Iterator[None]:
    """Hold the writer lock. Raises BusyError if another writer holds it for more than WAIT_SECONDS.

    The lock is the operating system's; a killed writer leaves none behind.
    """
    path = build / "writer.lock"
    lock = FileLock(path, mode=files.PRIVATE_FILE)
    note = path.with_name("writer.txt")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        log.warning("Waiting for another writer to finish (%s)", _who(note))
        try:
            lock.acquire(timeout=WAIT_SECONDS)
        except Timeout:
            raise BusyError(f"Another sync is still writing ({_who(note)}). Try again when it is done") from None
    try:
        with suppress(OSError):  # the sync itself reports a full disk, after its sweep
            note.write_text(f"process {os.getpid()} since {now:%Y-%m-%d %H:%M:%S} UTC")
            note.chmod(files.PRIVATE_FILE)
        yield
    finally:
        lock.release()


def _who(note: Path) -> str:
    try:
        return note.read_text()
    except OSError:
        return "just started"
