"""The tools that `make bench` compares: how each is run for a night, and where its tables are.

Rollbook and the peers are run and counted in the same way: a command in a process of its own, then SQL on the file it
left.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import duckdb

from tests.bench.meter import Ran, run
from tests.bench.peers import environments

BARE = Path(__file__).with_name("bare.py")


@dataclass(frozen=True)
class Tool:
    """One way to keep a school's records.

    `students` selects the ids of its current students. `versions` counts the students and classes that got a new
    version on the second night, whose date is bound to `$day`; without it the tool keeps no history.
    """

    name: str
    title: str
    database: str
    students: str
    versions: str | None = None
    script: str | None = None  # below peers/; None is Rollbook itself

    def problem(self) -> str:
        """Set up the environment that it runs in; returns in words why that failed, or nothing."""
        try:
            self._command()
        except environments.EnvironmentFailedError as error:
            return str(error)
        return ""

    def night(self, base_url: str, key: str, folder: Path, day: date) -> Ran:
        """Run it for one night. Raises RunError."""
        return run([*self._command(), base_url, str(folder), *([] if self.script else [str(day)])], key)

    def current(self, folder: Path) -> set[int]:
        """Return the ids of the students that its readers have now."""
        with duckdb.connect(str(folder / self.database), read_only=True) as con:
            return {int(student_id) for (student_id,) in con.execute(self.students).fetchall()}

    def written(self, folder: Path, day: date) -> int | None:
        """Return how many records got a new version on the second night; None if it keeps none."""
        if self.versions is None:
            return None
        with duckdb.connect(str(folder / self.database), read_only=True) as con:
            row = con.execute(self.versions, {"day": day} if "$day" in self.versions else {}).fetchone()
        return int(row[0]) if row else 0

    def _command(self) -> list[str]:
        if self.script is None:
            return [sys.executable, "-m", "tests.bench.client"]
        return [str(environments.interpreter(self.script)), str(environments.HERE / f"{self.script}.py")]


ROLLBOOK = Tool(
    name="rollbook",
    title="Rollbook",
    database="rollbook.duckdb",
    students="SELECT student_id FROM students",
    versions="""
        SELECT
            (SELECT COUNT(DISTINCT student_id) FROM changes
             WHERE snapshot_date = $day AND student_id IN (SELECT student_id FROM students))
            + (SELECT COUNT(DISTINCT class_id) FROM changes
               WHERE snapshot_date = $day AND student_id IS NULL AND class_id IN (SELECT class_id FROM classes))
    """,
)

PEERS = (
    Tool(
        name="dlt",
        title="dlt, scd2",
        database="warehouse.duckdb",
        students="SELECT id FROM records.students WHERE _dlt_valid_to IS NULL",
        versions="""
            SELECT
                (SELECT COUNT(*) FROM records.students
                 WHERE _dlt_valid_from > (SELECT MIN(_dlt_valid_from) FROM records.students))
                + (SELECT COUNT(*) FROM records.classes
                   WHERE _dlt_valid_from > (SELECT MIN(_dlt_valid_from) FROM records.classes))
        """,
        script="dlt_scd2",
    ),
    Tool(
        name="by_hand",
        title="httpx + pandas",
        database="warehouse.duckdb",
        students="SELECT id FROM students",
        script="by_hand",
    ),
    Tool(
        name="singer",
        title="Singer tap + target",
        database="warehouse.duckdb",
        students="SELECT id FROM records.students",
        script="singer",
    ),
)
