"""An institution's parts of the fleet: its published tables as Parquet files, in a folder that all institutions share.

    <table>/institution=<name>/<version>.parquet   one file per table: `students`, `history.students`, `spans.days` ...
    _parts/<name>.json                             the note: which files are complete, of which version (`Given`)

Each file also has its institution as a column. The file of an unchanged table stays. The files are written after the
swap of the published file, so a killed writer leaves parts of an older version; the next writer writes them again
(`keep_up`). To get a consistent set, read the note first (see `fleet.file.gathering`).
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime
from hashlib import sha256
from pathlib import Path

import duckdb
import msgspec

from pipelines import files, machine
from pipelines.errors import RollbookError
from pipelines.store import schema
from pipelines.store.database import connect, literal
from pipelines.store.lake import COPY
from pipelines.store.relations import PAGES, VERSION
from pipelines.store.warehouse import Warehouse
from pipelines.tables import Relation

log = logging.getLogger(__name__)

NOTES = "_parts"
INSTITUTION = "institution"
# `pages` describes bodies that stay with the institution; the version is in the note.
_LEFT_OUT = (PAGES, VERSION)


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One table's file: its name, number of rows, size in bytes, and a digest of the rows in any order."""

    file: str
    rows: int
    size: int
    digest: str


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """The note: one institution's parts by table, of one version of its published file. Times are UTC.

    `mode` is the files' mode; `school_id` identifies the school even under another name.
    """

    version: str
    published_at: datetime
    newest_day: date | None
    school_id: int | None
    school_name: str | None
    mode: int
    tables: dict[str, Part]


def shared() -> tuple[Relation, ...]:
    """The tables that institutions share with the fleet."""
    return tuple(r for r in schema.declared() if r not in _LEFT_OUT)


def title(relation: Relation) -> str:
    """A table's name in the fleet's folder: `students`, `syncs`, `history.students`, `spans.days`."""
    return relation.name if relation.schema in ("main", "ops") else f"{relation.schema}.{relation.name}"


def note_of(fleet: Path, name: str) -> Given | None:
    """An institution's note; None if there is none or it cannot be read."""
    path = fleet / NOTES / f"{name}.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=Given)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        log.warning("%s cannot be read (%s); the institution's next sync writes it again", path, type(error).__name__)
        return None


def givers(fleet: Path) -> list[str]:
    """The names of the institutions with a note, in order."""
    return sorted(name.removesuffix(".json") for name in files.names(fleet / NOTES) if name.endswith(".json"))


def path_of(fleet: Path, table: str, name: str, part: Part) -> Path:
    """The path of a part."""
    return _folder(fleet, table, name) / part.file


def forget(fleet: Path, name: str) -> bool:
    """Remove all parts of an institution; returns whether there were any. The note is removed last, so that after a
    kill the rest is still found.
    """
    there = list(fleet.glob(f"*/{INSTITUTION}={name}"))
    note = fleet / NOTES / f"{name}.json"
    was_there = note.exists() or bool(there)
    for folder in there:
        shutil.rmtree(folder)
    note.unlink(missing_ok=True)
    return was_there


class Parts:
    """The parts of one warehouse. Requires the writer lock; outside a fleet, all methods do nothing."""

    def __init__(self, warehouse: Warehouse) -> None:
        self.warehouse = warehouse
        self.fleet = warehouse.fleet
        self.name = warehouse.root.name

    def keep_up(self) -> None:
        """Write the parts if a killed writer left them at an older version than the published file."""
        if self.fleet is not None and self.warehouse.published.is_file():
            with self._warning(self.fleet):
                self._open_up(self.fleet)
                if not self.is_current():
                    self._write(self.fleet)

    def write(self) -> None:
        """Write the changed parts. On failure the sync goes on: it logs a warning, the fleet keeps the older parts, and
        the next writer tries again.
        """
        if self.fleet is not None:
            with self._warning(self.fleet):
                self._write(self.fleet)

    def is_current(self) -> bool:
        """Whether the parts are complete, and of the published file's version and mode. Raises DamagedError if that
        file cannot be read.
        """
        if self.fleet is None:
            return True
        given = note_of(self.fleet, self.name)
        return (
            given is not None
            and given.mode == self.warehouse.mode
            and given.version == self.warehouse.version()
            and all(self._is_there(self.fleet, table, part) for table, part in given.tables.items())
        )

    def clear(self) -> None:
        """Remove the parts: if they cannot be written again, they may still hold an erased student."""
        if self.fleet is not None and forget(self.fleet, self.name):
            log.warning("The parts of %s in the fleet could not be brought up to date and were removed", self.name)

    def forget_earlier_names(self) -> None:
        """Remove the same school's parts under another name, which nothing would update."""
        if self.fleet is None or not self.warehouse.published.is_file():
            return
        school = self.warehouse.bound_to()
        for name in givers(self.fleet):
            given = note_of(self.fleet, name)
            if name != self.name and given is not None and given.school_id == school and forget(self.fleet, name):
                log.warning("This school's parts in the fleet under its former name %s were removed", name)

    @contextmanager
    def _warning(self, fleet: Path) -> Iterator[None]:
        try:
            with machine.translate_errors(fleet):
                yield
        except (RollbookError, OSError, duckdb.Error) as error:
            # DuckDB's message may repeat a value.
            why = error.message if isinstance(error, RollbookError) else type(error).__name__
            log.warning(
                "The parts of %s in the fleet could not be written: %s. The fleet keeps the earlier ones; the next sync"
                " tries again",
                self.name,
                why,
            )

    def _write(self, fleet: Path) -> None:
        was = note_of(fleet, self.name)
        known = was.tables if was else {}
        self._open_up(fleet)
        with connect(self.warehouse.published, scratch=self.warehouse.scratch, read_only=True) as con:
            (about,) = con.execute("""
                SELECT
                    v.id, v.published_at,
                    (SELECT MAX(snapshot_date) FROM spans.days),
                    (SELECT MAX(school_id) FROM main.institution),
                    (SELECT MAX(school_name) FROM main.institution)
                FROM spans.version AS v
            """).fetchall()
            version, published_at, newest_day, school_id, school_name = about
            there = schema.existing(con)
            tables = {}
            for relation in shared():
                if (relation.schema, relation.name) in there:  # a restored file may be from an earlier Rollbook
                    table = title(relation)
                    tables[table] = self._part(con, fleet, relation, str(version), known.get(table))
        given = Given(
            version=str(version), published_at=published_at, newest_day=newest_day, school_id=school_id,
            school_name=school_name, mode=self.warehouse.mode, tables=tables,
        )  # fmt: skip
        files.write(files.folder(fleet / NOTES) / f"{self.name}.json", msgspec.json.encode(given))
        self._remove_others(fleet, tables)

    def _part(
        self, con: duckdb.DuckDBPyConnection, fleet: Path, relation: Relation, version: str, known: Part | None
    ) -> Part:
        """A table's part: the known one, if its rows are the same, else a new one."""
        table, full = title(relation), f"{relation.schema}.{relation.name}"
        folder = _folder(fleet, table, self.name)
        for path in (folder.parent, folder):
            files.folder(path)
            _widen(path, self.warehouse.versions.folder_mode)
        folder.chmod(self.warehouse.versions.folder_mode)
        digest, rows = _digest(con, full)
        if known is not None and known.digest == digest and self._is_there(fleet, table, known):
            (folder / known.file).chmod(self.warehouse.mode)
            return known
        target = folder / f"{version}.parquet"
        with files.replacing(target, self.warehouse.mode) as aside:
            columns = f"SELECT {literal(self.name)} AS {INSTITUTION}, * FROM {full}"
            con.execute(f"COPY ({columns}) TO {literal(aside)} {COPY}")
        return Part(file=target.name, rows=rows, size=target.stat().st_size, digest=digest)

    def _is_there(self, fleet: Path, table: str, part: Part) -> bool:
        path = path_of(fleet, table, self.name, part)
        return path.is_file() and path.stat().st_size == part.size

    def _remove_others(self, fleet: Path, tables: dict[str, Part]) -> None:
        """Remove the files of older versions, of tables that are no longer declared, and of killed writers."""
        for folder in fleet.glob(f"*/{INSTITUTION}={self.name}"):
            if folder.parent.name not in tables:
                shutil.rmtree(folder)
                continue
            for name in set(files.names(folder)) - {tables[folder.parent.name].file}:
                (folder / name).unlink(missing_ok=True)

    def _open_up(self, fleet: Path) -> None:
        """Make the shared folders above searchable for everybody who may enter this warehouse."""
        files.folder(fleet)
        entered = self.warehouse.root.stat().st_mode & 0o011
        for path in (fleet.parent, fleet):
            _widen(path, entered)


def _folder(fleet: Path, table: str, name: str) -> Path:
    return fleet / table / f"{INSTITUTION}={name}"


def _widen(folder: Path, mode: int) -> None:
    """Add permissions to a folder, keeping those that other institutions added."""
    now = folder.stat().st_mode & 0o777
    if mode & ~now:
        folder.chmod(now | mode)


def _digest(con: duckdb.DuckDBPyConnection, full: str) -> tuple[str, int]:
    """A digest of a table's columns and of its rows in any order, and the number of rows."""
    kinds = con.execute(f"DESCRIBE {full}").fetchall()
    query = f"SELECT COUNT(*), CAST(SUM(CAST(HASH(t) AS HUGEINT)) AS VARCHAR) FROM {full} AS t"
    rows, hashed = con.execute(query).fetchall()[0]
    columns = [(name, kind) for name, kind, *_ in kinds]
    return sha256(repr((columns, rows, hashed, duckdb.__version__)).encode()).hexdigest()[:32], int(rows)
