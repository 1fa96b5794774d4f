"""Absence is verified, never assumed (G2): whom is asked for, by which names, and what an answer means."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import pytest

from pipelines.landing.manifest import Absence
from pipelines.source.client import Client
from pipelines.source.pagination import Names, search_by_names, verify
from pipelines.tables import SETS
from tests.source.asking import Kept, MakeClient
from tests.support.records import MISSING, student, students
from tests.support.wire import faults
from tests.support.wire.service import Bend, Service

STUDENTS, CLASSES = SETS["students"], SETS["classes"]


@dataclass
class Current:
    """What is published, as records of the contract."""

    students: list[dict[str, Any]]
    classes: list[dict[str, Any]]

    def vanished(self, set_name: str, received: AbstractSet[int]) -> Mapping[int, Names]:
        set_ = SETS[set_name]
        return {
            r[set_.id_field]: tuple((n, r[n]) for n in set_.names if n in r)
            for r in getattr(self, set_name)
            if r[set_.id_field] not in received
        }


def verified(client: Client, current: Current, *received: int, most: int = 200) -> tuple[tuple[Absence, ...], int]:
    """Ask about the students who are current and were not received."""
    return verify(client, "students", set(received), current, Kept(), walks=3, most=most)


def searches(service: Service, path: str = "students") -> list[str | None]:
    return [r.search for r in service.asked(path, search=True)]


NAMES = (("reference_id", "R-7"), ("email", "pupil.7@school.example"))


# --- one record ------------------------------------------------------------------------------------------------------


def test_a_record_under_none_of_its_names_is_removed(client_of: MakeClient) -> None:
    with Service(students(5)) as service:
        kept = Kept()
        answer = search_by_names(client_of(service), STUDENTS, 7, NAMES, kept, walks=3)
        assert searches(service) == ["R-7", "pupil.7@school.example"]
    assert answer == Absence(set="students", id=7, answer="removed", asked_by=("reference_id", "email"))
    assert kept.columns("set_name", "kind", "sought", "records") == [("students", "search", 7, 0)] * 2


def test_a_record_found_by_its_first_name_is_asked_for_no_more(client_of: MakeClient) -> None:
    with Service(students(9)) as service:
        kept = Kept()
        answer = search_by_names(client_of(service), STUDENTS, 7, NAMES, kept, walks=3)
        assert searches(service) == ["R-7"]
    assert answer == Absence(set="students", id=7, answer="found_by_search", asked_by=("reference_id",))
    assert b'"id":7,' in kept.bodies[0]["content"]


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
            lambda asked, reply: UNCLEAN[name](asked, reply) if asked.search == "R-7" else reply,
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
def test_a_record_without_a_name_is_unclear_and_an_empty_name_is_never_searched(
    client_of: MakeClient, names: Names
) -> None:
    with Service(students(5)) as service:
        assert search_by_names(client_of(service), STUDENTS, 7, names, Kept(), walks=3) == Absence(
            set="students", id=7, answer="unclear", asked_by=()
        )
        assert service.requests == []


# --- a whole set -----------------------------------------------------------------------------------------------------


def test_only_those_that_vanished_are_asked_for_in_order(client_of: MakeClient) -> None:
    with Service(students(10)) as service:
        current = Current([*students(5), student(30), student(20)], [])
        found = verified(client_of(service), current, *range(1, 11))
        assert [s for s in searches(service) if s and s.startswith("R-")] == ["R-20", "R-30"]
    asked = ("reference_id", "email")
    removed = [Absence(set="students", id=i, answer="removed", asked_by=asked) for i in (20, 30)]
    assert found == (tuple(removed), 0)


def test_too_many_are_counted_and_none_is_asked_for(client_of: MakeClient) -> None:
    with Service() as service:
        client, current = client_of(service), Current(students(4), [])
        assert verified(client, current, most=3) == ((), 4)
        assert service.requests == []
        assert len(verified(client, current, most=4)[0]) == 4


def test_the_first_unclear_answer_ends_the_asking(client_of: MakeClient) -> None:
    with Service() as service:
        current = Current([student(1), student(2, reference_id=MISSING, email=MISSING), student(3)], [])
        found = verified(client_of(service), current)
        assert searches(service) == ["R-1", "pupil.1@school.example"]
    assert [(a.id, a.answer) for a in found[0]] == [(1, "removed"), (2, "unclear")]
