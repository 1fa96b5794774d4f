"""The first night and the next one of every tool, each between two bare walks over the same pages; and the tables.

Timings on shared machines drift, so each is a ratio to the mean of the walks before and after it, in the same run.
Rollbook is measured in several rounds, of which the median is shown; a peer in the first one only.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

from rich.table import Table

from pipelines.sandbox.institution import Institution
from tests.bench.faulty import FAULTS, Outcome
from tests.bench.faulty import STUDENTS as FAULTY_STUDENTS
from tests.bench.meter import Ran, RunError, run
from tests.bench.service import KEY, Remote, remote, school
from tests.bench.tools import BARE, ROLLBOOK, Tool
from tests.bench.truth import Changes, changed, loss

CPUINFO = Path("/proc/cpuinfo")


@dataclass(frozen=True)
class Night:
    """What one night of one tool cost. `ratio` is to the bare walk, `walk` the seconds of that."""

    ratio: float
    walk: float
    ran: Ran


@dataclass
class Measured:
    """The nights of one tool, one entry a round, and what it left. `failed` says in words why it has no more."""

    tool: Tool
    first: list[Night] = field(default_factory=list)
    next: list[Night] = field(default_factory=list)
    bytes: int = 0
    written: int | None = None
    left: int = 0
    failed: str = ""

    @property
    def peak_mb(self) -> float:
        """The most memory that its processes took together, in any night."""
        return max((n.ran.peak_mb for n in (*self.first, *self.next)), default=0.0)


@dataclass
class Nightly:
    """All that was measured, the bare walks included, and the true changes between the two days."""

    students: int
    rounds: int
    tools: list[Measured]
    walks: list[Ran] = field(default_factory=list)
    truth: Changes = field(default_factory=lambda: Changes(0, 0))


def school_days() -> tuple[date, date]:
    """Return the last Tuesday and Wednesday: on a weekend little happens."""
    today = datetime.now(UTC).date()
    wednesday = today - timedelta(days=(today.weekday() - 2) % 7)
    return wednesday - timedelta(days=1), wednesday


def measured(
    students: int, rounds: int, tools: Sequence[Tool], problems: Mapping[str, str], *, lively: bool = False
) -> Nightly:
    """Play the two nights with every tool that has no problem. A peer that fails plays no more; Rollbook must not fail.

    `tools` begins with Rollbook.
    """
    found = Nightly(students, rounds, [Measured(tool, failed=problems.get(tool.name, "")) for tool in tools])
    days = school_days()
    listed = set(school(students, lively=lively).on(days[1]).student_ids)
    with remote(students, days[0], lively=lively) as service:
        for number in range(rounds):
            with tempfile.TemporaryDirectory() as made:
                playing = found.tools[:1] if number else found.tools
                for day in days:
                    service.play(day)
                    _walk(service)  # the service makes its pages on first sight
                    _play(found.walks, playing, service, Path(made), day, is_first=day == days[0])
                for each in playing:
                    if each.next:
                        _look_at(each, Path(made) / each.tool.name, days[1], listed)
    found.truth = _truth(school(students, lively=lively), days)
    return found


def _play(
    walks: list[Ran], playing: Iterable[Measured], service: Remote, made: Path, day: date, *, is_first: bool
) -> None:
    """Run one night of each tool between two bare walks."""
    walks.append(_walk(service))
    for each in playing:
        if each.failed:
            continue
        folder = made / each.tool.name
        folder.mkdir(exist_ok=True)
        try:
            ran = each.tool.night(service.base_url, KEY, folder, day)
        except RunError as error:
            if each.tool is ROLLBOOK:
                raise
            each.failed = str(error)
            continue
        walks.append(_walk(service))
        walk = (walks[-2].said["seconds"] + walks[-1].said["seconds"]) / 2
        own = ran.said["seconds"] - ran.said.get("searching", 0.0)
        (each.first if is_first else each.next).append(Night(own / walk, walk, ran))


def _look_at(each: Measured, folder: Path, day: date, listed: set[int]) -> None:
    """Note what a tool left after the second night."""
    each.bytes, each.written = size(folder), each.tool.written(folder, day)
    each.left = loss(listed, each.tool.current(folder)).left


def _walk(service: Remote) -> Ran:
    return run([sys.executable, str(BARE), service.base_url], KEY)


def _truth(institution: Institution, days: tuple[date, date]) -> Changes:
    """Compare the school's own records of both days, one by one."""
    before, after = (institution.on(day) for day in days)
    of_students = changed(before.student_records(), after.student_records(), "id")
    of_classes = changed(before.class_records(), after.class_records(), "class_id")
    return Changes(of_students.anything + of_classes.anything, of_students.tracked + of_classes.tracked)


def size(folder: Path) -> int:
    """Bytes on disk under a folder, a file with several names counted once."""
    stats = [p.stat() for p in folder.rglob("*") if p.is_file()]
    return sum({(s.st_dev, s.st_ino): s.st_size for s in stats}.values())


# -- the tables --------------------------------------------------------------------------------------------------------


def compared(found: Nightly, outcomes: Mapping[tuple[str, str], Outcome | str]) -> Table:
    """Return one row per tool, and beneath it what the columns mean and why a tool failed."""
    table = Table(
        title=f"{found.students:,} students; nights as multiples of the bare walk; rounds of Rollbook: {found.rounds}",
        caption="\n".join([*_meanings(found.truth), *_failures(found, outcomes)]),
        caption_justify="left",
    )
    table.add_column("")
    costs = ("first night", "next night", "peak MB", "disk MB")
    for heading in (*costs, "versions", "left, listed", "lost: empty page", "lost: moved"):
        table.add_column(heading, justify="right")
    walk, peak = median(ran.said["seconds"] for ran in found.walks), max(ran.peak_mb for ran in found.walks)
    table.add_row("bare walk", f"1 ({walk:.2f} s)", "1", _mb(peak))
    for each in found.tools:
        nights = [_ratio(each.first), _ratio(each.next), _mb(each.peak_mb) if each.first else ""]
        lost = [_lost(outcomes.get((each.tool.name, fault), "")) for fault in FAULTS]
        table.add_row(each.tool.title, *nights, *_left(each), *lost)
    return table


def _meanings(truth: Changes) -> list[str]:
    return [
        "disk: all that it left after both nights. Rollbook's has the bodies as received, and the night before's file.",
        f"versions: students and classes that got a new version the next night. {truth.anything:,} are new or differ "
        f"in anything, most only in days_since_last_activity; {truth.tracked:,} differ in anything else.",
        "left, listed: students who left on the next night and are current in its tables all the same.",
        f"lost: of {FAULTY_STUDENTS:,} students, those missing from its current table after a second night on which a "
        "page of 100 came empty, or one moved to a page that was read already; and whether it said so. A row of the "
        "first night that is still there is not missing.",
    ]


def _failures(found: Nightly, outcomes: Mapping[tuple[str, str], Outcome | str]) -> list[str]:
    """Return a sentence for each failure."""
    titles = {each.tool.name: each.tool.title for each in found.tools}
    of_nights = [f"{each.tool.title}: {each.failed}" for each in found.tools if each.failed]
    of_faults = [f"{titles[name]}, lost ({fault}): {o}" for (name, fault), o in outcomes.items() if isinstance(o, str)]
    return [*of_nights, *of_faults]


def _ratio(nights: Sequence[Night]) -> str:
    if not nights:
        return "failed"
    ratios = sorted(night.ratio for night in nights)
    spread = f" ({ratios[0]:.1f} to {ratios[-1]:.1f})" if len(ratios) > 1 else ""
    return f"{median(ratios):.1f}{spread}"


def _left(each: Measured) -> list[str]:
    if not each.next:
        return ["", "", ""]
    written = "no history" if each.written is None else f"{each.written:,}"
    return [f"{each.bytes / 1e6:.1f}", written, f"{each.left:,}"]


def _lost(outcome: Outcome | str) -> str:
    if isinstance(outcome, str):
        return "failed"
    if outcome.said:
        return f"{outcome.loss.lost:,}, said so"
    return f"{outcome.loss.lost:,}, silent" if outcome.loss.lost else "0"


def _mb(peak: float) -> str:
    return f"{peak:,.0f}" if peak else "not measured"


def details(found: Nightly) -> Table:
    """Return where Rollbook's own seconds go, as medians."""
    table = Table(title="Rollbook's seconds; searches that verify absences are not in the nights above")
    for heading in ("", "all", "searching", "last byte to published", "as a multiple", "and the page"):
        table.add_column(heading, justify="right" if heading else "left")
    own = found.tools[0]
    for title, nights in (("first night", own.first), ("next night", own.next)):
        said: list[dict[str, Any]] = [night.ran.said for night in nights]
        table.add_row(
            title,
            f"{median(s['seconds'] for s in said):.2f}",
            f"{median(s['searching'] for s in said):.2f}",
            f"{median(s['after'] for s in said):.2f}",
            f"{median(n.ran.said['after'] / n.walk for n in nights):.2f}",
            f"{median(s['whole'] - s['seconds'] for s in said):.2f}",
        )
    return table


def machine() -> str:
    """Return the date and the machine in a line, for who quotes the figures."""
    models: list[str] = []
    with suppress(OSError):
        models = [line.partition(":")[2].strip() for line in CPUINFO.read_text().splitlines() if "model name" in line]
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores{f' ({models[0]})' if models else ''}, {memory:.0f} GB, "
        f"{platform.system()}, Python {platform.python_version()}"
    )
