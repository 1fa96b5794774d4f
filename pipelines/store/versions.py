"""The published files, and which of them readers get (G10).

Each version lies under a name of its own in `published/`, and `rollbook.duckdb` is a link to the newest. DuckDB gives a
process that still has a file open the same file again when it connects by the same path, so a path that led to two
versions would keep a notebook or a dashboard on an old night. No name is therefore used twice, also not by `restore`.

Where the disk knows no links, `rollbook.duckdb` is a copy, and `published/newest.txt` names the version.
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
# The file without names, which has a folder of its own: others may enter that one.
PSEUDONYMOUS, PSEUDONYMOUS_FOLDER = "rollbook-pseudonymous.duckdb", "pseudonymous"
# How many versions are kept besides the newest.
KEPT = 3
# How a disk says that it knows no links.
_WITHOUT_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)

# DuckDB names a database by its file up to the first dot: `rollbook.main.students` holds for every version.
_TIME = "%Y-%m-%dT%H-%M-%S-%f.duckdb"


class Versions:
    """The folder `published/` of one warehouse and the link beside it, or another pair of the kind."""

    def __init__(self, root: Path, mode: int, folder_mode: int, *, name: str = PUBLISHED, folder: str = FOLDER) -> None:
        self.link = root / name
        self.folder = root / folder
        self.stem = name.removesuffix(".duckdb")
        self.pointer = self.folder / POINTER
        self.mode = mode
        self.folder_mode = folder_mode

    def prepare(self, earlier: Path | None = None) -> None:
        """Make the folder, apply the modes that are set now, and move in what earlier Rollbooks kept elsewhere."""
        files.folder(self.folder, self.folder_mode)
        self.folder.chmod(self.folder_mode)
        if earlier is not None:
            for kept in earlier.glob("*.duckdb"):
                kept.rename(self.folder / f"{self.stem}.{kept.stem.replace('.', '-')}.duckdb")
            with suppress(OSError):  # not there, or not empty
                earlier.rmdir()
        for version in self.all():
            version.chmod(self.mode)
        if self.link.is_file() and not self.link.is_symlink():  # a copy, where the disk knows no links
            self.link.chmod(self.mode)

    def all(self) -> list[Path]:
        """Every version, the newest first."""
        return sorted(self.folder.glob(f"{self.stem}.*.duckdb"), reverse=True)

    def newest(self) -> Path | None:
        """The version that readers get; None when the link does not lead to one."""
        if self.link.is_symlink():
            return target(self.link, self.folder)
        with suppress(OSError, ValueError):
            version = self.folder / self.pointer.read_text(encoding="utf-8").strip()
            if self.link.is_file() and version in self.all():
                return version
        return None

    def kept(self) -> list[Path]:
        """The versions that readers got before, the newest first."""
        newest = self.newest()
        return [version for version in self.all() if newest is None or version.name < newest.name]

    def add(self, file: Path) -> Path:
        """Move a finished file in, under a new name. Readers get it once `show` was called."""
        version = self._new_name()
        file.chmod(self.mode)
        files.sync(file)
        file.rename(version)
        files.sync(self.folder)
        return version

    def again(self, file: Path) -> Path:
        """Add a file that is here already, under a new name."""
        version = self._new_name()
        _same_file(file, version)
        version.chmod(self.mode)
        files.sync(self.folder)
        return version

    def show(self, version: Path) -> None:
        """Lead readers to a version, at once and durably."""
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
        """Remove versions that a killed writer did not come to show."""
        if (newest := self.newest()) is not None:
            for version in self.all():
                if version.name > newest.name:
                    remove(version)

    def retire(self, leaving: int = KEPT) -> None:
        """Remove all that is kept but the last few; readers who have one of them open keep it."""
        for version in self.kept()[leaving:]:
            with suppress(PermissionError):  # a system where a file in use cannot be removed: the next night
                remove(version)

    def clear(self) -> None:
        """Remove the link first, then every version and the folder: nothing of the kind is there any more."""
        self.link.unlink(missing_ok=True)
        for version in self.all():
            remove(version)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _new_name(self) -> Path:
        """A name that sorts after all others, wherever the clock was set to."""
        name, now = f"{self.stem}.{_TIME}", datetime.now(UTC)
        for version in self.all()[:1]:
            with suppress(ValueError):
                now = max(now, datetime.strptime(version.name, name).replace(tzinfo=UTC) + timedelta(microseconds=1))
        return self.folder / now.strftime(name)


def target(path: Path, folder: Path | None = None) -> Path | None:
    """The file at a path. A link counts only if it leads into the folder of versions (default: `published/` beside it);
    None for anything else.
    """
    if path.is_symlink():
        found = path.parent / path.readlink()
        return found if found.parent == (folder or path.parent / FOLDER) and _is_plain(found) else None
    return path if path.is_file() else None


def set_aside(path: Path, aside: Path) -> None:
    """Let what is at a path be found at `aside`, too; what is no file is moved there."""
    found = target(path)
    if found is not None:
        if not aside.exists():
            _same_file(found, aside)
    else:
        path.rename(aside)


def remove(version: Path) -> None:
    """Remove a version, and what an analyst's own writing left beside it."""
    version.unlink(missing_ok=True)
    version.with_name(f"{version.name}.wal").unlink(missing_ok=True)


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _same_file(file: Path, name: Path) -> None:
    """Give a file a second name; where the disk cannot, a copy."""
    try:
        os.link(file, name)
    except OSError:
        with files.replacing(name) as aside:
            shutil.copyfile(file, aside)
