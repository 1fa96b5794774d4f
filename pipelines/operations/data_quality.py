"""What can be checked on the published data itself: whether the source agrees with itself.

Each fact is a sentence that should hold, and a query for the ids of which it does not. What breaks one is the source's
own contradiction, which readers are told of and not kept from; what only Rollbook can have broken is in `checks`.
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
class Fact:
    """One sentence that should hold of a table."""

    table: str
    name: str
    sentence: str
    query: str


@dataclass(frozen=True)
class Finding:
    """How many rows break a fact, and a few of their ids."""

    fact: Fact
    broken: int
    sample: tuple[object, ...] = field(default=())


def _percentages() -> list[Fact]:
    facts = []
    for table in TABLES.values():
        percents = [c.name for c in table.columns if c.percent]
        if percents:
            outside = " OR ".join(f"{c} NOT BETWEEN 0 AND 100" for c in percents)
            query = f"SELECT {table.parent_key} FROM main.{table.name} WHERE {outside}"
            facts.append(Fact(table.name, "percentages_in_range", f"{', '.join(percents)} lie in 0 to 100.", query))
    return facts


FACTS: tuple[Fact, ...] = (
    Fact(
        "student_classes",
        "classes_exist",
        "Every class that a student lists is in the class list.",
        sql("classes_exist"),
    ),
    Fact(
        "classes",
        "student_count_is_the_roster",
        "A class's student_count is the number of students who list it.",
        sql("student_count"),
    ),
    Fact(
        "student_summaries",
        "completed_at_most_total",
        "No student completed more assignments or assessments than were given.",
        sql("completed"),
    ),
    Fact(
        "class_assignment_activity",
        "submissions_add_up",
        "Students with and without submissions make up the students enrolled.",
        sql("submissions"),
    ),
    *_percentages(),
)


def findings(published: Path) -> list[Finding]:
    """Look at every fact. Raises NothingLandedError before the first publish."""
    with open_published(published) as con:
        return [_look(con, fact) for fact in FACTS]


def _look(con: duckdb.DuckDBPyConnection, fact: Fact) -> Finding:
    ids = [r[0] for r in con.execute(fact.query).fetchall()]
    return Finding(fact, len(ids), tuple(sorted(ids)[:SAMPLE]))
