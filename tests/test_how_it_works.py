"""The pages for engineers are true: the worked example is what history holds, and what they name is there."""

from __future__ import annotations

import re
from typing import Any

import pytest

from rollbook.settings import ROOT
from tests.support.nights import new_house, night
from tests.support.records import MISSING, classes, student, students
from tests.support.wire import faults

HOW_IT_WORKS = (ROOT / "pipelines" / "README.md").read_text(encoding="utf-8")
PAGES = (
    "README.md",
    "pipelines/README.md",
    "dagster_home/README.md",
    "tests/README.md",
    "tests/bench/README.md",
    ".github/CONTRIBUTING.md",
    ".github/SECURITY.md",
    ".github/pull_request_template.md",
)

Cells = tuple[str, ...]


def table_after(heading: str) -> list[Cells]:
    """The rows of the Markdown table with this heading."""
    _, _, below = HOW_IT_WORKS.partition(f"{heading}\n")
    rows = [line.strip("| ").split(" | ") for line in below.partition("\n\n")[0].splitlines()]
    return [tuple(cell.strip() for cell in row) for row in rows[1:]]


def answers() -> list[tuple[str, list[Cells]]]:
    """Each query of the page, with the rows that the page gives as its answer."""
    matches = re.findall(r"```sql\n([^`]+)```\n\n(\| [^\n]+)\n", HOW_IT_WORKS)
    return [(query, table_after(heading)) for query, heading in matches]


def as_cells(rows: list[tuple[Any, ...]]) -> list[Cells]:
    return [tuple("NULL" if value is None else str(value) for value in row) for row in rows]


def seven(completed: str, submitted: str) -> dict[str, Any]:
    """The example's student on a day that lists it."""
    plain = student(7)
    summary = plain["summary"] | {"completed_assignments": int(completed)}
    if submitted == "not stated":
        return student(7, summary=summary, activity_tracking=MISSING)
    activity = plain["activity_tracking"] | {"assignment_submission_count": int(submitted)}
    return student(7, summary=summary, activity_tracking=activity)


def test_one_students_five_days_give_the_history_that_the_page_shows() -> None:
    days = table_after("| day | student 7 is | proven | completed assignments | submitted assignments |")
    others = [record for record in students(9) if record["id"] != 7]
    assert [day for day, *_ in days] == [str(night(number)) for number in range(1, 6)]
    assert len(answers()) == 3
    with new_house(others, classes(1)) as house:
        service = house.service
        for number, (_, what, proven, completed, submitted) in enumerate(days, start=1):
            is_listed = what.startswith("listed")
            service.students = [*others, seven(completed, submitted)] if is_listed else others
            if proven == "no":
                service.on(faults.moved_total(by=1), path="students", times=None)
            house.at(number).sync()
            service.mend()
        syncs = house.query("SELECT snapshot_date, proven, removed FROM ops.syncs ORDER BY ALL")
        assert [(str(day), proven, bool(removed)) for day, proven, removed in syncs] == [
            (day, proven == "yes", completed == "absent") for day, _, proven, completed, _ in days
        ]
        for query, rows in answers():
            assert as_cells(house.query(query)) == rows, query


@pytest.mark.parametrize("page", PAGES)
def test_every_link_of_a_page_leads_to_a_file(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    linked = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if ":" not in link]
    named = re.findall(r"`((?:pipelines|tests|dagster_home|\.github|\.ci)/[\w./-]+)`", text)
    missing = [link for link in linked if not (ROOT / page).parent.joinpath(link).exists()]
    assert (missing, [name for name in named if not (ROOT / name).exists()]) == ([], [])


@pytest.mark.parametrize("page", PAGES)
def test_no_page_names_a_machine(page: str) -> None:
    assert not re.search(r"(^|[^.\w])/(root|home|work|tmp|Users)/", (ROOT / page).read_text(encoding="utf-8"))


def test_a_night_is_read_in_twenty_python_files_and_sixteen_of_sql() -> None:
    text = (ROOT / "pipelines" / "README.md").read_text(encoding="utf-8")
    path = text[text.index("## One night, read in an hour") : text.index("## To change X")]
    opened = {kind: set(re.findall(rf"\((rollbook/[\w/]+\.{kind})\)", path)) for kind in ("py", "sql")}
    assert len(opened["py"]) <= 20
    assert len(opened["sql"]) <= 16
