"""What a feature holds of people."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Section:
    """The rows of a table, view or other source about the student. `name` becomes the names of the files.

    Each of `columns` has a name, a DuckDB type and a meaning.
    """

    part: str
    name: str
    meaning: str
    columns: list[dict[str, str]]
    rows: list[tuple[Any, ...]]


def _nothing(student: int) -> Sequence[Section]:  # noqa: ARG001 - the signature of `sections`
    return ()


@dataclass(frozen=True)
class PersonalData:
    """What a feature holds of people, for an erasure and for a subject access file.

    `labels` say what it counts in a certificate, by key: the counts are those that its listener adds in `erased`.
    `to_do` are sentences on what a person has to do after an erasure. `sections` returns what it holds of a student.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    to_do: tuple[str, ...] = ()
    sections: Callable[[int], Sequence[Section]] = _nothing
