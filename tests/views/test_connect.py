"""`Connect from` in the data dictionary: a recipe for each tool, run as written where no other package is needed.

`test_dbt` builds a project from dbt's recipe.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.support.processes.commands import run_command
from tests.support.recipes import QUERY, block, recipes
from tests.support.warehouses.school import School

FOLDER = "/srv/rollbook/warehouse"
FILE = f"{FOLDER}/rollbook.duckdb"


def run(tool: str, school: School) -> dict[str, Any]:
    """The names after a tool's Python has run."""
    names: dict[str, Any] = {}
    code = block(tool, "python").replace(FILE, str(school.published)).replace(FOLDER, str(school.warehouse))
    exec(code, names)  # noqa: S102 - the page's own lines
    return names


def test_there_is_one_for_each_tool() -> None:
    assert list(recipes()) == [
        *("Python and pandas", "Jupyter and marimo", "polars", "ibis", "SQLAlchemy", "R", "Node"),
        *("DuckDB command line", "dbt", "Superset", "Metabase", "Power BI", "Tableau", "DBeaver"),
        *("Excel and LibreOffice", "Other systems (OneRoster)"),
    ]


def test_each_opens_the_file_read_only() -> None:
    read_only = re.compile(r"read_?only", re.IGNORECASE)
    codes = {tool: "".join(text for _, text in blocks) for tool, blocks in recipes().items()}
    assert [tool for tool, code in codes.items() if FILE in code and not read_only.search(code)] == []


def test_pandas_gets_todays_rows_and_those_of_a_day(fortnight: School) -> None:
    output = run("Python and pandas", fortnight)
    assert list(output["watch"].student_id) == [
        r[0] for r in fortnight.rows("SELECT student_id FROM students_to_watch")
    ]
    then = fortnight.rows("SELECT student_id FROM students_as_of(DATE '2026-10-01')")
    assert sorted(output["then"].student_id) == sorted(r[0] for r in then)


def test_a_notebook_gets_frames(fortnight: School) -> None:
    shown = run("Jupyter and marimo", fortnight)
    assert len(shown["daily"]) == 14
    assert len(shown["roster"]) == fortnight.rows("SELECT COUNT(*) FROM roster")[0][0]
    assert set(shown["moves"].student_id) == {shown["watch"].student_id[0]}


def test_tableaus_first_statements_attach_the_file_read_only_and_its_macros_answer(fortnight: School) -> None:
    with duckdb.connect() as con:
        con.execute(block("Tableau", "sql").replace(FILE, str(fortnight.published)))
        assert con.execute("SELECT COUNT(*) FROM roster").fetchall() == fortnight.rows("SELECT COUNT(*) FROM roster")
        assert con.execute("SELECT COUNT(*) > 0 FROM students_as_of(DATE '2026-10-01')").fetchall() == [(True,)]
        assert fortnight.rows("SELECT 1") == [(1,)], "another reader is locked out"
        with pytest.raises(duckdb.InvalidInputException, match="attached in read-only mode"):
            con.execute("DELETE FROM students")
        con.execute("USE memory")
        named = con.execute("SELECT COUNT(*) FROM rollbook.main.roster").fetchall()
        assert named == fortnight.rows("SELECT COUNT(*) FROM roster")


def test_every_query_of_every_tool_gives_rows(fortnight: School) -> None:
    found = {tool: [q for _, text in blocks for q in QUERY.findall(text)] for tool, blocks in recipes().items()}
    assert {tool for tool, queries in found.items() if queries} == {
        *("Python and pandas", "Jupyter and marimo", "polars", "SQLAlchemy", "R", "Node", "DuckDB command line"),
        "Excel and LibreOffice",
    }
    for queries in found.values():
        for query in queries:
            assert fortnight.rows(query.replace("?", "'2026-10-01'")), query


def test_all_python_is_python_and_supersets_parameters_are_json() -> None:
    for _, text in (b for blocks in recipes().values() for b in blocks if b[0] == "python"):
        ast.parse(text)
    assert json.loads(block("Superset", "json")) == {"connect_args": {"read_only": True}}


def test_exports_for_excel_are_written(fortnight: School, tmp_path: Path) -> None:
    lines = block("Excel and LibreOffice", "sh").splitlines()
    for line in lines:
        command, *arguments = shlex.split(line)
        assert command == ".venv/bin/rollbook"
        done = run_command(*arguments, env={"ROLLBOOK_WAREHOUSE": str(fortnight.warehouse)}, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert {p.name for p in tmp_path.iterdir()} == {"watch.xlsx", "roster.xlsx", "class.csv"}
