"""The declarations of sets, tables and columns, from which everything else is derived.

The declarations give the DDL with comments, the flattening with checks, the Parquet schema, the columns that history
compares, Dagster's column schema and the data dictionary. Adding a field is a line here (and a line in the sandbox).
Code that uses the declarations belongs elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from hashlib import sha256
from typing import Literal

Type = Literal["BIGINT", "DOUBLE", "DATE", "VARCHAR", "BOOLEAN", "TIMESTAMP", "JSON"]


@dataclass(frozen=True)
class Column:
    """A column: the place in the contract, the possible values, and the meaning.

    `source` is the dotted path inside the table's object (default: the column's own name). An `id` is a positive 64-bit
    integer, a `percent` is not negative (above 100 is extra credit), any other number is at most `records.MAX_NUMBER`
    from zero; a flag (`is_flag`) is 0 or 1, which services also write as false or true. A record without a `required`
    value is refused; any other value that is not as declared is NULL. A column that is not `tracked` is in current
    tables and snapshots, but never makes a version (G6). A `measure` moves with every school day, so its changes hold
    no night (G3); one that counts `up` has vanished where the value is 0 or NULL, one that counts `down` only where it
    is NULL, and one that `outlasts_terms` does not begin again with a term. `personal` values name or describe a
    person, and stay out of logs, previews, Dagster's metadata (G12) and the pseudonymous file. Every text column
    (`is_text`) declares whether the text is personal; numbers and dates are not.
    """

    name: str
    type: Type
    comment: str
    source: str = ""
    id: bool = False
    percent: bool = False
    is_flag: bool = False
    required: bool = False
    tracked: bool = True
    measure: Literal["", "up", "down"] = field(default="", repr=False)
    outlasts_terms: bool = field(default=False, repr=False)
    personal: bool | None = field(default=None, repr=False)  # a day's rows depend on neither: see `fingerprint`

    @property
    def path(self) -> tuple[str, ...]:
        """The field names from the table's object to the value."""
        return tuple((self.source or self.name).split("."))

    @property
    def is_text(self) -> bool:
        """Whether the column may hold text, which may be personal."""
        return self.type in ("VARCHAR", "JSON")


class Pseudonymous(Enum):
    """What the pseudonymous file has of a relation; in all of them, codes for ids, and NULL for personal values."""

    COPY = "all rows"
    MERGE_VERSIONS = "versions, joined where only personal values differ: two that look alike would tell of a new name"
    RUNS_WITHOUT_ROWS = "no `stated` runs, since a new name begins one"
    TOLD_CHANGES = "the changes of other than personal values"
    TOLD_SYNCS = "syncs, without texts and counts that would tell of personal values"
    EMPTY = "no rows"


# What rows about a person tell: the person's state now, each change, periods, the state of each day, or nothing that is
# not told elsewhere.
Tells = Literal["now", "changes", "periods", "days", "bookkeeping"]
# By schema, unless a table or view says otherwise; `ops` is of what was received.
TELLS: dict[str, Tells] = {"main": "now", "history": "periods", "snapshots": "days", "spans": "bookkeeping"}


@dataclass(frozen=True)
class Relation:
    """A table or view by the full name: what a row is, and the columns in order.

    The `key` is unique (NULL equals NULL); without a key, rows may repeat. Key columns in `nullable` may be NULL.
    """

    schema: str
    name: str
    comment: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    nullable: tuple[str, ...] = ()
    pseudonymous: Pseudonymous = Pseudonymous.COPY
    tells: Tells | None = None  # None: as `TELLS` says of the schema


@dataclass(frozen=True)
class Set:
    """A set of records that one endpoint serves: the key, and the names that a vanished record is searched by.

    `endpoint` is the path below /svcapi/v1/, with `{id}` where the endpoint serves a single record. `id_field` is the
    dotted path of a record's id. A `walked` set is read page by page and may be proven complete; other sets only add
    and update. A record is searched for by its `names`, and by those in `last_names` only if no other gave a clean
    answer: several records may share such a name. `total` is the column, as table.column, by which a record's measures
    are judged: where the total falls far, the measures begin again. `unkept` fields are the contract's, but kept in no
    table.
    """

    name: str
    endpoint: str
    key: str
    id_field: str
    walked: bool = False
    names: tuple[str, ...] = ()
    last_names: tuple[str, ...] = ()
    total: str = field(default="", repr=False)
    unkept: tuple[str, ...] = ()

    @property
    def id_path(self) -> tuple[str, ...]:
        """The field names from a record to the id."""
        return tuple(self.id_field.split("."))


@dataclass(frozen=True)
class Table:
    """A table: rows of an object (or list) inside each record of a set.

    `path` is where the rows are in a record: empty for the record itself, `summary` for an object, `classes[]` for a
    list. If the table `may_be_unstated`, a missing or null object changes nothing (G5); otherwise the object is
    required.
    """

    name: str
    set: str
    comment: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    path: str = ""
    may_be_unstated: bool = False

    @property
    def is_list(self) -> bool:
        """Whether a record holds any number of rows."""
        return self.path.endswith("[]")

    @property
    def field(self) -> str:
        """The field of a record that holds the rows; empty for the record itself."""
        return self.path.removesuffix("[]")

    @property
    def parent_key(self) -> str:
        """The column that holds the record's id: the first of the key."""
        return self.key[0]

    @cached_property
    def tracked(self) -> tuple[Column, ...]:
        """The columns that history compares and keeps, without the key."""
        return tuple(c for c in self.columns if c.tracked and c.name not in self.key)

    @cached_property
    def measures(self) -> tuple[Column, ...]:
        """The tracked columns that move with every school day."""
        return tuple(c for c in self.tracked if c.measure)

    @cached_property
    def untracked(self) -> tuple[Column, ...]:
        """The columns that never make a version."""
        return tuple(c for c in self.columns if not c.tracked)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All column names, in order."""
        return tuple(c.name for c in self.columns)

    @cached_property
    def versioned(self) -> tuple[Column, ...]:
        """The columns of `history.<table>` before `valid_from`: the key, then the tracked columns."""
        return tuple(c for c in self.columns if c.tracked)

    @property
    def is_personal(self) -> bool:
        """Whether any column is personal."""
        return any(c.personal for c in self.columns)

    @property
    def tracks_only_personal(self) -> bool:
        """Whether every version tells of a personal value."""
        return self.is_personal and all(c.personal for c in self.tracked)


SETS: dict[str, Set] = {
    s.name: s
    for s in (
        Set(
            "students",
            endpoint="students",
            key="student_id",
            id_field="id",
            walked=True,
            names=("reference_id", "email"),
            last_names=("name",),
            total="student_summaries.total_assignments",
        ),
        Set(
            "classes",
            endpoint="classes",
            key="class_id",
            id_field="class_id",
            walked=True,
            names=("class_code", "class_title"),
            total="class_assignment_activity.assignment_count",
        ),
        Set(
            "auth",
            endpoint="auth",
            key="school_id",
            id_field="school.id",
            unkept=("authenticated", "timestamp"),
        ),
        Set("details", endpoint="student/{id}", key="student_id", id_field="student_id"),
    )
}
WALKED: tuple[str, ...] = tuple(s.name for s in SETS.values() if s.walked)
# The sets with a student per record: what an erasure removes.
OF_STUDENTS: tuple[str, ...] = tuple(s.name for s in SETS.values() if s.key == SETS["students"].key)

_STUDENT_ID = Column("student_id", "BIGINT", "The student's id at the records service.", id=True, required=True)
_CLASS_ID = Column("class_id", "BIGINT", "The class's id at the records service.", id=True, required=True)

TABLES: dict[str, Table] = {
    t.name: t
    for t in (
        Table(
            "students",
            set="students",
            key=("student_id",),
            comment="One row per registered student. The service lists registered students only.",
            columns=(
                Column("student_id", "BIGINT", "Unique student user id.", source="id", id=True, required=True),
                Column("email", "VARCHAR", "Student email address.", personal=True),
                Column("name", "VARCHAR", "Full name.", required=True, personal=True),
                Column("first_name", "VARCHAR", "First name; may be absent in a record.", personal=True),
                Column("last_name", "VARCHAR", "Last name; may be absent in a record.", personal=True),
                Column("reference_id", "VARCHAR", "The institution's own student id.", personal=True),
                Column(
                    "profile_image",
                    "VARCHAR",
                    "URL of a picture; may be absent in a record. Untracked: its signature may change each night.",
                    tracked=False,
                    personal=True,
                ),
                Column("registration_date", "DATE", "Day of registration."),
                Column("is_registered", "BIGINT", "1 for every student the service returns.", is_flag=True),
            ),
        ),
        Table(
            "student_summaries",
            set="students",
            key=("student_id",),
            path="summary",
            may_be_unstated=True,
            comment="One row per student whose summary was ever stated: completion as the service sums it up.",
            columns=(
                _STUDENT_ID,
                Column("total_assignments", "BIGINT", "Assignments given to the student.", measure="up"),
                Column("completed_assignments", "BIGINT", "Assignments the student completed.", measure="up"),
                Column(
                    "completion_rate",
                    "DOUBLE",
                    "Assignment completion, percent, 0 to 100; may be 0, not NULL, without assignments.",
                    percent=True,
                    measure="up",
                ),
                Column(
                    "average_score",
                    "DOUBLE",
                    "Average score, 0 to 100; NULL when the student has no scored assignments.",
                    percent=True,
                    measure="up",
                ),
                Column("total_assessments", "BIGINT", "Assessments given; may be absent in a record.", measure="up"),
                Column(
                    "completed_assessments", "BIGINT", "Assessments completed; may be absent in a record.", measure="up"
                ),
                Column("total_time_minutes", "DOUBLE", "Total learning time in minutes.", measure="up"),
                Column(
                    "last_activity_date",
                    "DATE",
                    "Day of the last activity; may be absent in a record.",
                    measure="up",
                    outlasts_terms=True,
                ),
            ),
        ),
        Table(
            "student_activity",
            set="students",
            key=("student_id",),
            path="activity_tracking",
            may_be_unstated=True,
            comment="One row per student whose activity was ever stated. Records that do not state it change nothing.",
            columns=(
                _STUDENT_ID,
                Column("first_login_date", "DATE", "Day of the first login.", measure="up", outlasts_terms=True),
                Column("last_activity_date", "DATE", "Day of the last activity.", measure="up", outlasts_terms=True),
                Column(
                    "days_since_last_activity",
                    "BIGINT",
                    "Days since the last activity, as the service counted them; untracked, so without history.",
                    tracked=False,
                ),
                Column("assignment_submission_count", "BIGINT", "Assignments submitted.", measure="up"),
                Column("assignment_missing_count", "BIGINT", "Assignments missing.", measure="down"),
                Column(
                    "has_ever_logged_in",
                    "BOOLEAN",
                    "Whether the student has ever logged in.",
                    measure="up",
                    outlasts_terms=True,
                ),
            ),
        ),
        Table(
            "student_classes",
            set="students",
            key=("student_id", "class_id"),
            path="classes[]",
            may_be_unstated=True,
            comment="One row per student and active class, as the student's record lists it.",
            columns=(
                _STUDENT_ID,
                _CLASS_ID,
                Column("class_title", "VARCHAR", "Class name, as the student's record gives it.", personal=False),
                Column("course_name", "VARCHAR", "Course name, as the student's record gives it.", personal=False),
            ),
        ),
        Table(
            "classes",
            set="classes",
            key=("class_id",),
            comment="One row per class, active or not.",
            columns=(
                _CLASS_ID,
                Column("class_title", "VARCHAR", "Class name.", required=True, personal=False),
                Column("class_code", "VARCHAR", "Class code or section identifier.", personal=False),
                Column("class_status", "BIGINT", "0 = inactive, 1 = active.", is_flag=True),
                Column("class_room", "VARCHAR", "Room.", personal=False),
                Column("class_dateadded", "DATE", "Day the class was added."),
                Column("course_id", "BIGINT", "The course's id.", source="course.course_id", id=True),
                Column("course_name", "VARCHAR", "The course's name.", source="course.course_name", personal=False),
                Column("teacher_id", "BIGINT", "The primary teacher's id.", source="teacher.teacher_id", id=True),
                Column(
                    "teacher_name",
                    "VARCHAR",
                    "The primary teacher's name.",
                    source="teacher.name",
                    personal=True,
                ),
                Column(
                    "teacher_email",
                    "VARCHAR",
                    "The primary teacher's email address.",
                    source="teacher.email",
                    personal=True,
                ),
                Column(
                    "student_count",
                    "BIGINT",
                    "Number of enrolled students, as the class's record gives it.",
                    measure="up",
                ),
            ),
        ),
        Table(
            "class_summaries",
            set="classes",
            key=("class_id",),
            path="summary",
            may_be_unstated=True,
            comment="One row per class whose summary was ever stated: averages as the service sums them up.",
            columns=(
                _CLASS_ID,
                Column(
                    "average_completion_rate",
                    "DOUBLE",
                    "Average completion, percent, 0 to 100.",
                    percent=True,
                    measure="up",
                ),
                Column("average_score", "DOUBLE", "Average score, 0 to 100.", percent=True, measure="up"),
                Column("total_engagement_minutes", "DOUBLE", "Total engagement in minutes.", measure="up"),
            ),
        ),
        Table(
            "class_assignment_activity",
            set="classes",
            key=("class_id",),
            path="assignment_activity",
            may_be_unstated=True,
            comment="One row per class whose activity was ever stated: its assignments and who has submitted.",
            columns=(
                _CLASS_ID,
                Column("has_assignments", "BOOLEAN", "Whether the class has assignments.", measure="up"),
                Column("assignment_count", "BIGINT", "Number of assignments.", measure="up"),
                Column("first_assignment_date", "DATE", "Day of the first assignment.", measure="up"),
                Column("last_assignment_date", "DATE", "Day of the last assignment.", measure="up"),
                Column("students_enrolled", "BIGINT", "Students enrolled in the class.", measure="up"),
                Column("students_with_submissions", "BIGINT", "Enrolled students who have submitted.", measure="up"),
                Column(
                    "students_without_submissions",
                    "BIGINT",
                    "Enrolled students who have not submitted.",
                    measure="down",
                ),
            ),
        ),
        Table(
            "student_details",
            set="details",
            key=("student_id",),
            comment="One row per student fetched singly; the contract does not show its shape, so it is kept whole.",
            columns=(
                _STUDENT_ID,
                Column("payload", "JSON", "The single-student endpoint's record, as received.", personal=True),
                Column("fetched_at", "TIMESTAMP", "When it was fetched, UTC.", tracked=False),
            ),
        ),
        Table(
            "institution",
            set="auth",
            key=("school_id",),
            comment="One row: the institution that the key, and so this warehouse, belongs to.",
            columns=(
                Column("school_id", "BIGINT", "Institution id.", source="school.id", id=True, required=True),
                Column("school_name", "VARCHAR", "Institution name.", source="school.name", personal=False),
                Column(
                    "school_key",
                    "VARCHAR",
                    "Institution's unique key, not the API key.",
                    source="school.key",
                    personal=False,
                ),
                Column("api_key_name", "VARCHAR", "Friendly name of the API key in use.", personal=True),
            ),
        ),
    )
}


def of_set(name: str) -> tuple[Table, ...]:
    """Return the tables that a set's records fill, the set's own table first."""
    return tuple(t for t in TABLES.values() if t.set == name)


def owner(key: str) -> Table:
    """Return the table with one row per record with a key: the target of references by that column."""
    return next(of_set(s.name)[0] for s in SETS.values() if s.key == key)


def references() -> Iterator[tuple[Table, Table, str]]:
    """Yield each reference as (table, referenced table, column)."""
    keys = {s.key for s in SETS.values()}
    for table in TABLES.values():
        for column in table.columns:
            if column.name in keys and (other := owner(column.name)) is not table:
                yield table, other, column.name


def column_pairs(text: str) -> frozenset[tuple[str, str]]:
    """Return the (table, column) pairs of a list such as `classes.class_room, classes.class_code`.

    Raises ValueError for a name that is no column, and for a column that is a key.
    """
    pairs = set()
    for name in filter(None, (part.strip() for part in text.split(","))):
        table, _, column = name.partition(".")
        if table not in TABLES or column not in TABLES[table].names:
            raise ValueError(f"holds {name!r}, which is no column: write TABLE.COLUMN, such as classes.class_room")
        if column in TABLES[table].key:
            raise ValueError(f"holds {name!r}, which is part of the table's key, and a key is always tracked")
        pairs.add((table, column))
    return frozenset(pairs)


@dataclass(frozen=True)
class Declared:
    """The declarations as an institution has them, with the (table, column) pairs that it leaves `untracked`, too
    (ROLLBOOK_UNTRACKED). Where it does not matter what is tracked, `TABLES` says the same.
    """

    untracked: frozenset[tuple[str, str]] = frozenset()

    @cached_property
    def tables(self) -> Mapping[str, Table]:
        """The tables by name."""
        return {name: self._left(table) for name, table in TABLES.items()} if self.untracked else TABLES

    def _left(self, table: Table) -> Table:
        columns = (replace(c, tracked=c.tracked and (table.name, c.name) not in self.untracked) for c in table.columns)
        return replace(table, columns=tuple(columns))


DECLARED = Declared()


def leaving_untracked(names: str) -> Declared:
    """The declarations with the columns of a list left untracked (G6). Raises ValueError as `column_pairs` does."""
    return Declared(frozenset(pair for pair in column_pairs(names) if _column(*pair).tracked))


def _column(table: str, name: str) -> Column:
    return next(c for c in TABLES[table].columns if c.name == name)


def fingerprint() -> str:
    """Return a digest of the declarations that flattening depends on.

    The digest leaves out `personal` and `measure`, which do not change a day's rows.
    """
    return sha256(repr((tuple(SETS.values()), tuple(TABLES.values()))).encode()).hexdigest()[:16]
