"""How fast the analysts' views answer, and what they and the morning page cost a publish, on a school of any size.

Each question is asked whole (every row and column, into Arrow), on a connection of its own with two threads.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import NamedTuple

import duckdb
from rich.table import Table

from pipelines import report
from pipelines.store.database import connect
from pipelines.store.lake import Lake
from pipelines.store.ops import stamp
from pipelines.views import catalog
from tests.bench import year
from tests.bench.meter import run
from tests.bench.service import KEY, remote

NIGHTS = 8  # students_to_watch looks a week back
ROUNDS = 5
MOST_SECONDS = 1.0
THREADS = 2
# A class and a student that are there.
MIDDLE = """SELECT (SELECT QUANTILE_DISC(class_id, 0.5) FROM classes),
                   (SELECT QUANTILE_DISC(student_id, 0.5) FROM students)"""
# Nobody reads these whole: a row for each student and class there ever was, or for each on every day or week.
LONG = (
    *("enrollment_spans", "student_timeline", "student_daily", "student_weekly"),
    *("class_daily", "class_weekly", "watch_daily"),
)
MACROS = (
    *("students_as_of(DATE '{middle}')", "students_to_watch_as_of(DATE '{middle}')"),
    "changes_between(DATE '{middle}', DATE '{last}')",
    "watch_daily_of_class((SELECT QUANTILE_DISC(class_id, 0.5) FROM classes))",
)


class Answered(NamedTuple):
    """A question, its rows (None: not a question), and of each round the seconds on the clock and on the cores."""

    what: str
    rows: int | None
    seconds: list[float]
    cores: list[float]


def measured(students: int, nights: int = NIGHTS) -> list[Answered]:
    """Sync so many nights of such a school into a folder, then ask each question."""
    last = datetime.now(UTC).date()
    days = [last - timedelta(days=n) for n in reversed(range(nights))]
    with tempfile.TemporaryDirectory() as made:
        with remote(students, days[0]) as service:
            for day in days:
                service.play(day)
                command = [sys.executable, "-m", "tests.bench.client", service.base_url, made, str(day), str(days[0])]
                run(command, KEY)
        published = Path(made) / "rollbook.duckdb"
        return [*_answers(published, days[len(days) // 2], last), *_publish(Path(made))]


def of_year(students: int) -> list[Answered]:
    """Ask each question of a year of such a school, made without nights."""
    with tempfile.TemporaryDirectory() as made:
        file = Path(made) / "rollbook.duckdb"
        last = year.write(file, students)
        return _answers(file, last - timedelta(days=year.DAYS // 2), last)


def _answers(published: Path, middle: date, last: date) -> list[Answered]:
    """Each question's rows and seconds."""
    asked = [*questions(published, middle), *(m.format(middle=middle, last=last) for m in MACROS)]
    return [_answer(published, question) for question in asked]


def questions(published: Path, day: date) -> Iterator[str]:
    """Yield every view, whole unless it is long, and asked for one day, one class and one student."""
    with duckdb.connect(str(published), read_only=True) as con:
        one_class, one_student = con.execute(MIDDLE).fetchall()[0]
    monday = day - timedelta(days=day.weekday())
    one = {"week_begins": f"DATE '{monday}'", "class_id": one_class, "student_id": one_student}
    for view in catalog.views():
        if view.name not in LONG:
            yield view.name
        for column, _ in view.columns:
            if column in one:
                yield f"{view.name} WHERE {column} = {one[column]}"
            # The state at a week's end is asked for by its week.
            elif column == "snapshot_date" and "week_begins" not in dict(view.columns):
                yield f"{view.name} WHERE {column} = DATE '{day}'"


def _answer(published: Path, question: str) -> Answered:
    rows = 0

    def ask() -> None:
        nonlocal rows
        with duckdb.connect(str(published), read_only=True, config={"threads": THREADS}) as con:
            rows = con.sql(f"SELECT * FROM {question}").to_arrow_table().num_rows

    return _timed(question, ask)._replace(rows=rows)


def _publish(warehouse: Path) -> list[Answered]:
    """The seconds of making the views, and of making the page."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "copy.duckdb"
        copy.write_bytes((warehouse / "rollbook.duckdb").read_bytes())
        with connect(copy, scratch=Path(scratch) / "spill") as con:
            lake = Lake(warehouse / "snapshots")

            def create() -> None:
                con.execute("BEGIN")
                catalog.create(con, lake, lake.days().values(), stamp(con, datetime.now(UTC)))
                con.execute("COMMIT")

            made = _timed("(publish) views, macros and comments", create)
            page = _timed("(publish) the morning page", lambda: report.make(con, at=datetime.now(UTC)))
    return [made, page]


def _timed(what: str, work: Callable[[], object]) -> Answered:
    seconds, cores = [], []
    for _ in range(ROUNDS):
        clock, busy = time.perf_counter(), time.process_time()
        work()
        seconds.append(time.perf_counter() - clock)
        cores.append(time.process_time() - busy)
    return Answered(what, None, seconds, cores)


def slow(answered: list[Answered]) -> list[str]:
    """The questions that do not answer in time. By the fastest round: what else a machine does is not theirs."""
    return [a.what for a in answered if a.rows is not None and min(a.seconds) > MOST_SECONDS]


def shown(answered: list[Answered], students: int, nights: int = NIGHTS) -> Table:
    """The seconds of each, as a table."""
    table = Table(title=f"The analysts' views: {students:,} students, {nights} nights, {THREADS} threads")
    for heading in ("", "rows", "fastest s", "median s", "of a core s"):
        table.add_column(heading, justify="right" if heading else "left")
    for a in answered:
        rows = "" if a.rows is None else f"{a.rows:,}"
        table.add_row(a.what, rows, *(f"{n:.2f}" for n in (min(a.seconds), median(a.seconds), median(a.cores))))
    return table
