"""Opens DuckDB, and translates its errors and the machine's into Rollbook's. Queries are where they are needed."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TypeVar

import duckdb

from rollbook.errors import BusyError, DamagedError, DeclarationError, MachineError
from rollbook.tables import Column, Table
from rollbook.util import machine
from rollbook.util.files import PRIVATE_FILE, folder, identity, set_mode

# Analysts' DuckDB must open our files: this is the oldest version still supported upstream.
STORAGE_VERSION = "v1.4.0"

# Half of DuckDB's default: smaller groups let two cores compress a small table.
ROW_GROUP_SIZE = 61_440

# Enough for a million students with spilling, and for 200,000; both small enough for a school's shared server.
MEMORY_LIMIT, USUAL_MEMORY_LIMIT = "256MB", "128MB"
THREADS = 2

# What DuckDB's optimizer leaves out with one thread, for small tables: each pass takes longer than it saves there, and
# all of them together a tenth of a small school's night. Not "statistics_propagation": it decides about the bytes of
# Parquet files, and a day that is made again must have the same.
LEFT_OUT = (
    "expression_rewriter",
    "common_subplan",
    "common_subexpressions",
    "column_lifetime",
    "projection_pullup",
    "projection_placement",
    "join_elimination",
    "join_filter_pushdown",
    "cte_filter_pusher",
)


@dataclass(frozen=True)
class Limits:
    """What DuckDB may use: threads and memory."""

    threads: int = THREADS
    memory: str = MEMORY_LIMIT


# Bytes. DuckDB spills to disk: with more left there, memory ran out and not the disk.
ROOM_TO_SPILL = 1_000_000_000

# A quarter of DuckDB's default. A small school's file of a hundred little tables has 5 MB instead of 16, and a program
# that attaches it over HTTP asks no more often, for a third of the bytes. A file keeps the size with which it was made.
BLOCK_SIZE = 65_536

_WRITING = f"STORAGE_VERSION '{STORAGE_VERSION}', ROW_GROUP_SIZE {ROW_GROUP_SIZE}"
# A file is written whole and then published, or removed: nothing is ever replayed from a log. But DuckDB 2.0.0 loses
# what one connection commits while another one's commit is a checkpoint, if neither writes a log.
_WITHOUT_LOG = f"RECOVERY_MODE no_wal_writes, {_WRITING}"

# The names within DuckDB of a file that is written, and of one that is read, whatever the file is called.
CATALOG, READ = "rollbook", "published"

R = TypeVar("R")
T = TypeVar("T", bound=Hashable)


def names(columns: tuple[Column, ...] | tuple[str, ...], prefix: str = "") -> str:
    """The columns as a list for SQL, each with `prefix`."""
    return ", ".join(f"{prefix}{c if isinstance(c, str) else c.name}" for c in columns)


def no_rows(columns: Iterable[Column]) -> str:
    """Return a query of no rows with some columns."""
    return f"SELECT {', '.join(f'CAST(NULL AS {c.type}) AS {c.name}' for c in columns)} WHERE FALSE"


def quoted(name: str) -> str:
    """A name as SQL: one that we did not declare may be a word of SQL, or have any character."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: object) -> str:
    """A value as an SQL string literal: for paths and comments, which cannot be parameters."""
    return "'" + str(text).replace("'", "''") + "'"


def file_literal(path: object, pattern: str = "") -> str:
    """The path of one file, or of the files that match a `pattern` below it, as a literal for read_parquet.

    DuckDB takes every path for a pattern, so the characters of the path itself are escaped. Its readers must also be
    told `hive_partitioning = false`: a folder `name=Zed` anywhere above would else give every row that name.
    """
    return literal(re.sub(r"[*?\[]", r"[\g<0>]", str(path)) + pattern)


@contextmanager
def connect(
    path: Path | None = None,
    *,
    scratch: Path,
    read_only: bool = False,
    published: Path | None = None,
    stays_open: bool = False,
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a database file (or one in memory) with the writer's limits; it spills to `scratch`.

    The file `published` is attached by that name, to be read; so is a file that is opened `read_only`. A file that was
    written is whole on disk afterwards; one that `stays_open` may be so only when it has been opened again (see
    `reuse_instances`). DuckDB's errors are translated by `translate_errors` for the whole block.
    """
    files = {READ: published} if published is not None else {}
    if path is not None:
        files[READ if read_only else CATALOG] = path
    with (
        translate_errors(path or published, scratch),
        _declared_types(),
        _instance(scratch, files, stays_open) as instance,
        instance.cursor() as connection,
    ):
        if path is None:
            connection.execute("ATTACH ':memory:' AS work")
        connection.execute(f"USE {'work' if path is None else READ if read_only else CATALOG}")
        yield connection


# What tells a file from another that takes its place.
Identity = tuple[int, int, int]


@dataclass(frozen=True)
class _File:
    """A file that DuckDB has open."""

    path: Path
    identity: Identity

    @classmethod
    def at(cls, path: Path) -> _File | None:
        """The file there; None if there is none."""
        return cls(path, identity(path.stat())) if path.exists() else None

    def is_there(self) -> bool:
        """Whether it is still the file at its path."""
        return _File.at(self.path) == self


class _Instance:
    """DuckDB, and the files that it has open, by their names within DuckDB."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, limits: Limits) -> None:
        self.connection = connection
        self._limits = limits
        self.files: dict[str, _File] = {}

    def open(self, files: Mapping[str, Path]) -> None:
        """Open these files, by name, and none other for writing."""

        def may_stay(name: str, file: _File) -> bool:
            asked = files.get(name, file.path if name == READ else None)
            return asked == file.path and file.is_there()

        self.keep(*(name for name, file in self.files.items() if may_stay(name, file)))
        for name, path in files.items():
            if name not in self.files:
                self._attach(name, path)

    def _attach(self, name: str, path: Path) -> None:
        file, how = _File.at(path), "READ_ONLY"
        if name == CATALOG:
            how = _WITHOUT_LOG if self._limits.threads == 1 else _WRITING
            if file is None:
                how += f", BLOCK_SIZE {BLOCK_SIZE}"
        self.connection.execute(f"ATTACH {literal(path)} AS {name} ({how})")
        if file is None:
            set_mode(path, PRIVATE_FILE)
            file = _File(path, identity(path.stat()))
        self.files[name] = file

    def keep(self, *names: str) -> None:
        """Close all files that `connect` opened but those with these names."""
        for name in self.files.keys() - set(names):
            if name == CATALOG:  # DETACH alone may not say that the disk is full
                self.connection.execute(f"CHECKPOINT {CATALOG}")
            self.connection.execute(f"DETACH {name}")
            del self.files[name]

    def tidy(self) -> None:
        """Close what is attached besides."""
        attached = "SELECT database_name FROM duckdb_databases() WHERE NOT internal AND database_name <> 'memory'"
        for (name,) in self.connection.execute(attached).fetchall():
            if name not in self.files:
                self.connection.execute(f"DETACH {name}")


class _Pool:
    """Idle DuckDB instances to reuse, all with the same limits."""

    def __init__(self, scratch: Path, limits: Limits = Limits()) -> None:
        self._scratch = scratch
        self._limits = limits
        self._idle: list[_Instance] = []
        self._one_at_a_time = Lock()

    def take(self, files: Mapping[str, Path]) -> _Instance:
        """The instance that has most of these files open. None has one of them open by another name."""
        names = {path: name for name, path in files.items()}

        def fits(instance: _Instance) -> tuple[bool, int]:
            there = {name for name, file in instance.files.items() if files.get(name) == file.path}
            return CATALOG in there, len(there)

        with self._one_at_a_time:
            for instance in self._idle:
                instance.keep(*(n for n, file in instance.files.items() if names.get(file.path, n) == n))
            if self._idle:
                self._idle.remove(best := max(self._idle, key=fits))
                return best
        return _Instance(new_instance(self._scratch, self._limits), self._limits)

    def put_back(self, instance: _Instance, *, stays_open: bool) -> None:
        """Keep an instance for reuse. With one thread, the file that it reads stays open, and one that is written if it
        `stays_open`.
        """
        instance.tidy()
        if self._limits.threads > 1:
            instance.keep()
        elif stays_open and (written := _File.at(instance.files[CATALOG].path)):
            instance.files[CATALOG] = written
        else:
            instance.keep(READ)
        with self._one_at_a_time:
            self._idle.append(instance)

    def close(self) -> None:
        """Close all instances."""
        for instance in self._idle:
            instance.connection.close()


# By the folder that they spill to.
_pools: dict[Path, _Pool] = {}


@contextmanager
def reuse_instances(scratch: Path, limits: Limits = Limits()) -> Iterator[None]:
    """Within the block, let `connect` reuse DuckDB instances, with these limits, once their files are closed.

    Creating an instance takes 20 ms of a core, and a sync opens files more than a dozen times. With one
    thread, for small tables, `each` does one piece of work after the other, since a thread and a connection for each
    piece cost more than they save; and files stay open, since opening one takes 15 ms: one that is read, and one that
    is written if it `stays_open`.
    """
    if scratch in _pools:
        yield
        return
    _pools[scratch] = pool = _Pool(scratch, limits)
    try:
        yield
    finally:
        del _pools[scratch]
        pool.close()


@contextmanager
def _instance(scratch: Path, files: Mapping[str, Path], stays_open: bool) -> Iterator[duckdb.DuckDBPyConnection]:
    """An instance that has these files open, by their names. After an error an instance is closed, since it may be
    unusable.
    """
    pool = _pools.get(scratch) or _Pool(scratch)
    instance = pool.take(files)
    try:
        instance.open(files)
        yield instance.connection
        pool.put_back(instance, stays_open=stays_open)
    except BaseException:
        instance.connection.close()
        raise
    if pool is not _pools.get(scratch):
        pool.close()


def new_instance(scratch: Path, limits: Limits = Limits()) -> duckdb.DuckDBPyConnection:
    """DuckDB in memory, with a writer's limits; it spills to `scratch`."""
    config: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": limits.memory,
        "threads": limits.threads,
        "temp_directory": str(folder(scratch)),
        "preserve_insertion_order": True,
        "disabled_optimizers": ",".join(LEFT_OUT) if limits.threads == 1 else "",
    }
    return duckdb.connect(config=config)


def count(con: duckdb.DuckDBPyConnection, query: str, parameters: Mapping[str, object] | None = None) -> int:
    """Return the single number that a query selects; 0 without a row."""
    row = con.execute(query, dict(parameters or {})).fetchone()
    return int(row[0]) if row else 0


def differences(con: duckdb.DuckDBPyConnection, ours: str, theirs: str) -> tuple[int, int]:
    """How many rows of `ours` are not in `theirs`, and the other way round; a row that comes twice counts twice."""
    pairs = ((ours, theirs), (theirs, ours))
    lacking, surplus = (count(con, f"SELECT COUNT(*) FROM (({a}) EXCEPT ALL ({b}))") for a, b in pairs)
    return lacking, surplus


@contextmanager
def transaction(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Run the block in one transaction."""
    con.execute("BEGIN")
    try:
        yield
    except BaseException:
        with suppress(duckdb.Error):  # the error may have ended the transaction
            con.execute("ROLLBACK")
        raise
    con.execute("COMMIT")


def each_table(
    con: duckdb.DuckDBPyConnection, work: Callable[[duckdb.DuckDBPyConnection, Table], R], tables: Iterable[Table]
) -> list[R]:
    """As `each`, for tables; returns the results in their order. List tables, the largest, are started first."""
    in_order = list(tables)
    done = each(con, work, sorted(in_order, key=lambda t: not t.is_list))
    return [done[table] for table in in_order]


def each(
    con: duckdb.DuckDBPyConnection, work: Callable[[duckdb.DuckDBPyConnection, T], R], items: Iterable[T]
) -> dict[T, R]:
    """Do the same work for several items, THREADS at a time; returns the result of each.

    Each piece gets its own connection to the same database, which sees committed data but no temporary tables. A table
    of a few row groups keeps at most one core busy, so each piece runs on one core. Put the largest piece first:
    started last, it would run alone at the end. An instance with one thread does one after the other on `con` itself.
    """
    ((catalog, threads),) = con.execute("SELECT current_database(), current_setting('threads')").fetchall()
    if threads == 1:
        return {item: work(con, item) for item in items}

    def piece(item: T) -> R:
        with con.cursor() as mine:
            mine.execute(f"USE {catalog}")
            return work(mine, item)

    con.execute("SET threads = 1")
    try:
        with ThreadPoolExecutor(threads) as workers:
            done = {item: workers.submit(piece, item) for item in items}
            return {item: future.result() for item, future in done.items()}
    finally:
        con.execute(f"SET threads = {threads}")


@contextmanager
def machine_errors(root: Path) -> Iterator[None]:
    """Raise MachineError for an operating system error that an operator can fix; other errors pass unchanged.

    `root` is the folder that the messages name.
    """
    try:
        yield
    except OSError as error:
        message = machine.message_for_error(error, root)
        if message is None:
            raise
        raise MachineError(message) from error


@contextmanager
def translate_errors(path: Path | None, root: Path) -> Iterator[None]:
    """Translate DuckDB's errors about files into Rollbook's; errors in a query pass unchanged.

    `path` is the database, `root` a folder on the disk that is written to. Raises MachineError for a full disk or
    memory, BusyError for a file that another program has locked, DamagedError for a file that cannot be read.
    """
    try:
        yield
    except duckdb.Error as error:
        if not _is_about_files(error):
            raise
        raise _translated(error, path, root) from error


@contextmanager
def _declared_types() -> Iterator[None]:
    """Raise DeclarationError for a stored value that does not fit the column's declared type."""
    try:
        yield
    except duckdb.ConversionException as error:
        column = match[1] if (match := _COLUMN.search(str(error))) else "a column"
        # `from None`: DuckDB's message repeats the value.
        raise DeclarationError(
            f"The snapshots hold values of {column} that do not fit the type which pipelines/rollbook/tables.py"
            " declares for it now. Correct the declaration, or run `rollbook rebuild`, which flattens everything again"
            " from raw/ and lists what it refuses"
        ) from None


# DuckDB's error about a file depends on the place: a full disk ends a COMMIT with a TransactionException; a failed
# checksum, or bytes that are not Parquet, raise a bare Error.
_OF_FILES = (
    duckdb.IOException,
    duckdb.OutOfMemoryException,
    duckdb.SerializationException,
    duckdb.InternalException,
    duckdb.FatalException,
)
_DAY_OF_THE_LAKE = re.compile(r"[\w.-]+/snapshot_date=(\d{4}-\d{2}-\d{2})/[\w.-]+\.parquet")
_FILE = re.compile(r"([\w.-]+\.duckdb)\b")
_COLUMN = re.compile(r"source column (\w+)")


def _is_about_files(error: duckdb.Error) -> bool:
    text = str(error)
    reason = "Corrupt database file" in text or machine.errno_in(text) or _DAY_OF_THE_LAKE.search(text)
    return isinstance(error, _OF_FILES) or type(error) is duckdb.Error or bool(reason)


def _translated(error: duckdb.Error, path: Path | None, root: Path) -> MachineError | BusyError | DamagedError:
    text = str(error)
    reason = machine.message_for_errno(machine.errno_in(text), root)
    if reason is not None:
        return MachineError(reason)
    if isinstance(error, duckdb.OutOfMemoryException):
        if machine.free(root) > ROOM_TO_SPILL:
            return MachineError(
                "A query needs more memory than DuckDB may use here, so some records are"
                " unusually large: look for the longest values in the newest landing below raw/ and tell the service's"
                f" representative. {machine.NOTHING_LOST}"
            )
        return MachineError(
            f"DuckDB has filled its memory and cannot spill to the disk of {root}, where"
            f" {machine.in_bytes(machine.free(root))} are left. Make room, then run the sync again."
            f" {machine.NOTHING_LOST}"
        )
    file = path.name if path else match[1] if (match := _FILE.search(text)) else "the database"
    if "set lock on file" in text:
        return BusyError(
            f"Another program has {file} open for writing. Close it there, or open it read-only (readers need no more),"
            " then try again"
        )
    if day := _DAY_OF_THE_LAKE.search(text):
        return DamagedError(
            f"snapshots/{day[0]} cannot be read: run `rollbook backfill {day[1]} {day[1]}`, which makes it again from"
            " what was landed"
        )
    again = (
        "district build`, which makes it again"
        if file.startswith("district")
        else "rebuild`, which makes it again from raw/"
    )
    return DamagedError(f"{file} cannot be read: run `rollbook {again}")
