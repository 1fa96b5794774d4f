"""Never locked, never half (G10): other processes that read while syncs publish, for hours or for a moment."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import duckdb
import pytest

from rollbook.views import catalog
from rollbook.views.dictionary import cookbook
from tests.support.processes.commands import Program, program
from tests.support.warehouses.school import DAYS, School
from tests.support.wire import environments

pytestmark = [pytest.mark.nights, pytest.mark.every_feature]

# The values that a reader could see change: the newest day of the work, of students and of classes, and how many there
# are.
STATE = """
SELECT (SELECT MAX(snapshot_date) FROM ops.syncs), (SELECT MAX(snapshot_date) FROM spans.days),
    (SELECT COUNT(*) FROM students), (SELECT COUNT(*) FROM student_classes), (SELECT COUNT(*) FROM classes),
    (SELECT BIT_XOR(HASH(t)) FROM student_summaries AS t), (SELECT BIT_XOR(HASH(t)) FROM class_summaries AS t),
    (SELECT BIT_XOR(HASH(t)) FROM changes AS t), (SELECT COUNT(DISTINCT snapshot_date) FROM snapshots.classes),
    (SELECT BIT_XOR(HASH(t)) FROM snapshots.students AS t)
"""

# Holds the file open and looks again whenever a line comes.
HOLDER = """
import duckdb, sys
con = duckdb.connect(sys.argv[1], read_only=True)
for line in sys.stdin:
    print(con.execute(sys.argv[2]).fetchall(), flush=True)
"""
# Opens and closes the file as fast as it can, until its input ends, and prints each thing it saw.
OPENER = """
import duckdb, sys, threading
stop = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
opened, seen = 0, set()
while not stop.is_set() or opened < 20:
    with duckdb.connect(sys.argv[1], read_only=True) as con:
        seen.add(str(con.execute(sys.argv[2]).fetchall()))
    opened += 1
    if opened == 1:
        print("reading", flush=True)
print(opened)
print("\\n".join(seen))
"""


def reader(code: str, school: School) -> AbstractContextManager[Program]:
    """Another process that reads what the school has published."""
    return program("-c", code, school.published, STATE)


@pytest.mark.slow
def test_a_reader_for_days_sees_the_same_and_blocks_nobody(small: School) -> None:
    first = str(small.rows(STATE))
    with reader(HOLDER, small) as held:
        assert held.ask("look") == first
        for day in DAYS[1:4]:
            small.sync(day)
            assert held.ask("look") == first
            with reader(HOLDER, small) as fresh:
                assert fresh.ask("look") == str(small.rows(STATE)) != first
                fresh.end()
        assert held.ask("look") == first
        held.end()
    assert small.rows("SELECT COUNT(*) FROM ops.syncs") == [(4,)]


@pytest.mark.story
def test_one_who_opens_it_meanwhile_sees_one_whole_sync_or_another(small: School) -> None:
    """Students, classes, their history and the lake's views, all of one night, whenever the file is opened."""
    whole = {str(small.rows(STATE))}
    with reader(OPENER, small) as opening:
        assert opening.read() == "reading"
        for day in DAYS[1:3]:
            small.sync(day)
            whole.add(str(small.rows(STATE)))
        opened, *seen = opening.end()
    assert len(whole) == 3
    assert int(opened) >= 20
    assert set(seen) <= whole
    assert len(set(seen)) > 1


def test_the_lakes_views_work_from_any_working_directory(fortnight: School, tmp_path: Path) -> None:
    program = (
        "import duckdb, sys; con = duckdb.connect(sys.argv[1], read_only=True);"
        "print(con.execute('SELECT COUNT(*), COUNT(DISTINCT snapshot_date) FROM snapshots.students').fetchall());"
        "print(con.execute('SELECT COUNT(*) > 0 FROM snapshots.observed').fetchall())"
    )
    relative = os.path.relpath(fortnight.published, tmp_path)
    for cwd, path in ((Path("/"), str(fortnight.published)), (tmp_path, relative)):
        done = subprocess.run(
            [sys.executable, "-c", program, path], cwd=cwd, capture_output=True, text=True, timeout=60, check=True
        )
        students, true = done.stdout.splitlines()
        assert students == str(fortnight.rows("SELECT COUNT(*), 14 FROM snapshots.students"))
        assert true == "[(True,)]"


# --- DuckDB 1.4 ------------------------------------------------------------------------------------------------------

OLDEST = "1.4.5"
TABLES = "SELECT schema_name, table_name FROM duckdb_tables() WHERE NOT internal"
LOOK = """
import duckdb, json, sys
asked = json.load(sys.stdin)
with duckdb.connect(sys.argv[1], read_only=True) as con:
    answers = {question: str(con.execute(question).fetchall()) for question in asked}
json.dump({"version": duckdb.__version__, "answers": answers}, sys.stdout)
"""


@pytest.fixture(scope="session")
def oldest() -> Path:
    """A folder with the oldest DuckDB that must open the file: installed once, beside this environment's own."""
    folder = Path(sys.prefix) / f"duckdb-{OLDEST}"
    if not (folder / "done").exists():
        pip = [environments.uv(), "pip", "install", "--python", sys.executable]
        command = [*pip, "--quiet", "--target", str(folder), "--no-deps", f"duckdb=={OLDEST}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
        if done.returncode:
            message = f"duckdb {OLDEST} could not be installed: {done.stderr.strip()[-300:]}"
            if os.environ.get("CI"):
                pytest.fail(message)
            pytest.skip(message)
        (folder / "done").touch()
    return folder


@pytest.mark.slow
def test_duckdb_1_4_opens_it_tables_views_macros_and_comments(fortnight: School, oldest: Path) -> None:
    queries = [
        *(f"SELECT * FROM {n} ORDER BY ALL" for n in catalog.VIEWS),
        *(f"SELECT COUNT(*) FROM {s}.{t}" for s, t in fortnight.rows(TABLES)),
        *(f"SELECT COUNT(*) FROM snapshots.{t}" for t in ("students", "student_classes", "classes", "observed")),
        "SELECT COUNT(*) FROM students_as_of(DATE '2026-10-01')",
        "SELECT * FROM student_changes(DATE '2026-10-01', DATE '2026-10-03') ORDER BY ALL",
        "SELECT change FROM changes_since(NULL, NULL) ORDER BY ALL",
        "SELECT table_name, change, record FROM changes_since((SELECT MAX(epoch) FROM ops.publishes),"
        " (SELECT MIN(number) FROM ops.publishes)) ORDER BY ALL",
        "SELECT * FROM changes_between(DATE '2026-10-01', DATE '2026-10-03') ORDER BY ALL",
        "SELECT table_name, column_name, comment FROM duckdb_columns() WHERE NOT internal ORDER BY ALL",
        "SELECT view_name, comment FROM duckdb_views() WHERE NOT internal ORDER BY ALL",
        "SELECT function_name, comment FROM duckdb_functions() WHERE NOT internal ORDER BY ALL",
        *(r.sql for r in cookbook()),
    ]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", LOOK, str(fortnight.published)],
        input=json.dumps(queries),
        env=os.environ | {"PYTHONPATH": str(oldest)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["version"] == OLDEST
    for question in queries:
        with duckdb.connect(str(fortnight.published), read_only=True) as con:
            ours = con.execute(question).fetchall()
        if "ORDER BY" in question and question not in {r.sql for r in cookbook()}:
            # The versions add up in other orders, and so round a half differently.
            theirs, mine = (
                re.sub(r"-?\d+\.\d+", "a decimal", text) for text in (answer["answers"][question], str(ours))
            )
            assert theirs == mine, question
        else:  # ties may be in another order, and a LIMIT may cut them elsewhere
            assert len(answer["answers"][question]) > 2
            assert len(ours) > 0
