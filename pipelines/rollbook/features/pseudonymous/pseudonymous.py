"""`rollbook-pseudonymous.duckdb`: the published file for readers who need no names (G12).

It has the same tables, views and macros. Personal columns exist but are always NULL, each student has a code instead of
the id, and nothing shows that a personal value changed: versions that differ in nothing else are merged. Left
out are raw records (rejects, refused values, undeclared fields, bodies) and the lake, which has names.

It is always written into an empty file, never by deleting from a copy: deleted data would stay in DuckDB's free pages.
That file is then copied by a process that never saw a name (`store.clean`).
Students' rows are ordered by code, not in their original order.

A student's code is drawn once and never changes, even after the student has left. It is random, not derived from the
id, so only `private/codes.json` maps a code to a student. A release is a set of codes; `rollbook codes rotate` starts a
new release, after which the earlier codes map to nobody.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable
from contextlib import nullcontext, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pyarrow as pa

from rollbook.errors import DamagedError
from rollbook.feature import macros, relations
from rollbook.features.pseudonymous import contents
from rollbook.features.pseudonymous.contents import STUDENT
from rollbook.landing import formats
from rollbook.landing.erased import ERASURES, PRIVATE, ErasureRegister
from rollbook.night.listeners import ErasureUnderWay, Listener
from rollbook.rights.personal import Section
from rollbook.rights.subject import INTERNAL, section
from rollbook.store import schema
from rollbook.store.clean import clean
from rollbook.store.database import connect, each, literal, transaction
from rollbook.store.district import WAIT_FOR_BUILD, DistrictFile
from rollbook.store.published import PSEUDONYMOUS, remove
from rollbook.store.schema import CHANGE_KEYS, CHANGES
from rollbook.store.statements import statements
from rollbook.store.warehouse import Warehouse
from rollbook.tables import Declared, Relation
from rollbook.tables import Pseudonymous as How
from rollbook.util import files
from rollbook.views import catalog

sql = statements("rollbook.features.pseudonymous")

log = logging.getLogger(__name__)

FOLDER, FILE = "private", "codes.json"
# Fifteen digits: spreadsheet programs keep no more, and every language's floating point numbers (2^53) hold so many.
MIN_CODE, MAX_CODE = 10**14, 10**15
# Students' rows are sorted by code, then by day, so that the order of the ids is not visible; `changes` first by day.
_ORDER = {
    "snapshot_date": "t.snapshot_date",
    STUDENT: "c.code",
    "valid_from": "t.valid_from",
    "first_day": "t.first_day",
}


class Release(formats.Stored, frozen=True, kw_only=True):
    """A set of codes: the random name, the first use (UTC), and each student's code by id."""

    name: str
    began_at: datetime
    codes: dict[int, int]

    def covering(self, students: Iterable[int]) -> Release:
        """The release with codes for more students. No code equals any student's id."""
        missing = [student for student in dict.fromkeys(students) if student not in self.codes]
        drawn = taken = frozenset((*self.codes, *self.codes.values(), *missing))
        while not taken.isdisjoint(drawn):
            drawn = frozenset(secrets.SystemRandom().sample(range(MIN_CODE, MAX_CODE), len(missing)))
        return msgspec.structs.replace(self, codes=self.codes | dict(zip(missing, drawn, strict=True)))


class Codes:
    """The table of codes of one warehouse. Only a writer changes it."""

    def __init__(self, root: Path) -> None:
        self.path = root / FOLDER / FILE
        self.register = ErasureRegister(root / PRIVATE / ERASURES)

    def load(self) -> Release | None:
        """The release in use, without erased students; None before the first. Raises DamagedError for a damaged file.

        A file that was restored from a backup may still have old codes.
        """
        release, erased = self.stored(), self.register.matcher()
        if (
            release is None or not erased or self.register.read().pending is not None
        ):  # the work under way counts the codes
            return release
        left = {student: code for student, code in release.codes.items() if student not in erased}
        return release if len(left) == len(release.codes) else msgspec.structs.replace(release, codes=left)

    def stored(self) -> Release | None:
        """The release as the file has it. Raises DamagedError."""
        try:
            return formats.decode(self.path.read_bytes(), Release, self.path)
        except FileNotFoundError:
            return None
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise self.damaged("cannot be read") from None

    def save(self, release: Release) -> None:
        """Use a release from now on. It replaces the file's content."""
        files.set_mode(files.folder(self.path.parent), files.PRIVATE_FOLDER)
        files.write(self.path, msgspec.json.encode(release))

    def forget_erased(self) -> None:
        """Remove erased students from a file that was restored."""
        stored, left = self.stored(), self.load()
        if left is not None and left != stored:
            self.save(left)

    def damaged(self, how: str) -> DamagedError:
        """The error for a table of codes that cannot be used."""
        return DamagedError(
            f"{FOLDER}/{FILE}, which says whom each code stands for, {how}. Put it back from a backup, or begin a new"
            " release with `rollbook codes rotate`: every student then gets another code"
        )


def code_of(root: Path, student: int) -> Section:
    """The code of a student, for a subject access file."""
    release = Codes(root).load()
    codes = [(code,) for each, code in release.codes.items() if each == student] if release else []
    meaning = "The code that stands for the student in the pseudonymous file."
    return section(INTERNAL, "private.code", meaning, {"code": "BIGINT"}, codes)


def begin(at: datetime) -> Release:
    """A new, empty release."""
    return Release(name=secrets.token_hex(16), began_at=at, codes={})


class Pseudonymous(Listener):
    """The pseudonymous file of one warehouse. All but `made_from` and `is_current` require the writer lock."""

    name = PSEUDONYMOUS

    def __init__(self, warehouse: Warehouse, *, wanted: bool) -> None:
        self.warehouse = warehouse
        self.wanted = wanted
        self.versions = warehouse.pseudonymous
        self.codes = Codes(warehouse.root)
        self.next = warehouse.next_pseudonymous

    # -- each night -----------------------------------------------------------------------------------------------

    def before_publish(self, next_file: Path, at: datetime) -> None:
        """Make the next file before readers get the named file, so that the two swaps are only a moment apart."""
        remove(self.next)
        if self.wanted:
            self.make(next_file, at)

    def on_published(self, at: datetime) -> None:  # noqa: ARG002 - both files have the time of the publish
        """Publish the next file, if one was made.

        The previous one stays until the next writer, for readers that are just opening it.
        """
        if self.next.exists():
            self.versions.retire(leaving=0)
            self.versions.activate(self.versions.add(self.next))

    def began(self, at: datetime) -> None:
        """Replace a file that is outdated or has other codes. One that is not wanted is removed: it would grow old and
        keep erased students. The codes are kept.

        This repairs what a killed writer, a restored file or a changed setting left.
        """
        self.versions.retire(leaving=0)
        self.codes.forget_erased()
        if not self.wanted:
            remove(self.next)
            if self.versions.link.is_symlink() or self.versions.link.exists() or self.versions.folder.exists():
                self.versions.clear()
                log.warning("%s was removed: ROLLBOOK_PSEUDONYMOUS is not set. The codes are kept", PSEUDONYMOUS)
        elif self.warehouse.published_file.is_file():
            self.versions.prepare()  # the mode may have changed
            if not self.is_current():
                self.make(self.warehouse.published_file, at)
                self.on_published(at)
                log.warning("%s did not match the published file; it was made again", PSEUDONYMOUS)

    def rotate(self, at: datetime) -> int:
        """Begin a new release of codes and, if wanted, replace the file; returns the number of codes.

        The district's file with the previous codes is removed, until the next build. Raises RollbookError,
        such as BusyError when a running build does not end; the previous release is then still used everywhere.
        """
        district = DistrictFile(self.warehouse.district, pseudonymous=True) if self.warehouse.district else None
        with district.building(timeout=WAIT_FOR_BUILD) if district else nullcontext():
            release = begin(at)
            if self.wanted and self.warehouse.published_file.is_file():
                release = self.make(self.warehouse.published_file, at, release)
                self.on_published(at)
                self.versions.retire(leaving=0)
            else:
                self.codes.save(release)
            if district is not None:
                district.sweep()
                district.versions.clear()
        return len(release.codes)

    def erased(self, erased: ErasureUnderWay) -> None:
        """Remove the codes of erased students, and the files that have them; counts the codes."""
        release, forgotten = self.codes.stored(), 0
        if release is not None:
            left = {student: code for student, code in release.codes.items() if student not in erased.erased}
            forgotten = len(release.codes) - len(left)
            if forgotten:
                self.codes.save(msgspec.structs.replace(release, codes=left))
        if self.is_current():
            self.versions.retire(leaving=0)
        else:  # an old file, which still has the student; the next writer makes a new one if wanted
            self.versions.clear()
        erased.counts["codes"] = forgotten

    # -- the origin ------------------------------------------------------------------------------------------------

    def made_from(self) -> dict[str, Any] | None:
        """The origin of the file (see `views.pseudonymous.RELEASE`); times are naive UTC. None if there is no file.

        Raises DamagedError for an unreadable file.
        """
        if not self.versions.link.is_file():
            return None
        try:
            with connect(self.versions.link, scratch=self.warehouse.scratch, read_only=True) as con:
                ((*row,),) = con.execute("SELECT * FROM ops.release").fetchall()
        except (DamagedError, duckdb.Error, ValueError):
            raise DamagedError(f"{PSEUDONYMOUS} cannot be read: run `rollbook sync`, which makes it again") from None
        return dict(zip((column.name for column in contents.RELEASE.columns), row, strict=True))

    def differs(self) -> str | None:
        """How the file differs from what it should be, and what comes of that; empty if it does not, None without a
        file that is not wanted either. Raises DamagedError.
        """
        origin = self.made_from()
        if origin is None and not self.wanted:
            return None
        if self.wanted and origin is not None and self.is_current():
            return ""
        newest = origin["newest_day"] if origin else None
        then = "makes it again" if self.wanted else "removes it"
        return (
            f"{PSEUDONYMOUS} does NOT match the published file, but is up to {newest or 'no day'}: the next sync {then}"
        )

    def is_current(self) -> bool:
        """Whether the file was made from the published version, with the current release of codes.

        Raises DamagedError when the published file or the table of codes cannot be read.
        """
        origin = None
        with suppress(DamagedError):
            origin = self.made_from()
        release = self.codes.load()
        return bool(
            origin and release and origin["version"] == self.warehouse.version() and origin["release"] == release.name
        )

    def describe(self, student: int) -> str:
        """A student's latest name in the published file, or that there is none. Raises DamagedError."""
        row = None
        if self.warehouse.published_file.is_file():
            query = """
                SELECT name || IF(valid_to IS NULL, '', ', who is no longer listed')
                FROM history.students WHERE student_id = $1 ORDER BY valid_from DESC LIMIT 1
            """
            with connect(self.warehouse.published_file, scratch=self.warehouse.scratch, read_only=True) as con:
                row = con.execute(query, [student]).fetchone()
        return str(row[0]) if row else "no published file names this student"

    # -- the making -------------------------------------------------------------------------------------------------

    def make(self, named: Path, at: datetime, release: Release | None = None) -> Release:
        """Make the next file from a published file or its successor; returns the codes in it. Raises RollbookError.

        The codes are saved once the file is complete and before readers get it: every code ever shown can be looked up.
        An error leaves no file: nothing half-done may be shown.
        """
        try:
            return self._made(named, at, release)
        except BaseException:
            remove(self.next)
            raise

    def _made(self, named: Path, at: datetime, release: Release | None) -> Release:
        remove(self.next)
        self.versions.prepare()
        release = release or self.codes.load()
        if release is None and self.versions.newest() is not None:
            raise self.codes.damaged("is gone")
        with connect(self.next, scratch=self.warehouse.scratch) as con:
            con.execute(f"ATTACH {literal(named)} AS named (READ_ONLY)")
            con.execute("ATTACH ':memory:' AS private")
            there = con.execute("SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = 'named'")
            of_features = {(r.schema, r.name): r for r in relations()}
            # A feature may have come since the file was made.
            declared = [*schema.declared(self.warehouse.declared)]
            filled = [*declared, *(of_features[name] for name in there.fetchall() if name in of_features)]
            release = (release or begin(at)).covering(_students(con, filled))
            con.register("drawn", pa.table({"id": list(release.codes.keys()), "code": list(release.codes.values())}))
            con.execute(
                "CREATE TABLE private.codes AS SELECT CAST(id AS BIGINT) AS id, CAST(code AS BIGINT) AS code FROM drawn"
            )
            with transaction(con):
                schema.ensure(con, declared)
                schema.ensure(con, of_features.values())
                con.execute("DROP SCHEMA snapshots")
                con.execute(
                    """
                    CREATE TABLE ops.release AS
                    SELECT
                        v.id AS version, v.published_at,
                        (SELECT MAX(snapshot_date) FROM named.spans.days) AS newest_day,
                        CAST($release AS VARCHAR) AS release, CAST($began_at AS TIMESTAMP) AS began_at
                    FROM named.spans.version AS v
                    """,
                    {"release": release.name, "began_at": release.began_at.replace(tzinfo=None)},
                )
            # In parallel, `changes` first, the largest.
            ordered = sorted(filled, key=lambda relation: relation != CHANGES)
            each(
                con,
                lambda mine, text: mine.execute(text),
                [text for relation in ordered if (text := _statement(relation, self.warehouse.declared))],
            )
            with transaction(con):
                catalog.create_views(con)
                _create_students_own(con)
                ((version,),) = con.execute("SELECT version FROM ops.release").fetchall()
                catalog.create_macros(con, (*catalog.macros(version, self.warehouse.declared), *macros(version)))
                release_columns = ((c.name, c.comment) for c in contents.RELEASE.columns)
                catalog.comment(con, "TABLE", "ops.release", contents.RELEASE.comment, release_columns)
                contents.comment(con, (*declared, *of_features.values()), catalog.views())
            con.execute("DETACH named")
        clean(self.next, self.warehouse.scratch)
        self.codes.save(release)
        return release


def _create_students_own(con: duckdb.DuckDBPyConnection) -> None:
    """Create `students_own` with those columns of the school's own lists that are public."""
    if not con.execute(
        "SELECT 1 FROM duckdb_tables() WHERE database_name = 'named' AND table_name = 'own_columns'"
    ).fetchone():
        return
    public = con.execute("SELECT column_name, list FROM named.ops.own_columns WHERE is_public ORDER BY 1").fetchall()
    if public:
        columns = ", ".join(f'o."{column}"' for column, _ in public)
        con.execute(f"""
            CREATE TABLE spans.own_public AS SELECT c.code AS student_id, {columns}
            FROM named.main.students_own AS o INNER JOIN private.codes AS c ON c.id = o.student_id ORDER BY ALL
        """)
        view = catalog.view("students_own")
        comments = [*view.columns, *((f'"{column}"', f"From the school's list {name}.") for column, name in public)]
        catalog.create_view(con, "main", view.name, "FROM spans.own_public", view.described, comments)


def _students(con: duckdb.DuckDBPyConnection, relations: Iterable[Relation]) -> list[int]:
    """The ids of all students in any of the tables, including removed students."""
    parts = (
        f"SELECT DISTINCT {STUDENT} AS id FROM named.{r.schema}.{r.name}"
        for r in relations
        if any(c.name == STUDENT for c in r.columns)
    )
    rows = con.execute(f"SELECT DISTINCT id FROM ({' UNION ALL '.join(parts)}) WHERE id IS NOT NULL")
    return [student for (student,) in rows.fetchall()]


def _statement(relation: Relation, declared: Declared) -> str:
    """The INSERT that fills a table, as `Relation.pseudonymous` declares; empty for a table that stays empty."""
    match relation.pseudonymous:
        case How.EMPTY:
            return ""
        case How.COPY:
            return _copy(relation)
        case How.RUNS_WITHOUT_ROWS:
            return _copy(relation, only="t.span_state <> 'stated'")
        case How.TOLD_CHANGES:
            return _copy(relation, only=contents.told_changes(declared))
        case How.MERGE_VERSIONS:
            table = declared.tables[relation.name]
            kept = [c for c in table.tracked if not c.personal]
            return sql("versions", key=table.key, kept=kept, **_parts(relation))
        case How.TOLD_SYNCS:
            tables, personal = contents.personal_changes()
            return sql("syncs", change_keys=CHANGE_KEYS, tables=tables, personal=personal)


def _copy(relation: Relation, only: str = "") -> str:
    return sql("copy", only=only, **_parts(relation))


def _parts(relation: Relation) -> dict[str, Any]:
    """What the statements share: the table, the values with codes and NULLs, and the order of the rows."""
    names, shown = [c.name for c in relation.columns], contents.shown(relation)
    instead = {c.name: f"CAST(NULL AS {c.type}) AS {c.name}" for c in relation.columns if c not in shown}
    instead[STUDENT] = f"c.code AS {STUDENT}"
    return {
        "into": f"{relation.schema}.{relation.name}",
        "student": STUDENT,
        "values": [instead.get(name, f"t.{name}") for name in names],
        "order": [column for name, column in _ORDER.items() if name in names and STUDENT in names],
    }
