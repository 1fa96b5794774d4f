"""Versions of the database files that readers open (G10), and detection of files that somebody else has changed.

Each version is stored under a new name in `published/`, and `rollbook.duckdb` is a symlink to the newest. A process
that still has a file open gets the same file from DuckDB when connecting by the same path, so reusing a path would keep
a notebook or a dashboard on an old night. Therefore no name is ever reused, not even by `restore`.

If the disk does not support symlinks, `rollbook.duckdb` is a copy, and `published/newest.txt` names the version.

An analyst may open the published file for writing, a restore may replace it, a disk may truncate it. The
writer never builds on the result. The digest of each file is registered in `private/erasures/published.json` before
readers get the file, with the number of students who had been erased by then. So a file of any age is recognised
wherever copied, and a file that was edited, cut short or written by another warehouse is not. Without that register, no
file can be proven to be ours.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from rollbook.errors import NothingLandedError
from rollbook.landing import formats
from rollbook.util import files

if TYPE_CHECKING:  # `rollbook --help` reads the names here: that needs no pyarrow
    from rollbook.landing.erased import ErasureRegister

log = logging.getLogger(__name__)

PUBLISHED, FOLDER, POINTER = "rollbook.duckdb", "published", "newest.txt"
# The file without names has its own folder, which others may enter.
PSEUDONYMOUS, PSEUDONYMOUS_FOLDER = "rollbook-pseudonymous.duckdb", "pseudonymous"
# Versions kept besides the newest.
KEPT = 3
# The errors of a disk without symlinks.
_WITHOUT_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)

# DuckDB names a database by the file up to the first dot: `rollbook.main.students` works for every version.
_TIME = "%Y-%m-%dT%H-%M-%S-%f.duckdb"

# Beside the register of erasures, and copied together.
REGISTERED = "published.json"

# The demo's warehouse, a folder in the real warehouse.
DEMO_FOLDER = "demo"

# The folder for files that are exported without --out.
EXPORTS = "exports"
# The morning page, beside the published file.
REPORT = "report.html"

DISTRICT_FILE, DISTRICT_PSEUDONYMOUS = "district.duckdb", "district-pseudonymous.duckdb"

# The ending of a copy that is not finished.
COPY = ".copy"


# How to make each file; a sync makes the rest.
_MAKING = {
    DISTRICT_FILE: "run `rollbook district build` first",
    DISTRICT_PSEUDONYMOUS: "set ROLLBOOK_PSEUDONYMOUS=1 for an institution, sync it, and run `rollbook district build`",
}


def check_is_there(file: Path) -> None:
    """Raise NothingLandedError if a file does not exist yet: how to make the file, and where the demo's is read."""
    if not file.exists():
        demo = ", or add --demo to read the demo's" if (file.parent / DEMO_FOLDER / file.name).exists() else ""
        making = _MAKING.get(file.name, "run `rollbook sync` first")
        raise NothingLandedError(f"{file} does not exist yet: {making}{demo}")


def unwritten(mode: int) -> int:
    """A file's mode without the right to write."""
    return mode & ~0o222


class Versions:
    """A folder of versions and the link to the newest: by default `published/` and `rollbook.duckdb`."""

    def __init__(self, root: Path, mode: int, folder_mode: int, *, name: str = PUBLISHED, folder: str = FOLDER) -> None:
        self.link = root / name
        self.folder = root / folder
        self.stem = name.removesuffix(".duckdb")
        self.pointer = self.folder / POINTER
        # Nobody may write: who opens a version without `read_only` is refused, instead of locking all others out.
        self.mode = unwritten(mode)
        self.folder_mode = folder_mode

    def prepare(self) -> None:
        """Make the folder, and apply the current modes."""
        files.folder(self.folder, self.folder_mode)
        files.set_mode(self.folder, self.folder_mode)
        for version in self.all():
            files.set_mode(version, self.mode)
        if self.link.is_file() and not self.link.is_symlink():  # a copy on a disk without symlinks
            files.set_mode(self.link, self.mode)

    def all(self) -> list[Path]:
        """Every version, the newest first."""
        return sorted(self.folder.glob(f"{self.stem}.*.duckdb"), reverse=True)

    def newest(self) -> Path | None:
        """The version that readers get; None if the link does not point to a version."""
        if self.link.is_symlink():
            return target(self.link, self.folder)
        with suppress(OSError, ValueError):
            version = self.folder / self.pointer.read_text(encoding="utf-8").strip()
            if self.link.is_file() and version in self.all():
                return version
        return None

    def kept(self) -> list[Path]:
        """The versions before the newest, in descending order."""
        newest = self.newest()
        return [version for version in self.all() if newest is None or version.name < newest.name]

    def add(self, file: Path) -> Path:
        """Move a finished file in, under a new name. `activate` then points readers to it."""
        version = self._new_name()
        self.replace(version, file)
        return version

    def replace(self, version: Path, file: Path) -> None:
        """Move a finished file in, in the place of a kept version."""
        files.set_mode(file, self.mode)
        files.sync(file)
        files.move(file, version)
        files.sync(self.folder)

    def republish(self, file: Path) -> Path:
        """Add a copy or hard link of a version that is here already, under a new name."""
        version = self._new_name()
        same_file(file, version)
        files.set_mode(version, self.mode)
        files.sync(self.folder)
        return version

    def activate(self, version: Path) -> None:
        """Point readers to a version, atomically and durably."""
        aside = self.link.with_name(f".{self.link.name}{files.PARTIAL}")
        aside.unlink(missing_ok=True)
        try:
            aside.symlink_to(Path(self.folder.name, version.name))  # relative, so that the warehouse can be moved
        except OSError as error:
            if error.errno not in _WITHOUT_LINKS:
                raise
            shutil.copyfile(version, aside)
            files.set_mode(aside, self.mode)
            files.sync(aside)
            files.write(self.pointer, f"{version.name}\n".encode(), self.mode)
        files.move(aside, self.link)
        files.sync(self.link.parent)

    def sweep(self) -> None:
        """Remove versions that a killed writer added but did not activate, and half-done copies."""
        newest = self.newest()
        added = [version for version in self.all() if newest is not None and version.name > newest.name]
        for left in (*added, *self.folder.glob(f".*{files.PARTIAL}")):
            remove(left)

    def retire(self, leaving: int = KEPT) -> None:
        """Remove all kept versions except the last `leaving`; readers keep the version that they have open."""
        for version in self.kept()[leaving:]:
            with suppress(PermissionError):  # some systems cannot remove a file in use: retried the next night
                remove(version)

    def clear(self) -> int:
        """Remove the link first, then every version and the folder; returns how many versions there were."""
        self.link.unlink(missing_ok=True)
        versions = self.all()
        for version in versions:
            remove(version)
        shutil.rmtree(self.folder, ignore_errors=True)
        return len(versions)

    def _new_name(self) -> Path:
        """A name that sorts after all others, even if the clock was set back."""
        name, now = f"{self.stem}.{_TIME}", datetime.now(UTC)
        for version in self.all()[:1]:
            with suppress(ValueError):
                now = max(now, datetime.strptime(version.name, name).replace(tzinfo=UTC) + timedelta(microseconds=1))
        return self.folder / now.strftime(name)


def target(path: Path, folder: Path | None = None) -> Path | None:
    """The file at a path, or the target of a link that points into the folder of versions (default: `published/`
    beside it); None for anything else.
    """
    if path.is_symlink():
        linked = path.parent / path.readlink()
        is_version = linked.parent == (folder or path.parent / FOLDER) and not linked.is_symlink()
        return linked if is_version and linked.is_file() else None
    return path if path.is_file() else None


def set_aside(path: Path, aside: Path) -> None:
    """Link or copy the file at a path to `aside`; anything else is moved there."""
    file = target(path)
    if file is not None:
        if not aside.exists():
            same_file(file, aside)
    else:
        files.move(path, aside)


def remove(path: Path) -> None:
    """Remove a database file, if there, and what a killed writer or an analyst's changes left beside."""
    for ending in ("", ".wal", COPY):
        path.with_name(path.name + ending).unlink(missing_ok=True)


def same_file(file: Path, name: Path) -> None:
    """Hard-link a file, or copy where the disk has no hard links."""
    try:
        os.link(file, name)
    except OSError:
        with files.replacing(name) as aside:
            shutil.copyfile(file, aside)


class Registered(formats.Stored, frozen=True, kw_only=True):
    """The digest (SHA-256) of each published file, with the number of students who had been erased by then."""

    files: dict[str, int]


class OwnFiles:
    """The files that a warehouse has published, by the registered digests."""

    def __init__(self, erasure_register: ErasureRegister) -> None:
        self.erasure_register = erasure_register
        self._path = erasure_register.folder / REGISTERED
        self._file = files.Decoded(lambda content, path: formats.decode(content, Registered, path))
        # Digests by inode, modification time and size: a large file takes a while to read.
        self._digests: dict[tuple[int, int, int], str] = {}

    def register(self, file: Path) -> None:
        """Register a finished file, durably, before readers get the file."""
        files.folder(self._path.parent)
        digests = self._registered() | {self._digest(file): self.erasure_register.count}
        files.write(self._path, msgspec.json.encode(Registered(files=digests)))

    def is_unmodified(self, path: Path) -> bool:
        """Whether a file is there and is what the warehouse wrote, byte for byte."""
        return self.erasures_of(path) is not None

    def lacks_erasures(self, path: Path) -> bool:
        """Whether a file is ours and was written before the last erasure, and so may hold an erased student."""
        if not (erasures := self.erasure_register.count):  # then no file need be read
            return False
        reflected = self.erasures_of(path)
        return reflected is not None and reflected < erasures

    def erasures_of(self, path: Path) -> int | None:
        """How many erasures a file of ours reflects; None if the warehouse did not write the file so."""
        file = target(path)
        if file is None or _has_wal(path) or _has_wal(file) or not (digests := self._registered()):
            return None
        return digests.get(self._digest(file))

    def forget(self) -> None:
        """Read each file again before recognising the file: something is damaged."""
        self._digests.clear()

    def _registered(self) -> dict[str, int]:
        try:
            return self._file.read(str(self._path)).files
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            log.warning("%s cannot be read (%s): no published file is recognised", self._path, type(error).__name__)
            return {}

    def _digest(self, file: Path) -> str:
        seen = files.identity(file.stat())
        if seen not in self._digests:
            self._digests[seen] = files.digest(file)
        return self._digests[seen]


def _has_wal(path: Path) -> bool:
    """Whether a database has a non-empty write-ahead log: changes that are not in the file yet."""
    wal = path.with_name(f"{path.name}.wal")
    return wal.is_file() and wal.stat().st_size > 0
