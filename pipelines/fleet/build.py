"""Builds `fleet.duckdb` from the institutions' published files: their tables side by side, the views, the rollups.

If institutions make pseudonymous files, `fleet-pseudonymous.duckdb` is built from these in the same way. Each is built
as a new file, checked, and published atomically; until then, and when it fails, readers keep the last one. The contents
are declared in `views.fleet` and `views.pseudonymous`. An engine computes the rollups from the same Parquet files.

Each institution's file is attached while its rows are copied, which keeps that version even if the institution
publishes meanwhile. One that cannot be read leaves no row, and is named.

The object store (`ROLLBOOK_LAKE`) gets the rollups, figures of institutions and of no pupil:

    fleet/versions/<version>/<rollup>/*.parquet   one version, never changed
    fleet/current.json                            which version is current, and the SHA-256 of each of its files

A version is complete, and was read back, before it is current. The one before it is kept until the next build, for
those who are reading it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import reduce
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

import duckdb
import msgspec
import pyarrow as pa

from pipelines import files, machine
from pipelines.errors import BusyError, DamagedError, MirrorError, NothingLandedError, RollbookError
from pipelines.fleet import engine as engines
from pipelines.fleet.nights import Fleet
from pipelines.fleet.overview import load_overview
from pipelines.institutions import Registry
from pipelines.mirror.mirror import Bucket
from pipelines.source.fetch import utc_now
from pipelines.store.database import connect, count, literal, names, transaction, translate_errors
from pipelines.store.published import versions
from pipelines.store.published.clean_copy import clean
from pipelines.store.published.fleet_file import FleetFile
from pipelines.store.published.versions import FOLDER, PSEUDONYMOUS, PSEUDONYMOUS_FOLDER, PUBLISHED
from pipelines.store.relations import CHANGES
from pipelines.store.scope import INSTITUTION, MANY
from pipelines.tables import Relation
from pipelines.views import catalog
from pipelines.views import fleet as views
from pipelines.views import pseudonymous as contents
from pipelines.views.fleet import INSTITUTIONS

CURRENT = "current.json"
DAMAGED = "its file is damaged, or open for writing in another program: its next sync makes it again"
MAKES_NONE = "it makes no pseudonymous file (ROLLBOOK_PSEUDONYMOUS)"


@dataclass(frozen=True)
class Built:
    """The result of a build: how many institutions and students, up to which day, and which were left out and why.

    `pseudonymous` is the same for fleet-pseudonymous.duckdb. It is None if no institution makes a pseudonymous file, or
    if it could not be built: `failed` then says why. `not_copied` says why the figures did not reach the object store.
    """

    institutions: int
    students: int
    newest_day: date | None
    left_out: Mapping[str, str]
    pseudonymous: Built | None = None
    failed: str = ""
    not_copied: str = ""


def build(
    fleet: Path,
    registry: Registry,
    *,
    clock: Callable[[], datetime] = utc_now,
    engine: str = engines.DUCKDB,
    lake: str = "",
) -> Built:
    """Build and publish the files. `fleet` is the fleet's folder, `engine` the name of the engine for the rollups.

    An institution whose file cannot be read is left out and named. `lake` is the URL of the object store that gets the
    rollups, or empty. Raises NothingLandedError when no institution has published, BusyError while another build runs,
    EngineError; readers then keep the last files.
    """
    file, coded = (FleetFile(fleet, pseudonymous=p) for p in (False, True))
    version, at = uuid4().hex, clock().replace(tzinfo=None)  # of both files
    with machine.translate_errors(fleet), file.building():
        try:
            built = _make(file, registry, engine, version, at)
            try:
                if lake:
                    copy(lake, file.rollups, version, at)
            except MirrorError as error:
                built = replace(built, not_copied=error.message)
            if not any(os.path.lexists(file.root / name / PSEUDONYMOUS) for name in registry.institutions):
                coded.clear()  # it would never be updated
                return built
            try:
                with machine.translate_errors(fleet):
                    return replace(built, pseudonymous=_make(coded, registry, engine, version, at))
            except (RollbookError, OSError, duckdb.Error) as error:  # DuckDB's own message may quote a value
                return replace(built, failed=getattr(error, "message", type(error).__name__))
        finally:
            file.sweep()
            coded.sweep()


def copy(lake: str, rollups: Path, version: str, at: datetime) -> None:
    """Copy the rollups to the object store, a folder each, and make them the current version. Raises MirrorError."""
    bucket, digests, kept = Bucket(lake, "fleet"), {}, [version]
    for file in sorted(rollups.glob("*/*.parquet")):
        name = f"{file.parent.name}/{file.name}"
        digests[name] = files.digest(file)
        bucket.put(f"versions/{version}/{name}", file, digests[name])
    with suppress(FileNotFoundError, msgspec.DecodeError, KeyError):
        kept.append(msgspec.json.decode(bucket.read(CURRENT))["version"])
    current = msgspec.json.encode({"version": version, "made_at": at, "files": digests})
    bucket.put(CURRENT, current, sha256(current).hexdigest())
    bucket.delete(name for name in bucket.sizes("versions") if name.split("/")[1] not in kept)


def relations(file: FleetFile) -> tuple[Relation, ...]:
    """The tables that a file takes from each institution."""
    return (contents.RELEASE, *views.shared()) if file.is_pseudonymous else views.shared()


def gather(
    con: duckdb.DuckDBPyConnection, file: FleetFile, institutions: Iterable[str]
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Fill the tables of the open next file, in the order of the names; returns whose rows were copied, and what its
    file says of itself (times are UTC), and why others were left out. Who never published is in neither. Raises
    MachineError.
    """
    given: dict[str, dict[str, Any]] = {}
    left_out: dict[str, str] = {}
    link, folder = (PSEUDONYMOUS, PSEUDONYMOUS_FOLDER) if file.is_pseudonymous else (PUBLISHED, FOLDER)
    for name in sorted(institutions):
        own = file.root / name
        if not os.path.lexists(own / link):
            if file.is_pseudonymous and (own / PUBLISHED).exists():
                left_out[name] = MAKES_NONE
            continue
        try:
            given[name] = _copy(con, file, name, versions.target(own / link, own / folder))
        except (DamagedError, BusyError, FileNotFoundError, duckdb.Error):
            left_out[name] = DAMAGED
    return given, left_out


def export(con: duckdb.DuckDBPyConnection, relations: Iterable[Relation], into: Path) -> None:
    """Write the tables of the open file as Parquet for an engine, one folder each."""
    for relation in relations:
        full = f"{relation.schema}.{relation.name}"
        target = files.folder(into / full) / "part-0.parquet"
        con.execute(f"COPY (FROM {full}) TO {literal(target)} (FORMAT parquet)")


def compute_rollups(engine: engines.Engine, tables: Path, into: Path) -> None:
    """Compute every rollup from a folder for each table, into one folder each. Raises EngineError."""
    for relation in views.tables():
        name = f"{relation.schema}.{relation.name}"
        engine.read(name, tables / name, relation.columns)
    for rollup in views.rollups():  # a later one reads an earlier one
        engine.write(rollup.query, into / rollup.name)
        engine.read(f"main.{rollup.name}", into / rollup.name, views.columns(rollup))


def _make(file: FleetFile, registry: Registry, engine: str, version: str, at: datetime) -> Built:
    """Build the next version, and publish it: readable for those who may read every institution's own file."""
    file.sweep()
    with connect(file.next, scratch=file.scratch) as con:
        with transaction(con):
            views.create_tables(con, (contents.RELEASE,) if file.is_pseudonymous else ())
        given, left_out = gather(con, file, registry.institutions)
        if not given:
            raise NothingLandedError(
                "No institution has published anything that could be combined: run `rollbook fleet sync` first"
            )
        newest = max((own["newest_day"] for own in given.values() if own["newest_day"]), default=None)
        kept = contents.shown(INSTITUTIONS) if file.is_pseudonymous else INSTITUTIONS.columns
        rows = _described(registry, given, left_out, newest)
        con.register("fresh", pa.table({c.name: [row.get(c.name) for row in rows] for c in kept}))
        con.execute(f"INSERT INTO {INSTITUTIONS.schema}.{INSTITUTIONS.name} BY NAME SELECT * FROM fresh")
        con.unregister("fresh")
        students = count(con, "SELECT COUNT(*) FROM main.students")
        export(con, views.shared(), file.sources)
    with engines.of(engine, file.scratch) as computing:
        compute_rollups(computing, file.sources, file.rollups)
    with connect(file.next, scratch=file.scratch) as con:
        with transaction(con):
            con.execute("INSERT INTO spans.version VALUES ($1, $2)", [version, at])
            for rollup in views.rollups():
                columns = ", ".join(f"CAST({c.name} AS {c.type}) AS {c.name}" for c in views.columns(rollup))
                source = literal(file.rollups / rollup.name / "*.parquet")
                views.create_rollup(con, rollup, f"SELECT {columns} FROM read_parquet({source}) ORDER BY ALL")
            views.create_views(con, version)
            if file.is_pseudonymous:
                contents.comment(con, (*relations(file), INSTITUTIONS), catalog.views(MANY))
        con.execute("CHECKPOINT")
    if file.is_pseudonymous:
        clean(file.next, file.scratch)
    file.publish(reduce(lambda a, b: a & b, (own["mode"] for own in given.values()), 0o777) | files.PRIVATE_FILE)
    return Built(len(given), students, newest, left_out)


def _described(
    registry: Registry, given: Mapping[str, Mapping[str, Any]], left_out: Mapping[str, str], newest: date | None
) -> list[dict[str, Any]]:
    """The rows of the table `institutions`."""
    rows = []
    for status in sorted(load_overview(Fleet(registry)).institutions, key=lambda s: s.institution):
        own, last = given.get(status.institution, {}), status.last
        row = {
            **own,
            "institution": status.institution,
            "days_behind": (newest - own["newest_day"]).days if newest and own.get("newest_day") else None,
            "last_outcome": status.outcome,
            "last_day": last.day if last else None,
            "last_at": last.at.astimezone(UTC).replace(tzinfo=None) if last else None,
            "said": (last.message if last else "") or None,
            "paused": status.paused or None,
            "left_out": left_out.get(status.institution),
        }
        rows.append(row)
    return rows


def _copy(con: duckdb.DuckDBPyConnection, file: FleetFile, name: str, path: Path | None) -> dict[str, Any]:
    """Copy the rows of one institution, all or none."""
    if path is None:
        raise FileNotFoundError(name)
    mode = stat.S_IMODE(path.stat().st_mode)
    with translate_errors(path, file.scratch):
        con.execute(f"ATTACH {literal(path)} AS given (READ_ONLY)")
        try:
            about = con.execute("""
                SELECT
                    v.id, v.published_at, (SELECT MAX(snapshot_date) FROM given.spans.days), i.school_id, i.school_name
                FROM given.spans.version AS v CROSS JOIN given.main.institution AS i
            """).fetchone()
            if about is None:
                raise DamagedError(f"{path.name} does not say what it is")
            with transaction(con):
                for relation in relations(file):
                    con.execute(_rows(file, name, relation))
        finally:
            con.execute("DETACH given")
    keys = ("version", "published_at", "newest_day", "school_id", "school_name")
    return {**dict(zip(keys, about, strict=True)), "mode": mode}


def _rows(file: FleetFile, name: str, relation: Relation) -> str:
    """Copy a table. Columns declared personal now stay NULL without names, even if the pseudonymous file has them."""
    full, columns, only = f"{relation.schema}.{relation.name}", relation.columns, "TRUE"
    if file.is_pseudonymous:
        columns = contents.shown(relation)
        only = "FALSE" if contents.is_empty(relation) else contents.told_changes() if relation == CHANGES else "TRUE"
    shown = f"{literal(name)} AS {INSTITUTION}, {names(columns)}"
    return f"INSERT INTO {full} BY NAME SELECT {shown} FROM given.{full} WHERE {only}"
