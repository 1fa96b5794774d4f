"""`rollbook sql`, `export`, `restore` and `docs`, as they are typed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from rollbook.assembly import chapters
from rollbook.feature import relations
from rollbook.views import dictionary
from tests.support.processes.commands import run_at
from tests.support.tiers import daily
from tests.support.warehouses.school import KEY, School


def error(done: subprocess.CompletedProcess[str], exit_code: int) -> str:
    assert done.returncode == exit_code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    return " ".join(done.stderr.split())


def test_sql_prints_a_table_and_says_that_there_are_more_rows(fortnight: School) -> None:
    query = "SELECT class_id, class_title FROM classes ORDER BY class_id"
    done = run_at(fortnight.warehouse, "sql", query, "--rows", "2")
    assert done.returncode == 0, done.stderr
    assert "There are more rows: raise --rows" in done.stderr
    lines = [[cell.strip() for cell in re.split("[┃│]", line)] for line in done.stdout.splitlines()]
    titles = fortnight.rows(f"{query} LIMIT 2")
    assert [lines[0], *lines[2:]] == [["class_id", "class_title"], *([str(key), title] for key, title in titles)]
    by_name = run_at(fortnight.warehouse, "sql", "course_overview", "--rows", "3")
    assert "There are more rows: raise --rows" in by_name.stderr
    done = run_at(fortnight.warehouse, "sql", "FROM course_overview ORDER BY course_name LIMIT 3", "--rows", "3")
    assert (done.returncode, done.stderr, done.stdout) == (0, "", by_name.stdout)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("UPDATE students SET name = 'x'", "UPDATE could do more: only a sync changes what is published"),
        ("SELECT * FROM read_csv('/etc/passwd')", "the function read_csv could do more"),
        ("FROM '/etc/passwd'", "DuckDB refused the query"),
        ("SELECT 1; SELECT 2", "Ask one query at a time"),
        ("", "Ask one query at a time: this is 0"),
        ("SELEC 1", "DuckDB does not understand the query"),
        ("nobody", "Table with name nobody does not exist"),
        ("SELECT nobody FROM students", "DuckDB refused the query"),
    ],
)
def test_sql_refuses_all_but_a_reading_query_in_a_sentence(fortnight: School, query: str, message: str) -> None:
    assert message in error(run_at(fortnight.warehouse, "sql", query), 2)


def test_sql_before_the_first_sync_says_what_to_run(tmp_path: Path) -> None:
    assert "run `rollbook sync` first" in error(run_at(tmp_path, "sql", "SELECT 1"), 1)


@pytest.mark.parametrize("typed", ["sql SELECT", "export students", "why students 1", "explore"])
def test_after_the_demo_what_reads_names_it_until_there_is_a_school(
    fortnight: School, tmp_path: Path, typed: str
) -> None:
    fortnight.copy(tmp_path / "demo")
    line = error(run_at(tmp_path, *typed.split()), 1)
    assert line == (
        f"Error: {tmp_path / 'rollbook.duckdb'} does not exist yet: run `rollbook sync` first, or add --demo to read the"
        " demo's"
    )


def test_with_demo_it_is_the_demos_school_that_is_read_and_noted(fortnight: School, tmp_path: Path) -> None:
    school = fortnight.copy(tmp_path / "demo")
    done = run_at(tmp_path, "sql", "SELECT COUNT(*) FROM students", "--demo")
    assert done.stdout.split()[-1] == str(school.rows("SELECT COUNT(*) FROM students")[0][0])
    assert "SELECT COUNT(*) FROM students" in run_at(tmp_path, "access", "--demo").stdout
    assert [path.name for path in tmp_path.iterdir()] == ["demo"]


@pytest.mark.parametrize(("arguments", "begins"), [
    (("--out", "f.csv"), b"\xef\xbb\xbf"), (("--out", "f.xlsx"), b"PK"), (("--out", "f.parquet"), b"PAR1"),
    (("--out", "f"), b"\xef\xbb\xbf"), (("--format", "parquet", "--out", "f.dat"), b"PAR1"),
])  # fmt: skip
def test_export_writes_the_format_asked_for(
    fortnight: School, tmp_path: Path, arguments: tuple[str, ...], begins: bytes
) -> None:
    *options, name = arguments
    done = run_at(fortnight.warehouse, "export", "course_overview", *options, str(tmp_path / name))
    assert done.returncode == 0, done.stderr
    rows = fortnight.rows("SELECT COUNT(*) FROM course_overview")[0][0]
    assert f"Wrote {rows} rows to {tmp_path / name}." in " ".join(done.stdout.split())
    assert (tmp_path / name).read_bytes().startswith(begins)


def test_no_file_of_the_warehouse_is_written_over(fortnight: School, tmp_path: Path) -> None:
    copy = tmp_path / "w"
    shutil.copytree(fortnight.warehouse, copy, symlinks=True)
    landing = next(copy.glob("raw/*/landing=1"))
    for target in (copy / "rollbook.duckdb", copy / "private" / "erasures" / "f", landing / "manifest.json"):
        before = target.read_bytes() if target.exists() else None
        message = error(run_at(copy, "export", "roster", "--format", "csv", "--out", str(target)), 2)
        assert message.endswith(f"would be among the warehouse's own files: write to {copy}/exports or elsewhere")
        assert (target.read_bytes() if target.exists() else None) == before
    assert run_at(copy, "export", "roster").returncode == 0
    assert run_at(copy, "export", "classes", "--out", str(copy / "exports" / "f.csv")).returncode == 0


@pytest.mark.parametrize("name", daily(["f.docx", "f.CSVX", "f.2026"], "f.docx"))
def test_export_refuses_a_file_of_another_kind_and_names_those_it_writes(
    fortnight: School, tmp_path: Path, name: str
) -> None:
    message = error(run_at(fortnight.warehouse, "export", "course_overview", "--out", str(tmp_path / name)), 2)
    assert message == (
        f"Error: {name} does not end in .csv, .xlsx or .parquet: rename it, or give the format with --format"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_restore_lists_what_is_kept_and_puts_one_back(fortnight: School, tmp_path: Path) -> None:
    school = fortnight.copy(tmp_path / "w")
    at = {"ROLLBOOK_BASE_URL": "http://127.0.0.1:9", "ROLLBOOK_API_KEY": KEY}
    listed = run_at(school.warehouse, "restore", **at)
    assert listed.returncode == 0, listed.stderr
    rows = [[c.strip() for c in line.split("│")] for line in listed.stdout.splitlines() if "│" in line]
    versions = school.rollbook().warehouse.kept()
    assert [row[0] for row in rows] == ["now", "1", "2", "3"]
    for row, newer in pairwise(rows[::-1]):
        same = "the same days, computed again"
        assert row[-1] == (same if row[1:3] == newer[1:3] else f"{newer[1]}, landing {newer[2]}")
    done = run_at(school.warehouse, "restore", "3", **at)
    assert done.returncode == 0, done.stderr
    (day,) = school.rows("SELECT MAX(snapshot_date) FROM spans.days")[0]
    (students, classes) = (school.rows(f"SELECT COUNT(*) FROM {name}")[0][0] for name in ("students", "classes"))
    restored = f"Restored {versions[2].stem}: {day}, landing 1: {students} students, {classes} classes."
    assert restored in " ".join(done.stdout.split())
    assert rows[3][1:5] == [str(day), "1", str(students), str(classes)]
    assert rows[3][1] < rows[0][1]
    assert run_at(school.warehouse, "restore", versions[0].stem, **at).returncode == 0
    assert "choose 1 to 3" in error(run_at(school.warehouse, "restore", "9", **at), 2)


def test_docs_writes_the_data_dictionary_and_sources_for_dbt(tmp_path: Path) -> None:
    done = run_at(tmp_path, "docs", "--out", str(tmp_path / "README.md"))
    assert (done.returncode, (tmp_path / "README.md").read_text()) == (0, dictionary.render(chapters()))
    folder = tmp_path / "models" / "rollbook"
    done = run_at(tmp_path, "docs", "--dbt", str(folder))
    assert (done.returncode, (folder / "sources.yml").read_text()) == (0, dictionary.render_dbt(relations()))
    assert "sources.yml is not a folder" in error(
        run_at(tmp_path, "docs", "--dbt", str(folder / "sources.yml" / "x")), 2
    )
    assert "is not a folder" in error(run_at(tmp_path, "docs", "--out", str(tmp_path / "no" / "f")), 2)


def test_asking_for_help_loads_none_of_what_the_commands_need() -> None:
    program = (
        "import sys; import rollbook.cli;"
        "heavy = ('apprise', 'dagster', 'jinja2', 'starlette', 'pandas', 'xlsxwriter', 'pyarrow', 'numpy', 'httpx', 'rollbook.night');"
        "print([m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
