"""`make bench-engine`: what the engines need to compute a fleet's histories and rollups from its lakes.

The lakes are written by a query: on each day a fiftieth of the students has worked, a thousandth is not listed. Each
engine computes everything in a process of its own, one after the other: the runs of days, the versions, the current
rows and the changes of every table, and the figures by institution. Sail is measured in one process, and as a cluster of
one and of two workers.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
from rich.console import Console
from rich.table import Table as Shown

from pipelines.fleet import engine as engines
from pipelines.fleet.file import rollups
from pipelines.fleet.history.histories import Histories
from pipelines.fleet.history.lakes import Lakes
from pipelines.tables import SETS, TABLES, Column, Table
from tests.bench import meter

FIRST = "2026-01-05"


def _cluster(workers: int) -> dict[str, str]:
    """So many workers. A stage has a task for each file: all of them must find a place at once."""
    counts = dict.fromkeys(("SAIL_CLUSTER__WORKER_INITIAL_COUNT", "SAIL_CLUSTER__WORKER_MAX_COUNT"), str(workers))
    return {"SAIL_MODE": "local-cluster", "SAIL_CLUSTER__WORKER_TASK_SLOTS": "64", **counts}


# A row of the table: what it is called, the engine, and the variables that it is started with.
ENGINES: dict[str, tuple[str, dict[str, str]]] = {
    "DuckDB": ("duckdb", {}),
    "Sail": ("sail", {}),
    "Sail, 1 worker": ("sail", _cluster(1)),
    "Sail, 2 workers": ("sail", _cluster(2)),
}


def write_lakes(root: Path, institutions: int, students: int, days: int) -> int:
    """Write the lakes as an engine reads them; returns how many rows a table of students has over all days."""
    classes = max(1, students // 25)
    with duckdb.connect() as con:
        con.execute("SET preserve_insertion_order = false")
        con.execute(
            f"CREATE TABLE institutions AS SELECT format('school-{{:04d}}', i) AS institution FROM range({institutions}) AS r(i)"
        )
        con.execute(
            f"CREATE TABLE days AS SELECT DATE '{FIRST}' + CAST(d AS INTEGER) AS snapshot_date, d FROM range({days}) AS r(d)"
        )
        for table in TABLES.values():
            of_students = table.set == "students"
            records = (
                students if of_students else classes if table.set == "classes" else 0 if table.set == "details" else 1
            )
            values = ", ".join(f"{_value(table, c)} AS {c.name}" for c in table.columns)
            listed = "HASH(id, d, 'gone') % 1000 > 0" if of_students else "TRUE"
            students_or_classes = f"range({records}) AS r(id) WHERE {listed}"
            query = f"SELECT institution, snapshot_date, {values} FROM institutions, days, {students_or_classes}"
            _write(con, root, table.name, query)
        seen = " UNION ALL ".join(
            f"SELECT institution, snapshot_date, '{s}' AS set_name, CAST(NULL AS BIGINT) AS id, 'proven' AS state, CAST(NULL AS VARCHAR)"
            f" AS table_name FROM institutions, days"
            for s in ("students", "classes")
        )
        _write(con, root, "observed", seen)
        sets = ", ".join(f"('{s}', {s in ('students', 'classes')})" for s in SETS)
        proven = f"(VALUES {sets}) AS s(set_name, proven)"
        _write(con, root, "days", f"SELECT institution, snapshot_date, s.* FROM institutions, days, {proven}")
    return institutions * students * days


def _value(table: Table, column: Column) -> str:
    """A value by the record's id and the day: a student's work changes every fifty days, names never."""
    if column.name in ("student_id", "class_id", "school_id"):
        return "CAST(id AS BIGINT)"
    when = "(d + id) // 50" if column.type in ("BIGINT", "DOUBLE") else "0"
    seed = f"HASH(id, '{table.name}.{column.name}', {when})"
    return {
        "BIGINT": f"CAST({seed} % 40 AS BIGINT)",
        "DOUBLE": f"CAST({seed} % 10000 AS DOUBLE) / 100",
        "BOOLEAN": f"{seed} % 2 = 0",
        "DATE": f"DATE '2025-09-01' + CAST({seed} % 100 AS INTEGER)",
        "TIMESTAMP": "TIMESTAMP '2026-01-05 02:15:00'",
    }.get(column.type, f"'text ' || ({seed} % 100000)")


def _write(con: duckdb.DuckDBPyConnection, root: Path, name: str, query: str) -> None:
    target = root / name
    target.mkdir(parents=True)
    con.execute(
        f"COPY ({query}) TO '{target}' (FORMAT parquet, COMPRESSION zstd, PARTITION_BY (institution, snapshot_date))"
    )


def compute(name: str, root: Path, into: Path) -> None:
    """Compute everything with one engine, in this process; prints the seconds and the rows as a line of JSON."""
    began = time.perf_counter()
    (into / "scratch").mkdir(parents=True)
    with engines.of(name, into / "scratch") as engine:
        started = time.perf_counter()
        Histories(engine, Lakes(root), into / "histories").compute()
        computed = time.perf_counter()
        rollups.compute_from_tables(engine, into)
        ended = time.perf_counter()
        rows = engine.count("SELECT * FROM main.changes")
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    said = {
        "start": started - began, "histories": computed - started, "rollups": ended - computed, "changes": rows,
        "work": sum(u.ru_utime + u.ru_stime for u in used),
    }  # fmt: skip
    print(json.dumps(said))


def measure(root: Path, students: int, titles: list[str]) -> Iterator[tuple[str, ...]]:
    """Measure these engines, one after the other."""
    for title in titles:
        name, variables = ENGINES[title]
        with tempfile.TemporaryDirectory(dir=root.parent) as into:
            command = [sys.executable, "-m", "tests.bench.engine", "--compute", name, str(root), into]
            try:
                ran = meter.run(command, "", variables)
            except meter.RunError as error:
                yield title, str(error), "", "", "", "", ""
                continue
        said = ran.said
        yield (
            title,
            *(f"{said[key]:.1f}" for key in ("start", "histories", "rollups", "work")),
            f"{ran.peak_mb:.0f}",
            f"{said['work'] / students * 1e6:.2f}",
        )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--institutions", type=int, default=20)
    parser.add_argument("--students", type=int, default=500, help="of each institution")
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--engine", action="append", choices=ENGINES, help="only this one; give it again for more")
    parser.add_argument("--compute", nargs=3, metavar=("ENGINE", "LAKES", "INTO"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.compute:
        name, root, into = given.compute
        compute(name, Path(root), Path(into))
        return
    with tempfile.TemporaryDirectory() as folder:
        rows = write_lakes(Path(folder, "lakes"), given.institutions, given.students, given.days)
        size = sum(p.stat().st_size for p in Path(folder).rglob("*.parquet")) / 1e6
        shown = Shown(
            title=f"{given.institutions} institutions of {given.students} students, {given.days} days:"
            f" {rows:,} student days, {size:,.0f} MB"
        )
        for heading in ("engine", "start s", "histories s", "rollups s", "processor s", "peak MB", "µs a student day"):
            shown.add_column(heading, justify="left" if heading == "engine" else "right")
        for row in measure(Path(folder, "lakes"), rows, given.engine or list(ENGINES)):
            shown.add_row(*row)
    Console(width=120).print(shown)


if __name__ == "__main__":
    main()
