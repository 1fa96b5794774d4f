"""The answers of views and macros after nights on which not everything was said, and beside another file."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import duckdb
import pytest

from tests.support.nights import House, new_house, night
from tests.support.records import MISSING, classes, student, students, within
from tests.support.wire import faults

pytestmark = [pytest.mark.nights, pytest.mark.every_feature]

ONE_DAY = timedelta(days=1)


@pytest.fixture
def empty_school() -> Iterator[House]:
    with new_house() as house:
        yield house


@pytest.fixture(scope="module")
def two_nights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """Last night's file, and a copy of the file of the night before."""
    with new_house() as house:
        house.night(1, [*students(2), student(3, **within("summary", average_score=20.0))], classes(1))
        earlier = tmp_path_factory.mktemp("earlier") / "earlier.duckdb"
        earlier.write_bytes(house.published.read_bytes())
        house.night(2, students(2))
        yield house.published, earlier


@pytest.fixture
def two_files(two_nights: tuple[Path, Path]) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to last night's file, with the file of the night before attached as `earlier`."""
    published, earlier = two_nights
    with duckdb.connect(published, read_only=True) as con:
        con.execute(f"ATTACH '{earlier}' AS earlier (READ_ONLY)")
        yield con


@pytest.mark.parametrize(
    "call",
    [
        *("students_as_of(DATE '2030-01-01')", "changes_since(1, 1)"),
        *("students_to_watch_as_of(DATE '2030-01-01')", "watch_daily_of([3])"),
        "changes_between(DATE '2000-01-01', DATE '2030-01-01')",
    ],
)
def test_a_macro_answers_from_its_own_file_or_not_at_all(two_files: duckdb.DuckDBPyConnection, call: str) -> None:
    count = f"SELECT COUNT(*) FROM {{}}{call}"
    own = two_files.execute(count.format("")).fetchone()
    with pytest.raises(duckdb.Error, match="another file than the one you are connected to"):
        two_files.execute(count.format("earlier.")).fetchall()
    two_files.execute("USE earlier")
    theirs = two_files.execute(count.format("")).fetchone()
    with pytest.raises(duckdb.Error, match="another file than the one you are connected to"):
        two_files.execute(count.format("rollbook.")).fetchall()
    if "since" not in call:
        assert own != theirs


def test_a_day_is_answered_by_the_last_landed_day_up_to_it(empty_school: House) -> None:
    empty_school.night(1, students(2), classes(1))
    empty_school.night(4, students(3))
    days = [night(1) - ONE_DAY, night(1), night(3), night(4), date(2030, 1, 1)]
    calls = ", ".join(f"as_of_day(DATE '{day}')" for day in days)
    assert empty_school.query(f"SELECT {calls}") == [(None, night(1), night(1), night(4), night(4))]
    assert empty_school.query(f"SELECT COUNT(*) FROM students_as_of(DATE '{days[2]}')") == [(2,)]


def test_watched_students_match_the_model_on_every_landed_night(empty_school: House) -> None:
    low, worse = (within("summary", completion_rate=rate) for rate in (15.0, 0.0))
    empty_school.night(
        1, [student(1, **low), student(2), student(3, **within("summary", average_score=40.0))], classes(1)
    )
    empty_school.service.on(faults.moved_total(1), path="students", page=1, times=None)
    empty_school.night(2, [student(1, **low), student(2, **low)])  # unproven: no page shows 3, and nobody is removed
    empty_school.service.mend()
    # Nothing was landed on night 3. The record of 1 is refused, for want of a name; what 2 leaves unsaid changes nothing.
    refused = student(1, name=None, **worse)
    unstated = student(2, activity_tracking=MISSING, classes=MISSING)
    empty_school.night(4, [refused, unstated, student(3, **within("summary", average_score=40.0))])
    empty_school.night(5, [student(1, **worse), student(2)])  # proven: 3 has left
    low_words, low_score = "low completion (15 %, under 30)", "low score (40, under 50)"
    query = "SELECT snapshot_date, student_id, change, severity, reason, reason_before, is_listed FROM watch_daily"
    rows = [
        (night(1), 1, None, 1.5, low_words, None, True),
        (night(1), 3, None, 1.2, low_score, None, True),
        (night(2), 1, "still to watch", 1.5, low_words, low_words, True),
        (night(2), 2, "newly to watch", 1.5, low_words, None, True),
        (night(2), 3, "still to watch", 1.2, low_score, low_score, True),
        (night(4), 1, "still to watch", 1.5, low_words, low_words, True),
        (night(4), 2, "no longer to watch", None, None, low_words, True),
        (night(4), 3, "still to watch", 1.2, low_score, low_score, True),
        (night(5), 1, "still to watch", 2.0, "low completion (0 %, under 30)", low_words, True),
        (night(5), 3, "no longer to watch", None, None, low_score, False),
    ]
    assert empty_school.query(f"{query} ORDER BY snapshot_date, student_id") == rows
    for number in (1, 2, 4, 5):
        one = f"{query} WHERE snapshot_date = DATE '{night(number)}' ORDER BY student_id"
        assert empty_school.query(one) == [row for row in rows if row[0] == night(number)]
        as_of = f"SELECT student_id, severity FROM students_to_watch_as_of(DATE '{night(number)}') ORDER BY 1"
        assert empty_school.query(as_of) == [(row[1], row[3]) for row in rows if row[0] == night(number) and row[3]]
    assert empty_school.query("SELECT student_id, severity FROM students_to_watch") == [(1, 2.0)]
