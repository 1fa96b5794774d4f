"""One approval may merge parts of what is held; the rest stays held (G3), and a rebuild gives the same (G7)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rollbook.cli import app
from rollbook.errors import ArgumentError, HeldError
from rollbook.landing.manifest import PARTS, Verdict
from rollbook.night import past
from rollbook.night.past import always
from rollbook.night.writing import writer
from rollbook.operations import approvals
from rollbook.operations.discard import discard
from rollbook.operations.known import rebuild_as_known_on
from rollbook.operations.provenance import trace
from rollbook.operations.status import load_status
from rollbook.util import machine
from tests.support.nights import Expected, House, approve_held, new_house, night
from tests.support.processes.commands import dagster_home
from tests.support.reading import rows
from tests.support.records import Records, classes, school_class, student, students
from tests.support.tiers import daily
from tests.support.warehouses.holds import is_held

Lists = tuple[Records, Records]

FIRST: Lists = (students(40), classes(12))
# Leavers, changes of all that are left, newcomers; a class less in a student's record, and no word on the activity.
SECOND: Lists = (
    [
        *(student(i, name=f"Renamed {i}", classes=[]) for i in range(1, 20)),
        student(20, activity_tracking=None),
        *students(3, first=50),
    ],
    [school_class(i, class_room="C 3") for i in range(501, 505)] + [school_class(600)],
)
# A part alone, all but a part, and two of different sets.
SUBSETS = [
    *(frozenset(chosen) for size in (1, 3) for chosen in combinations(PARTS, size)),
    frozenset({"students:listed", "classes:removed"}),
]


@pytest.fixture(scope="module")
def held() -> Iterator[Path]:
    """Held on the second night. To be copied, not changed."""
    with new_house() as house:
        house.night(1, *FIRST)
        house.service.classes = SECOND[1]
        is_held(house, 2, SECOND[0])
        yield house.warehouse


@pytest.fixture
def house(held: Path) -> Iterator[House]:
    """That warehouse, as the test's own."""
    with new_house(*SECOND) as house:
        shutil.copytree(held, house.warehouse, symlinks=True)
        yield house.at(2)


def expected(*parts: str) -> Expected:
    """The expected tables once some parts count: what is not listed, and what the listed records state."""
    return add(Expected().night(1, *FIRST), *parts)


def add(to: Expected, *parts: str) -> Expected:
    """Add the second night, of which some parts count: other records count as refused, other sets as unproven."""
    ids = {"students": [r["id"] for r in SECOND[0]], "classes": [r["class_id"] for r in SECOND[1]]}
    refused = [i for name, of in ids.items() if f"{name}:listed" not in parts for i in of]
    return to.night(2, *SECOND, refused=refused, unproven=[n for n in ids if f"{n}:removed" not in parts])


@pytest.mark.parametrize("parts", daily(SUBSETS, SUBSETS[0], SUBSETS[-1]), ids=lambda parts: ", ".join(sorted(parts)))
def test_each_choice_of_parts_merges_alone_and_the_rest_later(house: House, parts: frozenset[str]) -> None:
    done = approve_held(house.at(3).rollbook(), only=parts, reason="the leavers are known")
    assert (done.manifest.verdict, done.manifest.parts) == (Verdict.HELD, parts)
    there = expected(*parts).tables()
    assert house.tables() == there
    assert [findings for findings in house.examined().values() if findings] == []
    assert house.query("SELECT outcome FROM ops.syncs ORDER BY snapshot_date") == [("synced",), ("held",)]
    sets = house.query("FROM ops.sync_sets")
    past.rebuild(house.rollbook(), confirm=always)
    assert house.tables() == there
    assert house.query("FROM ops.sync_sets") == sets
    rest = approve_held(house.rollbook())
    assert (rest.manifest.verdict, rest.manifest.parts) == (Verdict.APPROVED, frozenset())
    assert house.tables() == expected(*PARTS).tables()
    assert house.service.requests == []


def test_parts_that_are_approved_one_after_the_other_are_all_of_it(house: House) -> None:
    for number, part in enumerate(PARTS, start=1):
        approve_held(house.rollbook(), only=[part])
        assert house.tables() == expected(*PARTS[:number]).tables()
    (manifest,) = house.landings(night(2))
    assert (manifest.verdict, len(manifest.approvals)) == (Verdict.APPROVED, 4)
    with pytest.raises(ArgumentError, match="Nothing is held"):
        house.approve()


def test_a_writer_killed_after_the_approval_is_made_up_for(house: House) -> None:
    rollbook = house.rollbook()
    for part in ("students:removed", "classes:listed"):  # the second landing is of a day that counts already
        (held,) = approvals.to_approve(rollbook)
        rollbook.raw.record_approval(approvals.approval(rollbook, held, [part]).applied_to(held))
        with writer(house.rollbook()):
            pass
    assert house.tables() == expected("students:removed", "classes:listed").tables()


def test_a_later_landing_of_the_day_overlays_it_and_ends_the_hold(house: House) -> None:
    approve_held(house.rollbook(), only=["students:removed"])
    back: Lists = ([*students(24), student(60)], classes(12))
    house.night(2, *back, fresh=True)
    assert house.tables() == expected("students:removed").night(2, *back).tables()
    with pytest.raises(ArgumentError, match="Nothing is held"):
        house.approve()


def test_a_day_that_counts_in_part_is_not_taken_for_synced(house: House) -> None:
    approve_held(house.rollbook(), only=["students:removed", "classes:removed"])
    with pytest.raises(HeldError):
        house.sync(over={"cache_minutes": 5})
    assert len(house.landings(night(2))) == 2


def test_it_is_a_function_of_its_landing_whatever_becomes_of_other_days(house: House) -> None:
    approve_held(house.rollbook(), only=["students:listed"])
    discard(house.rollbook(), night(1), reason="another school", confirm=always)
    assert house.tables() == add(Expected(), "students:listed").tables()


def test_approvals_of_parts_are_recorded_with_the_person(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "login", lambda: "sam")
    approve_held(house.at(3).rollbook(), only=["students:removed"], reason="the leavers are known")
    approve_held(house.at(4).rollbook(), only=["classes:listed"])
    (hold,) = load_status(house.rollbook()).holds
    assert hold.reason.endswith("; merged of it: classes:listed, students:removed")
    held = hold.reason.partition("; merged")[0]
    lines = trace(house.warehouse, "students", (30,)).lines
    assert [line for line in lines if line[0] in ("row", "approved")] == [
        ("row", "students 30: removed on 2026-11-21"),
        (
            "approved",
            "landing 1 of 2026-11-21, at 2026-11-22 02:15 UTC by sam; students:removed; the leavers are known;"
            f" held because {held}",
        ),
        ("approved", f"landing 1 of 2026-11-21, at 2026-11-23 02:15 UTC by sam; classes:listed; held because {held}"),
    ]
    # Student 1 is listed by that landing, but the statement about the student does not count.
    assert dict(trace(house.warehouse, "students", (1,)).lines)["row"] == "students 1: since 2026-11-20"
    out = house.warehouse.with_name("then.duckdb")
    rebuild_as_known_on(house.rollbook(), night(3), out)
    assert rows(out, "SELECT COUNT(*) FROM students") == [(20,)]
    then = expected("students:removed").tables()["main.classes"]
    assert sorted(rows(out, "FROM classes"), key=repr) == then


def test_the_command_merges_a_part_says_so_and_records_why(
    house: House, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in (house.environment() | {"DAGSTER_HOME": str(dagster_home(tmp_path)), "COLUMNS": "300"}).items():
        monkeypatch.setenv(name, value)
    only = ("sync", "--only", "students:removed,classes:removed")
    refused = CliRunner().invoke(app, [*only, "--date", str(night(2))])
    assert isinstance(refused.exception, ArgumentError)
    assert refused.exception.message == "--all, --only and --yes are about an approval: add --approve"
    nothing = CliRunner().invoke(app, ["sync", "--approve", "--only", ""])  # `--only "$PARTS"` without PARTS: not all
    assert isinstance(nothing.exception, ArgumentError)
    assert nothing.exception.message.startswith("Parts of what was held are students:removed")
    assert nothing.stdout == ""
    done = CliRunner().invoke(
        app, [*only, "--approve", "--yes", "--reason", "the leavers are known"], catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    assert "Only students:removed, classes:removed of it is merged; the rest stays held." in done.stdout
    assert f"Approved in part {night(2)}: students:removed, classes:removed. Readers have that now." in done.stdout
    assert "Still held: classes:listed, students:listed." in done.stdout
    assert house.tables() == expected("students:removed", "classes:removed").tables()
    (approval,) = house.landings(night(2))[-1].approvals
    assert (approval.parts, approval.reason) == (("classes:removed", "students:removed"), "the leavers are known")


def test_a_part_that_there_is_not_is_refused(house: House) -> None:
    before = house.state()
    choose = "Parts of what was held are students:removed, students:listed, classes:removed, classes:listed: choose"
    with pytest.raises(ArgumentError, match=choose):
        approve_held(house.rollbook(), only=["students:added"])
    assert house.state() == before
