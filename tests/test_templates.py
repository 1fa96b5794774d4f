"""Compiled templates are kept beside the compiled modules of their package, and never outlive their text."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rollbook.store.statements import environment, statements


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with one statement, which nobody has rendered yet."""
    package = tmp_path / f"of_{tmp_path.name}"  # Python keeps what it has imported by its name
    for folder in ("sql", "__pycache__"):
        (package / folder).mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "sql" / "one.sql").write_text("SELECT {{ number }}")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    return package


def rendered(package: Path) -> str:
    """The statement, as a process says it that has just begun."""
    environment.cache_clear()
    return statements(package.name)("one", number=7)


def kept(package: Path) -> list[Path]:
    return list((package / "__pycache__").glob("jinja-*.cache"))


def test_a_template_is_compiled_once_and_again_when_its_text_changes(package: Path) -> None:
    assert rendered(package) == "SELECT 7"
    before = {path: path.stat().st_mtime_ns for path in kept(package)}
    assert len(before) == 2, "the statement and the macros"
    assert rendered(package) == "SELECT 7"
    assert {path: path.stat().st_mtime_ns for path in kept(package)} == before
    (package / "sql" / "one.sql").write_text("SELECT {{ number + 1 }}")
    assert rendered(package) == "SELECT 8"


def test_nothing_is_kept_where_python_may_keep_nothing(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert rendered(package) == "SELECT 7"
    assert kept(package) == []


def test_a_damaged_file_is_compiled_again(package: Path) -> None:
    rendered(package)
    for path in kept(package):
        path.write_bytes(b"not a template")
    assert rendered(package) == "SELECT 7"
