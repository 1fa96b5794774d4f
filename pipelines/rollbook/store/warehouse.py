"""The database that analysts open, and the one being built: copy, write, check, swap (G10).

The next file starts as a copy of an unchanged file that this warehouse wrote (`published`). Readers do not see the next
file until the swap, and the next writer removes a file that a crash left. `history` and `ops` write the content.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import duckdb

from rollbook.errors import BusyError, DamagedError, RollbookError
from rollbook.landing import formats
from rollbook.landing.erased import ERASURES, PRIVATE, ErasureRegister
from rollbook.landing.manifest import TableCounts
from rollbook.store import lake, ops, schema
from rollbook.store.database import connect, literal, transaction
from rollbook.store.lake import Lake
from rollbook.store.published import (
    EXPORTS,
    KEPT,
    PSEUDONYMOUS,
    PSEUDONYMOUS_FOLDER,
    PUBLISHED,
    OwnFiles,
    Versions,
    remove,
    set_aside,
    target,
)
from rollbook.tables import DECLARED, SETS, WALKED, Declared, of_set
from rollbook.util import files

log = logging.getLogger(__name__)

BUILD = "build"

# Changes a copy of a kept file before the copy is published.
Amend = Callable[[duckdb.DuckDBPyConnection], None]


@dataclass(frozen=True)
class _Contents:
    """The contents of a file, as far as a writer asks for them: the merged days with their digests, and of each
    recorded sync the day, the landing, the beginning and the outcome.
    """

    days: dict[date, str] = field(default_factory=dict)
    syncs: tuple[tuple[date, int, datetime, str], ...] = ()


@dataclass(frozen=True)
class Contents:
    """A published file for a person: when it was published, the newest day with the day's last landing that its record
    of the syncs has, and how many records of each set are current.
    """

    published_at: datetime
    day: date | None
    landing: int | None
    records: dict[str, int]


class Warehouse:
    """The published file, the next file, and the folder where the writer works."""

    def __init__(
        self,
        root: Path,
        mode: int = files.PRIVATE_FILE,
        build: Path | None = None,
        *,
        shared_mode: int | None = None,
        district: Path | None = None,
        declared: Declared = DECLARED,
    ) -> None:
        """`mode` is the published file's mode, `shared_mode` that of the pseudonymous file, if there is to be one.
        `district` is the folder that the institutions of a registry share; a single school has none.
        """
        self.root = root
        self.district = district
        self.declared = declared
        self.mode = mode
        self.shared_mode = shared_mode
        self.published_file = root / PUBLISHED
        self.build = build or root / BUILD
        self.next = self.build / "next.duckdb"
        self.next_pseudonymous = self.build / "next-pseudonymous.duckdb"
        self.altered = self.build / "altered"
        # Where DuckDB spills to, and the staged days, which are not in the lake yet.
        self.scratch = self.build / "spill"
        self.staged_lake = self.build / "lake"
        self.own = OwnFiles(ErasureRegister(root / PRIVATE / ERASURES))
        # To open a file takes 15 ms, since its views are read.
        self._contents: dict[tuple[int, int, int], _Contents] = {}
        self.lake = Lake(root / "snapshots", mode, declared)
        self.versions = Versions(root, mode, self.lake.folder_mode)
        shared = files.PRIVATE_FILE if shared_mode is None else shared_mode
        self.pseudonymous = Versions(
            root, shared, files.folder_mode(shared), name=PSEUDONYMOUS, folder=PSEUDONYMOUS_FOLDER
        )

    def prepare(self) -> None:
        """Make the folders; everybody who may read a published file may enter the warehouse's folder."""
        entered = self.lake.folder_mode | self.pseudonymous.folder_mode
        files.folder(self.root, entered)
        files.set_mode(self.root, entered)
        if self.district is not None:  # who may enter this folder must pass the folder that all share
            now = self.root.parent.stat().st_mode & 0o777
            if now | entered & 0o011 != now:
                files.set_mode(self.root.parent, now | entered & 0o011)
        self.lake.open_up()
        self.versions.prepare()
        for path in (self.build, self.scratch):
            files.folder(path)

    def sweep(self) -> None:
        """Remove a killed writer's leftovers: an unfinished next file, staged rows, spilled data; and those of killed
        exports in the folder of exports.
        """
        self.drop_next()
        self.versions.sweep()
        self.pseudonymous.sweep()
        for aside in (*self.root.glob(f".*{files.PARTIAL}"), *self.root.glob(f"{PRIVATE}/**/.*{files.PARTIAL}")):
            aside.unlink(missing_ok=True)  # a reader's process may just have finished it
        for leftover in (self.build / "stage", self.build / "day", self.staged_lake, self.scratch):
            files.empty(leftover)
        for folder in (self.build, self.root / EXPORTS / "pages"):
            files.sweep_aside(folder)
        for name, *_ in os.walk(self.root / EXPORTS):
            files.sweep_handed_out(Path(name))

    @contextmanager
    def writing(
        self, base: Path | None, empty: bytes = b"", *, stays_open: bool = False
    ) -> Iterator[tuple[duckdb.DuckDBPyConnection, frozenset[str]]]:
        """The next file, open for writing, made as a copy of `base` or from the `empty` file; and the schemas whose
        declarations have changed since the base was made, which calls for a full refresh.

        An error in the block removes the next file: nothing half-done can be published. One that `stays_open` may be
        whole on disk only after `finishing`. Raises BusyError if somebody has changed the base.
        """
        self.drop_next()
        try:
            if base is not None:
                shutil.copyfile(base, self.next)
                files.set_mode(self.next, files.PRIVATE_FILE)
                if not self.own.is_unmodified(base):
                    raise BusyError(
                        f"Another program is writing to {base.name}. Close it there, or open it read-only (readers need"
                        " no more), then run the sync again: it starts from an unchanged file"
                    )
            elif empty:
                files.write(self.next, empty)
            with connect(self.next, scratch=self.scratch, stays_open=stays_open) as con:
                with transaction(con):
                    redeclared = schema.ensure_declared(con, self.declared)
                if redeclared:  # else a new column's statistics would always include the initial NULLs
                    con.execute("CHECKPOINT")
                yield con, redeclared
        except BaseException:
            self.drop_next()
            raise

    def retracked(self, path: Path) -> list[str]:
        """The columns of a file whose history is not as tracked now (`schema.retracked`)."""
        with connect(path, scratch=self.scratch, read_only=True) as con:
            return schema.retracked(con, self.declared)

    @contextmanager
    def reading(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection in memory with the published file attached as `published`, if that exists."""
        published = self.published_file if self.published_file.is_file() else None
        with connect(scratch=self.scratch, published=published) as con:
            yield con

    @contextmanager
    def computing(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection in memory with nothing attached, for work that does not need or trust the published file."""
        with connect(scratch=self.scratch) as con:
            yield con

    def merged_days(self, path: Path | None = None) -> dict[date, str]:
        """The merged days of the published file, or of another, each with the digest. Raises DamagedError."""
        return self._contents_of(path or self.published_file).days

    def recorded(self, path: Path) -> dict[tuple[date, int], datetime]:
        """The landings in a file's record of the syncs, by day and number: when each began. Raises DamagedError."""
        return {(day, number): began for day, number, began, _ in self._contents_of(path).syncs}

    def outcomes(self, path: Path) -> dict[tuple[date, int], str]:
        """The outcomes in a file's record of the syncs, by day and number of the landing. Raises DamagedError."""
        return {(day, number): outcome for day, number, _, outcome in self._contents_of(path).syncs}

    def shown(self, days: Iterable[date] | None = None) -> set[date]:
        """The days (default: all; else those of them) that readers have as the lake has them, or whose snapshots have
        expired; none if the published file cannot be read. After a restore, the last day may be that of an earlier
        landing.
        """
        with suppress(RollbookError):
            merged = self._contents_of(self.published_file).days
            asked = merged if days is None else merged.keys() & set(days)
            return {day for day in asked if self.lake.digest(day) in (None, merged[day])}
        return set()

    def contents(self, path: Path) -> Contents | None:
        """The contents of a file for a person; None if it is not there. Raises DamagedError."""
        counts = ", ".join(f"(SELECT COUNT(*) FROM main.{name})" for name in WALKED)
        rows = self._rows(
            f"""
            SELECT published_at, day, (
                SELECT MAX(landing) FROM ops.syncs AS s WHERE s.snapshot_date = day AND outcome = 'synced'
            ), {counts}
            FROM spans.version CROSS JOIN (SELECT MAX(snapshot_date) AS day FROM spans.days)
            """,
            path,
        )
        for at, day, landing, *numbers in rows:
            return Contents(at.replace(tzinfo=UTC), day, landing, dict(zip(WALKED, numbers, strict=True)))
        return None

    def version(self) -> str | None:
        """The published file's version id; None without a file. Raises DamagedError."""
        return next((str(row[0]) for row in self._rows("SELECT id FROM spans.version")), None)

    def bound_to(self) -> int | None:
        """The published file's institution id; None without a file. Raises DamagedError."""
        return next((int(row[0]) for row in self._rows("SELECT school_id FROM main.institution")), None)

    def _contents_of(self, path: Path) -> _Contents:
        """The contents of a file, if there is one. Raises DamagedError."""
        if not path.is_file():
            return _Contents()
        seen = files.identity(path.stat())
        if seen not in self._contents:
            days = "SELECT LIST(ROW(snapshot_date, digest)) FROM spans.days"
            syncs = "SELECT LIST(ROW(snapshot_date, landing, started_at, outcome)) FROM ops.syncs"
            ((merged, recorded),) = self._rows(f"SELECT ({days}), ({syncs})", path)
            began = ((day, number, at.replace(tzinfo=UTC), outcome) for day, number, at, outcome in recorded or ())
            self._contents[seen] = _Contents(dict(merged or ()), tuple(began))
        return self._contents[seen]

    def _rows(self, query: str, path: Path | None = None) -> list[tuple[Any, ...]]:
        """The rows that a query selects in the published file, or in another; none without the file. Raises
        DamagedError.
        """
        path = path or self.published_file
        if not path.is_file():
            return []
        try:
            with connect(path, scratch=self.scratch, read_only=True) as con:
                schema.check_format(con, path.name)
                return con.execute(query).fetchall()
        except (duckdb.CatalogException, duckdb.BinderException):
            raise DamagedError(
                f"{path.name} is not Rollbook's: the next sync makes it again, or `rollbook rebuild`"
            ) from None

    def merged_everywhere(self) -> dict[date, str]:
        """The merged days, with digests, that the published file and all kept older files have in common.

        A day may expire only if all files hold the day: any may be restored later, and the lake could not add the day.
        """
        alike = set(self.merged_days().items())
        for version in self.kept():
            with suppress(DamagedError, duckdb.Error):
                alike &= set(self.merged_days(version).items())
        return dict(alike)

    def expire_rejects(self, before: date) -> None:
        """Remove refused records and values of earlier days from the kept older files."""
        either = f"""
            SELECT 1 FROM ops.rejects WHERE snapshot_date < DATE '{before}'
            UNION ALL SELECT 1 FROM ops.refused_values WHERE snapshot_date < DATE '{before}' LIMIT 1
        """
        for version in filter(self.own.is_unmodified, self.kept()):
            if self._rows(either, version):
                with self.finishing(version) as con:
                    ops.expire_rejects(con, before)
                self.replace(version)

    def is_sound(self, path: Path | None = None, *, thoroughly: bool = False) -> bool:
        """Whether the published file, or another, can be read: the catalog, or if `thoroughly` every value."""
        path = path or self.published_file
        try:
            with connect(path, scratch=self.scratch, read_only=True) as con:
                tables = con.execute("SELECT schema_name, table_name FROM duckdb_tables()").fetchall()
                con.execute("SELECT MAX(snapshot_date) FROM spans.days").fetchall()
                for schema_name, name in tables if thoroughly else ():
                    con.execute(f"SELECT BIT_XOR(HASH(t)) FROM {schema_name}.{name} AS t").fetchall()
        except BusyError:  # an analyst opened the file for writing, which does no damage
            return True
        except (DamagedError, duckdb.Error):
            return False
        return True

    @contextmanager
    def finishing(
        self, copy_of: Path | None = None, *, published: Path | None = None
    ) -> Iterator[duckdb.DuckDBPyConnection]:
        """The next file, open for the last changes; first replaced by a copy of the file `copy_of`, if given. The file
        `published` is attached by that name. Afterwards the file is ready for `swap` or `replace`.
        """
        if copy_of is not None:
            remove(self.next)  # not the file without names, which may be waiting for the publish
            shutil.copyfile(copy_of, self.next)
        with connect(self.next, scratch=self.scratch, published=published) as con:
            yield con

    def swap(self) -> None:
        """Publish the next file, and keep the previous file."""
        self.versions.retire(leaving=KEPT - 1)  # before the swap, so that the disk never holds a version more
        altered = self._set_aside_altered()
        self.own.register(self.next)
        self._activate(self.versions.add(self.next), instead_of=altered)

    def replace(self, path: Path) -> None:
        """Put the next file in the place of the published or of a kept file, which is removed."""
        self.own.register(self.next)
        if path == self.published_file:
            self._activate(self.versions.add(self.next), instead_of=self.versions.newest())
        else:
            self.versions.replace(path, self.next)

    def of_earlier_format(self) -> list[Path]:
        """The published files of ours that an earlier version of Rollbook wrote, and that this one can upgrade."""
        found = []
        for path in (self.published_file, *self.kept()) if formats.UPGRADES else ():
            if self.own.is_unmodified(path):
                with connect(path, scratch=self.scratch, read_only=True) as con:
                    ((number,),) = con.execute("SELECT format FROM spans.version").fetchall()
                if number in formats.UPGRADES:
                    found.append(path)
        return found

    def kept(self) -> list[Path]:
        """The kept versions before the published file, the newest first."""
        return self.versions.kept()

    def restore(self, version: Path, amend: Amend | None = None) -> None:
        """Publish a kept file again at once, and keep the previous one. Raises DamagedError.

        `amend` changes the copy that readers get. Days that were merged since are not lost: the next merge adds the
        lake's days that the file lacks.
        """
        if not self.is_sound(version, thoroughly=True):
            raise DamagedError(f"{version.name} cannot be read: restore another one (`rollbook restore` lists them)")
        if amend is not None:
            with self.finishing(version) as con:
                amend(con)
            if self.own.is_unmodified(version):
                self.own.register(self.next)
            version = self.next
        altered = self._set_aside_altered()
        self._activate(self.versions.republish(version), instead_of=altered)
        self.drop_next()

    def _activate(self, version: Path, *, instead_of: Path | None) -> None:
        # The write-ahead log of an analyst's changes to the old file does not belong to the new one.
        self.published_file.with_name(f"{PUBLISHED}.wal").unlink(missing_ok=True)
        self.versions.activate(version)
        if instead_of is not None:
            remove(instead_of)
        self.versions.retire()

    def _set_aside_altered(self) -> Path | None:
        """Keep the published file: as a version, or in `build/altered/` if not as Rollbook wrote it.

        Returns the altered version, if any; the caller removes that once readers have another. Only the last KEPT
        altered files are kept.
        """
        altered = target(self.published_file)
        if self.own.is_unmodified(self.published_file):
            if self.versions.newest() is None:  # not a link: a copy from a backup
                self.versions.republish(self.published_file)
            return None
        if not self.published_file.exists():  # missing, or a dangling link
            return None
        written = datetime.fromtimestamp(self.published_file.lstat().st_mtime, UTC)
        aside = files.folder(self.altered) / f"{PUBLISHED}-{written:%Y-%m-%dT%H-%M-%S.%f}"
        set_aside(self.published_file, aside)
        log.warning("%s is not as Rollbook wrote it; kept as %s", PUBLISHED, aside.relative_to(self.root))
        for old in sorted(p for p in self.altered.glob("*") if p.is_file())[:-KEPT]:
            old.unlink()
        return altered if altered != self.published_file else None

    def rows_lost(self, path: Path) -> tuple[TableCounts, ...]:
        """Rows that the next file lacks of another: counts per current table. Raises DamagedError."""
        with connect(scratch=self.scratch, published=path) as con:
            con.execute(f"ATTACH {literal(self.next)} AS next (READ_ONLY)")
            return lake.rows_lost(con, "published", "next", self.declared)

    def drop_next(self) -> None:
        """Remove the next files, unpublished."""
        for leftover in (self.next, self.next_pseudonymous):
            remove(leftover)

    def vanished(self, set_name: str, received: AbstractSet[int]) -> Mapping[int, tuple[tuple[str, str], ...]]:
        """The current published records of a set that were not received.

        Maps each id to the (field, value) pairs to search by, in the order of `Set.names` and `Set.last_names`, without
        empty values.
        """
        if not self.published_file.is_file():
            return {}
        of, table = SETS[set_name], f"published.main.{of_set(set_name)[0].name}"
        names = (*of.names, *of.last_names)
        with self.reading() as con:
            try:
                current = {ident for (ident,) in con.execute(f"SELECT {of.key} FROM {table}").fetchall()}
            except (duckdb.CatalogException, duckdb.BinderException):  # the set was declared since the last publish
                return {}
            columns = ", ".join((of.key, *names))
            query = f"SELECT {columns} FROM {table} WHERE {of.key} IN (SELECT UNNEST($1))"
            rows = con.execute(query, [list(current - received)]).fetchall()
        return {
            row[0]: tuple((field, value) for field, value in zip(names, row[1:], strict=True) if value) for row in rows
        }
