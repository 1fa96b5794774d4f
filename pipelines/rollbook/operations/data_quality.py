"""Data quality checks: whether the published data agree with each other.

Each check is a sentence that should hold, and a query for the ids that violate it. A failure is a contradiction in the
source's own data: it is reported, and the data are published anyway. Checks of Rollbook's own work are in
`store.checks`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rollbook.export.query import open_published
from rollbook.store.database import count


@dataclass(frozen=True)
class QualityCheck:
    """A sentence that should hold for a table, and a query for the ids that violate it."""

    table: str
    name: str
    sentence: str
    query: str


QUALITY_CHECKS: tuple[QualityCheck, ...] = (
    QualityCheck(
        "student_classes",
        "classes_exist",
        "Every class that a student lists is in the class list.",
        """
            SELECT DISTINCT s.class_id
            FROM main.student_classes AS s LEFT JOIN main.classes AS c ON c.class_id = s.class_id
            WHERE c.class_id IS NULL
        """,
    ),
    QualityCheck(
        "classes",
        "student_count_is_the_roster",
        "A class's student_count is the number of students who list it.",
        """
            SELECT c.class_id
            FROM main.classes AS c
            LEFT JOIN (SELECT class_id, COUNT(*) AS listed FROM main.student_classes GROUP BY class_id) AS r
                ON r.class_id = c.class_id
            WHERE c.class_status = 1 AND c.student_count <> COALESCE(r.listed, 0)
        """,
    ),
    QualityCheck(
        "student_summaries",
        "completed_at_most_total",
        "No student completed more assignments or assessments than were given.",
        """
            SELECT student_id FROM main.student_summaries
            WHERE completed_assignments > total_assignments OR completed_assessments > total_assessments
        """,
    ),
    QualityCheck(
        "class_assignment_activity",
        "submissions_add_up",
        "Students with and without submissions make up the students enrolled.",
        """
            SELECT class_id FROM main.class_assignment_activity
            WHERE students_with_submissions + students_without_submissions <> students_enrolled
        """,
    ),
)


def run_quality_checks(published: Path) -> list[tuple[QualityCheck, int]]:
    """Run every check on the published file, and count the rows that fail it: Dagster keeps the results, so no ids.

    Raises NothingLandedError before the first publish.
    """
    with open_published(published) as con:
        return [(check, count(con, f"SELECT COUNT(*) FROM ({check.query})")) for check in QUALITY_CHECKS]
