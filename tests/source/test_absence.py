"""Absence is verified, never assumed (G2): whom is asked for, by which names, and what an answer means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import date
from itertools import count
from typing import Any

import pytest

from rollbook.landing.manifest import Absence, Proof, Walk
from rollbook.source.client import Client
from rollbook.source.pagination import (
    MAX_HIDDEN,
    MAX_UNCLEAR,
    Names,
    Searches,
    Verified,
    Walked,
    search_by_names,
    search_uncounted,
    verify_absence,
)
from rollbook.tables import SETS
from tests.source.asking import Kept, MakeClient
from tests.support.nights import night
from tests.support.records import MISSING, student, students
from tests.support.wire import faults
from tests.support.wire.service import Asked, Bend, Service

STUDENTS, CLASSES = SETS["students"], SETS["classes"]


@dataclass
class Current:
    """The published rows, as records of the contract."""

    students: list[dict[str, Any]]
    classes: list[dict[str, Any]]

    def vanished(self, set_name: str, received: AbstractSet[int]) -> Mapping[int, Names]:
        set_ = SETS[set_name]
        return {
            r[set_.id_field]: tuple((n, r[n]) for n in (*set_.names, *set_.last_names) if n in r)
            for r in getattr(self, set_name)
            if r[set_.id_field] not in received
        }


def walked(*received: int) -> Walked:
    """A proven walk that listed some students."""
    proof = Proof(set="students", walk=1, total_count=len(received), unique_ids=len(received), pages=1, limit=100)
    return Walked(Walk(set="students", walks=1, counted=(1,), proof=proof), set(received), ())


def searches_of(client: Client, current: Current, walks: int = 3, seconds: float = 300) -> Searches:
    """Searches for students."""
    return Searches(client, SETS["students"], current, Kept(), walks=walks, seconds=seconds)


def verified(
    client: Client, current: Current, *received: int, most: int = 200
) -> tuple[tuple[Absence, ...], tuple[int, ...]]:
    """Ask about the students who are current and were not received."""
    check = verify_absence(searches_of(client, current), walked(*received), most=most, day=night(1))
    return check.absences, check.not_asked


def searches(service: Service, path: str = "students") -> list[str | None]:
    return [r.search for r in service.asked(path, search=True)]


NAMES = (("reference_id", "R-7"), ("email", "pupil.7@school.example"))
NAMES_OF_20 = ("R-20", "pupil.20@school.example")
NAMES_OF_21 = ("R-21", "pupil.21@school.example")


# --- one record ------------------------------------------------------------------------------------------------------


def test_a_record_under_none_of_its_names_is_removed(client_of: MakeClient) -> None:
    with Service(students(5)) as service:
        sink = Kept()
        answer = search_by_names(client_of(service), STUDENTS, 7, NAMES, sink, walks=3)
        assert searches(service) == ["R-7", "pupil.7@school.example"]
    assert answer == Absence(set="students", id=7, answer="removed", asked_by=("reference_id", "email"))
    assert sink.columns("set_name", "kind", "sought", "records") == [("students", "search", 7, 0)] * 2


def test_a_record_found_by_its_first_name_is_asked_for_no_more(client_of: MakeClient) -> None:
    with Service(students(9)) as service:
        sink = Kept()
        answer = search_by_names(client_of(service), STUDENTS, 7, NAMES, sink, walks=3)
        assert searches(service) == ["R-7"]
    assert answer == Absence(set="students", id=7, answer="found_by_search", asked_by=("reference_id",))
    assert b'"id":7,' in sink.bodies[0]["content"]


def test_a_record_found_by_its_second_name_only_is_found_too(client_of: MakeClient) -> None:
    with Service([student(7, reference_id="changed")]) as service:
        answer = search_by_names(client_of(service), STUDENTS, 7, NAMES, Kept(), walks=3)
    assert answer == Absence(set="students", id=7, answer="found_by_search", asked_by=("reference_id", "email"))


UNCLEAN: dict[str, Bend] = {
    "refused": faults.refused(400, "BAD_SEARCH", "no"),
    "success false": faults.unsuccessful(),
    "silence": faults.status(503),
    "not the contract": faults.html(),
    "redirect": faults.redirect("https://elsewhere.example/"),
    "spoiled": faults.moved_total(1),
}


@pytest.mark.parametrize("name", UNCLEAN)
def test_one_clean_answer_is_enough(client_of: MakeClient, name: str) -> None:
    """G2: not found under any name that gave a clean answer."""
    with Service(students(5)) as service:
        service.on(
            lambda request, reply: UNCLEAN[name](request, reply) if request.search == "R-7" else reply,
            search=True,
            times=None,
        )
        answer = search_by_names(client_of(service), STUDENTS, 7, NAMES, Kept(), walks=2)
    assert answer == Absence(set="students", id=7, answer="removed", asked_by=("reference_id", "email"))


@pytest.mark.parametrize("name", UNCLEAN)
def test_without_a_clean_answer_nothing_is_known(client_of: MakeClient, name: str) -> None:
    with Service(students(5)) as service:
        service.on(UNCLEAN[name], search=True, times=None)
        answer = search_by_names(client_of(service), STUDENTS, 7, NAMES, Kept(), walks=2)
    assert answer == Absence(set="students", id=7, answer="unclear", asked_by=("reference_id", "email"))


@pytest.mark.parametrize("names", [(), (("reference_id", ""),), (("reference_id", "  "), ("email", ""))])
def test_a_record_without_a_name_is_unclear_and_never_searched_empty(client_of: MakeClient, names: Names) -> None:
    with Service(students(5)) as service:
        assert search_by_names(client_of(service), STUDENTS, 7, names, Kept(), walks=3) == Absence(
            set="students", id=7, answer="unclear", asked_by=()
        )
        assert service.requests == []


@pytest.mark.parametrize("code", [404, 204, 200])
def test_a_status_for_no_result_is_clean_where_the_search_works(client_of: MakeClient, code: int) -> None:
    with Service(students(9)) as service:
        service.on(faults.no_match(code), search=True, times=None)
        # Those with the lowest ids are new, or erased.
        check = verified(client_of(service), Current([*students(9), *students(2, first=20)][2:], []), *range(1, 10))
        asked = searches(service)
    assert [(a.id, a.answer) for a in check[0]] == [(20, "removed"), (21, "removed")]
    known = ("R-3", "pupil.3@school.example")
    assert asked == [s for names in (NAMES_OF_20, NAMES_OF_21) for pair in zip(names, known, strict=True) for s in pair]


def test_a_service_that_refuses_searches_after_some_says_nothing_about_the_next(client_of: MakeClient) -> None:
    asked = count(1)
    with Service(students(9)) as service:
        service.on(
            lambda *exchange: (faults.no_match if next(asked) <= 4 else faults.no_answer)(200)(*exchange),
            search=True,
            times=None,
        )
        check = verified(client_of(service), Current([*students(9), *students(2, first=20)], []), *range(1, 10))
    assert [(a.id, a.answer) for a in check[0]] == [(20, "removed"), (21, "unclear")]


@pytest.mark.parametrize("code", [404, 204, 200])
@pytest.mark.parametrize("listed", [range(1, 10), range(30, 40), ()], ids=["known", "all new", "none"])
def test_a_status_for_every_search_says_nothing(client_of: MakeClient, code: int, listed: Iterable[int]) -> None:
    with Service(students(9)) as service:
        service.on(faults.no_answer(code), search=True, times=None)
        check = verified(client_of(service), Current([*students(9), student(20)], []), *listed)
    assert {a.answer for a in check[0]} == {"unclear"}


# --- a whole set -----------------------------------------------------------------------------------------------------


def test_only_those_that_vanished_are_asked_for_in_order(client_of: MakeClient) -> None:
    with Service(students(10)) as service:
        current = Current([*students(5), student(30), student(20)], [])
        check = verified(client_of(service), current, *range(1, 11))
        assert [s for s in searches(service) if s and s.startswith("R-")] == ["R-20", "R-30"]
    fields = ("reference_id", "email")
    removed = [Absence(set="students", id=i, answer="removed", asked_by=fields) for i in (20, 30)]
    assert check == (tuple(removed), ())


def test_too_many_are_counted_and_none_is_asked_for(client_of: MakeClient) -> None:
    with Service() as service:
        client, current = client_of(service), Current(students(4), [])
        assert verified(client, current, most=3) == ((), (1, 2, 3, 4))
        assert service.requests == []
        assert len(verified(client, current, most=4)[0]) == 4


def test_a_record_without_a_name_stays_and_the_others_are_asked_for(client_of: MakeClient) -> None:
    with Service() as service:
        current = Current([student(1), student(2, reference_id=MISSING, email=MISSING, name=" "), student(3)], [])
        check = verified(client_of(service), current)
    assert [(a.id, a.answer) for a in check[0]] == [(1, "removed"), (2, "unclear"), (3, "removed")]


def test_a_full_name_is_searched_only_without_another_clean_answer(client_of: MakeClient) -> None:
    with Service([student(9, name="Anna Berg")]) as service:
        only_named = student(2, reference_id=MISSING, email=MISSING, name="Anna Berg")
        check = verified(client_of(service), Current([student(1), only_named], []), 9)
        assert searches(service) == ["R-1", "pupil.1@school.example", "Anna Berg"]
    assert [(a.id, a.answer, a.asked_by) for a in check[0]] == [
        (1, "removed", ("reference_id", "email")),
        (2, "removed", ("name",)),
    ]


def test_three_unclear_answers_in_a_row_end_the_asking(client_of: MakeClient) -> None:
    with Service(students(2)) as service:
        service.on(
            lambda request, reply: UNCLEAN["spoiled"](request, reply) if "9" not in str(request.search) else reply,
            search=True,
            times=None,
        )
        check = verified(client_of(service), Current(students(9, first=11), []), 1, 2)
        asked = {search for search in searches(service) if search and search.startswith("R-")}
    assert MAX_UNCLEAR == 3
    assert asked == {"R-11", "R-12", "R-13"}
    assert {a.answer for a in check[0]} == {"unclear"}
    assert [a.asked_by for a in check[0]][2:] == [("reference_id", "email", "name"), *([()] * 6)]


def test_a_clear_answer_in_between_keeps_the_asking_up(client_of: MakeClient) -> None:
    with Service(students(2)) as service:
        service.on(
            lambda request, reply: reply if "1" in str(request.search) else UNCLEAN["spoiled"](request, reply),
            search=True,
            times=None,
        )
        unnamed = [student(n, reference_id=f"R{n}", email=MISSING, name="P") for n in (22, 23, 31, 32, 33, 41)]
        check = verified(client_of(service), Current(unnamed, []), 1, 2)
    assert [(a.id, a.answer) for a in check[0]] == [
        *((22, "unclear"), (23, "unclear"), (31, "removed"), (32, "unclear"), (33, "unclear"), (41, "removed")),
    ]


def test_unanswered_searches_end_after_the_time_of_one_request(client_of: MakeClient) -> None:
    with Service(students(2)) as service:
        service.on(faults.status(503), search=True, times=None)
        asking = searches_of(client_of(service), Current(students(9, first=11), []), seconds=0)
        check = verify_absence(asking, walked(1, 2), most=200, day=night(1))
        assert set(searches(service)) == {"R-11", "pupil.11@school.example", "Pupil Number11"}
    assert [a.answer for a in check.absences] == ["unclear"] * 9


def test_records_that_only_uncounted_landings_state_are_asked_for_and_hold_nothing(client_of: MakeClient) -> None:
    with Service(students(3)) as service:
        service.hide(3)
        current = Current([], [])
        stated = Current(students(6), []).vanished("students", {1, 2})
        asking = searches_of(client_of(service), current)
        answers = search_uncounted(asking, stated, {1, 2}, 3)
        assert [(a.id, a.answer) for a in answers] == [(3, "still_known"), (4, "removed"), (5, "removed")]
        assert search_uncounted(asking, stated, {1, 2}, 0) == []


# --- found, though not listed ----------------------------------------------------------------------------------------


def looked_for(
    service: Service, client: Client, *listed: int, hidden: Mapping[int, date] | None = None, most: int = 200
) -> Verified:
    """Verify a walk that listed some students, when ten are current; the service may list other students by now."""
    searches = searches_of(client, Current(students(10), []), walks=2)
    return verify_absence(searches, walked(*listed), most=most, day=night(5), hidden=hidden)


def answers(verified: Verified) -> dict[int, tuple[str, date | None]]:
    return {a.id: (a.answer, a.hidden_since) for a in verified.absences}


def test_a_record_missed_by_a_walk_is_listed_by_the_next(client_of: MakeClient) -> None:
    with Service(students(12)) as service:  # two have joined, who were not listed either
        check = looked_for(service, client_of(service), *range(1, 10))
    assert answers(check) == {10: ("listed_again", None)}
    assert check.walked.walk.proof is not None
    assert (check.walked.walk.walks, check.walked.walk.counted, check.walked.ids) == (2, (2,), {*range(1, 13)})


@pytest.mark.parametrize("count", [1, MAX_HIDDEN])
def test_a_few_students_that_only_searches_find_stay_current_as_hidden(client_of: MakeClient, count: int) -> None:
    missing = range(1, count + 1)
    with Service(students(10)) as service:
        service.hide(*missing)
        check = looked_for(service, client_of(service), *range(count + 1, 11))
    assert answers(check) == dict.fromkeys(missing, ("found_by_search", night(5)))
    assert check.walked.walk.proof is not None
    assert check.walked.walk.walks == 2


def test_more_that_only_searches_find_disprove_the_walk(client_of: MakeClient) -> None:
    with Service(students(10)) as service:
        service.hide(1, 2, 3, 4)
        check = looked_for(service, client_of(service), *range(5, 11))
    assert answers(check) == dict.fromkeys((1, 2, 3, 4), ("found_by_search", None))
    assert check.walked.walk.proof is None
    assert check.walked.walk.spoiled == ("4 records are found by search and listed by no walk",)


def test_hidden_students_keep_their_day_and_cause_no_walk(client_of: MakeClient) -> None:
    with Service(students(10)) as service:
        service.hide(1, 2, 3, 4, 5)
        hidden = dict.fromkeys((1, 2, 3, 4, 5), night(2))
        check = looked_for(service, client_of(service), *range(6, 11), hidden=hidden)
        assert service.asked("students") == []
    assert answers(check) == dict.fromkeys(hidden, ("found_by_search", night(2)))
    assert (check.walked.walk.proof is not None, check.walked.walk.walks) == (True, 1)


def test_records_that_vanish_during_the_second_walk_are_searched_for(client_of: MakeClient) -> None:
    with Service(students(10)) as service:
        service.hide(1)
        client, current = client_of(service), Current(students(10), [])

        def leave(request: Asked) -> None:
            if request.path == "students" and request.search is None:
                service.students = [s for s in service.students if s["id"] != 9]

        service.before = leave
        check = verify_absence(searches_of(client, current, 2), walked(*range(2, 11)), most=200, day=night(5))
    assert answers(check) == {1: ("found_by_search", night(5)), 9: ("removed", None)}


def test_a_second_walk_that_cannot_be_proven_leaves_the_set_unproven(client_of: MakeClient) -> None:
    with Service(students(10)) as service:
        service.hide(1)
        service.on(faults.moved_total(1), path="students", times=None)
        check = looked_for(service, client_of(service), *range(2, 11))
    assert check.walked.walk.proof is None
    assert check.walked.walk.walks == 3
    assert len(check.walked.walk.spoiled) == 2
