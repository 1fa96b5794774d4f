"""Creates the views and macros, with a comment on each, and on each view's columns.

A view is one file in `sql/`: the header says what a row is, which columns are the key, by which people sort it, what
rows tell of a person (`-- tells: days`) and what each column means; the query follows. The file is a Jinja template:
shared measures come from `metrics`, longer shared parts are Jinja macros in files whose names begin with `_`. To add a
view, add the file, and the name to `VIEWS`.

The views of the lake and the macros are made from the declarations in `tables`. Tables and their comments belong to
`schema`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast, get_args

import duckdb

from rollbook.errors import CheckError, DeclarationError, SettingError
from rollbook.store import checks, schema
from rollbook.store.database import connect, count, literal, names, no_rows, transaction
from rollbook.store.lake import LAKE, DayRecord, Lake
from rollbook.store.schema import CHANGE_KEYS, OBSERVED
from rollbook.store.statements import environment, ordering, statements
from rollbook.tables import DECLARED, OF_STUDENTS, SETS, TABLES, WALKED, Declared, Table, Tells, of_set
from rollbook.util.text import listed
from rollbook.views import editable, metrics

sql = statements("rollbook.views", "macros")
query = statements("rollbook.views")

# In the order in which they are created: a later view may read an earlier view.
VIEWS: tuple[str, ...] = (
    "roster",
    "student_progress",
    "student_daily",
    "student_weekly",
    "students_to_watch",
    "watch_daily",
    "class_comparison",
    "progress_daily",
    "progress_weekly",
    "class_daily",
    "class_weekly",
    "enrollment_changes",
    "enrollment_spans",
    "transfers",
    "student_identities",
    "possible_duplicates",
    "student_timeline",
    "course_overview",
    "teacher_overview",
    "sync_log",
    "calendar",
    "data_quality_rows",
    "data_quality",
    "metrics",
    "students_own",
)


# Columns that Rollbook adds to a table's own, in the published file, the lake or a district's file.
RESERVED = {
    *("snapshot_date", "valid_from", "valid_to", "span_state", "first_day", "last_day"),
    *("institution", "landing", "seq", "ord"),
}


def check(table: Table) -> None:
    """Raise DeclarationError for a declaration that would fail a night, or put a person's data where no erasure
    comes.
    """
    for column in table.columns:
        where = f"tables.py: {table.name}.{column.name}"
        if column.name in RESERVED:
            raise DeclarationError(
                f"{where} has the name of a column of Rollbook's own: name it otherwise, with source="
            )
        if column.name in table.key and not (column.required and column.tracked):
            raise DeclarationError(f"{where} is part of the key: declare it required=True, and leave it tracked")
        if column.is_text and column.personal is None:
            raise DeclarationError(f"{where} may hold text: declare personal=True or personal=False")
        if column.name == SETS["students"].key and table.set not in OF_STUDENTS:
            raise DeclarationError(
                f"{where} would stay when the student is erased, since only sets of students are searched: declare"
                f" {table.set} with key={column.name!r}, or leave the column out"
            )


def check_names() -> None:
    """Raise DeclarationError for a declared table whose name is taken by a view or by a table of Rollbook's own."""
    taken = {("main", name) for name in VIEWS}
    for relation in (*schema.declared(), *schema.snapshots()):
        if (full := (relation.schema, relation.name)) in taken:
            raise DeclarationError(
                f"tables.py: a table or view of Rollbook's own has the name {'.'.join(full)}. Name the declared table"
                " otherwise, such as service_calendar; its set keeps its name"
            )
        taken.add(full)


for _table in TABLES.values():
    check(_table)
check_names()

# For people who open a file that was copied away from the warehouse.
MOVED = f"If the lake was moved: SET VARIABLE {LAKE} = '/new/place/snapshots'."

# The Jinja variables of a view's file.
PARTS: dict[str, object] = {
    "metric": metrics.SQL,
    "metrics": metrics.METRICS,
    "thresholds": tuple(t.name for t in editable.DEFAULTS),
    "active_days": metrics.ACTIVE_DAYS,
    "small_class": metrics.SMALL_CLASS,
    "unstated": tuple(t for t in TABLES.values() if t.may_be_unstated),
    "percents": tuple((t, c) for t in TABLES.values() for c in t.columns if c.percent),
    "walked": tuple(of_set(s)[0] for s in WALKED),
    "own": lambda table: of_set(table.set)[0].name,
    "change_keys": CHANGE_KEYS,
}

# The reasons to watch a student, as lists name them, in their order; `sql/_watch.sql` has their definitions.
REASONS: dict[str, str] = {
    "is_missing_work": "missing work",
    "is_never_logged_in": "first login overdue",
    "is_inactive": "inactive",
    "is_low_completion": "low completion",
    "is_low_score": "low score",
}

# A macro in the file that returns the digest of the views.
MADE = "views_digest"

# Bytes that DuckDB needs to find whom to watch among no students and for each one: 256 MB were enough for 109,000, and
# 200 for 54,000. What is compared within classes does not all spill. A school of 3,000 needs no more than the usual
# 128 MB: to change the limit takes DuckDB longer than to read a small table.
_TO_WATCH, _TO_WATCH_EACH = 120_000_000, 2_000
_UNITS = {unit: 1024**n for n, unit in enumerate(("bytes", "KiB", "MiB", "GiB", "TiB", "PiB"))}

_FIRST = re.compile(r"-- (\w+): (.+)")
_KEY = re.compile(r"-- key: (.+)")
_ORDER = re.compile(r"-- order: (.+)")
_TELLS = re.compile(rf"-- tells: ({'|'.join(get_args(Tells))})")
_KEY_COLUMN = re.compile(r"(\w+)( \(may be NULL\))?")
_COLUMN = re.compile(r"--   (\w+)  +(.+)")


@dataclass(frozen=True)
class View:
    """An analysts' view: what a row is, what each column means (in order), the query, and the key.

    The `key` is unique; key columns in `nullable` may be NULL. By the columns in `order` (such as `severity DESC`), a
    person would sort the view; it has no order by itself. `tells`: what rows tell of a person.
    """

    name: str
    comment: str
    columns: tuple[tuple[str, str], ...]
    query: str
    key: tuple[str, ...] = ()
    nullable: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    tells: Tells = "now"

    @property
    def described(self) -> str:
        """The meaning of a row, and the key: the view's COMMENT in the file."""
        return f"{self.comment} Key: {', '.join(self.key)}." if self.key else self.comment

    def order_by(self, columns: Container[str]) -> str:
        """The clause that sorts the view by those of the `columns` in `order`, a district's by institution first; empty
        if people sort it by none.
        """
        terms = [term.split() for term in ("institution", *self.order) if term.split()[0] in columns]
        return f" ORDER BY {', '.join(ordering(*term) for term in terms)}" if self.order and terms else ""


@dataclass(frozen=True)
class Macro:
    """A macro: the parameters, the result, the statement that creates the macro, and the kind for COMMENT ON."""

    name: str
    parameters: tuple[str, ...]
    comment: str
    sql: str
    kind: str = "MACRO TABLE"


@cache
def view(name: str) -> View:
    """Read one view's file. Raises ValueError if the header does not name the view."""
    return parse(name, query(name, **PARTS))


def parse(name: str, text: str) -> View:
    """Read a view's header and query. Raises ValueError if the header does not name the view."""
    header = [line for line in text.splitlines() if line.startswith("--")]
    first = _FIRST.fullmatch(header[0]) if header else None
    if first is None or first[1] != name:
        raise ValueError(f"{name}.sql does not begin with '-- {name}: what a row is'")
    columns = tuple((m[1], m[2]) for line in header if (m := _COLUMN.fullmatch(line)))
    key, nullable = _key(name, header[1:])
    order = next((tuple(m[1].split(", ")) for line in header if (m := _ORDER.fullmatch(line))), ())
    tells: Tells = next((cast("Tells", m[1]) for line in header if (m := _TELLS.fullmatch(line))), "now")
    return View(name, first[2], columns, text, key, nullable, order, tells)


def _key(name: str, header: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the key's columns, and which of these may be NULL. Raises ValueError if the line is malformed.

    A view without the line gets no key; a test requires a key of every view.
    """
    lines = [m[1] for line in header if (m := _KEY.fullmatch(line))]
    columns = [_KEY_COLUMN.fullmatch(part) for line in lines for part in line.split(", ")]
    if len(lines) > 1 or None in columns:
        raise ValueError(f"views/sql/{name}.sql: write its key as '-- key: day, class_id (may be NULL)', on one line")
    matches = [m for m in columns if m]
    return tuple(m[1] for m in matches), tuple(m[1] for m in matches if m[2])


def views() -> tuple[View, ...]:
    """Return all views, in the order in which they are created."""
    return tuple(map(view, VIEWS))


@cache
def types() -> dict[tuple[str, str], str]:
    """Return the type of each (view, column), as DuckDB infers it over empty tables."""
    with duckdb.connect() as con:
        schema.ensure(con)
        create_views(con)
        rows = con.execute(
            "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE schema_name = 'main'"
        ).fetchall()
    return {(view, column): kind for view, column, kind in rows}


def watched(thresholds: str) -> str:
    """The CTEs from `asked` to `watched`, by the thresholds of a relation: see `sql/_watch.sql`."""
    return _of_watch("watched(relation)", relation=thresholds)


@contextmanager
def room_to_watch(con: duckdb.DuckDBPyConnection, file: str = "") -> Iterator[None]:
    """Within the block, let DuckDB take what it needs to find whom to watch in a file, such as `published.`, if that is
    more than it may take otherwise.
    """
    students = count(con, f"SELECT COUNT(*) FROM {file}main.students")
    settings = "SELECT current_setting('memory_limit'), current_setting('lock_configuration')"
    ((limit, is_locked),) = con.execute(settings).fetchall()
    number, unit = limit.split()
    needed = _TO_WATCH + _TO_WATCH_EACH * students
    if is_locked or needed <= float(number) * _UNITS[unit]:
        yield
        return
    con.execute(f"SET memory_limit = '{needed} bytes'")
    try:
        yield
    finally:
        con.execute(f"SET memory_limit = '{limit}'")


def watch_daily() -> str:
    """The query of all rows of the view `watch_daily`, faster than the view."""
    return _of_watch("daily(at_once=true)")


def _of_watch(call: str, **parts: str) -> str:
    template = f'{{% import "_watch.sql" as watch with context %}}{{{{ watch.{call} }}}}'
    return environment("rollbook.views", "sql").from_string(template).render(PARTS, **parts)


def as_of(table: Table, version: str, *before: str) -> Macro:
    """Return the macro for a table as of a day, with more columns `before` the table's own."""
    shown = ", ".join((*before, names(table.versioned)))
    about = (
        f"The rows of {table.name} on the last landed day on or before a day, without untracked columns; an error"
        " before"
    )
    return Macro(
        f"{table.name}_as_of",
        ("day",),
        f"{about} the first landed day.",
        sql("as_of", table=table, version=version, shown=shown),
    )


def changes_between(version: str) -> Macro:
    """Return the macro for the changes between two days."""
    return Macro(
        "changes_between",
        ("from_day", "to_day"),
        "The rows of changes after from_day, up to and including to_day.",
        sql("changes_between", version=version),
    )


def macros(version: str = "", declared: Declared = DECLARED) -> tuple[Macro, ...]:
    """Return all macros, for a version of the file."""
    return (
        *(as_of(table, version) for table in declared.tables.values()),
        Macro(
            "students_to_watch_as_of",
            ("day",),
            "The rows of students_to_watch on the last landed day on or before a day, by the current thresholds; an"
            " error before the first landed day.",
            sql("students_to_watch_as_of", version=version, **PARTS),
        ),
        Macro(
            "watch_daily_of",
            ("students",),
            "The rows of watch_daily for a list of student ids, with `from_day :=` since a day: faster than a filter."
            " For a class: watch_daily_of((SELECT LIST(student_id) FROM student_classes WHERE class_id = 9000)).",
            sql("watch_daily_of", version=version, **PARTS),
        ),
        changes_between(version),
        Macro(
            "student_changes",
            ("from_day", "to_day"),
            "A row per student who was listed on one of two days: completion, score, assignments (given, completed and"
            " missing) and minutes then and now, and the difference: NULL where one is not known, or where assignments"
            " or minutes are counted again since.",
            sql("student_changes", version=version, **PARTS),
        ),
        Macro(
            "as_of_day",
            ("day",),
            "The landed day whose state the macros above return for a day; NULL before the first one.",
            sql("as_of_day", version=version),
            kind="MACRO",
        ),
    )


def create(con: duckdb.DuckDBPyConnection, lake: Lake, days: Collection[DayRecord], version: str) -> None:
    """Create or replace every view and macro, with comments, since the lake may have moved or columns changed.

    The views of the lake show the given days; the macros refuse to answer in a file of another `version`.
    """
    create_snapshots(con, lake, days)
    # A night's file is a copy of the last file, usually with the same views.
    if schema.noted(con, MADE) != _views_digest(lake.declared):
        _make_views(con, lake.declared)
    else:
        _reset_students_own(con)
    create_macros(con, macros(version, lake.declared))


def check_untracked(declared: Declared) -> None:
    """Raise SettingError if ROLLBOOK_UNTRACKED names a column that a view or macro reads from history."""
    for column, readers in readers_of_history(declared.untracked).items():
        raise SettingError(
            f"ROLLBOOK_UNTRACKED holds {column!r}, which has to be in the history for {listed(readers)}: leave it out"
        )


@cache
def readers_of_history(columns: frozenset[tuple[str, str]]) -> Mapping[str, Sequence[str]]:
    """Return the views and macros that read one of these columns from history: by table.column.

    It binds every view and macro without each column. That takes a second, but only where the setting is used.
    """
    found: dict[str, Sequence[str]] = {}
    if not columns:
        return found
    with duckdb.connect() as con:
        for part in schema.SCHEMAS:
            con.execute(f"CREATE SCHEMA IF NOT EXISTS {part}")
        for r in schema.declared():
            con.execute(f"CREATE TABLE {r.schema}.{r.name} ({', '.join(f'{c.name} {c.type}' for c in r.columns)})")
        for v in views():
            con.execute(f"CREATE VIEW main.{v.name} AS {v.query}")
        of_these = macros(declared=Declared(columns))
        for m in of_these:
            con.execute(m.sql)
        texts = {v.name: v.query for v in views()} | {m.name: m.sql for m in of_these}
        for table, column in sorted(columns):
            for part in ("history", "spans"):
                con.execute(f"ALTER TABLE {part}.{table} RENAME COLUMN {column} TO without")
            # Some of them only read others of them.
            if readers := [name for name in checks.unreadable(con) if re.search(rf"\b{column}\b", texts[name])]:
                found[f"{table}.{column}"] = readers
            for part in ("history", "spans"):
                con.execute(f"ALTER TABLE {part}.{table} RENAME COLUMN without TO {column}")
    return found


@cache
def prepared(declared: Declared) -> bytes:
    """Return a database file without rows: every table and view, with comments.

    Views follow from the declarations alone, and making views takes longer than anything else in a small school's first
    night.
    """
    with TemporaryDirectory() as folder:
        path, scratch = Path(folder) / "prepared.duckdb", Path(folder) / "spill"
        with connect(path, scratch=scratch) as con, transaction(con):
            schema.ensure_declared(con, declared)
            _make_views(con, declared)
        return path.read_bytes()


def _make_views(con: duckdb.DuckDBPyConnection, declared: Declared) -> None:
    """Create the views, and the macro that names the set. Raises CheckError if DuckDB cannot bind a view."""
    with _bound():
        create_views(con)
    schema.note(con, MADE, _views_digest(declared), "which views this file holds")


@contextmanager
def _bound() -> Iterator[None]:
    """Raise CheckError for a view or macro made in the block that DuckDB cannot bind: nobody could read it."""
    try:
        yield
    except (duckdb.BinderException, duckdb.CatalogException) as error:
        found = f"A view or macro cannot be made ({str(error).splitlines()[0]})"
        raise CheckError(
            f"{found}. Nothing was published: undo the last change to pipelines/rollbook/views/ or tables.py",
            {checks.READABLE: [found]},
        ) from error


@cache
def _views_digest(declared: Declared) -> str:
    """Return a digest of the views' inputs: the text, the tables behind them (which lack the columns that are left
    untracked), and DuckDB's version.
    """
    columns = [(r.schema, r.name, [(c.name, c.type) for c in r.columns]) for r in schema.declared(declared)]
    return sha256(repr((views(), columns, duckdb.__version__)).encode()).hexdigest()


def create_snapshots(con: duckdb.DuckDBPyConnection, lake: Lake, days: Collection[DayRecord]) -> None:
    """Create the views of the lake. The views name the files of the days, below the lake's present folder or the folder
    in a connection's variable (LAKE).
    """
    for relation in schema.snapshots():
        columns = relation.columns
        if relation is not OBSERVED:
            query = lake.scan(TABLES[relation.name], days, movable=True)
        elif days:
            query = f"SELECT {names(columns)} FROM ({lake.scan_observed(days, movable=True)})"
        else:
            query = no_rows(columns)
        comments = ((c.name, c.comment) for c in columns)
        create_view(con, "snapshots", relation.name, query, f"{relation.comment} {MOVED}", comments)


def create_macros(con: duckdb.DuckDBPyConnection, of: Iterable[Macro]) -> None:
    """Create macros, with comments. Raises CheckError if DuckDB cannot bind one."""
    for macro in of:
        with _bound():
            con.execute(macro.sql)
        con.execute(f"COMMENT ON {macro.kind} main.{macro.name} IS {literal(macro.comment)}")


def _reset_students_own(con: duckdb.DuckDBPyConnection) -> None:
    """Take the columns of lists from `students_own`, whose tables go before features fill the file (`additions`)."""
    columns = con.execute("SELECT * FROM main.students_own LIMIT 0").description or ()
    own = view("students_own")
    if len(columns) > len(own.columns):
        create_view(con, "main", own.name, own.query, own.described, own.columns)


def create_views(con: duckdb.DuckDBPyConnection) -> None:
    """Create the analysts' views."""
    for v in views():
        create_view(con, "main", v.name, v.query, v.described, v.columns)


def create_view(
    con: duckdb.DuckDBPyConnection,
    schema: str,
    name: str,
    query: str,
    about: str,
    columns: Iterable[tuple[str, str]],
) -> None:
    """Create or replace a view, with a comment on the view and on each column."""
    con.execute(f"CREATE OR REPLACE VIEW {schema}.{name} AS {query}")
    comment(con, "VIEW", f"{schema}.{name}", about, columns)


def comment(
    con: duckdb.DuckDBPyConnection, kind: str, full: str, about: str, columns: Iterable[tuple[str, str]]
) -> None:
    """Comment on a view or table, by the full name, and on the columns."""
    comments = [f"COMMENT ON {kind} {full} IS {literal(about)}"]
    comments += (f"COMMENT ON COLUMN {full}.{column} IS {literal(meaning)}" for column, meaning in columns)
    con.execute("; ".join(comments))
