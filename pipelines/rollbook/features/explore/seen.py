"""Whom each reader sees, for the one who writes `readers.csv`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rollbook.features.explore import readers
from rollbook.features.explore.readers import ALL, TEACHER, plain
from rollbook.features.explore.scope import Night
from rollbook.store.published import PUBLISHED, check_is_there
from rollbook.store.warehouse import BUILD


@dataclass(frozen=True)
class Seen:
    """A login, what it may see, how many students and classes that is, and what is wrong with it."""

    login: str
    sees: list[str]
    students: int
    classes: int
    problems: list[str]


def seen(warehouse: Path, *, teachers: bool) -> Iterator[Seen]:
    """Each login of readers.csv, and with `teachers` each teacher's email, by the newest published file.

    Raises SettingError for a file that cannot be read, and NothingLandedError before the first publish.
    """
    lines = readers.read(warehouse / readers.FILE)
    check_is_there(warehouse / PUBLISHED)
    night = Night((warehouse / PUBLISHED).resolve(), warehouse / BUILD)
    try:
        emails = {plain(email) for (email,) in night.whole("SELECT DISTINCT teacher_email FROM main.classes") if email}
        for login in [*lines, *(sorted(emails - lines.keys()) if teachers else ())]:
            said = lines.get(login, {})
            sees = frozenset(said) | ({TEACHER} if teachers and login in emails else frozenset())
            scope = night.scope(login, sees)
            problems = [f"line {said[each]}: {_why(each)}" for each in scope.missing if each in said]
            students, classes = len(scope.students), len(scope.classes)
            if ALL in sees:
                ((students, classes),) = night.whole(
                    "SELECT (SELECT COUNT(*) FROM main.students), (SELECT COUNT(*) FROM main.classes)"
                )
            yield Seen(login, sorted(sees), students, classes, problems)
    finally:
        night.close()


def _why(line: str) -> str:
    """Why a line leads to nobody."""
    if line == TEACHER:
        return "no class has this login as its teacher's email"
    column, _, value = line.partition("=")
    return f"no student has {value} as {column} in a list of the school's own"
