"""Data quality checks: whether the published data agree with each other.

Each check is a sentence that should hold, and a query for the ids that violate it. A failure is a contradiction in the
source's own data: it is reported, and the data are published anyway. Checks of Rollbook's own work are in
`store.checks`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import duckdb

from pipelines.export.query import open_published
from pipelines.store.statements import statements
from pipelines.tables import TABLES

sql = statements("pipelines.operations")

SAMPLE = 5


@dataclass(frozen=True)
class QualityCheck:
    """A sentence that should hold for a table, and a query for the ids that violate it."""

    table: str
    name: str
    sentence: str
    query: str


@dataclass(frozen=True)
class QualityResult:
    """How many rows fail a check, and a few of their ids."""

    check: QualityCheck
    failures: int
    sample: tuple[object, ...] = field(default=())


def _percentage_checks() -> list[QualityCheck]:
    checks = []
    for table in TABLES.values():
        percents = [c.name for c in table.columns if c.percent]
        if percents:
            outside = " OR ".join(f"{c} NOT BETWEEN 0 AND 100" for c in percents)
            query = f"SELECT {table.parent_key} FROM main.{table.name} WHERE {outside}"
            sentence = f"{', '.join(percents)} lie in 0 to 100."
            checks.append(QualityCheck(table.name, "percentages_in_range", sentence, query))
    return checks


QUALITY_CHECKS: tuple[QualityCheck, ...] = (
    QualityCheck(
        "student_classes",
        "classes_exist",
        "Every class that a student lists is in the class list.",
        sql("classes_exist"),
    ),
    QualityCheck(
        "classes",
        "student_count_is_the_roster",
        "A class's student_count is the number of students who list it.",
        sql("student_count"),
    ),
    QualityCheck(
        "student_summaries",
        "completed_at_most_total",
        "No student completed more assignments or assessments than were given.",
        sql("completed"),
    ),
    QualityCheck(
        "class_assignment_activity",
        "submissions_add_up",
        "Students with and without submissions make up the students enrolled.",
        sql("submissions"),
    ),
    *_percentage_checks(),
)


def run_quality_checks(published: Path) -> list[QualityResult]:
    """Run every check on the published file. Raises NothingLandedError before the first publish."""
    with open_published(published) as con:
        return [_run(con, check) for check in QUALITY_CHECKS]


def _run(con: duckdb.DuckDBPyConnection, check: QualityCheck) -> QualityResult:
    ids = [r[0] for r in con.execute(check.query).fetchall()]
    return QualityResult(check, len(ids), tuple(sorted(ids)[:SAMPLE]))
