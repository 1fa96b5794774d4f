"""Faults elsewhere than in the students' walk: in the auth check, the classes' walk and the searches (G2)."""

from __future__ import annotations

import pytest

from pipelines.errors import KeyRefusedError
from tests.fault_matrix.cell import Cell
from tests.fault_matrix.expected import (
    CLASS_PAGES,
    CLASS_SEARCHES,
    FINAL,
    LISTS,
    PLACES,
    REST,
    STUDENT_SEARCHES,
    TO_STUDENTS,
    TRANSIENT,
)
from tests.support.nights import TRIES, pages
from tests.support.wire import faults
from tests.support.wire.service import Bend

pytestmark = pytest.mark.timeout(120)

AUTH_TRANSIENT = ("connection refused", "connection reset", "500", "200 with half a JSON", "200 with another envelope")


@pytest.mark.parametrize("name", AUTH_TRANSIENT)
def test_a_fault_of_the_auth_check_that_passes(cell: Cell, name: str) -> None:
    seen = TRANSIENT[name].seen
    cell.on(TRANSIENT[name].bend, path="auth")
    cell.synced(["auth", *["auth"] * seen, *pages("students", 1, 2, 3), *REST], unseen=1 - seen, retries=1)


@pytest.mark.parametrize("name", AUTH_TRANSIENT)
def test_a_fault_of_the_auth_check_that_stays(cell: Cell, name: str) -> None:
    fault = TRANSIENT[name]
    cell.on(fault.bend, path="auth", times=None)
    cell.failed(fault.error, ["auth"] * fault.tries * fault.seen)


@pytest.mark.parametrize("name", ["success false", "401", "a redirect"])
def test_a_refusal_of_the_auth_check(cell: Cell, name: str) -> None:
    cell.on(FINAL[name].bend, path="auth")
    cell.failed(FINAL[name].error, ["auth"])


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_classes_are_walked_by_the_same_rules(cell: Cell, place: int) -> None:
    """The page comes cut short, then empty, which spoils the walk; the next walk is good."""
    cell.on(faults.not_json(), path="classes", page=place)
    cell.on(faults.empty(), path="classes", page=place, skip=1)
    walked = pages("classes", *sorted([1, 2, 3, place]))
    searches = [*STUDENT_SEARCHES, *CLASS_SEARCHES]
    cell.synced([*TO_STUDENTS, *walked, *CLASS_PAGES, *searches], walks=3, retries=1)


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_classes_that_stay_spoiled_remove_no_class(cell: Cell, place: int) -> None:
    cell.on(faults.stated(page=9), path="classes", page=place, times=None)
    cell.unproven(
        [*TO_STUDENTS, *CLASS_PAGES * 3, *STUDENT_SEARCHES],
        cell.expected(unproven=["classes"]),
        "classes",
        verified=1,
        removed=1,
    )


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("name", ["connection reset", "200 with another envelope"])
def test_classes_that_cannot_be_read_fail_the_sync(cell: Cell, name: str, place: int) -> None:
    fault = TRANSIENT[name]
    cell.on(fault.bend, path="classes", page=place, times=None)
    cell.failed(fault.error, [*TO_STUDENTS, *pages("classes", *range(1, place), *[place] * TRIES)])


# --- searches --------------------------------------------------------------------------------------------------------

REFERENCE, EMAIL = STUDENT_SEARCHES
# What the service answers to every search for the student who is gone, and what it then was asked.
UNCLEAR: dict[str, tuple[Bend, int]] = {
    "connection reset": (faults.reset(), TRIES),
    "500": (faults.status(500), TRIES),
    "a page for people": (faults.html(), TRIES),
    "success false": (faults.unsuccessful(), 1),
    "the contract's error body": (faults.refused(400, "NO_SEARCH"), 1),
    "a redirect": (faults.redirect("https://elsewhere.example/"), 1),
    "another page number": (faults.stated(page=9), 3),
    "fewer than stated": (faults.stated(total_count=1, total_pages=1), 3),
}


@pytest.mark.parametrize("name", UNCLEAR)
def test_without_a_clean_answer_nobody_is_removed(cell: Cell, name: str) -> None:
    bend, times = UNCLEAR[name]
    cell.on(bend, search=True, times=None)
    cell.unproven(
        [*LISTS, *[REFERENCE] * times, *[EMAIL] * times, *CLASS_SEARCHES],
        cell.expected(unproven=["students"]),
        "students",
        verified=2,
        removed=1,
    )


@pytest.mark.parametrize("name", ["connection reset", "success false", "a redirect", "another page number"])
def test_one_clean_answer_is_enough_to_remove(cell: Cell, name: str) -> None:
    bend, times = UNCLEAR[name]
    cell.on(bend, search=True, times=times)
    searches = [*[REFERENCE] * times, EMAIL, *CLASS_SEARCHES]
    cell.synced([*LISTS, *searches])


@pytest.mark.parametrize("name", ["connection reset", "503, Retry-After as a date", "200 with half a JSON"])
def test_a_fault_of_a_search_that_passes(cell: Cell, name: str) -> None:
    cell.on(TRANSIENT[name].bend, search=True)
    cell.synced([*LISTS, REFERENCE, *STUDENT_SEARCHES, *CLASS_SEARCHES], retries=1)


def test_a_key_refused_at_a_search_fails_the_sync(cell: Cell) -> None:
    cell.on(FINAL["401"].bend, search=True)
    cell.failed(KeyRefusedError, [*LISTS, REFERENCE])
