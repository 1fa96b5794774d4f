"""Python environments of their own, for tools that do not go with Rollbook's: made once, by pinned versions."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path


class EnvironmentFailedError(Exception):
    """A tool could not be installed. The message gives the installer's last words."""


def interpreter(pins: Path, folder: Path) -> Path:
    """Return the Python of an environment, which is made first if need be. Raises EnvironmentFailedError.

    An environment is made again when the pins or this Python change.
    """
    python, stamp = folder / "bin" / "python", folder / "pins.txt"
    wanted = f"{sys.version}\n{pins.read_text()}"
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"Setting up {folder.relative_to(folder.parents[1])} (once) …", file=sys.stderr)  # noqa: T201 - the installation takes a minute
        shutil.rmtree(folder, ignore_errors=True)
        for command in _commands(folder, python, pins):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                lines = (done.stderr or done.stdout).strip().splitlines()
                raise EnvironmentFailedError(f"not installed: {lines[-1] if lines else done.returncode}")
        stamp.write_text(wanted)  # last, so that an install that was interrupted starts over
    return python


def uv() -> str:
    """Return the path of the environment's uv, which the `dev` extra installs."""
    return str(Path(sys.executable).with_name("uv"))


def _commands(folder: Path, python: Path, pins: Path) -> list[list[str]]:
    """Return how to make the environment."""
    return [
        [uv(), "venv", "--quiet", "--python", sys.executable, str(folder)],
        [uv(), "pip", "install", "-qq", "--python", str(python), "--requirement", str(pins)],
    ]
