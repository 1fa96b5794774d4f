"""One request at a time to a host, across all institutions of a registry and all their processes.

A single school needs no gate: its client sends one request at a time, and its writer lock admits one process.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from filelock import FileLock

from pipelines import files

# How often a waiting process tries the lock again. A page takes a service tens of milliseconds.
POLL_SECONDS = 0.01


class Gate:
    """Lets one process at a time send a request to a host; it holds the lock during the pause before its request, too.

    The lock is the operating system's: a killed process leaves none behind. `pause` is the time in seconds from the end
    of one request to this host, from any process, to the next.
    """

    def __init__(self, folder: Path, host: str, pause: float = 0.0) -> None:
        """`folder` holds one file per host, named after a digest of the host name."""
        files.folder(folder)
        self.pause = pause
        self._path = folder / f"{sha256(host.casefold().encode()).hexdigest()[:24]}.lock"
        self._lock = FileLock(self._path, mode=files.PRIVATE_FILE)

    @contextmanager
    def request(self) -> Iterator[None]:
        """Wait until the host is free and the pause is over, then hold the lock for the length of the block."""
        with self._lock.acquire(poll_interval=POLL_SECONDS):
            since = time.time() - self._path.stat().st_mtime
            time.sleep(min(max(self.pause - since, 0.0), self.pause))
            try:
                yield
            finally:
                os.utime(self._path)  # the next process reads when the last request ended
