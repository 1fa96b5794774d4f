"""The walk (G1): what proves a set, what spoils the proof, and what follows a spoiled walk."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from rollbook.source.client import Client
from rollbook.source.pagination import BARREN_PAGES, GROWTH_PAGES, search, walk
from rollbook.tables import SETS
from tests.source.asking import Kept, MakeClient, proof, whole
from tests.support.records import MISSING, student, students
from tests.support.wire import faults
from tests.support.wire.service import Bend, Reply, Service

STUDENTS, CLASSES = SETS["students"], SETS["classes"]


def pages_asked(service: Service, path: str = "students", *, search: bool = False) -> list[int]:
    return [r.page for r in service.asked(path, search=search)]


# --- proven ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "pages"), [(1, 1), (99, 1), (100, 1), (101, 2), (200, 2), (250, 3), (300, 3), (1001, 11)]
)
def test_a_whole_set_is_proven_in_one_walk(client_of: MakeClient, count: int, pages: int) -> None:
    with Service(students(count)) as service:
        sink = Kept()
        walked = walk(client_of(service), STUDENTS, sink)
        assert pages_asked(service) == list(range(1, pages + 1))
        assert {r.params["limit"] for r in service.requests} == {"100"}
    assert walked.walk == whole(count, pages)
    assert walked.ids == set(range(1, count + 1))
    assert [page for (page,) in sink.columns("page")] == list(range(1, pages + 1))
    assert sum(n for (n,) in sink.columns("records")) == count
    assert set(sink.columns("set_name", "kind", "walk", "sought")) == {("students", "walk", 1, None)}


@pytest.mark.parametrize("pages_of_nothing", [0, 1])
def test_an_empty_set_is_proven_by_its_one_empty_page(client_of: MakeClient, pages_of_nothing: int) -> None:
    with Service() as service:
        service.on(faults.stated(total_pages=pages_of_nothing), times=None)
        walked = walk(client_of(service), STUDENTS, Kept())
        assert pages_asked(service) == [1]
    assert walked.walk.proof == proof(0)


def test_a_capped_limit_is_followed(client_of: MakeClient) -> None:
    with Service(students(95), cap=40) as service:
        walked = walk(client_of(service), STUDENTS, Kept())
        assert pages_asked(service) == [1, 2, 3]
    assert walked.walk.proof == proof(95, 3, limit=40)


@pytest.mark.parametrize("spelt", [None, "perhaps", [], 1, "1", "true", 1.0])
def test_has_next_is_read_in_every_spelling_and_may_be_left_out(service: Service, client: Client, spelt: Any) -> None:
    falsely = {1: 0, "1": "0", "true": "false"}.get(spelt, spelt) if not isinstance(spelt, list) else spelt
    for page in (1, 2, 3):
        stated = {"has_next": spelt if page < 3 else falsely, "has_prev": spelt if page > 1 else falsely}
        service.on(faults.stated(**stated), page=page, times=None)
    walked = walk(client, STUDENTS, Kept())
    assert pages_asked(service) == [1, 2, 3]
    assert walked.walk.proof is not None


def test_pages_with_their_own_length_as_total_prove_nothing(service: Service, client: Client) -> None:
    """A common mistake of services: only has_next says that there is more."""
    for page, count in ((1, 100), (2, 100), (3, 50)):
        service.on(faults.stated(total_count=count, total_pages=1), page=page, times=None)
    walked = walk(client, STUDENTS, Kept(), walks=1)
    assert pages_asked(service) == [1, 2, 3]
    assert (walked.walk.proof, len(walked.ids)) == (None, 250)
    assert walked.walk.spoiled == ("walk 1, page 1: has_next is true, though page 1 is stated as the last",)


def test_a_has_next_that_never_ends_is_followed_to_one_empty_page(service: Service, client: Client) -> None:
    service.on(faults.stated(has_next=True), times=None)
    walked = walk(client, STUDENTS, Kept(), walks=1)
    assert pages_asked(service) == [1, 2, 3, 4]
    assert (walked.walk.proof, len(walked.ids)) == (None, 250)


NOT_STATED = {
    "no total_count": ["total_count"],
    "no total_pages": ["total_pages"],
    "no totals": ["total_count", "total_pages"],
    "no totals and no has_next": ["total_count", "total_pages", "has_next", "has_prev"],
    "a page alone": ["limit", "total_count", "total_pages", "has_next", "has_prev"],
    "nothing": ["page", "limit", "total_count", "total_pages", "has_next", "has_prev"],
}


@pytest.mark.parametrize("name", NOT_STATED)
@pytest.mark.parametrize("count", [0, 1, 99, 100, 101, 250, 300])
@pytest.mark.parametrize("cap", [100, 40])
def test_a_walk_without_totals_reads_all_and_proves_nothing(
    client_of: MakeClient, name: str, count: int, cap: int
) -> None:
    """By `has_next`; without that too, to the first page that is short."""
    with Service(students(count), cap=cap) as service:
        service.on(faults.stated(**dict.fromkeys(NOT_STATED[name])), times=None)
        walked = walk(client_of(service), STUDENTS, Kept(), walks=1)
        asked = pages_asked(service)
    needed = max(-(-count // cap), 1)
    counts = [field for field in NOT_STATED[name] if not field.startswith("has_")]
    assert (walked.ids, walked.walk.proof) == (set(range(1, count + 1)), None)
    assert walked.walk.spoiled == (f"walk 1, page 1: {' and '.join(counts)} not stated",)
    assert needed <= len(asked) <= needed + 1
    assert asked == list(range(1, len(asked) + 1))


@pytest.mark.parametrize("has_next", [True, None])
def test_a_walk_ends_where_every_page_is_the_first_page(client_of: MakeClient, has_next: Any) -> None:
    with Service(students(250)) as service:
        service.on(faults.repeated(service, "students"), times=None)
        service.on(faults.stated(total_count=None, total_pages=None, has_next=has_next), times=None)
        walked = walk(client_of(service), STUDENTS, Kept(), walks=1)
        assert len(service.requests) == (2 if has_next is None else BARREN_PAGES + 1)
    assert (len(walked.ids), walked.walk.proof) == (100, None)


def test_a_total_that_one_page_leaves_out_is_walked_again(service: Service, client: Client) -> None:
    service.on(faults.stated(total_count=None), page=2)
    walked = walk(client, STUDENTS, Kept())
    assert walked.walk.spoiled == ("walk 1, page 2: total_count not stated",)
    assert walked.walk.proof is not None


@pytest.mark.parametrize("code", [404, 204])
def test_a_set_the_service_lacks_is_empty_where_nothing_is_current(service: Service, client: Client, code: int) -> None:
    service.on(faults.no_answer(code), times=None)
    walked = walk(client, STUDENTS, Kept(), has_none=lambda: True)
    assert (walked.walk.proof, walked.ids, pages_asked(service)) == (proof(0, 0), set(), [1])
    walked = walk(client, STUDENTS, Kept())
    assert (walked.walk.proof, walked.ids) == (None, set())
    assert walked.walk.spoiled == tuple(f"walk {n}, page 1 of 1 was refused ({code})" for n in (1, 2, 3))


@pytest.mark.parametrize(
    ("pagination", "proven"),
    [({"total_count": 0, "total_pages": 0}, True), ({"total_count": 0, "total_pages": 1}, True)],
)
@pytest.mark.parametrize("data", ["[]", "null", "{}", None])
def test_an_empty_set_is_proven_by_its_stated_total(
    client: Client, service: Service, pagination: dict[str, int], proven: bool, data: str | None
) -> None:
    body = '{"success": true, ' + (f'"data": {data}, ' if data else "")
    body += '"pagination": ' + json.dumps({"page": 1, "limit": 100, "has_next": False} | pagination) + "}"
    service.on(lambda request, reply: Reply(body=body.encode()), times=None)
    walked = walk(client, STUDENTS, Kept())
    assert (walked.walk.proof is not None, walked.walk.walks, walked.ids) == (proven, 1, set())


def test_pages_that_php_writes_as_lists_with_gaps_are_proven(client: Client, service: Service) -> None:
    service.on(faults.gapped(), times=None)
    walked = walk(client, STUDENTS, Kept())
    assert (walked.walk.proof is not None, walked.walk.walks, len(walked.ids)) == (True, 1, 250)


def test_a_204_proves_nothing_and_answers_no_search(client: Client, service: Service) -> None:
    service.on(lambda request, reply: Reply(status=204, body=b""), search=None, times=None)
    walked = walk(client, STUDENTS, Kept(), walks=2)
    assert (walked.walk.proof, walked.walk.walks, walked.walk.total_count, walked.ids) == (None, 2, 0, set())
    assert walked.walk.spoiled == ("walk 1, page 1 of 1 was refused (204)", "walk 2, page 1 of 1 was refused (204)")
    assert search(client, STUDENTS, "R-1", 1, Kept(), walks=2) == "no match"


# --- spoiled ---------------------------------------------------------------------------------------------------------

# Faults that spoil a walk over 250 students at a page, with the words of the reason.
SPOILS: dict[str, tuple[Callable[[Service], Bend], tuple[int, ...], str]] = {
    "total grows": (lambda s: faults.moved_total(+1), (2, 3), "total_count moved from 250 to 251"),
    "total shrinks": (lambda s: faults.moved_total(-1), (2, 3), "total_count moved from 250 to 249"),
    "total is too high at first": (lambda s: faults.moved_total(+9), (1,), "total_count moved from 259 to 250"),
    "another page": (lambda s: faults.stated(page=7), (1, 2, 3), "the service calls it page 7"),
    "limit changes": (lambda s: faults.stated(limit=90), (2, 3), "limit moved from 100 to 90"),
    "too few pages": (lambda s: faults.stated(total_pages=2), (1, 2, 3), "2 pages cannot hold 250 records by 100"),
    "too many pages": (lambda s: faults.stated(total_pages=4), (1, 2), "4 pages cannot hold 250 records by 100"),
    "no pages": (lambda s: faults.stated(total_pages=0), (1, 2, 3), "0 pages cannot hold 250 records by 100"),
    "has_next ends early": (
        lambda s: faults.stated(has_next=False),
        (1, 2),
        "has_next is false, though page 3 is stated as the last",
    ),
    "has_next goes on": (
        lambda s: faults.stated(has_next=True),
        (3,),
        "has_next is true, though page 3 is stated as the last",
    ),
    "has_prev on page 1": (lambda s: faults.stated(has_prev=True), (1,), "has_prev is true"),
    "no has_prev": (lambda s: faults.stated(has_prev=False), (2, 3), "has_prev is false"),
    "short": (lambda s: faults.short(), (1, 2), "99 records, though the limit is 100"),
    "short last": (lambda s: faults.short(), (3,), "249 ids came, 250 were stated"),
    "empty": (lambda s: faults.empty(), (1, 2), "0 records, though the limit is 100"),
    "empty last": (lambda s: faults.empty(), (3,), "200 ids came, 250 were stated"),
    "over-full": (lambda s: faults.over_full([student(999)]), (1, 2), "101 records, more than the limit of 100"),
    "too long a last page": (lambda s: faults.over_full([student(999)]), (3,), "251 ids came, 250 were stated"),
    "page 1 again": (lambda s: faults.repeated(s, "students"), (2, 3), "100 ids had come on earlier pages"),
    "one record again": (
        lambda s: faults.records(lambda data: [student(1), *data[1:]]),
        (2, 3),
        "1 ids had come on earlier pages",
    ),
    "a record without an id": (
        lambda s: faults.records(lambda data: [student(MISSING), *data[1:]]),
        (1, 2, 3),
        "1 records have no id that can be read",
    ),
}
AT = [(name, page) for name, (_, pages, _) in SPOILS.items() for page in pages]


@pytest.mark.parametrize(("name", "page"), AT)
def test_a_spoiled_walk_is_repeated_and_the_next_one_proves_the_set(
    service: Service, client: Client, name: str, page: int
) -> None:
    bend, _, words = SPOILS[name]
    service.on(bend(service), page=page)
    walked = walk(client, STUDENTS, sink := Kept())
    assert (walked.walk.walks, walked.walk.counted, walked.walk.proof) == (2, (2,), proof(250, 3, walk=2))
    (why,) = walked.walk.spoiled
    assert why.startswith("walk 1, ")
    assert why.endswith(words)
    assert walked.walk.received == 250
    assert walked.ids == set(range(1, 251))
    assert [p for w, p in sink.columns("walk", "page") if w == 2] == [1, 2, 3]


@pytest.mark.parametrize(("name", "page"), AT)
def test_a_set_that_stays_spoiled_is_unproven_and_all_its_walks_count(
    service: Service, client: Client, name: str, page: int
) -> None:
    bend, _, words = SPOILS[name]
    service.on(bend(service), page=page, times=None)
    walked = walk(client, STUDENTS, sink := Kept())
    assert (walked.walk.walks, walked.walk.counted, walked.walk.proof) == (3, (1, 2, 3), None)
    assert [why.endswith(words) for why in walked.walk.spoiled] == [True] * 3
    assert set(sink.columns("walk")) == {(1,), (2,), (3,)}
    assert walked.walk.received == sum(n for (n,) in sink.columns("records"))
    assert walked.walk.records == len(walked.ids) + (name == "a record without an id")
    assert max(p for (p,) in sink.columns("page")) == (4 if name in ("too many pages", "has_next goes on") else 3)


def test_a_set_that_grows_with_every_page_has_an_end(client_of: MakeClient) -> None:
    with Service(students(2), cap=1) as service:
        service.before = lambda request: service.students.append(student(len(service.students) + 1))
        walked = walk(client_of(service), STUDENTS, Kept(), walks=1)
        assert len(service.requests) == 2 * 3 + GROWTH_PAGES
    assert walked.walk.proof is None


@pytest.mark.parametrize("bend", [faults.empty(), faults.records(lambda data: [student(1)])])
def test_pages_stated_but_not_there_are_not_asked_for_without_end(client_of: MakeClient, bend: Bend) -> None:
    with Service(students(1)) as service:
        service.on(faults.stated(total_count=10**9, total_pages=10**7), times=None)
        service.on(bend, times=None)
        walked = walk(client_of(service), STUDENTS, Kept(), walks=1)
        assert BARREN_PAGES <= len(service.requests) <= BARREN_PAGES + 1
    assert walked.walk.proof is None


@pytest.mark.parametrize("code", [400, 404, 416, 422])
def test_a_page_refused_as_past_the_end_spoils_the_walk(service: Service, client: Client, code: int) -> None:
    """So services answer when the set has shrunk below the page; the contract does not say."""
    service.on(faults.refused(code, "NO_SUCH_PAGE", "no"), page=3)
    walked = walk(client, STUDENTS, Kept())
    assert pages_asked(service) == [1, 2, 3, 1, 2, 3]
    assert walked.walk.spoiled == (f"walk 1, page 3 of 3 was refused ({code})",)
    assert walked.walk.proof is not None


# --- one search ------------------------------------------------------------------------------------------------------


def test_a_search_reads_every_result_page_before_it_says_not_found(service: Service, client: Client) -> None:
    assert search(client, STUDENTS, "pupil", 999, sink := Kept()) == "not found"
    requests = [(r.search, r.page, r.params["limit"]) for r in service.requests]
    assert requests == [("pupil", page, "100") for page in (1, 2, 3)]
    assert sink.columns("kind", "page", "sought") == [("search", page, 999) for page in (1, 2, 3)]


@pytest.mark.parametrize(("sought", "pages"), [(1, 1), (150, 2), (250, 3)])
def test_a_search_ends_where_the_record_shows(service: Service, client: Client, sought: int, pages: int) -> None:
    assert search(client, STUDENTS, "pupil", sought, Kept()) == "found"
    assert pages_asked(service, search=True) == list(range(1, pages + 1))


@pytest.mark.parametrize(("name", "page"), AT)
def test_a_search_proves_itself_by_the_rules_of_a_walk(service: Service, client: Client, name: str, page: int) -> None:
    bend, _, _ = SPOILS[name]
    service.on(bend(service), page=page, search=True)
    assert search(client, STUDENTS, "pupil", 1234, Kept()) == "not found"
    spoiled_and_again = pages_asked(service, search=True)
    service.on(bend(service), page=page, search=True, times=None)
    assert search(client, STUDENTS, "pupil", 1234, Kept(), walks=2) == "unclear"
    assert spoiled_and_again.count(1) == 2
