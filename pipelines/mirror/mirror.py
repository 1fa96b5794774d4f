"""Brings the copy up to the warehouse after each writer, and makes a warehouse of the copy.

Copied is what a warehouse is made of, and nothing that can be made of it: `raw/`, `snapshots/` (for engines that read
there), the institution's own thresholds and terms, whom erasures left out, and the codes of the pseudonymous file. The
published file, the report and the access log are not copied. What is gone here is gone there by the next writer, an
erased student's bodies among it: the object store must keep no old versions, or expire them.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path

import msgspec

from pipelines import __version__, files
from pipelines.errors import ArgumentError, MirrorError, RollbookError
from pipelines.mirror.bucket import Bucket
from pipelines.mirror.catalog import FOLDER, SNAPSHOTS, Catalog, File, days_of, is_old, newest, stored_as
from pipelines.settings import Settings

log = logging.getLogger(__name__)

IDENTITY = "private/mirror.json"
STATE = "build/mirror.json"
# A restore that was interrupted is known by it.
RESTORING = ".restoring"
AT_ONCE = 4  # objects on their way
_SINGLE = ("thresholds.csv", "terms.csv", "private/codes.json")
_FOLDERS = ("raw", "snapshots", "private/erasures")
_OURS = (*_SINGLE, *(f"{folder}/" for folder in (*_FOLDERS, FOLDER)))

Progress = Callable[[str, int, int], None]


class Identity(msgspec.Struct, frozen=True):
    """Which copy is this warehouse's."""

    warehouse: str


class Known(msgspec.Struct, frozen=True):
    """A local file as it was when its digest was computed."""

    size: int
    mtime_ns: int
    inode: int
    sha256: str


class State(msgspec.Struct, frozen=True, kw_only=True):
    """What is noted between two writers: digests that need not be computed again, and how the last time ended."""

    known: dict[str, Known] = {}
    complete_at: datetime | None = None
    failed: str = ""


@dataclass(frozen=True)
class Report:
    """What a copy came to: files and bytes that were copied, files that were removed, and the days it now holds."""

    copied: int
    bytes: int
    removed: int
    days: tuple[date, ...]


class Mirror:
    """The copy of one warehouse. All but `status` requires the writer lock."""

    def __init__(self, settings: Settings, school_id: Callable[[], int | None]) -> None:
        self.root = settings.warehouse_path
        self.url = settings.lake
        self.folder = settings.institution
        self.school_id = school_id

    @property
    def wanted(self) -> bool:
        """Whether ROLLBOOK_LAKE is set."""
        return bool(self.url)

    def keep_up(self, now: datetime) -> None:
        """Bring the copy up to the warehouse, if one is wanted. Never raises: a warning says what failed."""
        if not self.wanted:
            return
        try:
            self.update(now)
        except RollbookError as error:
            log.warning("%s", error.message)
            self._note(msgspec.structs.replace(self.state(), failed=error.message))
        except OSError as error:
            log.warning("The warehouse could not be copied to %s (%s)", self.url, type(error).__name__)

    @contextmanager
    def kept_up(self, clock: Callable[[], datetime]) -> Iterator[None]:
        """Bring the copy up to the warehouse when the block ends, also by an error, but not by an interrupt."""
        try:
            yield
        except Exception:
            self.keep_up(clock())
            raise
        self.keep_up(clock())

    def update(self, now: datetime, *, adopt: bool = False, progress: Progress | None = None) -> Report:
        """Copy what is new or differs, then write the next catalog, then remove what it does not list.

        Nothing of an earlier catalog is touched before the next one counts, snapshots apart. With `adopt`, a copy that
        another warehouse made becomes this one's. Raises MirrorError when it is another's, or holds landed days that
        this warehouse lacks; and what the object store raises.
        """
        bucket = Bucket(self.url, self.folder)
        last = newest(bucket)
        local = self._digested()
        self._check_owner(bucket, last, local, adopt=adopt)
        missing = self._missing(bucket, bucket.sizes(), last, local)
        self._copy(bucket, missing, progress)
        number = last.number if last else 0
        if last is None or last.files != local or adopt:
            number += 1
            catalog = Catalog(
                number=number,
                warehouse=self._identity().warehouse,
                school_id=self.school_id(),
                made_at=now,
                rollbook=__version__,
                files=local,
            )
            catalog.write(bucket)
        listed = {stored_as(path, file) for path, file in local.items()}
        ours = (name for name in bucket.sizes() if name.startswith(_OURS) and name not in listed)
        gone = [name for name in ours if not name.startswith(f"{FOLDER}/") or is_old(name, number)]
        bucket.delete(gone)
        self._note(State(known=self.state().known, complete_at=now))
        size = sum(file.size for _, _, file in missing)
        return Report(len(missing), size, len(gone), tuple(days_of(local)))

    def _missing(
        self, bucket: Bucket, there: dict[str, int], last: Catalog | None, local: dict[str, File]
    ) -> list[tuple[str, str, File]]:
        """What is still to be copied: the name of each object, the path of its file, and what that is."""
        before = {stored_as(path, file): file for path, file in last.files.items()} if last else {}

        def is_there(name: str, file: File) -> bool:
            if there.get(name) != file.size:
                return False
            if name in before:
                return before[name] == file
            # Left by a writer that was interrupted. The name holds the digest, but was all of it stored?
            return not name.startswith(SNAPSHOTS) and bucket.digest(name) == file.sha256

        wanted = ((stored_as(path, file), path, file) for path, file in local.items())
        return [(name, path, file) for name, path, file in wanted if not is_there(name, file)]

    def status(self) -> tuple[Catalog | None, State]:
        """What the copy holds, as the object store says, and how the last time ended here. Raises MirrorError."""
        return newest(Bucket(self.url, self.folder)), self.state()

    def verify(self, progress: Progress | None = None) -> list[str]:
        """Read the whole copy back; returns the paths of those that are missing or not what was copied."""
        bucket = Bucket(self.url, self.folder)
        last = newest(bucket)
        if last is None:
            raise MirrorError(f"Nothing was ever copied to {bucket.url}: run `rollbook mirror sync`")

        def is_sound(item: tuple[str, File]) -> bool:
            try:
                return bucket.digest(stored_as(*item)) == item[1].sha256
            except FileNotFoundError:
                return False

        wrong = []
        with ThreadPoolExecutor(AT_ONCE) as threads:
            for done, (path, sound) in enumerate(
                zip(last.files, threads.map(is_sound, last.files.items()), strict=True), 1
            ):
                wrong += [] if sound else [path]
                if progress is not None:
                    progress("files", done, len(last.files))
        return wrong

    def state(self) -> State:
        """What was noted; nothing where it cannot be read, which costs computing digests again."""
        try:
            return msgspec.json.decode((self.root / STATE).read_bytes(), type=State)
        except (OSError, msgspec.DecodeError):
            return State()

    def _note(self, state: State) -> None:
        files.write(self.root / STATE, msgspec.json.encode(state))

    def _copy(self, bucket: Bucket, missing: list[tuple[str, str, File]], progress: Progress | None) -> None:
        """Copy files, raw ones first, several at a time. What was copied before an error is found the next time."""

        def copy(item: tuple[str, str, File]) -> None:
            name, path, file = item
            bucket.put(name, self.root / path, file.sha256)

        # A day's snapshot counts for engines when its record is there: last of all.
        missing.sort(key=lambda item: (item[0].startswith(SNAPSHOTS), item[0].endswith(".json"), item[0]))
        with ThreadPoolExecutor(AT_ONCE) as threads:
            for done, _ in enumerate(threads.map(copy, missing), 1):
                if progress is not None:
                    progress("files", done, len(missing))

    def _check_owner(self, bucket: Bucket, last: Catalog | None, local: dict[str, File], *, adopt: bool) -> None:
        """Refuse to write over the copy of another warehouse, which may be all that is left of it."""
        if last is None:
            return
        school_id = self.school_id()
        if None not in (last.school_id, school_id) and last.school_id != school_id:
            raise MirrorError(
                f"{bucket.url} holds the copy of institution {last.school_id}; this is institution {school_id}. Set"
                " ROLLBOOK_LAKE to another folder"
            )
        if last.warehouse == self._identity().warehouse:
            return
        lacking = sorted(set(last.days()) - set(days_of(local)))
        if adopt and not lacking:
            return
        if lacking:
            raise MirrorError(
                f"{bucket.url} holds the copy of another warehouse, with {len(lacking)} landed days that this one lacks"
                f" (such as {lacking[-1]}). Restore it first (`rollbook mirror restore --into FOLDER`), or set"
                " ROLLBOOK_LAKE to another folder"
            )
        raise MirrorError(
            f"{bucket.url} holds the copy of another warehouse of this institution. If that one is gone and this one"
            " goes on from it, say so once: rollbook mirror sync --adopt"
        )

    def _identity(self) -> Identity:
        path = self.root / IDENTITY
        try:
            return msgspec.json.decode(path.read_bytes(), type=Identity)
        except (OSError, msgspec.DecodeError):
            made = Identity(secrets.token_hex(16))
            files.folder(path.parent)
            files.write(path, msgspec.json.encode(made))
            return made

    def _digested(self) -> dict[str, File]:
        """Every file to copy, by its path in the warehouse; a file is read only if it is not the one known."""
        known, now = self.state().known, {}
        for path in local_files(self.root):
            name, stat = path.relative_to(self.root).as_posix(), path.stat()
            was = known.get(name)
            if was is None or (was.size, was.mtime_ns, was.inode) != (stat.st_size, stat.st_mtime_ns, stat.st_ino):
                was = Known(stat.st_size, stat.st_mtime_ns, stat.st_ino, files.digest(path))
            now[name] = was
        self._note(msgspec.structs.replace(self.state(), known=now))
        return {name: File(each.size, each.sha256) for name, each in now.items()}


def local_files(root: Path) -> Iterator[Path]:
    """The files of a warehouse that are copied, in order; nothing half-written is among them."""
    for name in _SINGLE:
        if (root / name).is_file():
            yield root / name
    for folder in _FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            parts = path.relative_to(root).parts
            if path.is_file() and not path.is_symlink() and not any(part.startswith(".") for part in parts):
                yield path


def restore(url: str, folder: str, into: Path, progress: Progress | None = None) -> Catalog:
    """Make a warehouse of the copy in an empty folder; `rollbook rebuild` makes the rest of it.

    What a restore that was interrupted has fetched is kept. A snapshot that is not as the catalog says is left out: a
    rebuild makes it. Raises ArgumentError for a folder that holds anything else, MirrorError for a file that is missing
    or not what was copied.
    """
    bucket = Bucket(url, folder)
    marker = into / RESTORING
    if into.exists() and not marker.exists() and any(into.iterdir()):
        raise ArgumentError(f"{into} is not empty: name a folder that is, or that is not there yet")
    catalog = newest(bucket)
    if catalog is None:
        raise MirrorError(f"Nothing was ever copied to {bucket.url}, so there is nothing to restore")
    files.folder(into)
    files.write(marker, b"")
    for done, (path, file) in enumerate(catalog.files.items(), 1):
        _restore_file(bucket, path, file, into)
        if progress is not None:
            progress("files", done, len(catalog.files))
    marker.unlink()
    return catalog


def _restore_file(bucket: Bucket, path: str, file: File, into: Path) -> None:
    target = into / path
    if not target.resolve().is_relative_to(into.resolve()):
        raise MirrorError(f"The catalog in {bucket.url} names a file outside of the warehouse: do not trust that copy")
    if target.is_file() and target.stat().st_size == file.size and files.digest(target) == file.sha256:
        return
    files.folder(target.parent)
    try:
        with files.replacing(target) as aside:
            with aside.open("wb") as opened:
                found = bucket.fetch(stored_as(path, file), opened)
            if found != file.sha256:
                raise FileNotFoundError
    except FileNotFoundError:
        target.unlink(missing_ok=True)
        if not path.startswith(SNAPSHOTS):
            raise MirrorError(
                f"{path} is missing in {bucket.url}, or not what was copied. If a sync is copying just now, run this"
                " again when it is done: what was fetched is kept"
            ) from None
