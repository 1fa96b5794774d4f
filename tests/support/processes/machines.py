"""Real faults of a machine: a small disk that fills up, a read-only disk, an account that may not write.

The small disk is a tmpfs, which only root can mount; for other accounts the tests are skipped, and say so.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

MB = 1_000_000
NOBODY = 65534


class Disk:
    """A small disk. `full` fills the disk up to some bytes; `read_only` mounts the disk read-only."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    @property
    def free(self) -> int:
        stat = os.statvfs(self.path)
        return stat.f_bavail * stat.f_frsize

    def fill(self, leave: int = 0) -> None:
        """Fill the disk up to so many bytes."""
        with self._ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(self.free - leave, 1))

    def empty(self) -> None:
        """Free the disk again."""
        self._ballast.unlink(missing_ok=True)

    @contextmanager
    def full(self, leave: int = 0) -> Iterator[None]:
        self.fill(leave)
        try:
            yield
        finally:
            self.empty()

    @contextmanager
    def read_only(self) -> Iterator[None]:
        _mount("-o", "remount,ro", str(self.path))
        try:
            yield
        finally:
            _mount("-o", "remount,rw", str(self.path))


@contextmanager
def disk(size: int = 64 * MB) -> Iterator[Disk]:
    """A disk of so many bytes, mounted for as long as the block lasts."""
    if os.getuid() != 0:
        pytest.skip("a small disk takes root to mount: run these tests as root to have them run")
    with tempfile.TemporaryDirectory() as root:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "rollbook-test", root],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            pytest.skip(f"a small disk cannot be mounted here ({done.stderr.strip()}), though this is root")
        try:
            yield Disk(Path(root))
        finally:
            subprocess.run(["umount", "--lazy", root], check=True)


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, capture_output=True)


# --- another process -------------------------------------------------------------------------------------------------


def as_nobody() -> None:
    """Become an account that owns nothing."""
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def in_another_process(work: Callable[[], Any], *, first: Callable[[], None] = lambda: None) -> Any:
    """Do some work in a forked process, after `first`; returns the result, or the exception."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(work, first, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        if not ours.poll(60):
            raise TimeoutError("the other process did not answer")
        return ours.recv()
    finally:
        process.join(5)
        if process.is_alive():
            process.kill()
            process.join()


def _work(work: Callable[[], Any], first: Callable[[], None], results: Connection) -> None:
    try:
        first()
        result = work()
    except BaseException as error:  # noqa: BLE001 - the error is what the test is about
        result = error
        result.__cause__ = result.__context__ = None
        if not hasattr(error, "message"):
            result = RuntimeError("".join(traceback.format_exception(error)))
    results.send(result)
    results.close()


# --- what files there are -----------------------------------------------------------------------------------------------


def open_below(root: Path) -> list[str]:
    """The files below a folder that this process has open."""
    rows = []
    for fd in Path("/proc/self/fd").iterdir():
        try:
            target = str(fd.readlink())
        except OSError:  # the descriptor of the listing itself
            continue
        if target.startswith(f"{root}/"):
            rows.append(target)
    return sorted(rows)


def reached(warehouse: Path, bit: int) -> set[str]:
    """The files and folders which anybody (0o004) or the group (0o040) can open: all folders on the way let them in."""
    open_files = set()
    for path in (p for p in warehouse.rglob("*") if p.is_file()):
        real = path.resolve()
        above = [p for p in real.parents if p == warehouse or warehouse in p.parents]
        if real.stat().st_mode & bit and all(p.stat().st_mode & bit >> 2 for p in above):
            open_files.add(path.relative_to(warehouse).parts[0])
    return open_files


def left_over(warehouse: Path) -> list[str]:
    """The files in a warehouse that a finished sync would not leave there."""
    build = warehouse / "build"
    expected = {"writer.lock", "writer.txt", "mirror.json", "alerts.json", "alerts.lock"}
    expected |= {"spill", "stage", "day", "delta", "lake", "altered"}
    paths = [p for p in build.iterdir() if p.name not in expected] if build.is_dir() else []
    for folder in ("spill", "stage", "day", "delta", "lake"):
        paths += [p for p in (build / folder).rglob("*") if p.is_file()]
    paths += [p for p in warehouse.rglob("*") if p.name.endswith((".partial", ".wal", ".tmp"))]
    return sorted(str(p.relative_to(warehouse)) for p in paths)
