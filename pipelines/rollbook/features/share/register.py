"""Who may open the published file from another machine: a token for each program, of which only the digest is kept.

private/shares.json    the readers
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Iterable
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import msgspec

from rollbook.errors import ArgumentError, DamagedError, MachineError
from rollbook.feature import present
from rollbook.landing import formats
from rollbook.reading.access import PRIVATE
from rollbook.settings import WarehouseSettings
from rollbook.store.database import machine_errors
from rollbook.store.published import PSEUDONYMOUS, PUBLISHED
from rollbook.util import files
from rollbook.util.text import listed

REGISTER, LOCK = "shares.json", ".shares.lock"
# Shown in the list and in the access log.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


class Reader(msgspec.Struct, frozen=True, kw_only=True):
    """A program of somebody: its name, the SHA-256 of its token, whether it opens the file with names, since when."""

    name: str
    digest: str
    names: bool
    since: Annotated[datetime, msgspec.Meta(tz=True)]

    @property
    def file(self) -> str:
        """The one file that its token opens."""
        return PUBLISHED if self.names else PSEUDONYMOUS


class Readers(formats.Stored, frozen=True, kw_only=True):
    """All of them, in the order in which they were added."""

    readers: tuple[Reader, ...]


class Register:
    """The readers of the warehouse at `root`. Nobody else's changes are lost: one command at a time writes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.path = root / PRIVATE / REGISTER
        self._file = files.Decoded(lambda content, path: formats.decode(content, Readers, path))

    def read(self) -> tuple[Reader, ...]:
        """The readers. Raises DamagedError, OtherVersionError, and MachineError if this account may not read them."""
        try:
            return self._file.read(str(self.path)).readers
        except FileNotFoundError:
            return ()
        except PermissionError:
            raise MachineError(
                f"{self.path} is readable by its owner only: run this as the account that owns the warehouse"
            ) from None
        except (OSError, ValueError) as error:
            raise DamagedError(
                f"{self.path}, which says who may open the file from elsewhere, cannot be read"
                f" ({type(error).__name__}), so nobody gets in. Put it back from a backup, or delete it and add each"
                " reader again: all get new tokens"
            ) from None

    def add(self, name: str, *, names: bool, at: datetime) -> str:
        """Add a reader, and return the token, which nobody can look up later. Raises ArgumentError."""
        if not _NAME.fullmatch(name):
            raise ArgumentError("A name has letters, digits and . _ @ - only, up to 64, such as ash-excel")
        token = secrets.token_urlsafe(32)
        added = Reader(name=name, digest=digest(token), names=names, since=at)

        def with_it(readers: tuple[Reader, ...]) -> Iterable[Reader]:
            for each in readers:
                if each.name.casefold() == name.casefold():
                    raise ArgumentError(
                        f"There is a reader {each.name} already: choose another name, or remove that one first"
                        f" (`rollbook share remove {each.name}`)"
                    )
            return (*readers, added)

        self._change(with_it)
        return token

    def remove(self, name: str) -> None:
        """Remove a reader, whose token lets nobody in from now on. Raises ArgumentError."""

        def without_it(readers: tuple[Reader, ...]) -> Iterable[Reader]:
            left = tuple(each for each in readers if each.name != name)
            if left == readers:
                known = f": there is {listed([each.name for each in readers])}" if readers else ""
                raise ArgumentError(f"There is no reader of this name{known}")
            return left

        self._change(without_it)

    def _change(self, change: Callable[[tuple[Reader, ...]], Iterable[Reader]]) -> None:
        folder = self.path.parent
        with machine_errors(self.root):
            files.set_mode(files.folder(folder), files.PRIVATE_FOLDER)
            with files.Lock(folder / LOCK):
                content = msgspec.json.encode(Readers(readers=tuple(change(self.read()))))
                try:
                    files.write(self.path, content)
                except FileNotFoundError:  # a night that just began took the unfinished file for left over
                    files.write(self.path, content)
            if os.geteuid() == 0:  # what root wrote is the owner's, whose server must read it
                owner = self.root.stat()
                for new in (folder, folder / LOCK, self.path):
                    os.chown(new, owner.st_uid, owner.st_gid, follow_symlinks=False)


def digest(token: str) -> str:
    """What is kept of a token."""
    return sha256(token.encode()).hexdigest()


def lacks_pseudonymous(settings: WarehouseSettings) -> str:
    """Why there is no pseudonymous file; empty if there is one, or the next sync makes it."""
    if "pseudonymous" not in {each.name for each in present()}:
        return "The feature that makes the pseudonymous file is not installed"
    is_wanted = getattr(settings, "shared_mode", None) is not None  # that feature's
    return "" if is_wanted else f"{settings.name_of('pseudonymous')} is not set"


def hindrances(settings: WarehouseSettings, readers: Iterable[Reader]) -> list[str]:
    """Why some readers get nothing now. Raises RollbookError."""
    from rollbook.landing.erased import ERASURES, ErasureRegister  # here, so that a command's help needs no pyarrow

    root = settings.warehouse_path
    found = [
        f"{file} is not there, so its readers get nothing: "
        + ((file == PSEUDONYMOUS and lacks_pseudonymous(settings)) or "the next sync makes it")
        for file in dict.fromkeys(each.file for each in readers)
        if not (root / file).is_file()
    ]
    if ErasureRegister(root / PRIVATE / ERASURES).read().pending is not None:
        found.append("An erasure is under way: until it is done, readers on other machines get nothing")
    return found
