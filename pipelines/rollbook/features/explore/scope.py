"""What a reader sees of a night: the published file's schemas and names, with the reader's own rows alone.

For each published version there is one DuckDB instance (`Night`): the file, attached to be read, and a catalog in
memory with views of the same names. A base relation is shown by the rule that is declared for it here. The analysts'
views and macros are made again over these from their own text (BOUND), or filtered afterwards, where they infer
something from a row that is not there, or compare with others. What nothing is declared for is closed: it is there
without rows, and is not listed.

A reader is a cursor of that instance, with three variables: `students`, `classes`, and of these the `averaged` ones.
Where they are not set, nothing has a row. A row that names a student needs that student; one that names only a class
needs that class. Figures of a class need one that is wholly theirs, or has ten others: else they tell of single others.

DuckDB may evaluate a query's conditions below a view, on the rows that the view leaves out, and an error message then
repeats their values. It does not look into a CTE that is MATERIALIZED, so every relation is one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

import duckdb

from rollbook.features.explore.readers import ALL, TEACHER
from rollbook.reading.own import own_columns
from rollbook.store import schema
from rollbook.store.database import CATALOG, READ, THREADS, Limits, literal, new_instance, translate_errors
from rollbook.store.statements import statements
from rollbook.tables import SETS, TABLES
from rollbook.util import files
from rollbook.views import catalog

sql = statements("rollbook.features.explore")

MEMORY_LIMIT = "1GB"  # of a night, for all its readers
OTHERS = 10  # of so many others, an average tells of nobody
STUDENT_KEY, CLASS_KEY = SETS["students"].key, SETS["classes"].key
OWN = "own_"  # begins the name of a list of the school's own
CONTACTS = "contacts"
# Where the rows lie that take long to find, or that are found among all: of a whole night, in memory.
KEPT = "kept"


class By(StrEnum):
    """By what a relation's rows are a reader's."""

    STUDENT = "student"
    CLASS = "class"
    EITHER = "either"  # by the student, or by the class where no student is named
    OPEN = "open"  # everybody's, without what is personal
    CLOSED = "closed"
    BOUND = "bound"  # a view, made again over what the reader sees


_STUDENTS, _CLASSES, _AVERAGED = (
    f"(SELECT UNNEST(GETVARIABLE('{name}')::BIGINT[]))" for name in ("students", "classes", "averaged")
)
_RULES = {
    By.STUDENT: f"student_id IN {_STUDENTS}",
    By.CLASS: f"class_id IN {_CLASSES}",
    By.EITHER: f"student_id IN {_STUDENTS} OR (student_id IS NULL AND class_id IN {_CLASSES})",
    By.OPEN: "TRUE",
}
# Figures of a class, which are averages over its students.
AVERAGES = ("class_summaries", "class_assignment_activity")

# Macros that compare a student with the classes: they do so over the whole file, and show the reader's students.
OF_CLASSMATES = ("students_to_watch_as_of", "watch_daily_of")

# What is not a table of records.
_KEPT_RELATIONS = {
    schema.CHANGES: By.EITHER,
    schema.TERMS: By.OPEN,
    schema.THRESHOLDS: By.OPEN,
    schema.ACTIVE_DAYS: By.OPEN,
    schema.MERGED_DAYS: By.OPEN,
    schema.PROVEN_DAYS: By.OPEN,
    schema.VERSION: By.OPEN,
    **dict.fromkeys(
        (
            *(schema.SYNCS, schema.SYNC_SETS, schema.PAGES, schema.REJECTS, schema.REFUSED_VALUES, schema.DRIFT),
            *(schema.OWN_DAYS, schema.OWN_LISTS, schema.OWN_LINES, schema.OWN_COLUMNS, schema.LIST_FINDINGS),
        ),
        By.CLOSED,
    ),
}
VIEWS = {
    "roster": By.STUDENT,
    "student_progress": By.BOUND,
    "student_daily": By.BOUND,
    "student_weekly": By.BOUND,
    "students_to_watch": By.STUDENT,
    "watch_daily": By.STUDENT,
    "class_comparison": By.CLOSED,
    "progress_daily": By.CLOSED,
    "progress_weekly": By.CLOSED,
    "class_daily": By.BOUND,
    "class_weekly": By.CLOSED,
    "enrollment_changes": By.STUDENT,
    "enrollment_spans": By.STUDENT,
    "transfers": By.STUDENT,
    "student_identities": By.STUDENT,
    "possible_duplicates": By.CLOSED,
    "student_timeline": By.STUDENT,
    "course_overview": By.CLOSED,
    "teacher_overview": By.CLOSED,
    "sync_log": By.CLOSED,
    "calendar": By.BOUND,
    "data_quality_rows": By.CLOSED,
    "data_quality": By.CLOSED,
    "metrics": By.BOUND,
    "students_own": By.STUDENT,
}


@cache
def rules() -> dict[tuple[str, str], By]:
    """The rule of every declared table and view, by schema and name; the views of the lake are closed."""
    by_key = {STUDENT_KEY: By.STUDENT, CLASS_KEY: By.CLASS, TABLES["institution"].parent_key: By.OPEN}
    tables = {
        (s, t.name): by_key.get(t.parent_key, By.CLOSED) for s in ("main", "history", "spans") for t in TABLES.values()
    }
    kept = {(r.schema, r.name): rule for r, rule in _KEPT_RELATIONS.items()}
    lake = {(r.schema, r.name): By.CLOSED for r in schema.snapshots()}
    return {**tables, **kept, **lake, **{("main", name): rule for name, rule in VIEWS.items()}}


def rule_of(of: str, name: str, columns: Collection[str]) -> By:
    """The rule of a relation of the file. A list of the school's own, and who was spoken to, is by the person, or the
    class, it is about.
    """
    if of in ("main", "history") and (name.startswith(OWN) or name == CONTACTS):
        return By.STUDENT if STUDENT_KEY in columns else By.CLASS if CLASS_KEY in columns else By.CLOSED
    return rules().get((of, name), By.CLOSED)


@dataclass(frozen=True)
class Scope:
    """Whom a reader sees: ids, and the classes whose figures are shown. `missing` are lines that lead to nobody."""

    students: frozenset[int] = frozenset()
    classes: frozenset[int] = frozenset()
    averaged: frozenset[int] = frozenset()
    missing: tuple[str, ...] = ()


@dataclass
class Relation:
    """A table or view of the file: where, its columns with their types, and its rule."""

    of: str
    name: str
    columns: Sequence[tuple[str, str]]
    rule: By = field(init=False)

    def __post_init__(self) -> None:
        self.rule = rule_of(self.of, self.name, {name for name, _ in self.columns})

    @property
    def full(self) -> str:
        """Its name in SQL."""
        return f'{self.of}."{self.name}"'


class Night:
    """One published version, for all its readers. Raises what `translate_errors` does, and OtherVersionError."""

    def __init__(self, published: Path, within: Path) -> None:
        self._scopes: dict[tuple[str, frozenset[str]], Scope] = {}
        self.readers = 0  # how many views read it now
        with ExitStack() as stack:
            scratch = stack.enter_context(files.aside(within))
            stack.enter_context(translate_errors(published, scratch))
            self._con = stack.enter_context(closing(new_instance(scratch, Limits(THREADS, MEMORY_LIMIT))))
            self._con.execute(f"ATTACH {literal(published)} AS {READ} (READ_ONLY); USE {READ}")
            schema.check_format(self._con, published.name)
            ((self.version,),) = self._con.execute("SELECT id FROM spans.version").fetchall()
            self.relations = self._found()
            self._con.execute(f"ATTACH ':memory:' AS {CATALOG}; ATTACH ':memory:' AS {KEPT}; USE {CATALOG}")
            self._make()
            self._con.execute("SET enable_external_access = false; SET lock_configuration = true")
            self._closing = stack.pop_all()

    @property
    def listed(self) -> set[tuple[str, str]]:
        """The relations that are not closed."""
        return {(r.of, r.name) for r in self.relations if r.rule is not By.CLOSED}

    @contextmanager
    def reading(self, login: str, sees: frozenset[str]) -> Iterator[tuple[duckdb.DuckDBPyConnection, Scope]]:
        """A reader's own connection, and whom the reader sees."""
        scope = self.scope(login, sees)
        with self._con.cursor() as mine:
            mine.execute(f"USE {CATALOG}")
            for name in ("students", "classes", "averaged"):
                mine.execute(f"SET VARIABLE {name} = {sorted(getattr(scope, name))}::BIGINT[]")
            yield mine, scope

    def scope(self, login: str, sees: frozenset[str]) -> Scope:
        """Whom somebody sees who may see this, by the night's own records."""
        key = (login if TEACHER in sees else "", sees)
        if key not in self._scopes:
            with self._con.cursor() as aside:
                aside.execute(f"USE {READ}")
                self._scopes[key] = _scope(aside, login, sees)
        return self._scopes[key]

    def whole(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of a query of the whole file, for the one who runs it."""
        with self._con.cursor() as aside:
            aside.execute(f"USE {READ}")
            return aside.execute(query).fetchall()

    def close(self) -> None:
        """Close it, and remove what it has spilled."""
        self._closing.close()

    def _found(self) -> list[Relation]:
        rows = self._con.execute(f"""
            SELECT c.schema_name, c.table_name, LIST((c.column_name, c.data_type) ORDER BY c.column_index)
            FROM duckdb_columns() AS c
            WHERE c.database_name = '{READ}' AND NOT c.internal
            GROUP BY ALL ORDER BY ALL
        """).fetchall()
        return [Relation(*row) for row in rows]

    def _make(self) -> None:
        """Make the catalog that readers see: tables first, then the views in the order of their text, then macros."""
        for of in sorted({r.of for r in self.relations} | set(schema.SCHEMAS)):
            self._con.execute(f"CREATE SCHEMA IF NOT EXISTS {of}")
        place = {name: n for n, name in enumerate(catalog.VIEWS, start=1)}
        for relation in sorted(self.relations, key=lambda r: place.get(r.name, 0) if r.of == "main" else 0):
            self._con.execute(f"CREATE VIEW {relation.full} AS {self._query(relation)}")
        for macro in catalog.macros(self.version):
            self._con.execute(_of_whole(macro.sql) if macro.name in OF_CLASSMATES else macro.sql)

    def _query(self, relation: Relation) -> str:
        if relation.rule is By.CLOSED:
            empty = ", ".join(f'CAST(NULL AS {kind}) AS "{name}"' for name, kind in relation.columns)
            return f"SELECT {empty} WHERE FALSE"
        if relation.rule is By.BOUND:
            return catalog.view(relation.name).query
        source = f"{READ}.{relation.full}"
        if relation.of == "main" and relation.name in VIEWS:
            rows = catalog.watch_daily() if relation.name == "watch_daily" else f"FROM {source}"
            self._con.execute(f"USE {READ}; CREATE TABLE {KEPT}.main.{relation.name} AS {rows}; USE {CATALOG}")
            source = f"{KEPT}.main.{relation.name}"
        shown = ", ".join(_shown(relation, name, kind) for name, kind in relation.columns)
        rule = f"({_RULES[relation.rule]})"
        if relation.full == 'main."changes"':
            rule += f" AND (table_name NOT IN {AVERAGES} OR class_id IN {_AVERAGED})"
        return f"WITH own AS MATERIALIZED (SELECT {shown} FROM {source} WHERE {rule}) FROM own"


def _of_whole(macro: str) -> str:
    """The statement of a macro that reads the whole file, and shows the reader's students."""
    create, body = macro.split(" AS TABLE", 1)
    whole = re.sub(r"\b(history|spans|main)\.", rf"{READ}.\1.", body)
    rule = _RULES[By.STUDENT]
    return f"{create} AS TABLE WITH own AS MATERIALIZED (SELECT * FROM ({whole}) WHERE {rule}) FROM own"


def _shown(relation: Relation, name: str, kind: str) -> str:
    """A column as a reader sees it."""
    table = TABLES.get(relation.name)
    if relation.name in AVERAGES and table is not None and name in table.names and name not in table.key:
        return f'CASE WHEN class_id IN {_AVERAGED} THEN "{name}" END AS "{name}"'
    if relation.rule is By.OPEN and (relation.of, relation.name, name) in _personal():
        return f'CAST(NULL AS {kind}) AS "{name}"'
    if (relation.name, name) == ("student_identities", "person"):  # another id of the same person, not the reader's
        return "CASE WHEN ids = 1 THEN person END AS person"
    return f'"{name}"'


@cache
def _personal() -> frozenset[tuple[str, str, str]]:
    return frozenset((r.schema, r.name, c.name) for r in schema.declared() for c in r.columns if c.personal)


def _scope(con: duckdb.DuckDBPyConnection, login: str, sees: Iterable[str]) -> Scope:
    students, classes, missing = set[int](), set[int](), []
    columns = {column.lower(): column for column in own_columns(con)}
    for line in sorted(set(sees) - {ALL}):
        column, _, value = line.partition("=")
        if line == TEACHER:
            found = con.execute(sql("sees_teacher"), {"login": login}).fetchall()
        elif column in columns:
            found = con.execute(sql("sees_own", column=columns[column]), {"value": value}).fetchall()
        else:
            found = []
        students |= {student for student, _ in found if student is not None}
        classes |= {each for _, each in found if each is not None}
        missing += [] if found else [line]
    rosters = con.execute(
        sql("sees_averaged"), {"students": [*students], "classes": [*classes], "others": OTHERS}
    ).fetchall()
    return Scope(frozenset(students), frozenset(classes), frozenset(row[0] for row in rosters), tuple(missing))


class Nights:
    """The newest night of a file, and those before that somebody still reads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._newest: tuple[tuple[Path, object], Night] | None = None

    @contextmanager
    def newest(self, published: Path, within: Path) -> Iterator[Night]:
        """Within the block, the night that is published now is open."""
        with self._lock:
            seen = published, _seen(published)
            if self._newest is None or self._newest[0] != seen:
                self._forget()
                self._newest = seen, Night(published.resolve(), within)
            night = self._newest[1]
            night.readers += 1
        try:
            yield night
        finally:
            with self._lock:
                night.readers -= 1
                if not night.readers and night is not self._current():
                    night.close()

    def close(self) -> None:
        """Close the night; if somebody reads it, they close it."""
        with self._lock:
            self._forget()

    def _current(self) -> Night | None:
        return None if self._newest is None else self._newest[1]

    def _forget(self) -> None:
        before, self._newest = self._newest, None
        if before is not None and not before[1].readers:
            before[1].close()


def _seen(published: Path) -> object:
    """What tells a published version from another; None if there is none."""
    try:
        path = published.resolve()
        return path, files.identity(path.stat())
    except OSError:
        return None
