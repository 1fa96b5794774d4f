"""Every fault a service can have, alone, at the first, a middle and the last page of the students' walk.

Each cell says the outcome (synced, synced without removals, failed), the tables afterwards, row by row, and the
requests that the service saw, in order (promises 1, 2, 9 and 13).
"""

from __future__ import annotations

from itertools import pairwise

import pytest

from pipelines.errors import RefusedError, UnreachableError
from tests.fault_matrix.cell import Cell
from tests.fault_matrix.expected import (
    CLASS_PAGES,
    CLASS_SEARCHES,
    FINAL,
    ODD,
    ODD_AT_ONCE,
    PLACES,
    REST,
    ROWS,
    SPOILS,
    TO_STUDENTS,
    TRANSIENT,
    at_places,
)
from tests.support.nights import pages
from tests.support.records import student
from tests.support.wire import faults
from tests.support.wire.service import Service

pytestmark = pytest.mark.timeout(120)

# Each of them spoils a walk of the same night, at the first or the last page, together with its neighbour in the table;
# first every other pair, which are all of them once.
SPOILED_TWICE = [
    pytest.param(one, other, PLACES[place], id=f"{one} + {other}, {place} page")
    for place in ("first", "last")
    for neighbours in [list(pairwise([n for n, fault in SPOILS.items() if place in fault.places]))]
    for one, other in neighbours[::2] + neighbours[1::2]
]


def test_a_night_without_a_fault(cell: Cell) -> None:
    cell.synced([*TO_STUDENTS, *REST], retries=0, walks=2)


@pytest.mark.parametrize(("name", "place"), at_places(ROWS))
def test_faults_in_a_row_leave_no_trace_in_the_tables(cell: Cell, name: str, place: int) -> None:
    """Each is asked again about, at any place and after any other."""
    if "no answer in time" in ROWS[name]:
        cell.impatient()
    seen = 0
    for fault in (TRANSIENT[n] for n in ROWS[name]):
        cell.on(fault.bend, page=place, skip=seen)
        seen += fault.seen
    requests = ["auth", *pages("students", *sorted([1, 2, 3, *[place] * seen])), *REST]
    tried = len(ROWS[name])
    cell.synced(requests, unseen=tried - seen, retries=tried, walks=2)


def test_every_fault_that_may_pass_is_in_a_row() -> None:
    assert sorted(n for names in ROWS.values() for n in names) == sorted(TRANSIENT)


@pytest.mark.parametrize(("name", "place"), at_places(TRANSIENT))
def test_a_fault_that_stays_fails_the_sync_and_readers_keep_last_night(cell: Cell, name: str, place: int) -> None:
    fault = TRANSIENT[name]
    if name == "no answer in time":
        cell.impatient()
    cell.on(fault.bend, page=place, times=None)
    cell.failed(
        fault.error, ["auth", *pages("students", *range(1, place), *[place] * (fault.tries if fault.seen else 0))]
    )


@pytest.mark.parametrize("stays", [False, True], ids=["once", "always"])
@pytest.mark.parametrize(("name", "place"), at_places(FINAL))
def test_a_refusal_fails_the_sync_at_once(cell: Cell, name: str, place: int, stays: bool) -> None:
    fault = FINAL[name]
    cell.on(fault.bend, page=place, times=None if stays else 1)
    error = cell.failed(fault.error, ["auth", *pages("students", *range(1, place + 1))])
    if isinstance(error, RefusedError):
        assert (error.status, error.error_code) == (fault.status, fault.code)


@pytest.mark.parametrize("code", [400, 404, 410, 416, 422])
def test_a_refused_first_page_is_not_the_end_of_the_set(cell: Cell, code: int) -> None:
    cell.on(faults.refused(code, "NO_SUCH_PAGE"), page=1)
    cell.failed(RefusedError, ["auth", "students 1"])


@pytest.mark.parametrize(("one", "other", "place"), SPOILED_TWICE)
def test_walks_spoiled_in_two_ways_are_repeated_and_proven(cell: Cell, one: str, other: str, place: int) -> None:
    walks: list[int] = []
    for skip, fault in enumerate([SPOILS[one], SPOILS[other]]):
        cell.on(fault.bend(cell.service, place), page=place, skip=skip)
        walks += range(1, fault.end(place) + 1)
    cell.synced(["auth", *pages("students", *walks, 1, 2, 3), *REST], walks=4)


@pytest.mark.parametrize(("name", "place"), at_places(SPOILS, "middle"))
def test_a_walk_spoiled_once_is_repeated_and_proven(cell: Cell, name: str, place: int) -> None:
    fault = SPOILS[name]
    cell.on(fault.bend(cell.service, place), page=place)
    walks = [*range(1, fault.end(place) + 1), 1, 2, 3]
    cell.synced(["auth", *pages("students", *walks), *REST], walks=3)


@pytest.mark.parametrize(("name", "place"), at_places(SPOILS))
def test_a_set_that_stays_spoiled_adds_and_updates_and_removes_nothing(cell: Cell, name: str, place: int) -> None:
    fault = SPOILS[name]
    cell.on(fault.bend(cell.service, place), page=place, times=None)
    cell.unproven(
        ["auth", *pages("students", *[*range(1, fault.end(place) + 1)] * 3), *CLASS_PAGES, *CLASS_SEARCHES],
        cell.expected(fault.hidden(place), fault.shown, unproven=["students"]),
        "students",
        walks=4,
        verified=1,
        removed=1,
        rejected=3 * fault.rejected,
    )


@pytest.mark.parametrize("name", [*ODD_AT_ONCE, *ODD])
def test_an_oddity_of_every_page_changes_nothing(cell: Cell, name: str) -> None:
    cell.on((ODD_AT_ONCE | ODD)[name], times=None)
    cell.synced([*TO_STUDENTS, *REST], retries=0, walks=2)


def test_compressed_answers_are_as_good(cell: Cell) -> None:
    cell.service.compress = True
    cell.synced([*TO_STUDENTS, *REST])


def test_the_later_of_two_records_with_one_id_is_kept_and_the_other_counted(cell: Cell) -> None:
    """Eleven ids came as stated, so the set is proven; only the last page has room for a twelfth record."""
    later = student(12, name="Pupil Said Twice")
    cell.on(faults.over_full([later]), page=3)
    cell.synced([*TO_STUDENTS, *REST], cell.expected((12,), (later,)), repeated=1, walks=2)


def test_a_service_that_states_less_than_it_has_loses_nobody(cell: Cell) -> None:
    """Page 1 says that it is all. It adds up, and is proven; but those who vanished are asked for, and were there."""
    cell.on(faults.moved_total(-7), page=1, times=None)
    searches = []
    for vanished in (5, *range(6, 12)):
        searches += pages(f"students?R-{vanished}", 1)
        searches += pages("students?pupil.6@school.example", 1) * (vanished == 6)
    cell.synced(
        ["auth", *pages("students", 1), *CLASS_PAGES, *searches, *CLASS_SEARCHES],
        cell.expected((12,)),  # nobody knew of this one: it comes with the next whole walk
        walks=2,
        verified=8,
        slipped=6,
        removed=2,
    )


def test_a_port_where_nobody_listens_fails_the_sync(cell: Cell) -> None:
    with Service() as gone:
        nowhere = gone.url
    with pytest.raises(UnreachableError):
        cell.house.sync(over={"base_url": nowhere})
    cell.as_it_was()
