"""The access log: who read pupils' records through Rollbook, when, how many students, and by what kind of query.

    private/access-2026-11.jsonl    one line per access of the month (UTC), an `Entry`

A month's file is deleted ROLLBOOK_ACCESS_LOG_DAYS after the month's end, at the next access or by the nightly writer,
once a landed day is so much later: this machine's clock alone may be wrong.

A line holds no value from the query or the result, so the log is not a second list of who was looked up. It is written
before anything is shown: access that cannot be logged is refused. Only the warehouse's owner may read or write the log.
Another account that may read the published file could read that file with any tool, unlogged; so Rollbook does not
refuse either, and warns on the terminal that the access was not logged.

A query is logged with its tables and columns, not with the person in question (`without_values`).
"""

from __future__ import annotations

import errno
import logging
import os
import re
from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import pairwise
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated

import duckdb
import msgspec
from filelock import Timeout

from rollbook.errors import BusyError, MachineError
from rollbook.landing import formats
from rollbook.settings import DISTRICT, for_all, place
from rollbook.store.schema import SCHEMAS, declared
from rollbook.util import files, machine

log = logging.getLogger(__name__)

PRIVATE, LOCK = "private", ".access.lock"
_NAME = "access-%Y-%m.jsonl"
# Seconds to wait while another process writes a line, which takes milliseconds.
LOCK_SECONDS = 10.0

# The most characters kept of a query.
MAX_LINE = 2_000

# What was kept of the progress reports of one student, class or teacher, with the id.
_OF_ONE = re.compile(rb'("what":"(?:student|class|teacher))-\d+"')

_WORD = re.compile(r"[A-Za-z_]+")
_PUNCTUATION = re.compile(r"[^\w\s\"'`]+")


class Entry(formats.Stored, frozen=True, kw_only=True):
    """One access, at a time in UTC. `students` counts the different students shown; None if unknown.

    `user` is the account that read, `login` the account that logged in, if known and different (`sudo`); `reader` who
    signed in to `rollbook explore`. `what` is the query without values.
    """

    at: Annotated[datetime, msgspec.Meta(tz=True)]
    user: str
    login: str = ""
    reader: str = ""
    kind: str
    students: int | None = None
    what: str = ""


def note(root: Path, kind: str, *, students: int | None = None, what: str = "", reader: str = "") -> None:
    """Log one access to the warehouse at `root`, with fsync. Call it before anything is shown.

    Raises MachineError when the log cannot be written, and BusyError when another process keeps the log locked; the
    caller then shows nothing. An account that does not own the warehouse and may not write there gets a warning
    instead.
    """
    # From the operating system: environment variables can be set to anything.
    user, login = machine.account(), machine.login()
    entry = Entry(
        at=datetime.now(UTC), user=user, login="" if login == user else login, reader=reader, kind=kind,
        students=students, what=what,
    )  # fmt: skip
    folder = root / PRIVATE
    path = folder / entry.at.strftime(_NAME)
    try:
        files.set_mode(files.folder(folder), files.PRIVATE_FOLDER)
        with files.Lock(folder / LOCK, timeout=LOCK_SECONDS):
            _append(path, msgspec.json.encode(entry) + b"\n")
            if os.geteuid() == 0:  # what root wrote is the owner's: otherwise only root could log from then on
                owner = root.stat()
                for new in (folder, folder / LOCK, path):
                    os.chown(new, owner.st_uid, owner.st_gid, follow_symlinks=False)
    except machine.NotOfferedError as error:
        raise MachineError(f"{error.strerror}. Unlogged access is refused") from None
    except Timeout:
        raise BusyError(
            f"{path} is locked by another process, so this access could not be logged and was refused: run it again"
        ) from None
    except OSError as error:
        # Another account may read the published file, also from a disk that is read-only, and can log nothing.
        denied = error.errno in (errno.EACCES, errno.EPERM) and root.stat().st_uid != os.geteuid()
        if not denied and error.errno != errno.EROFS:
            raise MachineError(
                f"{path} cannot be written ({error.strerror or type(error).__name__}), and unlogged access is"
                f" refused: make room, or give {folder} back to the account that owns the warehouse"
            ) from None
        _warn(root)
    keep_up(root, (for_all() if root.name == DISTRICT else place()).access_log_days, entry.at)


def entries(root: Path, since: date | None = None) -> tuple[list[Entry], int]:
    """Read the log, optionally `since` a day (UTC): the entries, oldest first, and how many lines could not be read.

    Raises MachineError when this account may not read the log, and OtherVersionError.
    """
    lines_read: list[Entry] = []
    unreadable = 0
    try:
        for path in _paths(root / PRIVATE):
            for line in path.read_bytes().splitlines():
                try:
                    entry = formats.decode(line, Entry, path)
                except (msgspec.DecodeError, UnicodeDecodeError):
                    unreadable += bool(line.strip())
                    continue
                if since is None or entry.at.date() >= since:
                    lines_read.append(entry)
    except PermissionError:
        raise MachineError(
            f"{root / PRIVATE} is readable by its owner only: run this as the account that owns the warehouse"
        ) from None
    return sorted(lines_read, key=lambda entry: entry.at), unreadable


def forget_ids(root: Path) -> None:
    """Take the ids out of older lines; new ones have none."""
    with files.Lock(files.folder(root / PRIVATE) / LOCK, timeout=LOCK_SECONDS):
        for path in _paths(root / PRIVATE):
            content = path.read_bytes()
            if (left := _OF_ONE.sub(rb'\1"', content)) != content:
                files.write(path, left)


def keep_up(root: Path, keep_days: int, now: datetime) -> None:
    """Delete the files of months that ended more than `keep_days` before `now` and before the newest landed day; in a
    district's common folder, before that of any institution.

    The nightly writer calls this, too: otherwise the last lines would stay for good once nobody reads any more.
    """
    from rollbook.landing.raw import newest_landed  # here, so that a command's help does not wait for pyarrow

    try:
        if old := [path for path in _paths(root / PRIVATE) if path.name < _oldest(now.date(), keep_days)]:
            newest = newest_landed(*(root.parent.glob("*") if root.name == DISTRICT else (root,)))
            for path in old:
                if newest is not None and path.name < _oldest(newest, keep_days):
                    path.unlink(missing_ok=True)
    except OSError as error:
        log.warning(
            "Old lines of the access log could not be removed (%s): the next writer tries again", error.strerror
        )


def _oldest(day: date, keep_days: int) -> str:
    """The name of the oldest file that is kept on a day."""
    return (day - timedelta(days=keep_days)).strftime(_NAME)


def _append(path: Path, line: bytes) -> None:
    """Append a line, durably."""
    fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, files.PRIVATE_FILE)
    try:
        size = os.fstat(fd).st_size
        if size and os.pread(fd, 1, size - 1) != b"\n":  # a full disk or a lost power supply cut the last line short
            line = b"\n" + line
        if os.write(fd, line) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(fd)
    finally:
        os.close(fd)


def _paths(folder: Path) -> list[Path]:
    """The files of the log, oldest first."""
    # listdir, not glob: an unreadable folder must not look like an empty folder.
    names = os.listdir(folder) if folder.exists() else []  # noqa: PTH208
    return [folder / name for name in sorted(names) if name.startswith("access-") and name.endswith(".jsonl")]


@cache
def _warn(root: Path) -> None:  # once per process: the app runs a dozen queries per page
    log.warning("Only its owner can write the access log in %s: what this account reads is not logged", root / PRIVATE)


# -- what is kept of a query -------------------------------------------------------------------------------------------


def without_values(query: str) -> str:
    """A query on one line, with `?` for every possible value; empty if DuckDB cannot parse it.

    DuckDB's own tokenizer splits it. Keywords, punctuation and declared names are kept; everything else becomes `?`:
    strings, numbers, comments and every other name, since an alias, a quoted name or a value without quotes may be a
    pupil's.
    """
    try:
        duckdb.extract_statements(query)
        tokens = duckdb.tokenize(query)
    except (duckdb.Error, TypeError, UnicodeError):
        return ""
    text, line = query.encode(), ""
    for (start, kind), (end, _) in pairwise([*tokens, (len(text), duckdb.token_type.comment)]):
        token = text[start:end].decode(errors="replace")
        shown = " " if kind is duckdb.token_type.comment else _shown(token.strip(), kind)
        line += f"{shown} " if token[-1:].isspace() else shown
    line = " ".join(line.split())
    return line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]}..."


def _shown(token: str, kind: duckdb.token_type) -> str:
    """The token itself if no value can be inside; DuckDB takes the dot in `s.name` for a number."""
    is_keyword = kind is duckdb.token_type.keyword and _WORD.fullmatch(token)
    is_name = kind is duckdb.token_type.identifier and token.strip('"').lower() in _declared_names()
    return token if is_keyword or is_name or _PUNCTUATION.fullmatch(token) else "?"


@cache
def _declared_names() -> frozenset[str]:
    """Every name in a published file, and DuckDB's own functions and types: none is a pupil's."""
    from rollbook.views import catalog  # not for `rollbook --help`, which imports the commands

    relations, macros = (
        resolve_name(f"rollbook.feature:{what}")() for what in ("relations", "macros")
    )  # it lies above
    names = {*SCHEMAS, "rollbook", "main", "date", "timestamp", "varchar", "bigint", "integer", "double", "boolean"}
    for relation in (*declared(), *relations):
        names |= {relation.name, *(column.name for column in relation.columns)}
    for view in catalog.views():
        names |= {view.name, *(name for name, _ in view.columns)}
    names |= {macro.name for macro in (*catalog.macros(), *macros)}
    with duckdb.connect() as con:
        names |= {row[0] for row in con.execute("SELECT DISTINCT function_name FROM duckdb_functions()").fetchall()}
    return frozenset(names)
