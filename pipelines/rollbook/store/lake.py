"""The Parquet lake: each landed day's complete state, typed, one file per table and day.

A day is composed from its landings in the build folder (G7), evaluated there, and only then moved in; `_day.json`,
written last, records what the day was made of and marks it as complete. `history` folds days into history.

`compare` counts per table what a composed day would add, change and remove in the published tables (G3). It changes
nothing; `night.policy` decides whether the counts are held.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from hashlib import sha256
from pathlib import Path

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from rollbook.errors import DamagedError
from rollbook.landing.formats import Stored, decode
from rollbook.landing.manifest import TableCounts
from rollbook.store.database import each, each_table, file_literal, literal, names, no_rows
from rollbook.store.schema import OBSERVED as OBSERVATIONS
from rollbook.store.schema import SNAPSHOT_DATE
from rollbook.store.staging import staged_file
from rollbook.store.statements import statements
from rollbook.tables import DECLARED, SETS, TABLES, Column, Declared, Table, fingerprint, of_set
from rollbook.util import files

sql = statements("rollbook.store")

OBSERVED, REFUSED = "observed", "refused"
# DuckDB variable that overrides the lake's folder, once it was moved.
LAKE = "rollbook_lake"
# The landed days, each with the sets that were proven complete: for engines that read the lake directly.
DAYS = "days"
PART, _DAY = "part-0.parquet", "snapshot_date="
# Engines skip files whose names begin with an underscore.
DAY_RECORD = "_day.json"

COPY = "(FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 3, ROW_GROUP_SIZE 122880)"


class DayRecord(Stored, frozen=True, kw_only=True):
    """The sources of one day of the lake, stored as `_day.json`; `digest` covers the sources and the whole content,
    `digests` each file, and `observed` has a checksum of each set's observations. The day reflects the first
    `erasures` erasures; `was` is the digest before the last erasure.
    """

    snapshot_date: date
    landings: tuple[int, ...]
    proven: tuple[str, ...]
    fingerprint: str
    digest: str
    digests: dict[str, str]
    sizes: dict[str, int]
    rows: dict[str, int]
    observed: dict[str, str] = msgspec.field(default_factory=dict)
    erasures: int = 0
    was: str = ""


@dataclass(frozen=True)
class Staged:
    """Staged rows of one set: the folder, the landing, and the offset of the positions."""

    folder: Path
    landing: int
    offset: int = 0

    def file(self, name: str) -> str:
        """The file of a table as an SQL literal."""
        return file_literal(staged_file(self.folder, name))


@dataclass(frozen=True)
class Part:
    """The part of one set in a day: the staged rows of the day's landings, and by landing, whom it states absent.

    `proven`: at least one of the landings proved the set complete. `ids_are_unique`: no record came twice, so no row
    can contradict another. `has_refused`: values of records were refused.
    """

    set: str
    staged: tuple[Staged, ...]
    absent: Mapping[int, frozenset[int]] = field(default_factory=dict)
    proven: bool = False
    ids_are_unique: bool = False
    has_refused: bool = False

    def scan(self, name: str) -> str:
        """All staged rows of a table as SQL."""
        return sql("staged", relation=name, staged=self.staged)


class Candidate:
    """A composed day that is not part of the lake yet; the files have the lake's layout. `observed` is as in the day's
    record.
    """

    def __init__(self, day: date, folder: Path, observed: Mapping[str, str] | None = None) -> None:
        self.day = day
        self.folder = folder
        self.observed = dict(observed or {})

    def path(self, name: str) -> Path:
        """The file of one table, or of `observed`."""
        return self.folder / name / PART

    def scan(self, name: str) -> str:
        """The rows of one table, or of `observed`, as SQL."""
        return f"read_parquet({file_literal(self.path(name))}, hive_partitioning = false)"

    def rows(self) -> dict[str, int]:
        """The number of rows per table."""
        return {name: pq.read_metadata(self.path(name)).num_rows for name in (*TABLES, OBSERVED)}

    @cached_property
    def digests(self) -> dict[str, str]:
        """The digest of each file."""
        return {name: files.digest(self.path(name)) for name in (*TABLES, OBSERVED)}


def compose(con: duckdb.DuckDBPyConnection, day: date, parts: Sequence[Part], folder: Path) -> Candidate:
    """Compose a day's state from the landings into `folder`; `con` is a connection in memory.

    The day is the fold of the landings, in their order (G7): each overlays what it states, and states some records
    absent. Values that a later landing leaves unstated, or that are refused there, stay as an earlier landing stated.
    Rows are sorted by key, so that equal states make equal files.
    """
    candidate = Candidate(day, files.empty(folder))
    for name in (*TABLES, OBSERVED):
        files.folder(candidate.path(name).parent)
    con.execute("""
        CREATE OR REPLACE TABLE observed (set_name VARCHAR, id BIGINT, state VARCHAR, table_name VARCHAR);
        CREATE OR REPLACE TABLE absent (set_name VARCHAR, id BIGINT, landing BIGINT)
    """)
    for part in parts:
        _note_absent(con, part)
        if part.ids_are_unique:
            _observe_as_staged(con, part)
        else:
            _compose_overlaid(con, candidate, part)
        if part.proven:
            _close_set(con, part.set)
    queries = {
        table.name: f"SELECT {names(table.columns)} FROM ({part.scan(table.name)}) ORDER BY {names(table.key)}"
        for part in parts
        if part.ids_are_unique
        for table in of_set(part.set)
    }
    queries[OBSERVED] = "SELECT * FROM observed ORDER BY ALL"
    # A sum, since equal rows would cancel each other out of an exclusive or.
    sums = "SELECT set_name, CAST(SUM(HASH(id, state, table_name)) AS VARCHAR) FROM observed GROUP BY set_name"
    candidate.observed = dict(con.execute(sums).fetchall())
    each(con, lambda con, name: _copy(con, queries[name], candidate, name), queries)
    return candidate


def _note_absent(con: duckdb.DuckDBPyConnection, part: Part) -> None:
    """Record whom each landing of a set states absent."""
    for landing, ids in part.absent.items():
        rows = "SELECT $set_name, UNNEST(CAST($ids AS BIGINT[])), $landing"
        con.execute(f"INSERT INTO absent {rows}", {"set_name": part.set, "ids": sorted(ids), "landing": landing})


def _observe_as_staged(con: duckdb.DuckDBPyConnection, part: Part) -> None:
    """Observe a set whose ids are unique: every staged row counts."""
    staged = f"SELECT set_name, id, state, table_name FROM ({part.scan(OBSERVED)}) WHERE set_name = $set_name"
    absent = "SELECT set_name, id, 'absent', NULL FROM absent WHERE set_name = $set_name"
    con.execute(f"INSERT INTO observed {staged} UNION ALL {absent}", {"set_name": part.set})


def _close_set(con: duckdb.DuckDBPyConnection, set_name: str) -> None:
    """Observe that a set was proven complete: a row about no record."""
    con.execute("INSERT INTO observed VALUES ($set_name, NULL, 'proven', NULL)", {"set_name": set_name})


def _compose_overlaid(con: duckdb.DuckDBPyConnection, candidate: Candidate, part: Part) -> None:
    """Compose the tables of a set whose records may have come more than once."""
    # Filtered by set: a student, a class and an institution may have the same id.
    of_this = {"set_name": part.set}
    con.execute(sql("seen", observed=part.scan(OBSERVED)), of_this)
    con.execute(sql("observe"), of_this)

    def compose(con: duckdb.DuckDBPyConnection, table: Table) -> None:
        refused = part.scan(REFUSED) if part.has_refused else ""
        _copy(con, sql("compose", table=table, rows=part.scan(table.name), refused=refused), candidate, table.name)

    each_table(con, compose, of_set(part.set))


def _copy(con: duckdb.DuckDBPyConnection, query: str, candidate: Candidate, name: str) -> None:
    path = candidate.path(name)
    con.execute(f"COPY ({query}) TO {literal(path)} {COPY}")
    files.set_mode(path, files.PRIVATE_FILE)


class Lake:
    """`snapshots/`: the days that count, and the SQL that reads the files."""

    def __init__(self, root: Path, mode: int = files.PRIVATE_FILE, declared: Declared = DECLARED) -> None:
        self.root = root
        self.mode = mode
        self.declared = declared
        # Cached: a sync reads every day's record several times.
        self._records = files.Decoded(lambda content, path: decode(content, DayRecord, path))
        self.folder_mode = files.folder_mode(mode)

    def open_up(self) -> None:
        """Apply the current file modes to files that were written under other settings."""
        if self.root.is_dir() and stat.S_IMODE(self.root.stat().st_mode) != self.folder_mode:
            for path in (*self.root.rglob("*"), self.root):  # the root last: the root's mode marks all below as done
                files.set_mode(path, self.folder_mode if path.is_dir() else self.mode)

    def days(self, *, sized: bool = True) -> dict[date, DayRecord]:
        """The complete days of the lake, in order; a day with a missing or truncated file is left out.

        Looks at every file's size, so call this once per stage; without `sized`, only each day's record is read.
        """
        records, root = {}, str(self.root)
        for folder in sorted(n for n in files.names(self.root / OBSERVED) if n.startswith(_DAY)):
            try:
                # Thousands of files a year, several times a night: a str costs a tenth of a Path.
                record = self._records.read(f"{root}/{OBSERVED}/{folder}/{DAY_RECORD}")
                part = f"{_day_folder(record.snapshot_date)}/{PART}"
                sizes = ((os.stat(f"{root}/{n}/{part}").st_size, s) for n, s in record.sizes.items())  # noqa: PTH116
                whole = not sized or all(there == noted for there, noted in sizes)
            except (msgspec.DecodeError, OSError):
                continue
            if whole:
                records[record.snapshot_date] = record
        return records

    def digest(self, day: date) -> str | None:
        """The digest of a day; None if the lake does not have it, or not whole."""
        try:
            return self._records.read(f"{self.root}/{OBSERVED}/{_day_folder(day)}/{DAY_RECORD}").digest
        except (msgspec.DecodeError, OSError):
            return None

    def commit(
        self,
        candidate: Candidate,
        landings: tuple[int, ...],
        parts: Iterable[Part],
        erased: int = 0,
    ) -> DayRecord:
        """Move a composed day in. Until `_day.json` is written again, the day is not complete."""
        paths = {name: candidate.path(name) for name in (*TABLES, OBSERVED)}
        proven = tuple(sorted(p.set for p in parts if p.proven))
        paths[DAYS] = _write_proven(candidate.path(DAYS), proven)
        record = DayRecord(
            snapshot_date=candidate.day,
            landings=landings,
            proven=proven,
            fingerprint=fingerprint(),
            digest=digest_of(candidate.digests, landings),
            digests=candidate.digests,
            sizes={name: path.stat().st_size for name, path in paths.items()},
            rows=candidate.rows(),
            observed=candidate.observed,
            erasures=erased,
        )
        self.put(record, paths)
        shutil.rmtree(candidate.folder, ignore_errors=True)
        return record

    def put(self, record: DayRecord, paths: Mapping[str, Path]) -> None:
        """Replace a day's record and the named files."""
        day = record.snapshot_date
        marker = self.own(OBSERVED, day).with_name(DAY_RECORD)
        marker.unlink(missing_ok=True)
        files.folder(self.root.parent)
        for name, source in paths.items():
            target = self.own(name, day)
            for above in (self.root, self.root / name, target.parent):
                files.folder(above, self.folder_mode)
            files.set_mode(source, self.mode)
            files.sync(source)
            files.move(source, target)
            files.sync(target.parent)
        files.write(marker, msgspec.json.encode(record), self.mode)

    def drop(self, days: Iterable[date]) -> None:
        """Remove days from the lake, `_day.json` first: without it, a half-deleted day does not count."""
        for day in days:
            self.own(OBSERVED, day).with_name(DAY_RECORD).unlink(missing_ok=True)
            for name in (*TABLES, OBSERVED, DAYS):
                shutil.rmtree(self.own(name, day).parent, ignore_errors=True)

    def check(self, record: DayRecord) -> None:
        """Raise DamagedError if a file of a day is not as composed: a corrupted column name would silently be read as
        NULL.
        """
        for name, digest in record.digests.items():
            if files.digest(self._part(name, record.snapshot_date)) != digest:
                raise _damaged(self._part(name, record.snapshot_date))

    def damaged(self) -> list[date]:
        """The days whose files have the right size but the wrong digest. Reads every file."""
        problems = []
        for day, record in self.days().items():
            try:
                self.check(record)
            except DamagedError:
                problems.append(day)
        return problems

    def sweep(self, expired: Iterable[date]) -> None:
        """Remove killed writers' leftovers: half-written day records, and files of `expired` days."""
        for aside in self.root.glob(f"{OBSERVED}/snapshot_date=*/.*{files.PARTIAL}"):
            aside.unlink()
        if expired := set(expired):
            self.drop(expired - self.days().keys())

    def scan(self, table: Table, days: Collection[DayRecord], *, movable: bool = False) -> str:
        """The table's rows on some days as SQL, with `snapshot_date`; columns that older files lack are NULL. A day
        before the table was declared has none. `movable`: the connection's variable LAKE may override the lake's
        folder. Raises DamagedError.
        """
        days = [record for record in days if table.name in record.rows]
        if not days:
            return no_rows((*table.columns, SNAPSHOT_DATE))
        schemas = self.schemas(table, days)
        stored = {name for schema in schemas for name in schema.names}
        columns = [(c, c.name in stored) for c in table.columns]
        return self._scan(table.name, days, columns, several_schemas=len(schemas) > 1, movable=movable)

    def schemas(self, table: Table, days: Collection[DayRecord]) -> list[pa.Schema]:
        """The distinct schemas of the days' files: several if declarations changed in between."""
        declared = {record.fingerprint: record.snapshot_date for record in days}
        schemas: list[pa.Schema] = []
        for day in declared.values():
            schema = _schema(self._part(table.name, day)).remove_metadata()
            if schema not in schemas:
                schemas.append(schema)
        return schemas

    def scan_observed(self, days: Collection[DayRecord], *, movable: bool = False) -> str:
        """The observations of some days (at least one), as SQL: set_name, id, state, table_name, snapshot_date."""
        columns = [(c, True) for c in OBSERVATIONS.columns if c is not SNAPSHOT_DATE]
        return self._scan(OBSERVED, days, columns, several_schemas=False, movable=movable)

    def _scan(
        self,
        name: str,
        days: Collection[DayRecord],
        columns: Sequence[tuple[Column, bool]],
        *,
        several_schemas: bool,
        movable: bool,
    ) -> str:
        listed = self._listed(name, days, movable=movable)
        return sql("scan", relation=name, columns=columns, listed=listed, several_schemas=several_schemas)

    def _listed(self, name: str, days: Collection[DayRecord], *, movable: bool) -> str:
        """The days' files as an SQL list."""
        if not movable:
            return f"[{', '.join(file_literal(self._part(name, record.snapshot_date)) for record in days)}]"
        dates = ", ".join(f"'{record.snapshot_date}'" for record in days)
        root = f"COALESCE(getvariable('{LAKE}'), {file_literal(self.root)})"
        return f"list_transform([{dates}], lambda day: {root} || '/{name}/{_DAY}' || day || '/{PART}')"

    def _part(self, name: str, day: date) -> Path:
        """The file to read."""
        return self.own(name, day)

    def own(self, name: str, day: date) -> Path:
        """The path of the file in this lake's own folder."""
        return self.root / name / _day_folder(day) / PART


class StagedLake(Lake):
    """Staged days on top of another lake, which stays unchanged until `move_in`.

    A day that was made here replaces the same day below; a `hidden` day does not exist. So a backfill can be merged and
    shown to a person before any file of the lake changes.
    """

    def __init__(self, below: Lake, root: Path) -> None:
        super().__init__(files.empty(root), below.mode, below.declared)
        self.below = below
        self.hidden: frozenset[date] = frozenset()

    def hide(self, days: Iterable[date]) -> None:
        """Hide these days."""
        self.hidden |= frozenset(days)

    def days(self, *, sized: bool = True) -> dict[date, DayRecord]:
        """Every complete day, made here or below, in order."""
        days = self.below.days(sized=sized) | super().days(sized=sized)
        return {day: days[day] for day in sorted(days) if day not in self.hidden}

    def move_in(self) -> None:
        """Move the days that were made here into the lake below, and remove the hidden days there."""
        for day, record in super().days().items():
            if day not in self.hidden:
                self.below.put(record, {name: self.own(name, day) for name in record.sizes})
        self.below.drop(self.hidden & self.below.days().keys())
        shutil.rmtree(self.root, ignore_errors=True)

    def _part(self, name: str, day: date) -> Path:
        mine = self.own(name, day)
        return mine if mine.exists() else self.below._part(name, day)


def _write_proven(path: Path, proven: Collection[str], mode: int = files.PRIVATE_FOLDER) -> Path:
    """Write one day's file of `days`: per set_name, whether the set was proven complete."""
    for above in (path.parents[2], path.parents[1], path.parent):
        files.folder(above, mode)
    table = pa.table({"set_name": list(SETS), "proven": [name in proven for name in SETS]})
    pq.write_table(table, path, compression="zstd")
    return path


def unchanged(
    records: Mapping[date, DayRecord], merged: Mapping[date, str], day: date, now: Candidate | DayRecord
) -> frozenset[str]:
    """The tables in which merging a day changes nothing: the day is later than every `merged` day (with the digest),
    the files equal the newest day's, byte for byte, and the same was observed of their set.
    """
    newest = max(merged, default=day)
    before = records.get(newest)
    if newest >= day or before is None or before.digest != merged[newest]:
        return frozenset()
    if not (before.observed and now.observed):  # an erasure took the checksums along
        return frozenset()
    return frozenset(
        name
        for name, table in TABLES.items()
        if before.digests.get(name) == now.digests.get(name)
        and before.observed.get(table.set) == now.observed.get(table.set)
    )


def digest_of(digests: Mapping[str, str], landings: tuple[int, ...]) -> str:
    """Return the digest of a day from the digests of the files by table, and from the sources: a published file with
    another digest is brought up to date, and records landings, not only rows.
    """
    return sha256(msgspec.json.encode((sorted(digests.items()), landings))).hexdigest()


def _day_folder(day: date) -> str:
    return f"{_DAY}{day}"


def _schema(path: Path) -> pa.Schema:
    try:
        return pq.read_schema(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise _damaged(path) from error


def _damaged(path: Path) -> DamagedError:
    day = path.parent.name.removeprefix("snapshot_date=")
    return DamagedError(
        f"snapshots/{path.relative_to(path.parents[2])} is not as it was made: run `rollbook backfill {day} {day}`,"
        " which makes it again from what was landed"
    )


def compare(
    con: duckdb.DuckDBPyConnection,
    candidate: Candidate,
    current: str | None,
    records: Mapping[date, DayRecord],
    declared: Declared,
    before: Before | None = None,
) -> tuple[TableCounts, ...]:
    """Count per table what a candidate would change in the attached database `current` (None: everything is added), or
    in what that database had `before`. `records` are the lake's days.
    """
    if current is None:
        rows = candidate.rows()
        return tuple(TableCounts(table=t, before=0, added=rows[t], changed=0, removed=0) for t in TABLES)

    merged = dict(con.execute(f"SELECT snapshot_date, digest FROM {current}.spans.days").fetchall())
    same = unchanged(records, merged, candidate.day, candidate)

    def count(con: duckdb.DuckDBPyConnection, table: Table) -> TableCounts:
        if table.name in same:
            return unchanged_counts(con, table, f"{current}.main")
        new, columns = candidate.scan(table.name), _alike(con, current, table, "history" if before else "main")
        # A column declared since the last publish, or with another type, is new for all records, and changes none.
        tracked = [c for c in table.tracked if c in columns]
        old = _rows_of(current, table, columns, before) if columns else f"(FROM {new} LIMIT 0)"
        query = sql("compare", table=table, tracked=tracked, new=new, observed=candidate.scan(OBSERVED), current=old)
        counts = _counts(table, con.execute(query).fetchone())
        return _measured(con, candidate, table, current, counts, declared, before) if counts.changed else counts

    return tuple(each_table(con, count, declared.tables.values()))


@dataclass(frozen=True)
class Before:
    """The state before a day, in which what is `seen` of the day already counts as before, if anything."""

    day: date
    seen: Candidate | None = None


def _rows_of(current: str, table: Table, columns: Sequence[Column], before: Before | None) -> str:
    """The current rows of a table in an attached database, or the rows before, as SQL."""
    if before is None:
        return f"{current}.main.{table.name}"
    rows = sql(
        "before",
        table=table,
        columns=columns,
        day=f"DATE '{before.day}'",
        history=f"{current}.history.{table.name}",
        seen=before.seen and before.seen.scan(table.name),
        observed=before.seen and before.seen.scan(OBSERVED),
    )
    return f"({rows})"


def _measured(
    con: duckdb.DuckDBPyConnection,
    candidate: Candidate,
    table: Table,
    current: str,
    counts: TableCounts,
    declared: Declared,
    before: Before | None,
) -> TableCounts:
    """Add to the counts how many totals fall far, and the measures that most rows would lose."""
    of, _, total = SETS[table.set].total.partition(".")
    schema = "history" if before else "main"
    columns = _alike(con, current, table, schema)
    measures = [c for c in columns if c.measure]
    if not measures:
        return counts
    of_totals = _alike(con, current, declared.tables[of], schema)
    query = sql(
        "vanished",
        table=table,
        measures=measures,
        total=total if total in (c.name for c in of_totals) else None,
        new=candidate.scan(table.name),
        current=_rows_of(current, table, columns, before),
        new_totals=candidate.scan(of),
        current_totals=_rows_of(current, declared.tables[of], of_totals, before),
    )
    restarted, *numbers = con.execute(query).fetchone() or ()
    pairs = zip(measures, numbers[::2], numbers[1::2], strict=True)
    vanished = {c.name: (had, lost) for c, had, lost in pairs if 2 * lost > had}
    return msgspec.structs.replace(counts, restarted=restarted, vanished=vanished)


def changed_ids(
    con: duckdb.DuckDBPyConnection, candidate: Candidate, set_name: str, current: str, declared: Declared
) -> list[int]:
    """The sorted ids of a set's records whose statements differ from the current rows of an attached database."""
    ids: set[int] = set()
    for table in (declared.tables[t.name] for t in of_set(set_name)):
        columns = _alike(con, current, table)
        if columns:
            new, old = candidate.scan(table.name), f"{current}.main.{table.name}"
            seen = candidate.scan(OBSERVED)
            query = sql("changed_ids", table=table, columns=columns, new=new, observed=seen, current=old)
            ids.update(r[0] for r in con.execute(query).fetchall())
    return sorted(ids)


def rows_lost(con: duckdb.DuckDBPyConnection, before: str, after: str, declared: Declared) -> tuple[TableCounts, ...]:
    """Count per table how many current rows the database `after` adds, changes and lacks compared with `before`."""
    counts = []
    for table in declared.tables.values():
        columns = _alike(con, before, table)
        if columns:
            query = sql("rows_lost", table=table, columns=columns, before=f"{before}.main", after=f"{after}.main")
            counts.append(_counts(table, con.execute(query).fetchone()))
    return tuple(counts)


def unchanged_counts(con: duckdb.DuckDBPyConnection, table: Table, schema: str = "main") -> TableCounts:
    """The counts of a table in which nothing changes."""
    return _counts(table, con.execute(f"SELECT COUNT(*), 0, 0, 0, 0 FROM {schema}.{table.name}").fetchone())


def _counts(table: Table, row: tuple[int, ...] | None) -> TableCounts:
    before, added, changed, removed, altered = row or (0, 0, 0, 0, 0)
    return TableCounts(table=table.name, before=before, added=added, changed=changed, removed=removed, altered=altered)


def _alike(con: duckdb.DuckDBPyConnection, database: str, table: Table, schema: str = "main") -> list[Column]:
    """The versioned columns that a database's table has with their declared types; none without the table."""
    try:  # not duckdb_columns(), which binds every view first
        there = {row[:2] for row in con.execute(f"DESCRIBE {database}.{schema}.{table.name}").fetchall()}
    except duckdb.CatalogException:
        return []
    return [c for c in table.versioned if (c.name, c.type) in there]
