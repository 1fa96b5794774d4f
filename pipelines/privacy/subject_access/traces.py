"""Entries about a student in the files of `private/`: the code, and the released figures that counted the student.

Any JSON file is searched, without knowledge of its schema: an id is a field's name, or an item in a list of numbers. Of
such a list only the values beside it are shown, since its other ids are other pupils'.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from pipelines.errors import DamagedError
from pipelines.privacy.access import PRIVATE

ENDINGS = (".json", ".json.gz")


@dataclass(frozen=True)
class Trace:
    """One place where a file names the student: the path of keys to it, and its value."""

    file: str
    where: str
    says: str


def find(root: Path, student: int) -> list[Trace]:
    """Find every such place. Raises DamagedError for a file that cannot be read."""
    return [
        Trace(str(path.relative_to(root)), ".".join(steps), says)
        for path in sorted((root / PRIVATE).rglob("*"))
        if path.name.endswith(ENDINGS) and path.is_file()
        for steps, says in _within(_read(path), student, ())
    ]


def _read(path: Path) -> Any:
    try:
        content = path.read_bytes()
        return msgspec.json.decode(gzip.decompress(content) if path.name.endswith(".gz") else content)
    except (EOFError, ValueError, gzip.BadGzipFile) as error:  # msgspec's errors are ValueErrors
        raise DamagedError(
            f"{path} cannot be read ({type(error).__name__}): put it back from a backup, since it may hold the student"
        ) from None


def _within(value: Any, student: int, steps: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(value, dict):
        for name, item in value.items():
            if name == str(student):
                yield steps, _said(item)
            else:
                yield from _within(item, student, (*steps, name))
    elif isinstance(value, list):
        if student in _ids(value):
            yield steps, ""
        for item in value:
            if isinstance(item, list) and student in _ids(item):
                yield steps, ", ".join(str(beside) for beside in value if isinstance(beside, (str, int, float)))
            else:
                yield from _within(item, student, steps)


def _ids(value: list[Any]) -> list[int]:
    """A list's numbers, if it holds nothing else."""
    return value if all(type(item) is int for item in value) else []


def _said(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
