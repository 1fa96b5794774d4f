"""A wheel, installed into an empty environment: in an empty folder the wheel does all that a checkout does."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import pytest

from rollbook.settings import ROOT
from tests.support.processes.servers import free_port, served_bare, until
from tests.support.reading import rows

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    sources = folder / "sources"
    shutil.copytree(ROOT / "pipelines", sources / "pipelines", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / ".ci", sources / ".ci", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, sources)
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=sources, check=True, timeout=100)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def installed(wheel: Path) -> Path:
    """The programs of an environment that has the wheel and the requirements, and nothing else."""
    return install(wheel.with_name("env"), str(wheel), "--constraint", str(ROOT / "constraints.txt"))


def install(folder: Path, *wanted: str) -> Path:
    """Make an environment with what is wanted; returns the folder of its programs."""
    uv = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(folder)], check=True, timeout=100)
    command = [uv, "pip", "install", "--quiet", "--python", str(folder), *wanted]
    subprocess.run(command, cwd=folder, check=True, timeout=500)
    return folder / "bin"


def environment(**given: str) -> dict[str, str]:
    """The variables of a new terminal, and some more."""
    return {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ} | given


def run(command: list[str], folder: Path, **given: str) -> str:
    """The output of a command that works."""
    env = environment(**given)
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=400)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


@contextmanager
def sandbox(installed: Path, folder: Path) -> Iterator[Mapping[str, str]]:
    """A running sandbox; yields the printed settings."""
    log = folder / "sandbox.log"
    with log.open("wb") as out:
        command = [str(installed / "rollbook"), "sandbox", "--students", "60", "--port", str(free_port())]
        process = subprocess.Popen(command, cwd=folder, env=environment(), stdout=out, stderr=out)
    try:
        line = until(lambda: next((t for t in log.read_text().splitlines() if "export " in t), None), 60)
        yield dict(pair.split("=", 1) for pair in line.split("export ")[1].split())
    finally:
        process.terminate()
        process.wait(30)


def test_it_plays_the_demo_and_writes_the_dictionary(installed: Path, tmp_path: Path) -> None:
    rollbook = str(installed / "rollbook")
    assert "2 nights, the last in Dagster" in run([rollbook, "demo", "--students", "60", "--days", "2"], tmp_path)
    assert rows(tmp_path / "warehouse" / "demo" / "rollbook.duckdb", "SELECT COUNT(*) > 50 FROM students") == [(True,)]
    code = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)[0]
    shown = run([str(installed / "python"), "-c", f"{code}\nprint(type(watch), len(moved) > 0)"], tmp_path)
    assert shown == "<class 'pandas.DataFrame'> True\n"
    run([rollbook, "docs"], tmp_path)
    assert "| `student_id` |" in (tmp_path / "warehouse" / "README.md").read_text()
    code = "import sys, rollbook; print(rollbook.__version__, 'dagster' in sys.modules, rollbook.RollbookComponent)"
    shown = run([str(installed / "python"), "-c", code], tmp_path)
    assert shown.split(maxsplit=2)[1:] == ["False", "<class 'rollbook.defs.component.RollbookComponent'>\n"]


@pytest.mark.weekly
def test_it_syncs_from_its_sandbox_and_serves_the_ui(installed: Path, tmp_path: Path) -> None:
    with sandbox(installed, tmp_path) as settings:
        run([str(installed / "rollbook"), "sync"], tmp_path, **settings)
        home = Path(settings["DAGSTER_HOME"])
        (home / "dagster.yaml").unlink()
        env = environment(**settings, ROLLBOOK_CRON="0 0 1 1 *")
        with served_bare(env, free_port(), command=[str(installed / "rollbook")], folder=tmp_path) as served:
            locations = "query { workspaceOrError { ... on Workspace { locationEntries { name locationOrLoadError {"
            shown = served.ask(f"{locations} __typename }} }} }} }} }}")
            assert shown["workspaceOrError"]["locationEntries"] == [
                {"name": "rollbook", "locationOrLoadError": {"__typename": "RepositoryLocation"}}
            ]
            assert served.runs() == [], "the command runs without Dagster"
        assert "class: QueuedRunCoordinator" in (home / "dagster.yaml").read_text()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Another Dagster project, which has a package `pipelines` of its own and a school as a component."""
    files = {
        "pyproject.toml": '[tool.dg]\ndirectory_type = "project"\n[tool.dg.project]\nroot_module = "pipelines"\n',
        "pipelines/__init__.py": "OURS = True\n",
        "pipelines/definitions.py": "from pathlib import Path\nimport dagster as dg\nimport pipelines\n"
        "assert pipelines.OURS\n"
        "defs = dg.load_from_defs_folder(path_within_project=Path(__file__).parent)\n",
        "pipelines/defs/__init__.py": "",
        "pipelines/defs/school/defs.yaml": "type: rollbook.RollbookComponent\nattributes:\n"
        "  base_url: https://records.school.example\n  warehouse: data/school\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_the_component_loads_in_a_project_with_a_package_pipelines(installed: Path, project: Path) -> None:
    validate = [str(installed / "dagster"), "definitions", "validate", "-m", "pipelines.definitions"]
    run(validate, project, DAGSTER_HOME="", ROLLBOOK_API_KEY="key")


@pytest.mark.weekly
@pytest.mark.parametrize("number", ["1.13.0", version("dagster")])
def test_dagsters_tool_knows_and_loads_the_component(wheel: Path, project: Path, number: str) -> None:
    pins = re.findall(r"^[a-z].*?(?= \\)", (ROOT / "constraints.txt").read_text(), flags=re.MULTILINE)
    others = project / "constraints.txt"  # an older dg wants an older tomlkit
    others.write_text("\n".join(pin for pin in pins if not pin.startswith(("dagster", "tomlkit"))))
    family = [f"{name}=={number}" for name in ("dagster", "dagster-webserver", "dagster-dg-cli")]
    dg = str(install(project / "env", str(wheel), *family, "--constraint", str(others)) / "dg")
    key = {"ROLLBOOK_API_KEY": "key"}
    assert "All definitions loaded successfully" in run([dg, "check", "defs"], project, **key)
    listed = json.loads(run([dg, "list", "defs", "--json"], project, **key))
    assert [len(listed[kind]) for kind in ("assets", "jobs", "schedules", "sensors")] == [12, 3, 1, 2]
    assert "rollbook.RollbookComponent" in run([dg, "list", "components", "--json"], project, **key)
    assert "All definitions loaded successfully" in run([dg, "check", "defs"], ROOT)
