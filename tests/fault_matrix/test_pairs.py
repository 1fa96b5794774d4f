"""Two faults and more in one night, where they can meet: on a page, in a walk, in walks in turn, between sets."""

from __future__ import annotations

from itertools import combinations_with_replacement, product
from typing import Any

import msgspec
import pytest

from pipelines.errors import HeldError, NotTheContractError, UnreachableError
from pipelines.landing.manifest import Verdict
from tests.fault_matrix.cell import Cell
from tests.fault_matrix.expected import (
    CLASS_PAGES,
    CLASS_SEARCHES,
    FINAL,
    LISTS,
    ON_PAGE,
    REST,
    SPOILS,
    STUDENT_SEARCHES,
    STUDENTS_2,
    TO_STUDENTS,
    TRANSIENT,
    NoConnection,
)
from tests.support.nights import TRIES, night, pages
from tests.support.wire import faults
from tests.support.wire.service import Bend, Reply

pytestmark = pytest.mark.timeout(120)

# --- what is expected: pairs -----------------------------------------------------------------------------------------

# Of each kind, those that leave the walk in different states.
KINDS = {
    "transient": ("connection reset", "200 with another envelope"),
    "final": ("success false", "401", "a redirect"),
    "spoils": ("an empty page", "another page again", "past the end", "an id that cannot be read"),
}
# The outcome of two faults in one walk of the students, by kind, where the second meets the first; and the pages asked
# for when the first is at page 2. A transient one is followed at once by the second on the same page; a spoiled walk
# is followed by the next walk, which the second meets on its page 3.
PAIRED: dict[tuple[str, str], tuple[str, tuple[int, ...]]] = {
    ("transient", "final"): ("failed", (1, 2, 2)),
    ("transient", "spoils"): ("synced", (1, 2, 2, 3, 1, 2, 3)),
    ("spoils", "transient"): ("synced", (1, 2, 3, 1, 2, 3, 3)),
    ("spoils", "final"): ("failed", (1, 2, 3, 1, 2, 3)),
}
PAIRS = [
    pytest.param(first, second, outcome, expected, id=f"{first} + {second}")
    for (one, other), (outcome, expected) in PAIRED.items()
    for first, second in product(KINDS[one], KINDS[other])
]


def _bend(cell: Cell, name: str, place: int) -> Bend:
    if name in SPOILS:
        return SPOILS[name].bend(cell.service, place)
    bend = (TRANSIENT | FINAL)[name].bend
    assert not isinstance(bend, NoConnection)
    return bend


@pytest.mark.parametrize(("first", "second", "outcome", "expected"), PAIRS)
def test_two_faults_that_meet(cell: Cell, first: str, second: str, outcome: str, expected: tuple[int, ...]) -> None:
    at_once = first in TRANSIENT
    place = 2 if at_once else 3
    cell.on(_bend(cell, first, 2), page=2)
    # Page 3 is asked for once in the first walk, unless that ended before.
    reached = SPOILS[first].end(2) >= 3 if first in SPOILS else True
    cell.on(_bend(cell, second, place), page=place, skip=1 if at_once or reached else 0)
    walked = list(expected)
    if first == "past the end":
        walked.remove(3)
    if second == "past the end" and at_once:
        walked.remove(3)  # it was page 2 that was past the end
    requests = ["auth", *pages("students", *walked)]
    if outcome == "failed":
        cell.failed(FINAL[second].error, requests)
    else:
        cell.synced([*requests, *REST], walks=2 + (first in SPOILS) + (second in SPOILS))


@pytest.mark.slow
def test_different_faults_that_never_end_fail_the_sync(cell: Cell) -> None:
    cell.on(faults.reset(), page=2, times=TRIES - 1)
    cell.on(faults.html(), page=2, times=None, skip=TRIES - 1)
    cell.failed(NotTheContractError, ["auth", *pages("students", 1, *[2] * TRIES)])


@pytest.mark.parametrize(("one", "other"), list(combinations_with_replacement(KINDS["spoils"], 2)))
def test_three_walks_spoiled_by_turns_prove_nothing(cell: Cell, one: str, other: str) -> None:
    """`one` spoils the first and third walk at page 2, `other` the second at page 3; what any walk showed, counts."""
    cut = {name: SPOILS[name].end(2) == 2 for name in (one, other)}
    cell.on(_bend(cell, one, 2), page=2)
    cell.on(_bend(cell, other, 3), page=3, skip=0 if cut[one] else 1)
    cell.on(_bend(cell, one, 2), page=2, skip=2)
    first = [1, 2] if cut[one] else [1, 2, 3]
    hidden = set(SPOILS[one].hidden(2)) & set(SPOILS[other].hidden(3))
    cell.unproven(
        ["auth", *pages("students", *first, 1, 2, 3, *first), *CLASS_PAGES, *CLASS_SEARCHES],
        cell.expected(tuple(hidden), unproven=["students"]),
        "students",
        walks=4,
        verified=1,
        removed=1,
        rejected=2 * SPOILS[one].rejected + SPOILS[other].rejected,
    )


@pytest.mark.parametrize(
    ("one", "other"), [("a short page", "total one more"), ("an id that cannot be read", "another limit")]
)
def test_two_faults_in_one_answer_spoil_it_once(cell: Cell, one: str, other: str) -> None:
    for name in (one, other):
        cell.on(_bend(cell, name, 2), page=2)
    cell.synced(["auth", *pages("students", 1, 2, 3, 1, 2, 3), *REST], walks=3)


@pytest.mark.parametrize("how", ["a short page", "one record too many"])
def test_pages_that_only_add_up_together_prove_nothing(cell: Cell, how: str) -> None:
    """All ids came, as many as stated; but a record that changed pages while it was read could have hidden another."""
    before, after = (STUDENTS_2[7], STUDENTS_2[8])  # the last of page 2, the first of page 3
    if how == "a short page":
        cell.on(faults.short(), page=2)
        cell.on(faults.records(lambda data: [before, *data]), page=3)
    else:
        cell.on(faults.over_full([after]), page=2)
        cell.on(faults.records(lambda data: data[1:]), page=3)
    cell.synced(["auth", *pages("students", 1, 2, 3, 1, 2, 3), *REST], walks=3)


def test_a_loss_that_a_stated_total_hides_is_found_by_searching(cell: Cell) -> None:
    """The short page and the total agree, so the walk is proven; student 9, whom it did not show, is asked for."""
    cell.service.students = [s for s in STUDENTS_2 if s["id"] != 9]
    cell.on(lambda asked, reply: _result(reply, STUDENTS_2[7]), search=True, times=None, skip=2)
    searches = [*STUDENT_SEARCHES, "students?R-9 1", *CLASS_SEARCHES]
    cell.synced([*LISTS, *searches], verified=3, slipped=1)


@pytest.mark.slow
def test_both_sets_may_stay_unproven(cell: Cell) -> None:
    cell.on(faults.empty(), page=2, times=None)
    cell.on(faults.moved_total(1), path="classes", page=3, times=None)
    cell.unproven(
        ["auth", *pages("students", 1, 2, 3) * 3, *CLASS_PAGES * 3],
        cell.expected(ON_PAGE[2], unproven=["students", "classes"]),
        "students",
        "classes",
        walks=6,
        verified=0,
        removed=0,
    )


@pytest.mark.slow
def test_a_set_that_stays_spoiled_does_not_save_a_sync_that_fails_later(cell: Cell) -> None:
    cell.on(faults.empty(), page=2, times=None)
    cell.on(faults.status(500), path="classes", page=3, times=None)
    cell.failed(
        UnreachableError, ["auth", *pages("students", 1, 2, 3) * 3, *pages("classes", 1, 2), *["classes 3"] * TRIES]
    )


def test_less_stated_and_nobody_found_is_held(cell: Cell) -> None:
    """The list and the searches agree that seven of eleven are gone: nothing tells that from the truth but a person."""
    cell.on(faults.moved_total(-7), page=1, times=None)
    cell.on(faults.records(lambda data: []), search=True, times=None)
    cell.on(faults.stated(total_count=0, total_pages=0), search=True, times=None)
    with pytest.raises(HeldError) as caught:
        cell.house.sync()
    assert caught.value.exit_code == 3
    cell.as_it_was()
    (manifest,) = cell.house.landings(night(2))
    assert manifest.verdict is Verdict.HELD
    assert [(a.id, a.answer) for a in manifest.absences] == [
        *((i, "removed") for i in range(5, 12)),
        (506, "removed"),
    ]


@pytest.mark.slow
def test_less_stated_and_no_clean_answer_removes_nobody(cell: Cell) -> None:
    cell.on(faults.moved_total(-7), page=1, times=None)
    cell.on(faults.status(500), search=True, times=None)
    cell.unproven(
        [
            *["auth", *pages("students", 1), *CLASS_PAGES],
            *["students?R-5 1"] * TRIES,
            *["students?pupil.5@school.example 1"] * TRIES,  # the first without an answer ends the asking
            *CLASS_SEARCHES,
        ],
        cell.expected(tuple(range(5, 13)), unproven=["students"]),
        "students",
        verified=2,
        removed=1,
    )


def test_the_next_sync_of_the_night_makes_good_what_failed(cell: Cell) -> None:
    cell.on(faults.status(500), page=2, times=None)
    cell.failed(UnreachableError, ["auth", "students 1", *["students 2"] * TRIES])
    cell.service.mend()
    cell.service.requests.clear()
    done = cell.house.sync()
    assert (done.manifest.landing, cell.asked()) == (2, [*TO_STUDENTS, *REST])
    assert cell.house.tables() == cell.expected().tables()
    syncs = cell.house.query("SELECT landing, outcome, verdict FROM ops.syncs ORDER BY snapshot_date, landing")
    assert syncs == [(1, "synced", "synced"), (1, "failed", "failed"), (2, "synced", "synced")]


def test_the_next_sync_of_the_night_proves_what_stayed_unproven(cell: Cell) -> None:
    cell.on(faults.empty(), page=2, times=None)
    cell.house.sync()
    cell.service.mend()
    cell.house.sync()
    assert cell.house.tables() == cell.expected().tables()


def _result(reply: Reply, record: dict[str, Any]) -> Reply:
    """A search's answer that finds this record."""
    payload = msgspec.json.decode(msgspec.json.encode(reply.payload))
    payload["data"] = [record]
    payload["pagination"] |= {"total_count": 1, "total_pages": 1}
    return Reply(payload)
