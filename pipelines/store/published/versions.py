"""The published files, and which of them readers get (G10).

Each version is stored under its own name in `published/`, and `rollbook.duckdb` is a symlink to the newest. A process
that still has a file open gets the same file from DuckDB when it connects by the same path, so reusing a path would
keep a notebook or a dashboard on an old night. Therefore no name is ever reused, not even by `restore`.

If the disk does not support symlinks, `rollbook.duckdb` is a copy, and `published/newest.txt` names the version.
"""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pipelines import files

PUBLISHED, FOLDER, POINTER = "rollbook.duckdb", "published", "newest.txt"
# The file without names has its own folder, which others may enter.
PSEUDONYMOUS, PSEUDONYMOUS_FOLDER = "rollbook-pseudonymous.duckdb", "pseudonymous"
# Versions kept besides the newest.
KEPT = 3
# The errors of a disk without symlinks.
_WITHOUT_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)

# DuckDB names a database by its file up to the first dot: `rollbook.main.students` works for every version.
_TIME = "%Y-%m-%dT%H-%M-%S-%f.duckdb"


class Versions:
    """A folder of versions and the link beside it: by default `published/` and `rollbook.duckdb`."""

    def __init__(self, root: Path, mode: int, folder_mode: int, *, name: str = PUBLISHED, folder: str = FOLDER) -> None:
        self.link = root / name
        self.folder = root / folder
        self.stem = name.removesuffix(".duckdb")
        self.pointer = self.folder / POINTER
        self.mode = mode
        self.folder_mode = folder_mode

    def prepare(self) -> None:
        """Make the folder, and apply the current modes."""
        files.folder(self.folder, self.folder_mode)
        self.folder.chmod(self.folder_mode)
        for version in self.all():
            version.chmod(self.mode)
        if self.link.is_file() and not self.link.is_symlink():  # a copy on a disk without symlinks
            self.link.chmod(self.mode)

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
        """Move a finished file in, under a new name. `show` then points readers to it."""
        version = self._new_name()
        file.chmod(self.mode)
        files.sync(file)
        file.rename(version)
        files.sync(self.folder)
        return version

    def replace(self, version: Path, file: Path) -> None:
        """Move a finished file in, in the place of a kept version."""
        file.chmod(self.mode)
        files.sync(file)
        file.replace(version)
        files.sync(self.folder)

    def again(self, file: Path) -> Path:
        """Add a copy or hard link of a version that is here already, under a new name."""
        version = self._new_name()
        _same_file(file, version)
        version.chmod(self.mode)
        files.sync(self.folder)
        return version

    def show(self, version: Path) -> None:
        """Point readers to a version, atomically and durably."""
        aside = self.link.with_name(f".{self.link.name}{files.PARTIAL}")
        aside.unlink(missing_ok=True)
        try:
            aside.symlink_to(Path(self.folder.name, version.name))  # relative, so that the warehouse can be moved
        except OSError as error:
            if error.errno not in _WITHOUT_LINKS:
                raise
            shutil.copyfile(version, aside)
            aside.chmod(self.mode)
            files.sync(aside)
            files.write(self.pointer, f"{version.name}\n".encode(), self.mode)
        aside.replace(self.link)
        files.sync(self.link.parent)

    def sweep(self) -> None:
        """Remove versions that a killed writer added but did not show."""
        if (newest := self.newest()) is not None:
            for version in self.all():
                if version.name > newest.name:
                    remove(version)

    def retire(self, leaving: int = KEPT) -> None:
        """Remove all kept versions except the last `leaving`; readers that have one of them open keep it."""
        for version in self.kept()[leaving:]:
            with suppress(PermissionError):  # some systems cannot remove a file in use: retried the next night
                remove(version)

    def clear(self) -> None:
        """Remove the link first, then every version and the folder."""
        self.link.unlink(missing_ok=True)
        for version in self.all():
            remove(version)
        shutil.rmtree(self.folder, ignore_errors=True)

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
        found = path.parent / path.readlink()
        return found if found.parent == (folder or path.parent / FOLDER) and _is_plain(found) else None
    return path if path.is_file() else None


def set_aside(path: Path, aside: Path) -> None:
    """Link or copy the file at a path to `aside`; move anything that is not a file there."""
    found = target(path)
    if found is not None:
        if not aside.exists():
            _same_file(found, aside)
    else:
        path.rename(aside)


def remove(version: Path) -> None:
    """Remove a version, and the write-ahead log that an analyst's changes left beside it."""
    version.unlink(missing_ok=True)
    version.with_name(f"{version.name}.wal").unlink(missing_ok=True)


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _same_file(file: Path, name: Path) -> None:
    """Hard-link a file; copy it if the disk does not support that."""
    try:
        os.link(file, name)
    except OSError:
        with files.replacing(name) as aside:
            shutil.copyfile(file, aside)
