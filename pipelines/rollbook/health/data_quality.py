"""Data quality checks: whether the published data agree with each other.

Each check is a sentence that should hold; the view `data_quality_rows` has who violates it. A failure is a
contradiction in the source's own data: it is reported, and the data are published anyway. Checks of Rollbook's own work
are in `store.checks`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rollbook.reading.query import open_published


@dataclass(frozen=True)
class QualityCheck:
    """A sentence that should hold for a table, and the kind of finding that says where it does not."""

    table: str
    name: str
    sentence: str
    kind: str


QUALITY_CHECKS: tuple[QualityCheck, ...] = (
    QualityCheck(
        "student_classes",
        "classes_exist",
        "Every class that a student lists is in the class list.",
        "unlisted class",
    ),
    QualityCheck(
        "classes",
        "student_count_is_the_roster",
        "An active class's student_count is the number of students who list it.",
        "count mismatch",
    ),
    QualityCheck(
        "student_summaries",
        "completed_at_most_total",
        "No student completed more assignments or assessments than were given.",
        "more completed than given",
    ),
    QualityCheck(
        "class_assignment_activity",
        "submissions_add_up",
        "In an active class, students with and without submissions make up the students enrolled.",
        "submissions",
    ),
)


def run_quality_checks(published: Path) -> list[tuple[QualityCheck, int]]:
    """Run every check on the published file, and count who violates it: Dagster keeps the results, so no ids.

    Raises NothingLandedError before the first publish.
    """
    with open_published(published) as con:
        found = dict(con.execute("SELECT kind, COUNT(*) FROM main.data_quality_rows GROUP BY kind").fetchall())
    return [(check, found.get(check.kind, 0)) for check in QUALITY_CHECKS]
