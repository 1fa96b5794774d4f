"""Updates the copy after each writer, restores a warehouse from it, and proves that this works.

Only what cannot be rebuilt is copied: `raw/`, the institution's own thresholds and terms, the records of erasures, and
the codes of the pseudonymous file; also `snapshots/`, for engines that read the copy. The published file, the report
and the access log are not copied. The next writer deletes from the copy what was replaced or expired here, such as an
erased student's bodies: the object store must keep no old versions, or expire them. Files lost here are not deleted
there: a night that finds a loss fails, until somebody restores the files or gives them up.

The copy's catalog lists every file with the digest. Catalogs are numbered; the highest number is current.

    _mirror/catalog-00000007.json

A catalog is created only if the number is free (compare-and-swap), so two concurrent writers cannot both follow the
sixth. Files of `raw/` are stored under path and digest, so a catalog's files never change. A snapshot keeps its path,
because other engines read it; a restore leaves snapshots out, since a rebuild makes them. Each stored object is read
back and verified. The copy is never the only record, and nothing waits for an update: a failure is logged as a warning,
and the next writer retries.

A proof restores the copy to a temporary folder, rebuilds the tables, and compares them row for row with what readers
have. Expired days are in neither the copy nor the lake. With such days, the restored days are compared with the lake's,
and every published file is read whole and compared with each day.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import date, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urlsplit

import duckdb
import msgspec

from rollbook.errors import ArgumentError, LostError, MirrorError, RollbookError, SettingError
from rollbook.feature import present
from rollbook.features.mirror.settings import MirrorSettings
from rollbook.landing import formats
from rollbook.landing.bodies import BODIES, DISCARD, MANIFEST, PAGES
from rollbook.landing.erased import ERASURES, PRIVATE, REGISTER, RegisterContent
from rollbook.landing.manifest import Manifest
from rollbook.landing.raw import RawStore
from rollbook.night import past
from rollbook.night.listeners import Listener, Listeners
from rollbook.night.past import always
from rollbook.night.place import Place
from rollbook.night.writing import Writer
from rollbook.settings import Settings, with_secrets_of_libraries
from rollbook.source.fetch import utc_now
from rollbook.store import checks
from rollbook.store.database import connect, differences, literal, names
from rollbook.store.published import REGISTERED
from rollbook.store.schema import ACTIVE_DAYS, OWN_COLUMNS, REFUSED_VALUES, REJECTS, TERMS, THRESHOLDS, declared
from rollbook.store.warehouse import Warehouse
from rollbook.tables import TABLES, Relation
from rollbook.util import files
from rollbook.util.machine import in_bytes
from rollbook.util.text import count_of
from rollbook.util.text import listed as listed_names

STATE = "private/mirror.json"
# Marks an unfinished restore.
RESTORING = ".restoring"
AT_ONCE = 4  # parallel transfers
PROOF_EVERY = timedelta(days=7)
CATALOGS, SNAPSHOTS, RAW = "_mirror", "snapshots/", "raw/"
_SINGLE = ("thresholds.csv", "terms.csv", "contacted.csv", "private/codes.json")
_FOLDERS = ("raw", "snapshots", f"{PRIVATE}/{ERASURES}")
# The names of the files that are copied and restored; another may be anything, such as a link of somebody's.
_NAMES = re.compile(
    rf"{'|'.join(map(re.escape, _SINGLE))}|{PRIVATE}/{ERASURES}/(?:{REGISTER}|{REGISTERED}|certificate-\d+\.md)"
    r"|raw/[a-z]+\.json|raw/snapshot_date=\d{4}-\d\d-\d\d/(?:landing|discarded)=\d+/[a-z]+\.(?:json|jsonl|zst)"
    r"|snapshots/[a-z0-9_]+/snapshot_date=\d{4}-\d\d-\d\d/[a-z0-9_-]+\.(?:json|parquet)"
)
_OURS = (*_SINGLE, *(f"{folder}/" for folder in (*_FOLDERS, CATALOGS)))
# Refused values leave the published file a night before the day's raw bodies do, so the copy may hold more.
EXPIRING = tuple(f"{r.schema}.{r.name}" for r in (REJECTS, REFUSED_VALUES))
_NUMBER = re.compile(rf"{CATALOGS}/catalog-(\d{{8}})\.json")
_DAY = re.compile(r"/snapshot_date=(\d{4}-\d\d-\d\d)(?:/|$)")
_DISCARDED = re.compile(r"/discarded=(\d+)$")

# Called with what is counted, how many are done, and the total.
Progress = Callable[[str, int, int], None]


class File(msgspec.Struct, frozen=True):
    """A file: the size in bytes, and the SHA-256 in hex."""

    size: int
    sha256: str


# The files of a landing by name, or another file alone: the path of each, and the file.
Source = dict[str, tuple[str, File]]
# A file to be copied: the object's name, the path in the warehouse, and the file.
Missing = tuple[str, str, File]


class Catalog(formats.Stored, frozen=True, kw_only=True):
    """All files of the copy by path in the warehouse. `warehouse` is the random id of the owner."""

    number: int
    warehouse: str
    school_id: int | None
    made_at: datetime
    files: dict[str, File]

    def days(self) -> list[date]:
        """The landed days, in order."""
        return sorted({day for path in self.files if path.startswith(RAW) and (day := _day_of(path))})


class MirrorState(formats.Stored, frozen=True, kw_only=True):
    """The state of a warehouse: the random id, which the copy carries; how the last update failed; when the copy was
    last proven, when a proof was last tried, and why the proof failed (`unproven`).

    `digests` has the size, modification time, inode and digest of each local file, so that only changed files are read.
    """

    warehouse: str
    digests: dict[str, tuple[int, int, int, str]] = msgspec.field(default_factory=dict)
    failed: str = ""
    proven_at: datetime | None = None
    tried_at: datetime | None = None
    unproven: str = ""


class Mirror(Listener):
    """The copy of a warehouse. `update` requires the writer lock."""

    name = "the copy in ROLLBOOK_LAKE"

    def __init__(self, settings: Settings, school_id: Callable[[], int | None]) -> None:
        self.settings = settings
        self.root = settings.warehouse_path
        self.url = MirrorSettings.of(settings).lake
        self.folder = settings.institution
        self.school_id = school_id
        self.raw = RawStore(self.root / "raw")
        self._lost: LostError | None = None
        self._is_published = False

    def on_published(self, at: datetime) -> None:  # noqa: ARG002 - only that a publish happened
        """Readers have a new file, so the copy may be proven when the writer ends."""
        self._is_published = True

    def ended(self, at: datetime) -> None:
        """Update the copy, if a place is set, and note how the update ended; once a week, prove the copy after a
        publish.
        """
        self._lost = None
        if not self.url:
            return
        try:
            self.update(at)
        except RollbookError as error:
            self._note(msgspec.structs.replace(self.state(), failed=error.message))
            self._lost = error if isinstance(error, LostError) else None
            raise
        minutes, tried = MirrorSettings.of(self.settings).mirror_proof_minutes, self.state().tried_at
        if minutes and self._is_published and (tried is None or at - tried >= PROOF_EVERY):
            self.prove(at, _for_minutes(minutes))

    def prove(self, at: datetime, progress: Progress = lambda *_: None) -> None:
        """Prove the copy (`prove`), and note how that ended."""
        try:
            prove(self.settings, progress)
        except RollbookError as error:
            self._note(msgspec.structs.replace(self.state(), tried_at=at, unproven=error.message))
            raise
        self._note(msgspec.structs.replace(self.state(), tried_at=at, proven_at=at, unproven=""))

    def remark(self) -> str:
        """When the copy was last proven, and why no update or proof has worked since; empty without a copy."""
        if not self.url:
            return ""
        state = self.state()
        wrong = f". On {state.tried_at:%Y-%m-%d} that failed: {state.unproven}" if state.unproven else ""
        behind = f"The off-site copy is not up to date: {state.failed}. It" if state.failed else "The off-site copy"
        if state.proven_at is None:
            return f"{behind} has not been proven yet, by restoring and comparing it{wrong}"
        return (
            f"{behind} was last proven, by restoring and comparing it, on {state.proven_at:%Y-%m-%d %H:%M} UTC{wrong}"
        )

    def landings(self, day: date) -> list[int]:
        """The numbers of the day's landings that the copy holds."""
        named = re.compile(rf"raw/snapshot_date={day}/(?:landing|discarded)=(\d+)/")
        return [int(match[1]) for path in self.state().digests if (match := named.match(path))] if self.url else []

    def check(self) -> None:
        """Raise LostError if the last update found that something is lost here."""
        if self._lost is not None:
            raise self._lost

    def update(
        self, now: datetime, *, adopt: bool = False, accept_loss: bool = False, progress: Progress = lambda *_: None
    ) -> str:
        """Copy what is new or differs, then write the next catalog, then delete what the catalog does not list.

        Except for snapshots, no object of an earlier catalog is changed before the next catalog is written. With
        `adopt`, another warehouse's copy becomes this warehouse's. Files lost here stay in the copy, and LostError is
        raised at the end, unless `accept_loss`. Raises MirrorError when the copy is another warehouse's, or the object
        store fails. Returns what was done, in words.
        """
        bucket = Bucket(self.url, self.folder)
        last, digests, before = newest(bucket), self._known(), self.state()
        local = _files(digests)
        lost = [] if last is None or accept_loss else self._lost_here(bucket, last, local)
        # A lost landing stays known: the number is not given to another landing.
        still = {path: was for path, was in before.digests.items() if _source(path) in lost}
        state = msgspec.structs.replace(before, digests=still | digests)
        self._note(state)
        school_id = self.school_id()
        if last is not None:
            _check_owner(bucket, last, state.warehouse, school_id, lost, adopt=adopt)
        missing, listed = _diff(bucket, last, local, lost)
        self._upload(bucket, missing, progress)
        if last is not None and last.files == listed and not adopt:
            catalog = last
        else:
            number = last.number + 1 if last else 1
            catalog = Catalog(number=number, warehouse=state.warehouse, school_id=school_id, made_at=now, files=listed)
            _write(bucket, catalog)
        outdated = _delete_outdated(bucket, catalog)
        self._note(msgspec.structs.replace(state, failed=""))
        if lost:
            raise _lost(bucket, lost)
        return (
            f"Copied {count_of(len(missing), 'file')} ({in_bytes(sum(file.size for _, _, file in missing))}), removed"
            f" {len(outdated)}. The copy holds {count_of(len(catalog.days()), 'landed day')}."
        )

    def _upload(self, bucket: Bucket, missing: Sequence[Missing], progress: Progress) -> None:
        with ThreadPoolExecutor(AT_ONCE) as threads:
            copied = threads.map(lambda item: bucket.put(item[0], self.root / item[1], item[2].sha256), missing)
            for done, _ in enumerate(copied, 1):
                progress("files", done, len(missing))

    def check_sources(self) -> None:
        """Raise LostError if something that the copy holds is lost here. Writes nothing."""
        bucket = Bucket(self.url, self.folder)
        last = newest(bucket)
        if last is not None and (lost := self._lost_here(bucket, last, _files(self._known()))):
            raise _lost(bucket, lost)

    def _lost_here(self, bucket: Bucket, last: Catalog, local: dict[str, File]) -> list[str]:
        """The landings and other files of the copy that are lost here, in order."""
        here = _sources(local)
        copied = _sources({path: file for path, file in last.files.items() if _NAMES.fullmatch(path)}).items()
        return sorted(name for name, there in copied if self._is_lost(bucket, name, there, here.get(name, {})))

    def _is_lost(self, bucket: Bucket, name: str, there: Source, here: Source) -> bool:
        """Whether a landing or another file of the copy is missing here, or something else is there.

        A landing may have expired, and files of our own may change; a landing may be discarded, get its verdict, and be
        rewritten by an erasure. A warehouse set back to a backup may even have another landing under the same number.
        """
        day = _day_of(name)
        if day is not None and self.raw.has_expired(day):
            return False
        if there.keys() - here.keys() - {DISCARD}:
            return True
        changed = {each for each in there.keys() & here.keys() if here[each][1] != there[each][1]}
        bodies_changed = not changed.isdisjoint({BODIES, PAGES})
        record = REGISTER if day is None else MANIFEST
        if record not in changed:
            return bodies_changed
        kind: Any = RegisterContent if day is None else Manifest
        try:
            before = formats.decode(bucket.read(stored_as(*there[record])), kind, f"{bucket.url}/{there[record][0]}")
            after = formats.decode((self.root / here[record][0]).read_bytes(), kind, self.root / here[record][0])
        except (OSError, ValueError):
            return True
        if day is None:
            return len(after.erased) < len(before.erased)
        return bool(before.started_at != after.started_at or after.erasures - before.erasures < bodies_changed)

    def status(self) -> tuple[Catalog | None, MirrorState]:
        """The current catalog in the object store, and the local state. Raises MirrorError."""
        return newest(Bucket(self.url, self.folder)), self.state()

    def behind(self, catalog: Catalog) -> list[str]:
        """The files that the copy lacks, or holds otherwise, or holds after their end here, sorted."""
        return sorted({path for path, _ in _files(self._known()).items() ^ catalog.files.items()})

    def verify(self, progress: Progress = lambda *_: None) -> list[str]:
        """Read the whole copy back; returns the objects that are missing or damaged. Raises MirrorError."""
        bucket = Bucket(self.url, self.folder)
        last = newest(bucket)
        if last is None:
            raise MirrorError(f"Nothing was ever copied to {bucket.url}: run `rollbook mirror sync`")

        wrong = []
        with ThreadPoolExecutor(AT_ONCE) as threads:
            digests = threads.map(lambda item: bucket.fetch(stored_as(*item)), last.files.items())
            for done, ((path, file), digest) in enumerate(zip(last.files.items(), digests, strict=True), 1):
                if digest != file.sha256:
                    wrong.append(stored_as(path, file))
                progress("files", done, len(last.files))
        return wrong

    def state(self) -> MirrorState:
        """The kept state. An unreadable state counts as a new warehouse's, and all digests are computed again."""
        try:
            return formats.decode((self.root / STATE).read_bytes(), MirrorState, self.root / STATE)
        except (OSError, msgspec.DecodeError):
            return MirrorState(warehouse=secrets.token_hex(16))

    def _note(self, state: MirrorState) -> None:
        files.folder((self.root / STATE).parent)
        files.write(self.root / STATE, msgspec.json.encode(state))

    def _known(self) -> dict[str, tuple[int, int, int, str]]:
        """Every file to copy, by path, as in `MirrorState.digests`. Only new or changed files are read."""
        cached, now = self.state().digests, {}
        paths = [self.root / name for name in _SINGLE]
        for folder in _FOLDERS:
            paths += sorted((self.root / folder).rglob("*"))
        for path in paths:
            name = path.relative_to(self.root).as_posix()
            if path.is_file() and not path.is_symlink() and _NAMES.fullmatch(name):
                stat = path.stat()
                same = (stat.st_size, stat.st_mtime_ns, stat.st_ino)
                was = cached.get(name)
                now[name] = was if was and was[:3] == same else (*same, files.digest(path))
        return now


def _for_minutes(minutes: float) -> Progress:
    """A progress that raises MirrorError once so many minutes have passed."""
    until = time.monotonic() + 60 * minutes

    def show(*_: object) -> None:
        if time.monotonic() > until:
            raise MirrorError(
                f"It took longer than {minutes:g} minutes. Raise ROLLBOOK_MIRROR_PROOF_MINUTES, or run `rollbook mirror"
                " verify --restore`"
            )

    return show


def newest(bucket: Bucket) -> Catalog | None:
    """The current catalog; None if nothing was ever copied. Raises MirrorError."""
    numbers = sorted(name for name in bucket.sizes(CATALOGS) if _NUMBER.fullmatch(name))
    if not numbers:
        return None
    try:
        return formats.decode(bucket.read(numbers[-1]), Catalog, f"{bucket.url}/{numbers[-1]}")
    except (FileNotFoundError, msgspec.DecodeError):
        raise MirrorError(
            f"{bucket.url}/{numbers[-1]} cannot be read. If a sync is copying right now, run this again when it is"
            " done; if not, delete it there, then run `rollbook mirror sync`, which copies everything that is missing"
        ) from None


def stored_as(path: str, file: File) -> str:
    """The object's name: a snapshot's path, since engines read it; otherwise path and digest."""
    return path if path.startswith(SNAPSHOTS) else f"{path}.{file.sha256[:16]}"


def _day_of(path: str) -> date | None:
    """The day of a landing, of a snapshot or of a file in either; None for any other file."""
    match = _DAY.search(path)
    return date.fromisoformat(match[1]) if match else None


def _source(path: str) -> str:
    """The source of a file: the landing's folder, discarded or not; else the file."""
    if not path.startswith(RAW) or _day_of(path) is None:
        return path
    return _DISCARDED.sub(r"/landing=\1", path.rsplit("/", 1)[0])


def _sources(paths: Mapping[str, File]) -> dict[str, Source]:
    """Sources that cannot be rebuilt: each landing, and each other file alone."""
    sources: dict[str, Source] = {}
    for path, file in paths.items():
        if not path.startswith(SNAPSHOTS):
            sources.setdefault(_source(path), {})[path.rsplit("/", 1)[-1]] = (path, file)
    return sources


def _files(entries: Mapping[str, tuple[int, int, int, str]]) -> dict[str, File]:
    return {path: File(size, digest) for path, (size, _, _, digest) in entries.items()}


def _diff(
    bucket: Bucket, last: Catalog | None, local: Mapping[str, File], lost: list[str]
) -> tuple[list[Missing], dict[str, File]]:
    """What to upload, in order, and the files of the next catalog: the local ones, and what stays for the lost ones."""
    own = {path: file for path, file in local.items() if _source(path) not in lost}
    missing = _missing(bucket, last, own)
    # Records of days come last: engines read a day's snapshot once the record is there.
    missing.sort(key=lambda item: (item[0].startswith(SNAPSHOTS), item[0].endswith(".json"), item[0]))
    return missing, (_kept(last, lost, local) | own if last else own)


def _write(bucket: Bucket, catalog: Catalog) -> None:
    if not bucket.create(f"{CATALOGS}/catalog-{catalog.number:08}.json", msgspec.json.encode(catalog)):
        raise MirrorError(
            f"Another warehouse was copied to {bucket.url} at the same time, so this one's copy does not count."
            " Sync each institution from one machine only"
        )


def _delete_outdated(bucket: Bucket, catalog: Catalog) -> list[str]:
    """Delete the objects that the catalog does not list, and the catalogs before it; returns their names."""
    names = {stored_as(path, file) for path, file in catalog.files.items()}
    names |= {name for name in bucket.sizes(CATALOGS) if (n := _NUMBER.fullmatch(name)) and int(n[1]) >= catalog.number}
    outdated = [name for name in bucket.sizes() if name.startswith(_OURS) and name not in names]
    bucket.delete(outdated)
    return outdated


def _kept(last: Catalog, lost: list[str], local: Mapping[str, File]) -> dict[str, File]:
    """The lost files, which stay in the copy, and the snapshots of their days."""
    staying = {path: file for path, file in last.files.items() if _source(path) in lost}
    days = {_day_of(path) for path in staying} - {None}
    derived = {path: file for path, file in last.files.items() if path.startswith(SNAPSHOTS) and path not in local}
    return staying | {path: file for path, file in derived.items() if _day_of(path) in days}


def _missing(bucket: Bucket, last: Catalog | None, local: Mapping[str, File]) -> list[Missing]:
    """The files still to be copied."""
    there = bucket.sizes()
    before = {stored_as(path, file): file for path, file in last.files.items()} if last else {}

    def is_there(name: str, file: File) -> bool:
        # A file that no catalog lists was left by an interrupted writer, and may be incomplete.
        return there.get(name) == file.size and (
            before.get(name) == file or (not name.startswith(SNAPSHOTS) and bucket.fetch(name) == file.sha256)
        )

    wanted = ((stored_as(path, file), path, file) for path, file in local.items())
    return [(name, path, file) for name, path, file in wanted if not is_there(name, file)]


def _check_owner(
    bucket: Bucket, last: Catalog, warehouse: str, school_id: int | None, lost: list[str], *, adopt: bool
) -> None:
    """Raise MirrorError for another warehouse's copy, and LostError if the copy may be all that is left of the
    other.
    """
    if None not in (last.school_id, school_id) and last.school_id != school_id:
        raise MirrorError(
            f"{bucket.url} holds the copy of institution {last.school_id}; this is institution {school_id}. Set"
            " ROLLBOOK_LAKE to another folder"
        )
    if last.warehouse != warehouse and lost:
        raise LostError(
            f"{bucket.url} holds the copy of another warehouse, and this one lacks {listed_names(lost, 5)}. Nothing was"
            " changed there. Restore it (`rollbook mirror restore --into FOLDER`) and go on with FOLDER as the"
            " warehouse, or set ROLLBOOK_LAKE to another folder"
        )
    if last.warehouse != warehouse and not adopt:
        raise MirrorError(
            f"{bucket.url} holds the copy of another warehouse of this institution. If this warehouse replaces that"
            " one, run once: rollbook mirror sync --adopt"
        )


def _lost(bucket: Bucket, lost: list[str]) -> LostError:
    return LostError(
        f"What was copied to {bucket.url} is missing here, or not the same: {listed_names(lost, 5)}. It was not"
        " deleted there. Bring it back (`rollbook mirror restore --into FOLDER`, then copy it from FOLDER into this"
        " warehouse), or give it up with `rollbook mirror sync --accept-loss`"
    )


def restore(
    url: str,
    folder: str,
    into: Path,
    progress: Progress = lambda *_: None,
    *,
    began: Callable[[], None] = lambda: None,
) -> Catalog:
    """Restore a copy into an empty folder; returns the catalog. `rollbook rebuild` then makes everything else.

    Resumes an interrupted restore. `began` is called before the first file is restored. Raises ArgumentError for a
    folder that holds anything else, MirrorError for a file that is missing or damaged, or whose name is none of ours.
    """
    bucket = Bucket(url, folder)
    marker = into / RESTORING
    if into.exists() and not marker.exists() and any(into.iterdir()):
        raise ArgumentError(f"{into} is not empty: name an empty folder, or one that does not exist yet")
    catalog = newest(bucket)
    if catalog is None:
        raise MirrorError(f"Nothing was ever copied to {bucket.url}, so there is nothing to restore")
    if any(not _NAMES.fullmatch(path) for path in catalog.files):
        raise MirrorError(
            f"The catalog in {bucket.url} names a file that Rollbook does not copy, so somebody else has written it: do"
            " not trust that copy. Nothing was restored"
        )
    files.folder(into)
    files.write(marker, b"")
    began()
    wanted = {path: file for path, file in catalog.files.items() if not path.startswith(SNAPSHOTS)}
    for done, (path, file) in enumerate(wanted.items(), 1):
        target = into / path
        if not target.is_file() or files.digest(target) != file.sha256:
            files.folder(target.parent)
            with files.replacing(target) as aside:
                with aside.open("wb") as opened:
                    digest = bucket.fetch(stored_as(path, file), opened)
                if digest != file.sha256:
                    raise MirrorError(
                        f"{path} is missing in {bucket.url}, or not what was copied. If a sync is copying right now,"
                        " run this again when it is done: what was fetched is kept. If not, `rollbook mirror verify`"
                        " says what to do"
                    )
        progress("files", done, len(wanted))
    marker.unlink()
    return catalog


# -- the object store --------------------------------------------------------------------------------------------------

# Timeouts of a request (at most 5 MB), and of all retries together.
REQUEST_SECONDS = 60
RETRY_SECONDS = 180

NEEDS_EXTRA = "ROLLBOOK_LAKE needs the extra mirror, for a folder too: pip install 'rollbook[mirror]'"
_REASONS = {"Unauthenticated": "it does not accept the credentials", "PermissionDenied": "it does not allow that"}


class Bucket:
    """A folder of an object store; `url` is such as s3://bucket/prefix. Thread-safe.

    Credentials, region and endpoint come from the environment, as for the store's own tools (AWS_ACCESS_KEY_ID,
    AWS_ENDPOINT_URL and so on), or from the files that variables such as AWS_SECRET_ACCESS_KEY_FILE name. Every method
    raises MirrorError.
    """

    def __init__(self, url: str, folder: str = "") -> None:
        """`folder` is a subfolder of the URL. Sends no request. Raises SettingError without the extra `mirror`."""
        self.url = f"{url.rstrip('/')}/{folder}".rstrip("/")
        try:
            import obstore
        except ImportError:
            raise SettingError(NEEDS_EXTRA) from None
        self._obstore: Any = obstore
        with self._translated("be opened"):
            if self.url.startswith("file:"):
                root = files.folder(Path(unquote(urlsplit(self.url).path)))
                self._store = self._obstore.store.LocalStore(root, automatic_cleanup=True)
            else:
                client = {"timeout": f"{REQUEST_SECONDS}s", "connect_timeout": "10s", "allow_http": True}
                retry = {"max_retries": 10, "retry_timeout": timedelta(seconds=RETRY_SECONDS)}
                with with_secrets_of_libraries():
                    self._store = self._obstore.store.from_url(self.url, client_options=client, retry_config=retry)

    def put(self, name: str, content: Path, digest: str) -> None:
        """Store an object and read the content back; raises MirrorError when the SHA-256 is not `digest`."""
        with self._translated("take an object"):
            self._obstore.put(self._store, name, content)
        if self.fetch(name) != digest:
            raise MirrorError(
                f"What was copied to {self.url} differs from what is read back from it. Nothing here is lost: run"
                " `rollbook mirror sync` again, and if this happens again, check that storage"
            )

    def create(self, name: str, content: bytes) -> bool:
        """Create an object atomically, in one request; returns whether the object is ours, and none existed before."""
        errors = self._obstore.exceptions
        with self._translated("take an object"), suppress(errors.AlreadyExistsError, errors.PreconditionError):
            self._obstore.put(self._store, name, content, mode="create", use_multipart=False)
            return True
        return self.read(name) == content  # if equal, the response to an earlier try was lost

    def read(self, name: str) -> bytes:
        """An object's content. Raises FileNotFoundError, too."""
        with self._translated("be read"):
            return bytes(self._obstore.get(self._store, name).bytes())

    def fetch(self, name: str, to: IO[bytes] | None = None) -> str:
        """Read an object, into an open file if given; returns the SHA-256 in hex, empty if the object does not
        exist.
        """
        digest = sha256()
        with self._translated("be read"), suppress(FileNotFoundError):
            for chunk in self._obstore.get(self._store, name):
                digest.update(chunk)
                if to is not None:
                    to.write(chunk)
            return digest.hexdigest()
        return ""

    def sizes(self, prefix: str = "") -> dict[str, int]:
        """The size in bytes of every object below a folder, by name."""
        with self._translated("be listed"):
            listed: Iterator[list[dict[str, Any]]] = self._obstore.list(self._store, prefix=prefix or None)
            return {entry["path"]: entry["size"] for page in listed for entry in page}

    def delete(self, names: Sequence[str]) -> None:
        """Delete objects. Where an object is missing, the rest may stay for the next time."""
        with self._translated("delete objects"), suppress(FileNotFoundError):
            self._obstore.delete(self._store, names)

    @contextmanager
    def _translated(self, action: str) -> Iterator[None]:
        """Raise MirrorError without the store's own message, which contains addresses and key names."""
        try:
            yield
        except FileNotFoundError:
            raise
        except self._obstore.exceptions.BaseError as error:
            kind = type(error).__name__.removesuffix("Error")
            reason = _REASONS.get(kind, f"{kind}; no usable answer")
        except (OSError, ValueError, TypeError) as error:
            reason = type(error).__name__
        else:
            return
        raise MirrorError(
            f"The mirror at {self.url} could not {action} ({reason}). Nothing here is lost, and the next sync tries"
            " again: check that storage, its credentials and ROLLBOOK_LAKE"
        )


# --- the proof --------------------------------------------------------------------------------------------------------


def prove(settings: Settings, progress: Progress) -> None:
    """Prove a warehouse's copy, and the published files. Requires the writer lock, and that nothing is behind.

    Raises MirrorError with what differs, and what restoring and rebuilding raise. `progress` may raise, to stop the
    proof.
    """
    ours = Warehouse(settings.warehouse_path, declared=settings.declared)
    with files.aside(ours.build) as folder:
        restore(MirrorSettings.of(settings).lake, settings.institution, folder / "copy", progress)
        theirs = Warehouse(folder / "copy", declared=settings.declared)
        restored = Place(RawStore(theirs.root / "raw"), theirs, present())
        kept = settings.model_copy(update={"keep_days": None})
        writer = Writer(restored, kept, Listeners(theirs.root), utc_now, progress)
        expired = restored.landings.expired_days()
        past.rebuild(writer, confirm=always, accept_loss=bool(expired))
        differing = [*_differing(ours, theirs, in_lake=bool(expired))]
        for file in (ours.published_file, *ours.kept()) if expired else ():
            differing += _faults(ours, file)
    if differing:
        raise MirrorError(
            f"What was restored from the copy is not what readers have: {listed_names(differing, 5)}. Run `rollbook"
            " mirror verify`; if it finds nothing, run `rollbook rebuild`, and this again"
        )


def _differing(ours: Warehouse, theirs: Warehouse, *, in_lake: bool) -> Iterator[str]:
    """The tables that differ between two warehouses: the published ones, or those of the lake's days."""
    pairs = {
        f"{r.schema}.{r.name}": [_published(r, of) for of in ("published", "theirs")]
        for r in declared(ours.declared)
        if r.schema in ("main", "history", "ops") and r not in (THRESHOLDS, TERMS, ACTIVE_DAYS, OWN_COLUMNS)
    }
    if in_lake:
        lakes = [(warehouse.lake, warehouse.lake.days().values()) for warehouse in (ours, theirs)]
        pairs = {name: [lake.scan(t, days) for lake, days in lakes] for name, t in TABLES.items()}
        pairs["observed"] = [lake.scan_observed(days) for lake, days in lakes]
    with connect(scratch=theirs.scratch, published=ours.published_file) as con:
        con.execute(f"ATTACH {literal(theirs.published_file)} AS theirs (READ_ONLY)")
        lists, restored = (_lists(con, of) for of in ("published", "theirs"))
        if not in_lake:
            yield from (f"all rows of history.{name}" for name in sorted(lists ^ restored))
            pairs |= {
                f"history.{name}": [f'FROM {of}.history."{name}"' for of in ("published", "theirs")]
                for name in sorted(lists & restored)
            }
        for name, (a, b) in pairs.items():
            lacking, surplus = differences(con, a, b)
            if number := lacking + (0 if name in EXPIRING else surplus):
                yield f"{number:,} rows of {name}"


def _lists(con: duckdb.DuckDBPyConnection, of: str) -> set[str]:
    """The tables of the school's own lists, and of who was spoken to, in an attached file."""
    lists = "schema_name = 'history' AND (STARTS_WITH(table_name, 'own_') OR table_name = 'contacts')"
    rows = con.execute(f"SELECT table_name FROM duckdb_tables() WHERE database_name = $1 AND {lists}", [of])
    return {name for (name,) in rows.fetchall()}


def _published(relation: Relation, of: str) -> str:
    """The query for a published table. Of the record of the syncs only what readers have yet: a held or failed night
    publishes nothing.
    """
    rows = f"SELECT {names(relation.columns)} FROM {of}.{relation.schema}.{relation.name}"
    is_record = relation.schema == "ops" and of == "theirs" and "landing" in {c.name for c in relation.columns}
    return f"{rows} SEMI JOIN published.ops.syncs USING (snapshot_date, landing)" if is_record else rows


def _faults(warehouse: Warehouse, file: Path) -> list[str]:
    """Faults of a published file: unreadable, or not what the lake's days say."""
    if not warehouse.is_sound(file, thoroughly=True):
        return [f"{file.name} cannot be read"]
    with connect(file, scratch=warehouse.scratch, read_only=True) as con:
        findings = checks.examine(con, warehouse.lake, warehouse.lake.days(), whole=True).values()
    return [f"{file.name}: {sentence}" for sentences in findings for sentence in sentences]
