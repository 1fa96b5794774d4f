"""Updates the copy after each writer, and restores a warehouse from it.

Only what cannot be rebuilt is copied: `raw/`, the institution's own thresholds and terms, the records of erasures, and
the codes of the pseudonymous file; also `snapshots/`, for engines that read them there. The published file, the report
and the access log are not copied. The next writer deletes from the copy what was replaced or expired here, such as an
erased student's bodies: the object store must keep no old versions, or expire them. What is lost here is not deleted
there: a night that finds this fails, until somebody restores it or gives it up.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path

import msgspec

from pipelines import __version__, files
from pipelines.errors import ArgumentError, LostError, MirrorError, RollbookError
from pipelines.landing.bodies import BODIES, DISCARD, MANIFEST, PAGES
from pipelines.landing.erased import ERASURES, MEMORY, PRIVATE, Remembered
from pipelines.landing.manifest import Manifest
from pipelines.landing.raw import RawStore
from pipelines.mirror.bucket import Bucket
from pipelines.mirror.catalog import (
    FOLDER,
    SNAPSHOTS,
    Catalog,
    File,
    Files,
    day_of,
    days_of,
    is_old,
    newest,
    sources,
    stored_as,
)
from pipelines.settings import Settings
from pipelines.sync.listeners import Listener
from pipelines.text import count_of

IDENTITY = "private/mirror.json"
STATE = "build/mirror.json"
# Marks an unfinished restore.
RESTORING = ".restoring"
AT_ONCE = 4  # parallel transfers
_SINGLE = ("thresholds.csv", "terms.csv", "private/codes.json")
_FOLDERS = ("raw", "snapshots", "private/erasures")
_ERASURES = f"{PRIVATE}/{ERASURES}/{MEMORY}"
_BODIES = frozenset({BODIES, PAGES})
_OURS = (*_SINGLE, *(f"{folder}/" for folder in (*_FOLDERS, FOLDER)))

Progress = Callable[[str, int, int], None]


class Identity(msgspec.Struct, frozen=True):
    """The random id of this warehouse, which its copy carries."""

    warehouse: str


class Known(msgspec.Struct, frozen=True):
    """A local file as it was when its digest was computed."""

    size: int
    mtime_ns: int
    inode: int
    sha256: str


class State(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept between two writers: cached digests, and how the last update ended."""

    known: dict[str, Known] = {}
    complete_at: datetime | None = None
    failed: str = ""


@dataclass(frozen=True)
class Report:
    """The result of an update: files and bytes copied, files removed, and the days that the copy now holds."""

    copied: int
    bytes: int
    removed: int
    days: tuple[date, ...]


class Mirror(Listener):
    """The copy of one warehouse. All but `status` requires the writer lock."""

    name = "the copy in ROLLBOOK_LAKE"

    def __init__(self, settings: Settings, school_id: Callable[[], int | None]) -> None:
        self.root = settings.warehouse_path
        self.url = settings.lake
        self.folder = settings.institution
        self.school_id = school_id
        self.raw = RawStore(self.root / "raw")
        self._lost: LostError | None = None

    @property
    def wanted(self) -> bool:
        """Whether ROLLBOOK_LAKE is set."""
        return bool(self.url)

    def ended(self, at: datetime) -> None:
        """Update the copy, if one is wanted, and note how that ended."""
        self._lost = None
        if not self.wanted:
            return
        try:
            self.update(at)
        except RollbookError as error:
            self._note(msgspec.structs.replace(self.state(), failed=error.message))
            self._lost = error if isinstance(error, LostError) else None
            raise

    def check(self) -> None:
        """Raise LostError if the last update found that something is lost here. Ends a night, which is published."""
        if self._lost is not None:
            raise self._lost

    def update(
        self, now: datetime, *, adopt: bool = False, accept_loss: bool = False, progress: Progress | None = None
    ) -> Report:
        """Copy what is new or differs, then write the next catalog, then delete what it does not list.

        Except for snapshots, no object of an earlier catalog is changed before the next one is written. With `adopt`,
        another warehouse's copy becomes this one's. What is lost here stays in the copy, and LostError is raised at the
        end, unless `accept_loss`. Raises MirrorError when the copy is another warehouse's, or the object store fails.
        """
        bucket = Bucket(self.url, self.folder)
        last = newest(bucket)
        local = self._digested()
        lost = [] if last is None or accept_loss else self._lost_here(bucket, last, local)
        self._check_owner(bucket, last, lost, adopt=adopt)
        replaced = _files_of(local, lost)
        own = {path: file for path, file in local.items() if path not in replaced}
        missing = self._missing(bucket, bucket.sizes(), last, own)
        self._copy(bucket, missing, progress)
        number, listed = (last.number, _kept(last, lost, local) | own) if last else (0, own)
        if last is None or last.files != listed or adopt:
            number += 1
            catalog = Catalog(
                number=number,
                warehouse=self._identity().warehouse,
                school_id=self.school_id(),
                made_at=now,
                rollbook=__version__,
                files=listed,
            )
            catalog.write(bucket)
        names = {stored_as(path, file) for path, file in listed.items()}
        ours = (name for name in bucket.sizes() if name.startswith(_OURS) and name not in names)
        gone = [name for name in ours if not name.startswith(f"{FOLDER}/") or is_old(name, number)]
        bucket.delete(gone)
        self._note(State(known=self.state().known, complete_at=now))
        if lost:
            raise _lost(bucket, lost)
        size = sum(file.size for _, _, file in missing)
        return Report(len(missing), size, len(gone), tuple(days_of(listed)))

    def check_sources(self) -> None:
        """Raise LostError if something that the copy holds is lost here. Writes nothing."""
        bucket = Bucket(self.url, self.folder)
        last = newest(bucket)
        if last is not None and (lost := self._lost_here(bucket, last, self._digested(noting=False))):
            raise _lost(bucket, lost)

    def _lost_here(self, bucket: Bucket, last: Catalog, local: dict[str, File]) -> list[str]:
        """The landings and other files of the copy that are lost here, in order."""
        here = sources(local)
        copied = sources(last.files).items()
        return sorted(name for name, there in copied if self._is_lost(bucket, name, there, here.get(name, {})))

    def _is_lost(self, bucket: Bucket, name: str, there: Files, here: Files) -> bool:
        """Whether a landing or another file of the copy is missing here, or something else is in its place.

        It may have expired, and files of our own may change; a landing may be discarded, get its verdict, and be
        rewritten by an erasure. A warehouse set back to a backup may even have another landing under the same number.
        """
        day = day_of(f"{name}/")
        if day is not None and self.raw.has_expired(day):
            return False
        if there.keys() - here.keys() - {DISCARD}:
            return True
        changed = {each for each in there if each in here and here[each][1] != there[each][1]}
        record = _ERASURES if name == _ERASURES else MANIFEST
        if record not in changed:
            return day is not None and not changed.isdisjoint(_BODIES)
        path, file = there[record]
        try:
            theirs = bucket.read(stored_as(path, file))
        except FileNotFoundError:  # only `verify` tells; what is here is copied again
            return False
        try:
            ours = (self.root / here[record][0]).read_bytes()
            if record == _ERASURES:
                was, now = (msgspec.json.decode(each, type=Remembered) for each in (theirs, ours))
                return len(now.erased) < len(was.erased)
            before, after = (msgspec.json.decode(each, type=Manifest) for each in (theirs, ours))
        except (OSError, ValueError):
            return True
        erased = after.erasures - before.erasures
        return before.started_at != after.started_at or erased < (not changed.isdisjoint(_BODIES))

    def _missing(
        self, bucket: Bucket, there: dict[str, int], last: Catalog | None, local: dict[str, File]
    ) -> list[tuple[str, str, File]]:
        """What is still to be copied: each object's name, its path in the warehouse, and the file's size and digest."""
        before = {stored_as(path, file): file for path, file in last.files.items()} if last else {}

        def is_there(name: str, file: File) -> bool:
            if there.get(name) != file.size:
                return False
            if name in before:
                return before[name] == file
            # An interrupted writer left it. The name has the digest, but the content may be incomplete.
            return not name.startswith(SNAPSHOTS) and bucket.fetch(name) == file.sha256

        wanted = ((stored_as(path, file), path, file) for path, file in local.items())
        return [(name, path, file) for name, path, file in wanted if not is_there(name, file)]

    def status(self) -> tuple[Catalog | None, State]:
        """The current catalog in the object store, and the local state. Raises MirrorError."""
        return newest(Bucket(self.url, self.folder)), self.state()

    def verify(self, progress: Progress | None = None) -> list[str]:
        """Read the whole copy back; returns the paths of files that are missing or damaged. Raises MirrorError."""
        bucket = Bucket(self.url, self.folder)
        last = newest(bucket)
        if last is None:
            raise MirrorError(f"Nothing was ever copied to {bucket.url}: run `rollbook mirror sync`")

        def is_sound(item: tuple[str, File]) -> bool:
            try:
                return bucket.fetch(stored_as(*item)) == item[1].sha256
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
        """The kept state; an empty one if it cannot be read, so that all digests are computed again."""
        try:
            return msgspec.json.decode((self.root / STATE).read_bytes(), type=State)
        except (OSError, msgspec.DecodeError):
            return State()

    def _note(self, state: State) -> None:
        files.write(self.root / STATE, msgspec.json.encode(state))

    def _copy(self, bucket: Bucket, missing: list[tuple[str, str, File]], progress: Progress | None) -> None:
        """Copy files in parallel, raw ones first. The next run finds what was copied before an error."""

        def copy(item: tuple[str, str, File]) -> None:
            name, path, file = item
            bucket.put(name, self.root / path, file.sha256)

        # Records of days come last: engines read a day's snapshot once its record is there.
        missing.sort(key=lambda item: (item[0].startswith(SNAPSHOTS), item[0].endswith(".json"), item[0]))
        with ThreadPoolExecutor(AT_ONCE) as threads:
            for done, _ in enumerate(threads.map(copy, missing), 1):
                if progress is not None:
                    progress("files", done, len(missing))

    def _check_owner(self, bucket: Bucket, last: Catalog | None, lost: list[str], *, adopt: bool) -> None:
        """Raise MirrorError for another warehouse's copy, and LostError if it may be all that is left of that."""
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
        if lost:
            raise LostError(
                f"{bucket.url} holds the copy of another warehouse, and this one lacks {_named(lost)}. Nothing was"
                " changed there. Restore it (`rollbook mirror restore --into FOLDER`) and go on with FOLDER as the"
                " warehouse, or set ROLLBOOK_LAKE to another folder"
            )
        if adopt:
            return
        raise MirrorError(
            f"{bucket.url} holds the copy of another warehouse of this institution. If this warehouse replaces that"
            " one, run once: rollbook mirror sync --adopt"
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

    def _digested(self, *, noting: bool = True) -> dict[str, File]:
        """Every file to copy, by path in the warehouse. Only files that are new or changed are read."""
        known, now = self.state().known, {}
        for path in local_files(self.root):
            name, stat = path.relative_to(self.root).as_posix(), path.stat()
            was = known.get(name)
            if was is None or (was.size, was.mtime_ns, was.inode) != (stat.st_size, stat.st_mtime_ns, stat.st_ino):
                was = Known(stat.st_size, stat.st_mtime_ns, stat.st_ino, files.digest(path))
            now[name] = was
        if noting:
            self._note(msgspec.structs.replace(self.state(), known=now))
        return {name: File(each.size, each.sha256) for name, each in now.items()}


def _files_of(files: Mapping[str, File], lost: list[str]) -> dict[str, File]:
    """The files of these landings, and these other files."""
    found = sources(files)
    return {path: file for name in lost for path, file in found.get(name, {}).values()}


def _kept(last: Catalog, lost: list[str], local: Mapping[str, File]) -> dict[str, File]:
    """The files of the copy that stay because they are lost here, and the snapshots of their days."""
    kept = _files_of(last.files, lost)
    days = {day_of(path) for path in kept} - {None}
    derived = {path: file for path, file in last.files.items() if path.startswith(SNAPSHOTS) and path not in local}
    return kept | {path: file for path, file in derived.items() if day_of(path) in days}


def _lost(bucket: Bucket, lost: list[str]) -> LostError:
    return LostError(
        f"What was copied to {bucket.url} is missing here, or not the same: {_named(lost)}. It was not deleted there."
        " Bring it back (`rollbook mirror restore --into FOLDER`, then copy it from FOLDER into this warehouse), or"
        " give it up with `rollbook mirror sync --accept-loss`"
    )


def _named(lost: list[str]) -> str:
    landings = [name for name in lost if day_of(f"{name}/")]
    named = [name for name in lost if name not in landings]
    if landings:
        first, last = day_of(f"{landings[0]}/"), day_of(f"{landings[-1]}/")
        named.insert(0, f"{count_of(len(landings), 'landing')} ({first} to {last}), such as {landings[-1]}")
    return ", ".join(named)


def local_files(root: Path) -> Iterator[Path]:
    """The files of a warehouse to copy, sorted within each folder; no temporary files."""
    for name in _SINGLE:
        if (root / name).is_file():
            yield root / name
    for folder in _FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            parts = path.relative_to(root).parts
            if path.is_file() and not path.is_symlink() and not any(part.startswith(".") for part in parts):
                yield path


def restore(url: str, folder: str, into: Path, progress: Progress | None = None) -> Catalog:
    """Restore a copy into an empty folder; returns its catalog. `rollbook rebuild` then makes the published file.

    Resumes an interrupted restore. A snapshot that differs from the catalog is left out, since a rebuild makes it.
    Raises ArgumentError for a folder that holds anything else, MirrorError for a file that is missing or damaged.
    """
    bucket = Bucket(url, folder)
    marker = into / RESTORING
    if into.exists() and not marker.exists() and any(into.iterdir()):
        raise ArgumentError(f"{into} is not empty: name an empty folder, or one that does not exist yet")
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
                f"{path} is missing in {bucket.url}, or not what was copied. If a sync is copying right now, run this"
                " again when it is done: what was fetched is kept"
            ) from None
