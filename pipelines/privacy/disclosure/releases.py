"""Released weeks at rest: one file per week in `private/aggregates/`, written once, before anything is given away.

A file holds the week's rows as released, so that a lost folder can be written again unchanged, and the cohorts that
began in it, by student id, which later weeks must know. Only the owner may read it.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from pipelines import files
from pipelines.errors import BusyError, DamagedError
from pipelines.privacy.disclosure.cohorts import Cohort, Group

FOLDER = Path("private", "aggregates")
ENDING = ".json.gz"

COLUMNS = (
    *("week_begins", "level", "id", "name", "measure"),
    *("students", "count", "percent", "average", "members_since", "suppressed"),
)
# One cell as released: its columns by name, in order; None for a suppressed cell's values.
Row = Mapping[str, Any]


def week_name(week_begins: date) -> str:
    """The ISO week, such as `2026-W47`."""
    return f"{week_begins:%G-W%V}"


@dataclass(frozen=True)
class Release:
    """One released week. `digest` is the checksum of its input."""

    week_begins: date
    k: int
    digest: str
    rows: tuple[Row, ...]
    cohorts: tuple[Cohort, ...]

    @property
    def name(self) -> str:
        """The ISO week, such as `2026-W47`."""
        return week_name(self.week_begins)


class Releases:
    """The released weeks of one warehouse."""

    def __init__(self, root: Path) -> None:
        self.folder = root / FOLDER

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the lock for releasing. Raises BusyError if another process holds it."""
        files.folder(self.folder)
        lock = FileLock(self.folder / "lock", mode=files.PRIVATE_FILE)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise BusyError("Another `rollbook aggregates` is at work. Try again when it is done") from None
        try:
            yield
        finally:
            lock.release()

    def all(self) -> list[Release]:
        """Every released week, oldest first. Raises DamagedError for a file that cannot be read."""
        return [self._read(self.folder / name) for name in sorted(files.names(self.folder)) if name.endswith(ENDING)]

    def add(self, release: Release) -> None:
        """Store a released week. Raises FileExistsError if it was released before."""
        path = self.folder / f"{release.name}{ENDING}"
        if path.exists():
            raise FileExistsError(path)
        self._write(path, release)

    def forget(self, students: Iterable[int]) -> int:
        """Replace the ids of erased students; returns the number of weeks that changed.

        An id is replaced by a negative number, the same in all weeks: cohorts keep their size, which the protection of
        the others depends on, and the student can no longer be identified. Released figures do not change.
        """
        releases = self.all()
        known = {s for release in releases for cohort in release.cohorts for s in cohort.students}
        lowest = min((0, *known))
        names = {s: lowest - n for n, s in enumerate(sorted(set(students) & known), start=1)}
        changed = 0
        for release in releases:
            cohorts = tuple(
                replace(c, students=frozenset(names.get(s, s) for s in c.students)) for c in release.cohorts
            )
            if cohorts != release.cohorts:
                self._write(self.folder / f"{release.name}{ENDING}", replace(release, cohorts=cohorts))
                changed += 1
        return changed

    def _write(self, path: Path, release: Release) -> None:
        cohorts = [
            [c.family, c.group.level, c.group.id, c.since.isoformat(), c.k, sorted(c.students)] for c in release.cohorts
        ]
        content = {
            "week_begins": release.week_begins.isoformat(),
            "k": release.k,
            "digest": release.digest,
            "rows": [dict(row) for row in release.rows],
            "cohorts": cohorts,
        }
        files.write(path, gzip.compress(json.dumps(content).encode(), mtime=0))

    def _read(self, path: Path) -> Release:
        try:
            content = json.loads(gzip.decompress(path.read_bytes()))
            cohorts = tuple(
                Cohort(family, Group(level, number), date.fromisoformat(since), k, frozenset(students))
                for family, level, number, since, k, students in content["cohorts"]
            )
            week = date.fromisoformat(content["week_begins"])
            return Release(week, content["k"], content["digest"], tuple(content["rows"]), cohorts)
        except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
            raise DamagedError(
                f"{path.relative_to(path.parents[2])} cannot be read, and no week can be released without knowing what"
                " was released before. Put it back from a backup of the warehouse"
            ) from error
