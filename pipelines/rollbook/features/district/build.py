"""Builds `district.duckdb` from the institutions' published files: their tables and views side by side, and the
rollups. Also computes the institutions' histories again, to publish or compare them.

If institutions make pseudonymous files, `district-pseudonymous.duckdb` is built from them in the same way. Each file is
built in a new place, checked, and published atomically; until then, and after a failure, readers keep the last file.
The contents are declared in `views` and in `pseudonymous.contents`. With an engine, each institution's part is made by
a task.

Each institution's file is attached while the rows are copied, which keeps that version even if the institution
publishes meanwhile. One that cannot be read leaves no row, and is named.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import reduce
from pathlib import Path
from typing import Any
from uuid import uuid4

import duckdb
import msgspec
import pyarrow as pa

from rollbook.errors import BusyError, DamagedError, NothingLandedError, RollbookError
from rollbook.features.district import tasks, views
from rollbook.features.district.nights import Institutions, load_overview
from rollbook.features.district.settings import DUCKDB
from rollbook.features.district.views import INSTITUTIONS
from rollbook.features.pseudonymous import contents
from rollbook.institutions import Registry
from rollbook.landing.formats import FORMAT
from rollbook.settings import load
from rollbook.source.fetch import utc_now
from rollbook.store.clean import clean
from rollbook.store.database import connect, count, literal, machine_errors, names, transaction, translate_errors
from rollbook.store.district import DistrictFile
from rollbook.store.published import FOLDER, PSEUDONYMOUS, PSEUDONYMOUS_FOLDER, PUBLISHED, target
from rollbook.store.schema import CHANGES
from rollbook.store.statements import INSTITUTION
from rollbook.tables import DECLARED, TABLES, Relation
from rollbook.util import files

DAMAGED = "its file is damaged, or open for writing in another program: its next sync makes it again"
MAKES_NONE = "it makes no pseudonymous file (ROLLBOOK_PSEUDONYMOUS)"


@dataclass(frozen=True)
class Difference:
    """How many rows of a table an institution's published file lacks, and how many it should not have."""

    institution: str
    table: str
    lacking: int
    surplus: int


@dataclass(frozen=True)
class Built:
    """The result of a build: how many institutions and students, up to which day, and which were left out and why.

    `pseudonymous` is the same for district-pseudonymous.duckdb. It is None if no institution makes a pseudonymous file,
    or if it could not be built: `failed` then says why.
    """

    institutions: int
    students: int
    newest_day: date | None
    left_out: Mapping[str, str]
    pseudonymous: Built | None = None
    failed: str = ""


def build(
    district: Path,
    registry: Registry,
    *,
    clock: Callable[[], datetime] = utc_now,
    engine: str = DUCKDB,
) -> Built:
    """Build and publish the files. `district` is its folder, `engine` the name of the engine for the rollups.

    An institution whose file cannot be read is left out and named. Raises NothingLandedError when no institution has
    published, BusyError while another build runs, EngineError; readers then keep the last files.
    """
    file, coded = (DistrictFile(district, pseudonymous=p) for p in (False, True))
    version, at = uuid4().hex, clock().replace(tzinfo=None)  # of both files
    with machine_errors(district), file.building():
        try:
            built = _make(file, registry, engine, version, at)
            if not any(os.path.lexists(file.root / name / PSEUDONYMOUS) for name in registry.institutions):
                coded.versions.clear()  # the copy would never be updated
                return built
            try:
                with machine_errors(district):
                    return replace(built, pseudonymous=_make(coded, registry, engine, version, at))
            except (RollbookError, OSError, duckdb.Error) as error:  # DuckDB's own message may quote a value
                return replace(built, failed=getattr(error, "message", type(error).__name__))
        finally:
            file.sweep()
            coded.sweep()


def relations(*, pseudonymous: bool) -> tuple[Relation, ...]:
    """The tables, and the views, that a file takes from each institution."""
    return (*((contents.RELEASE,) if pseudonymous else ()), *views.shared(), *views.seen())


def gather(
    con: duckdb.DuckDBPyConnection, file: DistrictFile, institutions: Iterable[str], engine: str
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Fill the tables of the open next file, in the order of the names; returns whose rows were copied, and what its
    file says of itself (times are UTC), and why others were left out. Institutions without a published file are in
    neither result. Raises
    MachineError and EngineError.
    """
    given: dict[str, dict[str, Any]] = {}
    left_out: dict[str, str] = {}
    link, folder = (PSEUDONYMOUS, PSEUDONYMOUS_FOLDER) if file.is_pseudonymous else (PUBLISHED, FOLDER)
    sources: dict[str, Path | None] = {}
    for name in sorted(institutions):
        own = file.root / name
        if os.path.lexists(own / link):
            sources[name] = target(own / link, own / folder)
        elif file.is_pseudonymous and (own / PUBLISHED).exists():
            left_out[name] = MAKES_NONE
    parts = {} if engine == DUCKDB else _parts(file, sources, engine)
    for name, path in sources.items():
        try:
            if path is None or (engine != DUCKDB and name not in parts):
                raise FileNotFoundError(name)
            with _attached(con, file.scratch, file.part(name) if name in parts else path):
                about = parts[name] if name in parts else about_file(con, path)
                with transaction(con):
                    for relation in relations(pseudonymous=file.is_pseudonymous):
                        con.execute(_rows(con, name, relation, file.is_pseudonymous, is_part=name in parts))
            given[name] = about
        except (DamagedError, BusyError, FileNotFoundError, ValueError, duckdb.Error):
            left_out[name] = DAMAGED
    return given, left_out


def _make(file: DistrictFile, registry: Registry, engine: str, version: str, at: datetime) -> Built:
    """Build the next version, and publish it: readable for whom every institution's own file is readable."""
    file.sweep()
    with connect(file.next, scratch=file.scratch) as con:
        with transaction(con):
            views.create_tables(con, (contents.RELEASE,) if file.is_pseudonymous else ())
        given, left_out = gather(con, file, registry.institutions, engine)
        if not given:
            raise NothingLandedError(
                "No institution has published anything that could be combined: run `rollbook district sync` first"
            )
        newest = max((own["newest_day"] for own in given.values() if own["newest_day"]), default=None)
        columns = contents.shown(INSTITUTIONS) if file.is_pseudonymous else INSTITUTIONS.columns
        rows = _described(registry, given, left_out, newest)
        con.register("fresh", pa.table({c.name: [row.get(c.name) for row in rows] for c in columns}))
        con.execute(f"INSERT INTO {INSTITUTIONS.schema}.{INSTITUTIONS.name} BY NAME SELECT * FROM fresh")
        con.unregister("fresh")
        students = count(con, "SELECT COUNT(*) FROM main.students")
        with transaction(con):
            con.execute("INSERT INTO spans.version VALUES ($1, $2, $3)", [version, at, FORMAT])
            views.create_rollups(con)
            views.create_macros(con, version)
            if file.is_pseudonymous:
                tables = (contents.RELEASE, *views.shared(), INSTITUTIONS)
                contents.comment(con, tables, views.views())
    if file.is_pseudonymous:
        clean(file.next, file.scratch)
    file.publish(reduce(lambda a, b: a & b, (own["mode"] for own in given.values()), 0o777) | files.PRIVATE_FILE)
    return Built(len(given), students, newest, left_out)


def _described(
    registry: Registry, given: Mapping[str, Mapping[str, Any]], left_out: Mapping[str, str], newest: date | None
) -> list[dict[str, Any]]:
    """The rows of the table `institutions`."""
    rows = []
    for status in sorted(load_overview(Institutions(registry)).institutions, key=lambda s: s.institution):
        own, last = given.get(status.institution, {}), status.last
        rows.append(
            {
                **own,
                "institution": status.institution,
                "days_behind": (newest - own["newest_day"]).days if newest and own.get("newest_day") else None,
                "last_outcome": status.outcome,
                "last_day": last.day if last else None,
                "last_at": last.at.astimezone(UTC).replace(tzinfo=None) if last else None,
                "description": (last.message if last else "") or None,
                "paused": status.paused or None,
                "left_out": left_out.get(status.institution),
            }
        )
    return rows


def _parts(file: DistrictFile, sources: Mapping[str, Path | None], engine: str) -> dict[str, dict[str, Any]]:
    """Make the parts of the institutions as tasks; returns what the file of each says of itself. Whose file cannot be
    read is not in it.
    """
    files.folder(file.part("x").parent)
    texts = {
        name: msgspec.json.encode(
            {
                "name": name,
                "path": str(path),
                "part": str(file.part(name)),
                "scratch": str(file.scratch / name),
                "pseudonymous": file.is_pseudonymous,
            }
        ).decode()
        for name, path in sources.items()
        if path is not None
    }
    done = tasks.run(engine, make_part, texts) if texts else ()
    about = {name: msgspec.json.decode(text, type=_About | None) for name, text in done}
    return {name: msgspec.structs.asdict(each) for name, each in about.items() if each is not None}


class _About(msgspec.Struct):
    """The version, day and school of a published file, and its mode."""

    version: str
    published_at: datetime
    newest_day: date | None
    school_id: int
    school_name: str | None
    mode: int


def make_part(text: str) -> str:
    """Copy an institution's tables and views into a file of their own: the task of an engine. Returns what the file
    says of itself, as JSON; null for an unreadable file.
    """
    task = msgspec.json.decode(text)
    path, scratch = Path(task["path"]), files.folder(Path(task["scratch"]))
    try:
        with connect(Path(task["part"]), scratch=scratch) as con:
            views.create_tables(con, (contents.RELEASE,) if task["pseudonymous"] else ())
            with _attached(con, scratch, path):
                about = about_file(con, path)
                with transaction(con):
                    for relation in relations(pseudonymous=task["pseudonymous"]):
                        con.execute(_rows(con, task["name"], relation, task["pseudonymous"], is_part=False))
    except (DamagedError, BusyError, FileNotFoundError, ValueError, duckdb.Error):
        return "null"
    return msgspec.json.encode(about).decode()


@contextmanager
def _attached(con: duckdb.DuckDBPyConnection, scratch: Path, path: Path) -> Iterator[None]:
    """Attach a file as `given`, which keeps that version even if the institution publishes meanwhile."""
    with translate_errors(path, scratch):
        con.execute(f"ATTACH {literal(path)} AS given (READ_ONLY)")
        try:
            yield
        finally:
            con.execute("DETACH given")


def about_file(con: duckdb.DuckDBPyConnection, path: Path) -> dict[str, Any]:
    """The version, day and school of the attached file at a path."""
    mode = stat.S_IMODE(path.stat().st_mode)
    about = con.execute("""
        SELECT
            v.id, v.published_at, (SELECT MAX(snapshot_date) FROM given.spans.days), i.school_id, i.school_name
        FROM given.spans.version AS v CROSS JOIN given.main.institution AS i
    """).fetchone()
    keys = ("version", "published_at", "newest_day", "school_id", "school_name")
    return {**dict(zip(keys, about or (), strict=True)), "mode": mode}


def _rows(con: duckdb.DuckDBPyConnection, name: str, relation: Relation, pseudonymous: bool, *, is_part: bool) -> str:
    """Copy a table or view. Columns declared personal now stay NULL without names, even if the pseudonymous file has
    them, and so do the columns that an institution leaves out of its history (ROLLBOOK_UNTRACKED).
    """
    full, columns, only = f"{relation.schema}.{relation.name}", relation.columns, "TRUE"
    if is_part:
        return f"INSERT INTO {full} BY NAME SELECT * FROM given.{full}"
    if pseudonymous:
        columns = contents.shown(relation)
        told = contents.told_changes(DECLARED) if relation == CHANGES else "TRUE"
        only = "FALSE" if contents.is_empty(relation) else told
    if relation.schema in ("history", "spans") and relation.name in TABLES:
        there = {row[0] for row in con.execute(f"DESCRIBE given.{full}").fetchall()}
        columns = tuple(c for c in columns if c.name in there)
    shown = f"{literal(name)} AS {INSTITUTION}, {names(columns)}"
    return f"INSERT INTO {full} BY NAME SELECT {shown} FROM given.{full} WHERE {only}"


# -- the histories -----------------------------------------------------------------------------------------------------


def compare_histories(
    district: Path, registry: Registry, engine: str, only: tuple[str, ...] = ()
) -> tuple[tuple[str, ...], list[Difference], dict[str, str]]:
    """Compute the histories again, and compare them with what each institution has published; nothing is changed.
    Returns which institutions were compared, the differences, and why the rest were not compared.

    `district` is the district's folder, `engine` a name as in `tasks.run`, `only` some institutions' names. Raises
    SettingError for an unknown institution, NothingLandedError when there is nothing to compare, BusyError while a
    build runs, and EngineError.
    """
    compared, differing, left_out = [], list[Difference](), dict[str, str]()
    for name, text in _tasks(district, registry, engine, only, tasks.recompute, left_out):
        done = msgspec.json.decode(text, type=tasks.Recomputed)
        if done.left_out:
            left_out[name] = done.left_out
        elif not done.is_empty:
            compared.append(name)
            differing += [Difference(name, table, *rows) for table, rows in done.differences.items()]
    if not compared:
        reasons = "".join(f"; {name}: {why}" for name, why in left_out.items())
        raise NothingLandedError(
            f"No institution has a lake to compute from{reasons}: run `rollbook district sync` first"
        )
    return tuple(compared), differing, left_out


def rebuild(
    district: Path, registry: Registry, engine: str, only: tuple[str, ...], *, yes: bool = False
) -> Iterator[tuple[str, tasks.Rebuilt]]:
    """Rebuild each institution from what was landed, and publish it. Yields each name at the end of the rebuild, and
    the error, if any. With `yes`, also what would be held is published.

    Raises the errors of `compare_histories`.
    """
    left_out = dict[str, str]()
    for name, text in _tasks(district, registry, engine, only, tasks.rebuild, left_out, yes=yes):
        yield name, msgspec.json.decode(text, type=tasks.Rebuilt)
    for name, why in left_out.items():
        yield name, tasks.Rebuilt(f"It was left out: {why}", RollbookError.exit_code)


def _tasks(
    district: Path,
    registry: Registry,
    engine: str,
    only: tuple[str, ...],
    work: tasks.Work,
    left_out: dict[str, str],
    **more: object,
) -> Iterator[tuple[str, str]]:
    """Do `work` for the institutions, and note in `left_out` whose settings are wrong."""
    file, texts = DistrictFile(district), dict[str, str]()
    for name in [registry[name].name for name in only] or registry.institutions:
        try:
            texts[name] = tasks.given(load(institution=name, fetches=False), **more)
        except RollbookError as error:
            left_out[name] = error.message
    with machine_errors(file.root), file.building():
        file.sweep()
        try:
            yield from tasks.run(engine, work, texts) if texts else ()
        finally:
            file.sweep()
