"""dbt's `sources.yml`: the file says what the declarations say, and real dbt parses, tests and reads what is named."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
from pathlib import Path

import duckdb
import pytest
import yaml

from rollbook.errors import ArgumentError
from rollbook.settings import ROOT
from rollbook.views import dictionary
from tests.support.recipes import block
from tests.support.warehouses.school import School
from tests.support.wire import environments

PINS = Path(__file__).with_name("dbt.txt")
PLACE = ROOT / ".venv-dbt"

# The recipe in the data dictionary, which holds here.
PROFILE = yaml.safe_load(block("dbt", "yaml"))
MODEL = block("dbt", "sql")
PROJECT = {
    "name": "school",
    "version": "1.0.0",
    "profile": "school",
    "models": {"+materialized": "table"},  # a view would need the published file again for each reading
    "flags": {"send_anonymous_usage_stats": False},
}
FEW = ("students", "student_classes", "student_summaries")


def test_it_is_written_again_over_itself_and_over_nothing_else(tmp_path: Path) -> None:
    path = dictionary.write_dbt(tmp_path)
    assert path == tmp_path / "sources.yml"
    path.write_text(f"{dictionary.MARK}\nas an earlier version wrote it")
    assert dictionary.write_dbt(tmp_path).read_text() == dictionary.render_dbt()
    path.write_text("sources: []  # somebody's own\n")
    is_kept(path)
    assert path.read_text() == "sources: []  # somebody's own\n"
    path.rename(tmp_path / "mine.yml")
    path.symlink_to(tmp_path / "mine.yml")
    is_kept(path)
    path.unlink()
    path.mkdir()
    is_kept(path)


def is_kept(path: Path) -> None:
    with pytest.raises(ArgumentError) as refused:
        dictionary.write_dbt(path.parent)
    assert refused.value.message == (
        f"{path} was not written by Rollbook, so it is kept: move it, or name another folder"
    )


@pytest.fixture(scope="module")
def python() -> Path:
    """The Python of dbt's environment; where that cannot be made the tests fail in CI, and elsewhere are skipped aloud."""
    try:
        return environments.interpreter(PINS, PLACE)
    except environments.EnvironmentFailedError as error:
        message = f"dbt is {error}; nothing of sources.yml was tried with it"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)


class Project:
    """A dbt project with one model, whose profile attaches a published file read-only."""

    def __init__(self, python: Path, folder: Path) -> None:
        self.dbt, self.folder, self.attached = python.with_name("dbt"), folder, folder / "rollbook.duckdb"
        (folder / "models").mkdir(parents=True)
        (folder / "models" / "by_teacher.sql").write_text(MODEL)
        profile = copy.deepcopy(PROFILE)
        (attached,) = profile["school"]["outputs"]["dev"]["attach"]
        attached["path"] = str(self.attached)
        (folder / "dbt_project.yml").write_text(yaml.safe_dump(PROJECT))
        (folder / "profiles.yml").write_text(yaml.safe_dump(profile))
        dictionary.write_dbt(folder / "models")

    def attach(self, published: Path) -> None:
        """Attach another file from now on. The project stays the same, which dbt does not parse again."""
        self.attached.unlink(missing_ok=True)
        self.attached.symlink_to(published)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command of dbt; a deprecation is an error."""
        command = [str(self.dbt), "--warn-error-options", "error: [Deprecations]", *arguments]
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "DO_NOT_TRACK": "1", "NO_COLOR": "1"}
        return subprocess.run(
            command, cwd=self.folder, env=env, capture_output=True, text=True, timeout=300, check=False
        )

    def results(self) -> dict[str, str]:
        """How each node of the last command went."""
        content = json.loads((self.folder / "target" / "run_results.json").read_text())
        return {r["unique_id"].split(".")[2]: r["status"] for r in content["results"]}


@pytest.fixture(scope="module")
def project(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project(python, tmp_path_factory.mktemp("dbt"))
    parsed = project.run("parse")
    assert parsed.returncode == 0, parsed.stdout
    return project


@pytest.mark.weekly
@pytest.mark.timeout(600)
def test_real_dbt_finds_every_source_and_builds_a_model(project: Project, fortnight: School) -> None:
    project.attach(fortnight.published)
    built = project.run("build")
    assert built.returncode == 0, built.stdout
    statuses = project.results()
    assert statuses.pop("by_teacher") == "success"
    assert set(statuses.values()) == {"pass"}
    assert len(statuses) > 100
    with duckdb.connect(project.folder / "school.duckdb") as con:
        rows = con.execute("FROM by_teacher ORDER BY teacher_id").fetchall()
    assert rows == fortnight.rows(
        "SELECT teacher_id, COUNT(DISTINCT student_id) FROM roster GROUP BY teacher_id ORDER BY teacher_id"
    )


@pytest.mark.weekly
@pytest.mark.timeout(600)
def test_real_dbt_sees_rows_that_are_wrong(project: Project, fortnight: School, tmp_path: Path) -> None:
    wrong = tmp_path / "rollbook.duckdb"
    shutil.copyfile(fortnight.published, wrong)
    with duckdb.connect(wrong) as con:
        con.execute("INSERT INTO student_classes FROM student_classes LIMIT 1")
        con.execute(
            "INSERT INTO student_classes SELECT student_id, 1 - class_id, 'unlisted', NULL FROM student_classes LIMIT 1"
        )
        con.execute("UPDATE students SET name = NULL WHERE student_id = (SELECT MIN(student_id) FROM students)")
        con.execute("DELETE FROM students WHERE student_id = (SELECT MAX(student_id) FROM student_summaries)")
    project.attach(wrong)
    tested = project.run("test", "--select", *(f"source:rollbook.{name}" for name in FEW))
    assert tested.returncode == 1, tested.stdout
    assert {name: status for name, status in project.results().items() if status != "pass"} == {
        "source_unique_rollbook_student_classes__student_id_class_id_": "fail",
        "source_not_null_rollbook_students_name": "fail",
        **{
            f"source_relationships_rollbook_{of}_student_id__student_id__source_rollbook_students_": "fail"
            for of in ("student_summaries", "student_activity", "student_classes")
        },
        "source_relationships_rollbook_student_classes_class_id__class_id__source_rollbook_classes_": "warn",
    }
