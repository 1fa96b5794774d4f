"""`make release-check`: what must be true of a release, from a clean copy of the commit.

Builds the package twice and compares, checks its metadata, runs what a school does with the wheel alone, and writes the
list of what it is made of. The files are in dist/.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST, ENVIRONMENT = ROOT / "dist", ROOT / ".venv-release"
KEPT = ROOT / "tests" / "support" / "warehouses" / "released"
# What checks and describes a package; a release does not contain them.
TOOLS = ("twine==6.2.0", "cyclonedx-bom==7.2.1")


class NotReadyError(Exception):
    """What keeps the commit from being released."""


def main() -> int:
    """Check everything; returns 1 and says why if the commit is not ready."""
    try:
        for line in check():
            print(line, flush=True)  # noqa: T201
    except NotReadyError as error:
        print(f"Not ready: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


def check() -> Iterator[str]:
    """Check everything, one line after the other. Raises NotReadyError."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    if not re.search(rf"^## {re.escape(version)}\b", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE):
        raise NotReadyError(f"CHANGELOG.md has no heading '## {version}'")
    yield f"CHANGELOG.md tells of {version}."
    if not (KEPT / f"{version}.tar.xz").exists():
        raise NotReadyError(f"no warehouse of {version} is kept for later versions: run `make released` and commit")
    yield f"A warehouse of {version} is kept, which every later version has to open."
    shutil.rmtree(DIST, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        built = [build(Path(folder) / name) for name in ("one", "two")]
        if built[0] != built[1]:
            raise NotReadyError(f"two builds differ: {sorted(built[0].items() ^ built[1].items())}")
        shutil.copytree(Path(folder) / "one" / "dist", DIST)
    yield f"Two builds are equal, byte for byte: {', '.join(sorted(built[0]))}."
    uv = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
    run(uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(ENVIRONMENT))
    run(uv, "pip", "install", "--quiet", "--python", str(ENVIRONMENT), *TOOLS)
    run(str(ENVIRONMENT / "bin" / "twine"), "check", "--strict", *map(str, DIST.iterdir()))
    yield "Its metadata are as a package index wants them."
    pinned = DIST / "constraints.txt"
    shutil.copy(ROOT / "constraints.txt", pinned)
    bom = DIST / f"rollbook-{version}.cdx.json"
    tool = str(ENVIRONMENT / "bin" / "cyclonedx-py")
    run(
        tool,
        "environment",
        "--output-reproducible",
        "--pyproject",
        str(ROOT / "pyproject.toml"),
        "-o",
        str(bom),
        sys.executable,
    )
    yield f"{bom.name} lists what the pinned environment is made of."
    run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_wheel.py")
    yield "The wheel alone, in an empty folder, does what a checkout does."


def build(folder: Path) -> dict[str, str]:
    """Build the commit's package in a folder; returns the digest of each file."""
    folder.mkdir()
    archive = folder / "commit.tar"
    run("git", "archive", "--output", str(archive), "HEAD")
    with tarfile.open(archive) as tar:
        tar.extractall(folder / "sources", filter="data")
    moment = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder / "dist")]
    subprocess.run(
        command, cwd=folder / "sources", check=True, capture_output=True, env=os.environ | {"SOURCE_DATE_EPOCH": moment}
    )
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (folder / "dist").iterdir()}


def run(*command: str) -> None:
    """Run a command in the project's folder. Raises NotReadyError with its output if it fails."""
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    if done.returncode:
        raise NotReadyError(f"{' '.join(command[:3])} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")


if __name__ == "__main__":
    sys.exit(main())
