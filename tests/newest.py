"""`make test-newest`: the tests of what stands on others' work, with the newest versions that the bounds allow; and those
of the source with httpx's successor.

httpx has had no release since December 2024; httpx2 is maintained, and calls itself compatible. This run says each week
what a change would cost. It reports, and changes nothing here.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
WATCHED = ("duckdb", "pandas", "pyarrow", "dagster", "httpx", "httpx2", "starlette", "pydantic")
# What each is tried with: the folders of tests, and the extra requirement.
# With them the warehouse of each release must open.
NEWEST = ("tests/store", "tests/source", "tests/flatten", "tests/views", "tests/defs", "tests/night/test_upgrade.py")
SUCCESSOR, ITS_TESTS = "httpx2", ("tests/source",)


def main() -> int:
    """Run both; returns how many of them failed."""
    with tempfile.TemporaryDirectory() as folder:
        newest, successor = Path(folder) / "newest", Path(folder) / "successor"
        failed = [tried(copied(newest), NEWEST), tried(with_successor(copied(successor)), ITS_TESTS, SUCCESSOR)]
    return sum(failed)


def copied(folder: Path) -> Path:
    """A copy of the checkout."""
    ignored = shutil.ignore_patterns(".venv*", ".git", "warehouse", "__pycache__", "dist", "build", ".*_cache")
    shutil.copytree(ROOT, folder, ignore=ignored)
    shutil.copytree(
        ROOT / "warehouse", folder / "warehouse", ignore=lambda *_: ["demo", "raw", "snapshots", "published"]
    )
    return folder


def with_successor(folder: Path) -> Path:
    """The copy, with httpx's successor under its name."""
    for path in (*folder.glob("pipelines/**/*.py"), *folder.glob("tests/**/*.py")):
        text = path.read_text("utf-8")
        changed = re.sub(r"^(\s*)import httpx$", rf"\1import {SUCCESSOR} as httpx", text, flags=re.MULTILINE)
        changed = re.sub(
            r"^(\s*)from httpx(\.\w+)? import", rf"\1from {SUCCESSOR}\2 import", changed, flags=re.MULTILINE
        )
        if changed != text:
            path.write_text(changed, "utf-8")
    return folder


def tried(folder: Path, tests: tuple[str, ...], *added: str) -> bool:
    """Whether the tests fail in an environment of the newest versions."""
    uv = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
    python = str(folder / ".venv" / "bin" / "python")
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(folder / ".venv")], check=True)
    install = [
        uv,
        "pip",
        "install",
        "--quiet",
        "--upgrade",
        "--python",
        python,
        "--editable",
        ".[all]",
        "--group",
        "dev",
    ]
    subprocess.run([*install, *added], cwd=folder, check=True)
    listed = subprocess.run(
        [uv, "pip", "list", "--python", python, "--format", "freeze"], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    print("with", ", ".join(line for line in listed if line.partition("==")[0] in WATCHED), flush=True)  # noqa: T201
    marks = "not slow and not weekly"
    command = [python, "-m", "pytest", "-q", "-m", marks, "-p", "no:cacheprovider", "--timeout=300", *tests]
    return subprocess.run(command, cwd=folder, check=False).returncode != 0


if __name__ == "__main__":
    sys.exit(main())
