"""What a package shows of the README, and what a release must have."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from rollbook.settings import ROOT


@pytest.fixture
def readme_hook() -> ModuleType:
    """The hook that makes a package's page."""
    spec = importlib.util.spec_from_file_location("package_readme", ROOT / ".ci" / "package_readme.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_packages_page_has_no_link_that_leads_nowhere(readme_hook: ModuleType) -> None:
    page = readme_hook.page((ROOT / "README.md").read_text("utf-8"))
    assert re.findall(r"\]\((?!https?:)[^)]*\)|<img", page) == []
    assert page.startswith("# Rollbook")


def test_links_lead_to_the_source_where_there_is_an_address(readme_hook: ModuleType) -> None:
    page = readme_hook.page(
        "[run it](dagster_home/README.md), [here](https://x.example)", "https://src.example/blob/main"
    )
    assert page == "[run it](https://src.example/blob/main/dagster_home/README.md), [here](https://x.example)"


def test_the_changelog_tells_of_the_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert re.search(rf"^## {re.escape(version)}\b", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)


USES = re.compile(r"uses: (\S+)@([0-9a-f]{40}) # (v\d+\.\d+\.\d+)")


@pytest.fixture
def workflows(tmp_path: Path) -> Path:
    """A copy of the workflows with what checks their pins, and a `git` that knows each action as they pin it."""
    shutil.copytree(ROOT / ".github" / "workflows", tmp_path / ".github" / "workflows")
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "pins", tmp_path / ".ci")
    known = {found for path in (tmp_path / ".github").rglob("*.yml") for found in USES.findall(path.read_text("utf-8"))}
    cases = "".join(
        f"https://github.com/{action}\\ refs/tags/{version}\\ *) printf '1111\\trefs/tags/{version}\\n{commit}\\trefs/tags/{version}^{{}}\\n';;\n"
        for action, commit, version in known
    )
    git = tmp_path / "bin" / "git"
    git.parent.mkdir()
    git.write_text(f'#!/bin/sh\nshift\ncase "$*" in\n{cases}esac\n')
    git.chmod(0o755)
    return tmp_path


def pins(folder: Path) -> tuple[int, str]:
    """What `.ci/pins` says."""
    env = os.environ | {"PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run([folder / ".ci" / "pins"], env=env, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def test_every_action_is_pinned_by_the_commit_of_a_version(workflows: Path) -> None:
    assert pins(workflows) == (0, "")


@pytest.mark.parametrize(
    ("change", "to", "says"),
    [
        (r"@[0-9a-f]{40} # v1\.13\.0", "@release/v1", "Not pinned by a version's commit: uses: pypa/gh-action-pypi-publish@release/v1"),
        (r"@ed0c", "@0dc0", "pypa/gh-action-pypi-publish v1.13.0 is ed0c53931b1dc9bd32cbe73a98c7f6766f8a527e, and not 0dc0"),
        (r"# v1\.13\.0", "# v1.13.1", "pypa/gh-action-pypi-publish v1.13.1 is unknown there, and not ed0c"),
    ],
)  # fmt: skip
def test_an_action_that_is_not_what_it_says_stops_the_release(workflows: Path, change: str, to: str, says: str) -> None:
    path = workflows / ".github" / "workflows" / "release.yml"
    path.write_text(re.sub(change, to, path.read_text("utf-8")), "utf-8")
    code, said = pins(workflows)
    assert (code, said.count("\n")) == (1, 1)
    assert said.startswith(says)
