"""What history costs as the year grows: `python -m tests.bench.history`, the second part of `make bench`.

A year of daily snapshots is written straight into a warehouse's lake, with a manifest a day in `raw/`; bodies that
nobody flattens are left out. Measured, when the lake holds a quarter, a half and the whole of the year: merging and
publishing the newest night, the same for a day in the middle whose content was corrected, and folding everything again.
Each is shown against reading that lake's Parquet once, in the same run.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
from rich.console import Console
from rich.table import Table

from pipelines.landing.manifest import Manifest, Proof, Received, Verdict, Walk
from pipelines.settings import load
from pipelines.store.database import connect
from pipelines.store.lake import OBSERVED, Candidate, Part
from pipelines.sync import Rollbook
from pipelines.tables import SETS, TABLES, WALKED

FIRST = date(2026, 1, 1)
LENGTHS = (90, 180, 365)
# So many newest nights are timed, and the cheapest is shown: the machine has other things to do.
NIGHTS = 3
CLASSES_PER_STUDENT = 5
STUDENTS_PER_CLASS = 25
# One in so many students changes on a day: 2 %.
CHANGED = 50
# A student is not listed for three days in so many: a quarter of a percent leave on each day, and come back.
AWAY_EVERY = 400
# One student in so many leaves for good, some on every day of a year.
LEAVER_EVERY = 20

# Rows of a day, of the pupils listed on it: p(id, v), v counting their changes so far. Classes: c(id, v).
ROWS = {
    "students": """SELECT id AS student_id, 'pupil.' || id || '@school.example' AS email,
        'Pupil Number' || id || CASE WHEN v // 12 > 0 THEN ' (' || v // 12 || ')' ELSE '' END AS name,
        'Pupil' AS first_name, 'Number' || id AS last_name, 'R-' || id AS reference_id,
        'https://img.school.example/' || id || '.png' AS profile_image,
        DATE '2024-08-01' + CAST(id % 500 AS INTEGER) AS registration_date, 1 AS is_registered FROM p""",
    "student_summaries": """SELECT id AS student_id, 40 + v AS total_assignments, v AS completed_assignments,
        100.0 * v / (40 + v) AS completion_rate, CAST(HASH(id, v) % 1000 AS DOUBLE) / 10 AS average_score,
        CAST(4 AS BIGINT) AS total_assessments, CAST(v % 4 AS BIGINT) AS completed_assessments, 37.5 * v AS
        total_time_minutes, DATE '2026-01-01' + CAST(v AS INTEGER) AS last_activity_date FROM p""",
    "student_activity": """SELECT id AS student_id, DATE '2024-09-01' AS first_login_date,
        DATE '2026-01-01' + CAST(v AS INTEGER) AS last_activity_date, CAST($day - v AS BIGINT) AS
        days_since_last_activity, v AS assignment_submission_count, CAST(id % 9 AS BIGINT) AS assignment_missing_count,
        TRUE AS has_ever_logged_in FROM p WHERE HASH(id, $day) % 1000 <> 1""",
    "student_classes": """SELECT id AS student_id, 1 + (id * 7 + k * 131 + v // 20) % $classes AS class_id,
        'Class ' || (1 + (id * 7 + k * 131 + v // 20) % $classes) AS class_title, 'Course ' || k AS course_name
        FROM p, (SELECT UNNEST(RANGE($each)) AS k)""",
    "classes": """SELECT id AS class_id, 'Class ' || id AS class_title, 'C-' || id AS class_code,
        CAST(1 AS BIGINT) AS class_status, 'B ' || id % 40 AS class_room, DATE '2025-08-15' AS class_dateadded,
        1 + id % 60 AS course_id, 'Course ' || id % 60 AS course_name, 1 + id % 90 AS teacher_id,
        'Terry Number' || id % 90 AS teacher_name, 't' || id % 90 || '@school.example' AS teacher_email,
        20 + v % 10 AS student_count FROM c""",
    "class_summaries": """SELECT id AS class_id, CAST(HASH(id, v) % 1000 AS DOUBLE) / 10 AS average_completion_rate,
        CAST(HASH(v, id) % 1000 AS DOUBLE) / 10 AS average_score, 480.0 * v AS total_engagement_minutes FROM c""",
    "class_assignment_activity": """SELECT id AS class_id, TRUE AS has_assignments, 10 + v AS assignment_count,
        DATE '2026-01-05' AS first_assignment_date, DATE '2026-01-05' + CAST(v AS INTEGER) AS last_assignment_date,
        20 + v % 10 AS students_enrolled, v % 20 AS students_with_submissions,
        20 + v % 10 - v % 20 AS students_without_submissions FROM c""",
    "student_details": "SELECT id AS student_id, '{}' AS payload, TIMESTAMP '2026-01-01' AS fetched_at FROM p LIMIT 0",
    "institution": """SELECT CAST(41 AS BIGINT) AS school_id, 'Made-up School' AS school_name, 'made-up' AS school_key,
        'nightly' AS api_key_name""",
    OBSERVED: """SELECT 'students' AS set_name, id, 'stated' AS state, CAST(NULL AS VARCHAR) AS table_name FROM p
        UNION ALL SELECT 'classes', id, 'stated', NULL FROM c
        UNION ALL SELECT 'auth', 41, 'stated', NULL
        UNION ALL SELECT 'students', id, 'silent', 'student_activity' FROM p WHERE HASH(id, $day) % 1000 = 1
        UNION ALL SELECT UNNEST(['students', 'classes']), NULL, 'proven', NULL""",
}


@dataclass
class Year:
    """A warehouse whose lake is filled day by day."""

    root: Path
    students: int
    days: int = 0
    con: duckdb.DuckDBPyConnection = field(default_factory=duckdb.connect)

    def __post_init__(self) -> None:
        """Every pupil, before the first change."""
        self.classes = max(1, self.students * CLASSES_PER_STUDENT // STUDENTS_PER_CLASS)
        self.con.execute("SET threads = 2")

    @property
    def book(self) -> Rollbook:
        """The warehouse, on the evening of its last day."""
        settings = load(base_url="http://127.0.0.1:9", api_key="k", warehouse=self.root, first_date=FIRST)
        return Rollbook(settings, clock=lambda: datetime(2026, 1, 1, 20, tzinfo=UTC) + timedelta(days=self.days - 1))

    def grow(self, days: int) -> None:
        """Land days until there are so many."""
        book = self.book
        book.warehouse.prepare()
        while self.days < days:
            self.snapshot(book, self.days)
            self._manifest(book, FIRST + timedelta(days=self.days))
            self.days += 1

    def snapshot(self, book: Rollbook, number: int, *, corrected: bool = False) -> None:
        """Write one day into the lake; `corrected`, another 2 % of the students have changed by then."""
        candidate = Candidate(FIRST + timedelta(days=number), self.root / "build" / "day")
        self._make_day(number, (10_000 + number,) if corrected else ())
        for name in (*TABLES, OBSERVED):
            candidate.path(name).parent.mkdir(parents=True, exist_ok=True)
            query = ROWS[name].replace("$day", str(number)).replace("$classes", str(self.classes))
            columns, order = "*", "ALL"
            if table := TABLES.get(name):
                columns = ", ".join(f"CAST({c.name} AS {c.type}) AS {c.name}" for c in table.columns)
                order = ", ".join(table.key)
            self.con.execute(
                f"""COPY (SELECT {columns} FROM ({query.replace("$each", str(CLASSES_PER_STUDENT))}) ORDER BY {order})
                TO '{candidate.path(name)}' (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 3)"""
            )
        book.lake.commit(
            candidate, [1], [Part(name, (), {1: proof} if (proof := self._proof(name)) else {}) for name in SETS]
        )

    def _make_day(self, number: int, extra: tuple[int, ...]) -> None:
        """The pupils and classes of a day. Days before it are counted, not replayed: any day can be made at once.

        On each day of `extra` pupils change as well.
        """
        away = f"({number} + CAST(HASH(id) % {AWAY_EVERY} AS BIGINT)) % {AWAY_EVERY} < 3"
        left = f"HASH(id, 1) % {LEAVER_EVERY} = 0 AND {number} > HASH(id, 2) % 365"
        for name, count, changed, days, listed in (
            ("p", self.students, CHANGED, [*range(number + 1), *extra], f"NOT ({away} OR {left})"),
            ("c", self.classes, 7, list(range(number + 1)), "TRUE"),
        ):
            self.con.execute(
                f"""CREATE OR REPLACE TEMP TABLE {name} AS
                SELECT id, CAST(COUNT(*) FILTER (HASH(id, d) % {changed} = 0) AS BIGINT) AS v
                FROM RANGE(1, {count + 1}) AS i(id), (SELECT UNNEST({days}) AS d)
                WHERE {listed} GROUP BY id"""
            )

    def _proof(self, name: str) -> Proof | None:
        if name not in WALKED:
            return None
        row = self.con.execute(f"SELECT COUNT(*) FROM {'p' if name == 'students' else 'c'}").fetchone()
        count = row[0] if row else 0
        return Proof(set=name, walk=1, total_count=count, unique_ids=count, pages=max(1, -(-count // 100)), limit=100)

    def _manifest(self, book: Rollbook, day: date) -> None:
        writer, at = book.raw.begin(day), datetime(2026, 1, 1, tzinfo=UTC)
        walks = []
        for name in WALKED:
            proof = self._proof(name)
            count = proof.total_count if proof else 0
            for page, before in enumerate(range(0, count, 100), 1):
                records = min(100, count - before)
                writer.add(Received(set=name, kind="walk", page=page, received_at=at, records=records), b"{}")
            walks.append(Walk(set=name, walks=1, counted=(1,), proof=proof, total_count=count, received=count))
        landed = writer.finish(
            Manifest(
                snapshot_date=day,
                landing=writer.landing,
                started_at=at,
                finished_at=at,
                school_id=41,
                walks=tuple(walks),
            )
        )
        book.raw.record_verdict(landed, Verdict.SYNCED, at=at)

    # -- what is measured ------------------------------------------------------------------------------------------

    def read(self) -> float:
        """Look once at every value of every file of the lake, under the writer's own limits."""
        book = self.book
        with connect(scratch=book.warehouse.scratch) as con:
            days = book.lake.days().values()
            began = time.perf_counter()
            for scan in (*(book.lake.scan(t, days) for t in TABLES.values()), book.lake.scan_observed(days)):
                con.execute(f"SELECT BIT_XOR(HASH(COLUMNS(*))) FROM ({scan})").fetchall()
            return time.perf_counter() - began

    def work(self, *, full_refresh: bool = False) -> dict[str, float]:
        """Do what a night does once the day is in the lake; returns the seconds of each stage.

        A writer that finds a new day in the lake merges and publishes it before anything else.
        """
        book = self.book
        stages: dict[str, float] = {}

        def timed(name: str, call: Callable[[], object]) -> None:
            began = time.perf_counter()
            call()
            stages[name] = time.perf_counter() - began

        with ExitStack() as writing:
            timed("recover", lambda: writing.enter_context(book.writer()))
            if full_refresh:
                timed("merge", lambda: book.merge(full_refresh=True))
                timed("publish", book.publish)
        return stages


def measure(students: int, lengths: tuple[int, ...], root: Path) -> list[dict[str, Any]]:
    """For each length of the lake: the seconds of a read, a night, a replayed day and a rebuild."""
    year, found = Year(root, students), []
    for length in lengths:
        nights = []
        for days in range(length - NIGHTS, length + 1):
            year.grow(days)
            nights.append(year.work())
        night = min(nights[1:], key=lambda stages: sum(stages.values()))  # the first merges all that was missing
        middle = length // 2
        year.snapshot(year.book, middle, corrected=True)
        replay = year.work()
        read = min(year.read() for _ in range(3))
        rebuild = year.work(full_refresh=True)
        size = (root / "rollbook.duckdb").stat().st_size
        lake = sum(p.stat().st_size for p in (root / "snapshots").rglob("*.parquet"))
        found.append(
            {"days": length, "read": read, "night": night, "replay": replay, "rebuild": rebuild}
            | {"file": size, "lake": lake, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}
        )
    return found


def report(found: list[dict[str, Any]], students: int) -> Table:
    """The figures as a table; each piece of work in seconds, by stage, and as a ratio to one read."""
    table = Table(
        title=f"{students:,} students, 2 % changed a day; seconds (of a rebuild: recover + merge + publish), ratio to one read"
    )
    headings = ("days", "lake MB", "read once", "newest night", "ratio", "a day replayed", "ratio", "rebuild", "ratio")
    for heading in (*headings, "file MB", "peak MB"):
        table.add_column(heading, justify="right")
    for f in found:
        cells = [str(f["days"]), f"{f['lake'] / 1e6:.0f}", f"{f['read']:.2f}"]
        for what in ("night", "replay", "rebuild"):
            stages: dict[str, float] = f[what]
            total = sum(stages.values())
            by_stage = " + ".join(f"{s:.2f}" for s in stages.values())
            cells += [f"{total:.2f} ({by_stage})" if what == "rebuild" else f"{total:.2f}", f"{total / f['read']:.2f}"]
        table.add_row(*cells, f"{f['file'] / 1e6:.0f}", f"{f['peak']:.0f}")
    return table


def main(arguments: list[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.history")
    parser.add_argument("--students", type=int, default=20_000)
    parser.add_argument("--days", type=int, nargs="+", default=LENGTHS)
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as made:
        found = measure(chosen.students, tuple(chosen.days), Path(made))
    Console(width=180).print(report(found, chosen.students))


if __name__ == "__main__":
    main()
