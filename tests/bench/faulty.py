"""What each tool loses when the service misbehaves on its second night, on a small school.

The first night is sound. On the second, either one page of students is empty each time it is asked for, or a student on
page 1 leaves while later pages are read, so that another one moves to a page that was read already.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from pathlib import Path

from pipelines.sandbox.institution import Institution
from tests.bench.meter import RunError
from tests.bench.service import KEY
from tests.bench.tools import Tool
from tests.bench.truth import Loss, loss
from tests.support.wire import faults
from tests.support.wire.service import Asked, Service

STUDENTS = 1000
_PAGE = 6  # the page that is empty, or that begins later than it did

Fault = Callable[[Service], None]


@dataclass(frozen=True)
class Outcome:
    """What a tool's table lacked after the faulty night, and whether the tool said that something was wrong."""

    loss: Loss
    said: bool


def empty_page(service: Service) -> None:
    """One page has no records, though its pagination is right."""
    service.on(faults.empty(), path="students", page=_PAGE, times=None)


def moved_record(service: Service) -> None:
    """A student of page 1 leaves while page 6 is asked for: the first student of page 6 is now on page 5."""

    def before(asked: Asked) -> None:
        if asked.path == "students" and asked.page == _PAGE:
            service.before = None
            del service.students[10]

    service.before = before


FAULTS: dict[str, Fault] = {"empty": empty_page, "moved": moved_record}


def outcomes(tools: Iterable[Tool], days: tuple[date, date]) -> dict[tuple[str, str], Outcome | str]:
    """Play each fault with each tool; by the tool's name and the fault's. A tool that fails has its words instead."""
    return {(tool.name, name): _played(tool, fault, days) for tool in tools for name, fault in FAULTS.items()}


def _played(tool: Tool, fault: Fault, days: tuple[date, date]) -> Outcome | str:
    school = Institution(STUDENTS, quiet=True)
    first, second = (school.on(day) for day in days)
    with tempfile.TemporaryDirectory() as made, Service(first.students, first.classes, key=KEY) as service:
        folder = Path(made)
        try:
            service.now = lambda: datetime.combine(days[0], time(20), UTC)
            tool.night(service.url, KEY, folder, days[0])
            service.now = lambda: datetime.combine(days[1], time(20), UTC)
            service.students, service.classes = list(second.students), list(second.classes)
            fault(service)
            ran = tool.night(service.url, KEY, folder, days[1])
        except RunError as error:
            return str(error)
        found = loss([student["id"] for student in service.students], tool.current(folder))
        return Outcome(found, said=not ran.said.get("proven", True))
