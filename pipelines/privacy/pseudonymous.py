"""`rollbook-pseudonymous.duckdb`: what is published, for readers who need no names (G12).

The same tables, views and macros. Personal columns are there and always NULL, each student has a code instead of the id
(`codes`), and nothing shows that something personal changed: versions that differ in nothing else are one. Left out are
whatever is about single records as they came (refused ones, unknown fields, bodies) and the lake, which has names.

It is made into an empty file each time, never by taking something out of another: what DuckDB deletes stays on pages
that are no longer used. Of a student's rows, no order but that of the codes is kept.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime
from pathlib import Path

import duckdb
import msgspec
import pyarrow as pa

from pipelines import machine
from pipelines.errors import DamagedError, RollbookError
from pipelines.privacy.codes import Codes, Release, begin
from pipelines.store import schema
from pipelines.store.database import connect, each, literal, transaction
from pipelines.store.fleet_file import WAIT_FOR_BUILD, FleetFile
from pipelines.store.relations import CHANGE_KEYS, CHANGES, SYNCS
from pipelines.store.statements import statements
from pipelines.store.versions import PSEUDONYMOUS
from pipelines.store.warehouse import Warehouse
from pipelines.tables import TABLES, Column, Relation
from pipelines.views import catalog
from pipelines.views import pseudonymous as contents
from pipelines.views.pseudonymous import STUDENT

sql = statements("pipelines.privacy")

log = logging.getLogger(__name__)


class MadeFrom(msgspec.Struct, frozen=True, kw_only=True):
    """What a pseudonymous file says of itself: see `views.pseudonymous.RELEASE`. Times are UTC, without a zone."""

    version: str
    published_at: datetime
    newest_day: date | None
    release: str
    began_at: datetime


class Pseudonymous:
    """The pseudonymous file of one warehouse. Everything but `made_from` and `is_current` is for a writer."""

    def __init__(self, warehouse: Warehouse, *, wanted: bool) -> None:
        self.warehouse = warehouse
        self.wanted = wanted
        self.versions = warehouse.pseudonymous
        self.codes = Codes(warehouse.root)
        self.next = warehouse.next_pseudonymous

    # -- what the nights do ----------------------------------------------------------------------------------------

    def prepare(self, named: Path, at: datetime) -> bool:
        """Make the next file from one that is about to be published. Returns whether there is one for `show`.

        Where that fails, the night goes on: a warning says that readers of the pseudonymous file keep the older one.
        """
        self.drop_next()
        if not self.wanted:
            return False
        with self._warning():
            self.make(named, at)
        return self.next.exists()

    def show(self) -> None:
        """Lead readers to the file that was prepared. The one before stays until the next writer, for who is just
        opening it; `drop_older` does not wait.
        """
        with self._warning():
            self._show()

    def keep_up(self, at: datetime) -> None:
        """Make the file again where it is not of the version that is published, or with other codes; remove it where
        none is wanted. A killed writer, a restored file and a changed setting leave it so.
        """
        self.drop_older()
        if not self.wanted:
            self.remove()
        elif self.warehouse.published.is_file():
            with self._warning():
                self.versions.prepare()  # the mode may be another one
                if not self.is_current():
                    was_there = self.versions.link.exists()
                    self.make(self.warehouse.published, at)
                    self._show()
                    if was_there:
                        log.warning("%s was not of the version that is published; it is made again", PSEUDONYMOUS)

    def remove(self) -> None:
        """Remove the file. Nobody would keep it up, and who is erased would stay in it. The codes are kept."""
        self.drop_next()
        if self.versions.link.is_symlink() or self.versions.link.exists() or self.versions.folder.exists():
            self.versions.clear()
            log.warning("%s was removed: ROLLBOOK_PSEUDONYMOUS is not set. The codes are kept", PSEUDONYMOUS)

    def rotate(self, at: datetime) -> int:
        """Begin a new release, and write the file again with it, if one is wanted; returns how many codes it has.

        The fleet's file that has the codes of the one before is removed; its next build makes it again. Raises
        RollbookError, BusyError where a build of it does not end; the release before is then still used everywhere.
        """
        if self.warehouse.fleet is None:
            return self._rotate(at)
        file = FleetFile(self.warehouse.fleet, pseudonymous=True)
        with file.building(timeout=WAIT_FOR_BUILD):
            count = self._rotate(at)
            file.sweep()
            file.clear()
        return count

    def _rotate(self, at: datetime) -> int:
        if self.wanted and self.warehouse.published.is_file():
            self.make(self.warehouse.published, at, begin(at))
            self._show()
            self.drop_older()
        else:
            self.codes.save(begin(at))
        release = self.codes.load()
        return len(release.codes) if release else 0

    def drop_older(self) -> None:
        """Remove the files before the one that readers get. Who erases a student calls this after the publish."""
        self.versions.retire(leaving=0)

    def drop_next(self) -> None:
        """Remove the next file: it shall not be shown."""
        for leftover in (self.next, self.next.with_name(f"{self.next.name}.wal")):
            leftover.unlink(missing_ok=True)

    @contextmanager
    def _warning(self) -> Iterator[None]:
        try:
            with machine.translate_errors(self.warehouse.root):
                yield
        except (RollbookError, OSError, duckdb.Error) as error:
            self.drop_next()
            # DuckDB's own words may repeat a value.
            why = error.message if isinstance(error, RollbookError) else type(error).__name__
            log.warning(
                "%s could not be made: %s. Its readers keep an older one, if there is one; see `rollbook status`",
                PSEUDONYMOUS,
                why,
            )

    # -- what it is made from --------------------------------------------------------------------------------------

    def made_from(self) -> MadeFrom | None:
        """What the file says of itself; None when there is none. Raises DamagedError for one that cannot be read."""
        if not self.versions.link.is_file():
            return None
        try:
            with connect(self.versions.link, scratch=self.warehouse.scratch, read_only=True) as con:
                row = con.execute(sql("made_from")).fetchone()
        except (DamagedError, duckdb.Error):
            row = None
        if row is None:
            raise DamagedError(f"{PSEUDONYMOUS} cannot be read: run `rollbook relocate`, which makes it again")
        return MadeFrom(**dict(zip(MadeFrom.__struct_fields__, row, strict=True)))

    def is_current(self) -> bool:
        """Whether the file is of the version that is published, with the codes that the table has. Raises DamagedError
        for a published file that cannot be read, or a table of codes.
        """
        try:
            made = self.made_from()
        except DamagedError:
            return False
        release = self.codes.load()
        return (
            made is not None
            and made.version == self.warehouse.version()
            and release is not None
            and made.release == release.name
        )

    def describe(self, student: int) -> str:
        """The name of a student, as the published file has it or had it last. Raises DamagedError."""
        if not self.warehouse.published.is_file():
            return "there is no published file to look up the name in"
        with connect(self.warehouse.published, scratch=self.warehouse.scratch, read_only=True) as con:
            row = con.execute(sql("known"), {"student": student}).fetchone()
        if row is None:
            return "the published file does not name this student"
        return str(row[0]) if row[1] else f"{row[0]}, who is no longer listed"

    # -- making it -------------------------------------------------------------------------------------------------

    def make(self, named: Path, at: datetime, release: Release | None = None) -> None:
        """Make the next file from a published one or its successor. Raises RollbookError.

        The codes are saved once the file is whole, and before anybody is shown it: each code that was ever shown can be
        looked up.
        """
        self.drop_next()
        self.versions.prepare()
        release = release or self._release(at)
        with connect(self.next, scratch=self.warehouse.scratch) as con:
            con.execute(f"ATTACH {literal(named)} AS named (READ_ONLY)")
            con.execute("ATTACH ':memory:' AS private")
            release = release.covering(_students(con))
            _fill_codes(con, release)
            with transaction(con):
                schema.ensure(con)
                con.execute("DROP SCHEMA snapshots")
                con.execute(
                    sql("release"), {"release": release.name, "began_at": release.began_at.replace(tzinfo=None)}
                )
            _fill(con)
            with transaction(con):
                catalog.create_views(con)
                catalog.create_macros(con, self._version(con))
                release_columns = ((c.name, c.comment) for c in contents.RELEASE.columns)
                catalog.comment(con, "TABLE", "ops.release", contents.RELEASE.comment, release_columns)
                contents.comment(con, schema.declared(), catalog.views())
            con.execute("DETACH named")
            con.execute("CHECKPOINT")
        self.codes.save(release)

    def _show(self) -> None:
        """Lead readers to the next file."""
        if self.next.exists():
            self.versions.retire(leaving=0)
            self.versions.show(self.versions.add(self.next))

    def _release(self, at: datetime) -> Release:
        """The release in use, or the first one. Raises DamagedError when its table was lost."""
        release = self.codes.load()
        if release is None and self.versions.newest() is not None:
            raise self.codes.damaged("is gone")
        return release or begin(at)

    @staticmethod
    def _version(con: duckdb.DuckDBPyConnection) -> str:
        row = con.execute("SELECT version FROM ops.release").fetchone()
        return str(row[0]) if row else ""


def _students(con: duckdb.DuckDBPyConnection) -> list[int]:
    """The ids of all students that the file speaks of anywhere, gone ones among them."""
    tables = [name for name, columns in _there(con).items() if STUDENT in columns]
    parts = (f"SELECT DISTINCT {STUDENT} AS id FROM named.{name}" for name in tables)
    rows = con.execute(f"SELECT DISTINCT id FROM ({' UNION ALL '.join(parts)}) WHERE id IS NOT NULL")
    return [int(student) for student in rows.fetchnumpy()["id"]]


def _there(con: duckdb.DuckDBPyConnection) -> dict[str, set[str]]:
    """The tables of the published file, each with its columns; one that was put back may be of an earlier Rollbook."""
    found: dict[str, set[str]] = {}
    for name, column in con.execute(sql("there")).fetchall():
        found.setdefault(name, set()).add(column)
    return found


def _fill_codes(con: duckdb.DuckDBPyConnection, release: Release) -> None:
    drawn = pa.table({"id": list(release.codes.keys()), "code": list(release.codes.values())})
    con.register("drawn", drawn)
    con.execute(
        "CREATE TABLE private.codes AS SELECT CAST(id AS BIGINT) AS id, CAST(code AS BIGINT) AS code FROM drawn"
    )
    con.unregister("drawn")


def _fill(con: duckdb.DuckDBPyConnection) -> None:
    """Fill every table in one pass of the published one; those with the most rows come first."""
    there = _there(con)
    relations = {f"{r.schema}.{r.name}": r for r in schema.declared()}
    work = [text for name in there if name in relations and (text := _statement(relations[name], there[name]))]
    each(con, lambda mine, text: mine.execute(text), work)


def _statement(relation: Relation, there: set[str]) -> str:
    """What fills a table; empty for one that is left so. `there` are the columns that the published file has of it."""
    table = TABLES.get(relation.name) if relation.schema in ("main", "history", "spans") else None
    if contents.is_empty(relation):
        return ""
    if relation == SYNCS:
        tables, personal = contents.personal_changes()
        return sql("syncs", change_keys=CHANGE_KEYS, tables=tables, personal=personal)
    about_students = any(c.name == STUDENT for c in relation.columns)
    parts = {
        "into": f"{relation.schema}.{relation.name}",
        "student": STUDENT,
        "values": [_value(c, there, is_shown=c in contents.shown(relation)) for c in relation.columns],
        "order": _order(relation) if about_students else [],
        "only": "",
    }
    if table is not None and relation.schema == "history" and any(contents.is_left_out(c) for c in table.columns):
        kept = [c for c in table.tracked if not contents.is_left_out(c) and c.name in there]
        return sql("versions", key=table.key, kept=kept, **parts)
    if table is not None and relation.schema == "spans" and not table.is_list:
        # No view reads what was stated, and it is cut where a name changed; of a list, that it was stated is read.
        parts["only"] = "t.span_state <> 'stated'"
    if relation == CHANGES:
        parts["only"] = contents.told_changes()
    return sql("copy", **parts)


def _value(column: Column, there: set[str], *, is_shown: bool) -> str:
    """What stands in a column."""
    if column.name == STUDENT:
        return f"c.code AS {STUDENT}"
    if column.name not in there or not is_shown:
        return f"CAST(NULL AS {column.type}) AS {column.name}"
    return f"t.{column.name}"


def _order(relation: Relation) -> list[str]:
    """By the code, and of one student by day: the ids' own order is not kept."""
    names = {c.name for c in relation.columns}
    days = [f"t.{name}" for name in ("valid_from", "first_day") if name in names]
    return ["t.snapshot_date", "c.code"] if relation == CHANGES else ["c.code", *days]
