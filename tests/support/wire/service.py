"""The sandbox's service over scripted records, as every test that fetches has it: with a key and a school of its own.

with Service(students(250), classes(3)) as service:
    service.on(faults.status(500), path="students", page=2, times=2)
    ...
    assert [r.page for r in service.asked("students")] == [1, 2, 2, 2, 3]
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pipelines import sandbox
from pipelines.sandbox import Asked, Bend, Reply, error_reply

__all__ = ["KEY", "Asked", "Bend", "Reply", "Service", "error_reply"]

KEY = "k3y-of-the-made-up-school"


class Service(sandbox.Service):
    """A service of these students and classes, on a free port of loopback until its block is left."""

    def __init__(
        self, students: Iterable[dict[str, Any]] = (), classes: Iterable[dict[str, Any]] = (), **over: Any
    ) -> None:
        school = {"id": 41, "name": "Made-up School", "key": "made-up-school"}
        super().__init__(students, classes, **{"key": KEY, "school": school, **over})

    def hide(self, *ids: int) -> None:
        """Leave these students out of the list, though a search finds them."""

        def bend(asked: Asked, reply: Reply) -> Reply:
            return self.listed(asked, [s for s in self.students if s["id"] not in ids])

        self.on(bend, path="students", times=None)

    def asked(self, path: str, *, search: bool = False) -> list[Asked]:
        """The requests for one path so far: its searches, or everything else."""
        return [r for r in self.requests if r.path == path and (r.search is not None) == search]
