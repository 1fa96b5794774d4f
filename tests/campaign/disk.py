"""The disk under a simulation: at a chosen step of a writer, the disk does what disks do.

A step is a call that changes which files the next writer finds, or that makes a file durable. The power may fail before
a step, and then what was not made durable may be lost; the disk may be full, or broken, once or from then on; or what
was just made durable has another byte.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

STEPS = ("replace", "rename", "link", "symlink", "unlink", "rmdir", "fsync")
REAL: dict[str, Callable[..., Any]] = {name: getattr(os, name) for name in STEPS}
MOVES = ("replace", "rename", "link", "symlink")

# A trouble that may happen. The first two end the writer.
STOPPED, POWER_FAILS = "stopped", "power fails"
FULL, BROKEN, ANOTHER_BYTE = "full", "broken", "another byte"


class PowerFailedError(BaseException):
    """The machine stopped in the middle of a writer's work: no handler of the writer's may run to the end."""


@dataclass(frozen=True)
class Trouble:
    """The trouble at the first fitting step from `step` on; with `lasting`, also at all later steps."""

    what: str
    step: int
    random: Random
    lasting: bool = False


@dataclass
class Disk:
    """The disk of one warehouse at `root`. `look` is called after every step of a writer."""

    root: Path
    look: Callable[[], None]
    steps: int = 0
    struck: bool = False
    _trouble: Trouble | None = None
    _is_on: bool = False
    _stopped: bool = False
    # The durable files, by inode, modification time and size; and how to undo the moves that are not, by their folder.
    _durable: set[tuple[int, int, int]] = field(default_factory=set)
    _moves: list[tuple[int, Callable[[], None]]] = field(default_factory=list)
    _spoiled: tuple[Path, bytes] | None = None

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Let everything in this process use the disk."""
        with pytest.MonkeyPatch.context() as patch:
            for name in STEPS:
                patch.setattr(os, name, partial(self._step, name))
            yield

    @contextmanager
    def at_work(self, trouble: Trouble | None = None) -> Iterator[None]:
        """A writer works until the block ends, or until the power fails: then PowerFailedError is raised."""
        attic = self._attic()
        for left in attic.iterdir():
            REAL["unlink"](left)
        (attic / "began").touch()
        began = (attic / "began").stat().st_mtime_ns
        self._moves.clear()
        self.steps, self.struck, self._trouble, self._spoiled = 0, False, trouble, None
        self._is_on, self._stopped = True, False
        try:
            yield
        finally:
            self._is_on = False
            if self._stopped and trouble is not None and trouble.what == POWER_FAILS:
                self._lose(trouble.random, began)

    def mend(self) -> None:
        """The disk returns what was written."""
        if self._spoiled is not None:
            path, content = self._spoiled
            path.write_bytes(content)

    def _attic(self) -> Path:
        attic = self.root.parent / "attic"
        attic.mkdir(parents=True, exist_ok=True)
        return attic

    def _step(self, name: str, *arguments: Any, **named: Any) -> Any:
        if not self._is_on:
            return REAL[name](*arguments, **named)
        if self._stopped:
            raise PowerFailedError
        self.steps += 1
        if (
            self._trouble is not None
            and self.steps >= self._trouble.step
            and (self._trouble.lasting or not self.struck)
        ):
            self._strike(self._trouble, name, arguments[0])
        if name in MOVES and str(arguments[1]).startswith(str(self.root)):
            undo = self._undoing(name, Path(arguments[0]), Path(arguments[1]))
            REAL[name](*arguments, **named)
            self._moves.append((Path(arguments[1]).parent.stat().st_ino, undo))
        else:
            REAL[name](*arguments, **named)
        if name == "fsync":
            self._note_durable(arguments[0])
        self.look()
        return None

    def _strike(self, trouble: Trouble, name: str, what: Any) -> None:
        is_file = name == "fsync" and stat.S_ISREG(os.fstat(what).st_mode)
        match trouble.what:
            case "stopped" | "power fails":
                self.struck = self._stopped = True
                raise PowerFailedError
            case "full" if is_file or name in MOVES:
                self.struck = True
                if is_file:
                    os.truncate(f"/proc/self/fd/{what}", os.fstat(what).st_size // 2)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            case "broken":
                self.struck = True
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            case "another byte" if is_file and not self.struck:
                self._spoil(Path(f"/proc/self/fd/{what}").readlink(), trouble.random)

    def _spoil(self, path: Path, random: Random) -> None:
        content = path.read_bytes()
        if (
            content and path.suffix != ".duckdb"
        ):  # of those DuckDB knows each block's checksum, and readers meet the error
            self.struck = True
            attic = self._attic() / "spoiled"  # the same file, also after a move
            REAL["link"](path, attic)
            place = random.randrange(len(content))
            attic.write_bytes(
                content[:place] + bytes([content[place] ^ 1 << random.randrange(8)]) + content[place + 1 :]
            )
            self._spoiled = attic, content

    def _undoing(self, name: str, source: Path, target: Path) -> Callable[[], None]:
        """How to undo a move that is about to be made."""
        if name in ("link", "symlink"):
            return partial(REAL["unlink"], target)
        attic = self._attic() / str(self.steps)
        if target.is_symlink():
            REAL["symlink"](target.readlink(), attic)
        elif target.is_file():
            REAL["link"](target, attic)

        def undo() -> None:
            REAL["rename"](target, source)
            if attic.is_symlink() or attic.exists():
                REAL["rename"](attic, target)

        return undo

    def _note_durable(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            self._moves = [move for move in self._moves if move[0] != status.st_ino]
        else:
            self._durable.add((status.st_ino, status.st_mtime_ns, status.st_size))

    def _lose(self, random: Random, began: int) -> None:
        """The last of the moves and the ends of the files that were not made durable are lost."""
        for _, undo in reversed(self._moves[random.randint(0, len(self._moves)) :]):
            with suppress(OSError):  # the folder was moved or removed since
                undo()
        for path in self.root.rglob("*"):
            status = path.lstat()
            is_durable = (status.st_ino, status.st_mtime_ns, status.st_size) in self._durable
            if stat.S_ISREG(status.st_mode) and status.st_mtime_ns > began and not is_durable and status.st_size:
                os.truncate(path, random.randrange(status.st_size))
