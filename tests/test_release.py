"""What a package shows of the README, and what a release must have."""

from __future__ import annotations

import importlib.util
import re
import tomllib
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
