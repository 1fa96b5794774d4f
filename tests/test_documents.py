"""No page rots: each block of code, and each command in a sentence, is read by what would read it, or run.

A block in a language that nothing here checks is a failure. Other tests run some of them with their answers: the README's
(`test_readme`), the worked example (`test_how_it_works`), the recipes for tools (`views/test_connect`, `test_dbt`), the
cookbook, the feature of CONTRIBUTING (`features/test_recipe`), proxies.
"""

from __future__ import annotations

import importlib.util
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import Any

import duckdb
import pytest
import typer
import yaml
from typer.exceptions import TyperException
from typer.main import get_command

from rollbook import institutions, settings
from rollbook.cli import app
from rollbook.defs.component import RollbookComponent
from rollbook.features.explore import readers
from rollbook.features.share import commands as share
from rollbook.landing import own
from rollbook.settings import ROOT
from rollbook.tables import TABLES
from rollbook.views import editable
from tests.support.nights import House, new_house, night
from tests.support.recipes import QUERY
from tests.support.records import classes, student, students
from tests.support.warehouses import released

FOLDER = "/srv/rollbook/warehouse"
LANDING = "pipelines/rollbook/landing/README.md"
LISTS = "pipelines/rollbook/features/lists/dictionary.md"
PROGRAMS = (".venv/bin/rollbook", "rollbook")
# Variables of others that the pages set or name.
OTHERS = {settings.DEMO, settings.DEBUG}
# A word that stands for what the reader writes there.
PLACEHOLDER = re.compile(r"[A-Z]{2,}|\.\.\.")


@dataclass(frozen=True)
class Block:
    """A block of code: where, in which language, and the text."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[str]:
    """Every page of the checkout, as git knows them."""
    command = ["git", "ls-files", "*.md"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return sorted(page for page in listed.splitlines() if (ROOT / page).exists())


def text_of(page: str) -> str:
    return (ROOT / page).read_text("utf-8")


def blocks() -> Iterator[Block]:
    """The blocks of all pages; one that is on several, as the dictionary has those of its chapters, comes once."""
    seen = set[str]()
    for page in pages():
        text = text_of(page)
        for found in re.finditer(r"^( *)```(\w*)\n(.*?)^\1```$", text, re.DOTALL | re.MULTILINE):
            if (code := dedent(found[3])) not in seen:
                seen.add(code)
                yield Block(page, text.count("\n", 0, found.start()) + 1, found[2], code)


BLOCKS = [*blocks()]


def of(*languages: str) -> list[Any]:
    """The blocks in a language, for `parametrize`."""
    return [pytest.param(block, id=str(block)) for block in BLOCKS if block.language in languages]


@pytest.fixture(scope="module")
def school_of_the_pages() -> Iterator[House]:
    """A school that has the lists of the pages."""
    (year_groups,) = [block.text for block in BLOCKS if (block.page, block.language) == (LISTS, "csv")]
    with new_house([*students(12), student(101), student(102)], classes(3)) as house:
        path = house.warehouse / "own" / "year_groups.csv"
        path.parent.mkdir(parents=True)
        path.write_text(year_groups, "utf-8")
        house.night(1)
        house.night(2)
        yield house


@pytest.fixture(autouse=True)
def _nobody_at_the_terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What a command that is only read might ask for or write."""
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    monkeypatch.setenv("HOME", str(tmp_path))


def test_every_block_is_in_a_language_that_a_test_reads() -> None:
    read = {"sh", "sql", "python", "csv", "toml", "yaml", "json", "nginx", "mermaid", "text", "js", "r"}
    assert [
        f"{block}: nothing checks {block.language or 'no language'!r}" for block in BLOCKS if block.language not in read
    ] == []
    assert len(BLOCKS) >= 80


def test_contributing_begins_with_one_screen() -> None:
    screen = text_of(".github/CONTRIBUTING.md").partition("\n## ")[0].splitlines()
    assert (len(screen) <= 40, [line for line in screen if len(line) > 80]) == (True, [])
    assert [what for what in ("make test ", "| to change | go to |", "\n1. ") if what not in "\n".join(screen)] == []


# --- commands --------------------------------------------------------------------------------------------------------


def parsed(words: Sequence[str]) -> None:
    """Have our command read its arguments, without running anything. Raises TyperException for what it does not take."""
    command, context, name = get_command(app), None, "rollbook"
    given = [*words]
    at_once = {option for parameter in command.params if not parameter.expose_value for option in parameter.opts}
    if {"--help", *at_once} & {*words}:
        return  # it would act while it reads
    while True:
        context = command.make_context(name, given, parent=context)
        given = [*getattr(context, "_protected_args", ()), *context.args]
        if not given or not hasattr(command, "resolve_command"):
            return
        found, command, given = command.resolve_command(context, given)
        name = found or ""


@cache
def targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))


def make(words: Sequence[str]) -> None:
    """Check the targets and variables of `make`."""
    variables = set(re.findall(r"\$[({](\w+)", (ROOT / "Makefile").read_text("utf-8")))
    for word in words:
        name, is_variable, _ = word.partition("=")
        assert name in (variables if is_variable else targets()), f"make has no {name}"


def python(words: Sequence[str]) -> None:
    """Check what Python is to run."""
    _, module, *rest = words
    assert importlib.util.find_spec(module), module
    for word in rest if module == "pytest" else ():
        assert "/" not in word or (ROOT / word).exists(), word


def uv(words: Sequence[str]) -> None:
    """Check the options of `uv tool install`, and the names of the release's files."""
    program = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
    helped = subprocess.run([program, *words[:2], "--help"], capture_output=True, text=True, check=True).stdout
    assert [word for word in words if word.startswith("--") and word not in helped] == []
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert f"rollbook-{version}-py3-none-any.whl" in words


def check_command(words: list[str], house: House) -> None:
    """Have a program read what a page gives it."""
    while words and re.fullmatch(r"\w+=.*", words[0]):
        check_variable(words.pop(0).partition("=")[0])
    if not words:
        return
    program, *given = words
    if program in PROGRAMS:
        with suppress(typer.Abort):  # it asks for the rest
            parsed(given)
    elif program == "duckdb":
        assert given[:2] == ["-readonly", f"{FOLDER}/rollbook.duckdb"]
        house.query(given[2])
    else:
        {"make": make, ".venv/bin/python": python, "uv": uv}[program](given)


def is_unfinished(error: Exception) -> bool:
    """Whether only something is missing: a sentence may name a command, or an option, without the rest."""
    return type(error).__name__ in ("MissingParameter", "NoArgsIsHelpError") or "requires an argument" in str(error)


def check_variable(name: str) -> None:
    """Check that a setting is one."""
    fields = {f"ROLLBOOK_{field.upper()}" for field in settings.every_setting().model_fields}
    files = {f"ROLLBOOK_{field.upper()}_FILE" for field in settings.secret_fields()}
    assert not name.startswith("ROLLBOOK_") or name in fields | files | OTHERS, f"{name} is not a setting"


@pytest.mark.parametrize("block", of("sh"))
def test_each_line_for_the_terminal_is_a_command_as_it_is_now(block: Block, school_of_the_pages: House) -> None:
    for line in block.text.splitlines():
        for command in re.split(r"\s&&\s", line.partition(" # ")[0]):
            if words := shlex.split(command, comments=True):
                check_command(words, school_of_the_pages)


@pytest.mark.parametrize("page", pages())
def test_commands_and_settings_in_sentences_are_as_they_are_now(page: str) -> None:
    prose = re.sub(r"^( *)```.*?^\1```$", "", text_of(page), flags=re.DOTALL | re.MULTILINE)
    wrong = []
    for code in re.findall(r"`((?:\.venv/bin/)?(?:rollbook|make) [^`]+)`", prose):
        words = shlex.split(" ".join(code.split()))
        try:
            make(words[1:]) if words[0] == "make" else parsed(words[1:])
        except typer.Abort:
            pass
        except (AssertionError, TyperException) as error:
            if not (is_unfinished(error) or any(map(PLACEHOLDER.search, words[1:]))):
                wrong.append(f"{code}: {error}")
    for name in re.findall(r"\bROLLBOOK_[A-Z_]*[A-Z]\b", text_of(page)):
        try:
            check_variable(name)
        except AssertionError as error:
            wrong.append(str(error))
    assert wrong == []


# --- what runs on a warehouse ----------------------------------------------------------------------------------------


def on_landed_days(query: str) -> str:
    """The query about days that the school has."""
    day = f"DATE '{night(2)}'"
    return re.sub(r"CURRENT_DATE( - \d+)?|(DATE )?'\d{4}-\d\d-\d\d'", day, query)


@pytest.mark.parametrize("block", of("sql"))
def test_each_query_runs(block: Block, school_of_the_pages: House) -> None:
    text = re.sub(r"\{\{ source\('rollbook', '(\w+)'\) \}\}", r"\1", block.text)  # as dbt does
    if "CREATE SECRET" in text:  # what `rollbook share add` prints, with another token
        file = re.findall(r"(rollbook[\w-]*\.duckdb)", text)[0]
        assert text.strip() == share._lines(file, "...", share.ADDRESS)
        return
    with duckdb.connect() as con:
        if "ATTACH" not in text:
            con.execute(f"ATTACH '{school_of_the_pages.published}' AS rollbook (READ_ONLY)")
            con.execute("USE rollbook")
        for statement in con.extract_statements(text.replace(FOLDER, str(school_of_the_pages.warehouse))):
            con.execute(on_landed_days(statement.query)).fetchall()


@pytest.mark.parametrize("block", of("r", "js"))
def test_each_query_within_another_language_runs(block: Block, school_of_the_pages: House, tmp_path: Path) -> None:
    assert QUERY.findall(block.text)
    for query in QUERY.findall(block.text):
        school_of_the_pages.query(query)
    if block.language == "js" and (node := shutil.which("node")):
        (tmp_path / "block.mjs").write_text(block.text, "utf-8")
        checked = subprocess.run(
            [node, "--check", str(tmp_path / "block.mjs")], capture_output=True, text=True, check=False
        )
        assert checked.returncode == 0, checked.stderr


def test_the_first_lines_of_the_dictionary_run(school_of_the_pages: House) -> None:
    (code,) = [each.text for each in BLOCKS if each.page.endswith("views/dictionary.md") and each.language == "python"]
    folder = school_of_the_pages.warehouse
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_all_python_is_of_the_right_types(tmp_path: Path) -> None:
    found = [block for block in BLOCKS if block.language == "python"]
    assert len(found) >= 10
    for number, block in enumerate(found):
        (tmp_path / f"block_{number}.py").write_text(block.text, "utf-8")
    command = [
        sys.executable, "-m", "mypy", "--config-file", os.devnull, "--cache-dir", str(ROOT / ".mypy_cache" / "pages"),
        "--ignore-missing-imports", "--follow-imports=silent", "--check-untyped-defs", str(tmp_path),
    ]  # fmt: skip
    checked = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    named = re.sub(r"block_(\d+)\.py", lambda match: str(found[int(match[1])]), checked.stdout)
    assert checked.returncode == 0, named + checked.stderr


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", of("csv"))
def test_each_file_for_people_is_read_as_a_night_reads_it(block: Block, tmp_path: Path) -> None:
    path = tmp_path / "file.csv"
    path.write_text(block.text, "utf-8")
    heading, *lines = block.text.splitlines()
    readers_of: dict[str, Callable[[], Any]] = {
        "login,sees": lambda: readers.read(path),
        "name,first_day,last_day": lambda: editable.read_terms(path),
    }
    read = readers_of.get(heading, lambda: own.read(path.read_bytes()).lines)
    assert len(read()) == len(lines)


@pytest.mark.parametrize("block", of("toml"))
def test_a_registry_of_the_pages_is_read(block: Block, tmp_path: Path) -> None:
    path = tmp_path / "institutions.toml"
    path.write_text(block.text, "utf-8")
    names = frozenset(settings.every_setting().model_fields)
    assert [*institutions.read(path, names, settings.secret_fields()).institutions]


@pytest.mark.parametrize("block", of("yaml", "json"))
def test_what_other_tools_are_given_is_theirs(block: Block) -> None:
    document = json.loads(block.text) if block.language == "json" else yaml.safe_load(block.text)
    if "type" in document:
        assert document["type"] == f"rollbook.{RollbookComponent.__name__}"
        RollbookComponent.model_validate(document["attributes"])
    else:  # of dbt and Superset, which test_dbt and test_connect give to them
        assert "read_only" in block.text


@pytest.mark.parametrize("block", of("nginx"))
def test_nginx_accepts_its_lines(block: Block, tmp_path: Path) -> None:
    nginx = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if nginx is None:
        pytest.skip("there is no nginx: its lines were not tried")
    for included, said in re.findall(r"include +/etc/nginx/([\w.-]+);.*?: (.*)", block.text):
        (tmp_path / included).write_text(said.partition("; ")[2] or said, "utf-8")
    places = " ".join(
        f"{kind}_temp_path {tmp_path}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (tmp_path / "nginx.conf").write_text(
        f"pid {tmp_path}/pid; error_log {tmp_path}/error.log; events {{}}\n"
        f"http {{ access_log off; {places} server {{ listen 127.0.0.1:1;\n"
        f"{block.text.replace('/etc/nginx', str(tmp_path))} }} }}\n"
    )
    checked = subprocess.run(
        [nginx, "-t", "-c", str(tmp_path / "nginx.conf")], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr


# --- drawings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", of("mermaid"))
def test_each_drawing_shows_what_is_there(block: Block) -> None:
    kind, *lines = block.text.splitlines()
    if kind == "erDiagram":
        assert set(re.findall(r"^    (\w+) ", block.text, re.MULTILINE)) <= {*TABLES, "changes"}
        return
    assert kind.startswith("flowchart ")
    declared = set(re.findall(r"\b([A-Z])[\[({]", block.text))
    assert {name for line in lines for name in re.findall(r"(?:^ +|> ?|\| ?)([A-Z])\b", line)} == declared
    named = {*re.findall(r"<b>([\w/]+(?:/|\.py))</b>", block.text)} - {"raw/", "snapshots/"}
    assert [path for path in named if not (ROOT / "pipelines" / "rollbook" / path).exists()] == []


def test_the_layers_of_the_page_are_those_that_lint_enforces() -> None:
    (drawn,) = [block.text for block in BLOCKS if (block.page, block.language) == ("pipelines/README.md", "text")]
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    assert [" ".join(layer.split()) for layer in drawn.split("->")] == layers


def patterns(tree: str) -> Iterator[re.Pattern[str]]:
    """What a drawn folder has, a pattern for each name: a line is a name, two blanks or more, and what it is."""
    wild = {
        "=D": r"=[\d-]+",
        "=N": r"=\d+",
        "-N": r"-\d+",
        "TABLE": r"\w+",
        r"\.T\.": r"\.[\dT-]+\.",
        "YYYY-MM": r"[\d-]+",
    }
    above = list[str]()
    for line in tree.splitlines():
        names = line.strip().split("  ")[0]
        above[(len(line) - len(line.lstrip())) // 2 :] = [names]
        for name in names.split(", "):
            shape = re.escape("".join([*above[:-1], name])).replace(r"\*", "[^/]*").replace(r"\-", "-")
            for word, stands_for in wild.items():
                shape = shape.replace(word, stands_for)
            yield re.compile(shape + (".*" if name.endswith("/") else ""))


def test_every_file_of_a_warehouse_is_on_the_page_about_the_disk() -> None:
    (tree,) = [block.text for block in BLOCKS if (block.page, block.language) == (LANDING, "text")]
    drawn = [*patterns(tree)]
    with released.opened(released.RELEASES[0]) as house:
        paths = [str(path.relative_to(house.warehouse)) for path in house.warehouse.rglob("[!.]*") if not path.is_dir()]
    assert len(paths) > 80
    assert [path for path in paths if not any(each.fullmatch(path) for each in drawn)] == []
