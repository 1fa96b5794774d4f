"""The land stage whole: what a fetch leaves in raw/, in good nights and bad nights (G2, G4, G9 and G12)."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

import msgspec
import pytest

from rollbook import __version__
from rollbook.errors import KeyRefusedError, NotTheContractError, RefusedError, RollbookError, UnreachableError
from rollbook.landing.manifest import Absence, Manifest, Verdict
from rollbook.source.fetch import MAX_UNREACHABLE
from rollbook.source.pagination import Names
from tests.source.asking import NOW, TODAY, TOMORROW, Night, whole
from tests.support.records import student
from tests.support.wire import faults
from tests.support.wire.service import Bend, Reply


class Known:
    """Published: some ids, each with both names."""

    def __init__(self, *ids: int) -> None:
        self.ids = frozenset(ids)

    def vanished(self, set_name: str, received: AbstractSet[int]) -> Mapping[int, Names]:
        return {i: self.names(i) for i in self.ids - received if set_name == "students"}

    def names(self, number: int) -> Names:
        return (("reference_id", f"R-{number}"), ("email", f"pupil.{number}@school.example"))


# --- good nights -----------------------------------------------------------------------------------------------------


def test_a_night_is_landed_whole_and_without_a_verdict(night: Night) -> None:
    done = night.fetch()
    assert night.asked() == [("auth", 1), ("students", 1), ("students", 2), ("classes", 1)]
    assert done == Manifest(
        snapshot_date=TODAY,
        landing=1,
        started_at=NOW,
        finished_at=NOW,
        school_id=41,
        school_name="Made-up School",
        service_time=NOW.replace(tzinfo=None),
        walks=(whole(150, 2), whole(3, of="classes")),
        requests=4,
        bytes_received=done.bytes_received,
        search_seconds=done.search_seconds,
        bodies=4,
        bodies_sha256=done.bodies_sha256,
        rollbook=__version__,
    )
    assert done.proven
    assert done.bytes_received == sum(p.size for p in night.raw.open(done).pages())
    assert night.raw.manifests() == [done]


def test_bodies_are_at_rest_exactly_as_the_service_sent_them(night: Night) -> None:
    odd = b'{ "success":true,"data":[ ],\r\n "pagination":{"page":1,"limit":100,"total_count":0,"total_pages":0}}  '
    night.service.on(lambda request, reply: Reply(body=odd), path="classes", times=None)
    night.service.on(faults.packed(), times=None, search=None)
    done = night.fetch()
    assert [b.content for b in night.raw.open(done).bodies("classes")] == [odd]
    pages = [msgspec.json.decode(landed.content)["data"] for landed in night.raw.open(done).bodies("students")]
    assert [record["id"] for page in pages for record in page] == list(range(1, 151))


def test_vanished_records_are_asked_for_and_those_that_are_found_rejoin(night: Night) -> None:
    """Student 300 is hidden from the list but found by search; 400 is gone."""
    night.service.students.append(student(300))
    night.service.hide(300)
    done = night.fetch(Known(*range(1, 151), 300, 400))
    assert done.absences == (
        Absence(
            set="students",
            id=300,
            answer="found_by_search",
            asked_by=("reference_id",),
            hidden_since=done.snapshot_date,
        ),
        Absence(set="students", id=400, answer="removed", asked_by=("reference_id", "email")),
    )
    assert done.proven
    assert done.search_seconds > 0
    (body,) = (b for b in night.raw.open(done).bodies("students") if b.kind == "search")
    assert body.sought == 300
    assert [r["id"] for r in msgspec.json.decode(body.content)["data"]] == [300]


# --- bad nights ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bend", "error"),
    [
        (faults.status(401), KeyRefusedError),
        (faults.status(503), UnreachableError),
        (faults.html(), NotTheContractError),
        (faults.refused(403), RefusedError),
        (faults.unsuccessful(), RefusedError),
    ],
)
@pytest.mark.parametrize(
    ("path", "page", "bodies"), [("auth", 1, 0), ("students", 1, 1), ("students", 2, 2), ("classes", 1, 3)]
)
def test_a_sync_that_fails_leaves_what_came_under_the_verdict_failed(
    night: Night, bend: Bend, error: type[RollbookError], path: str, page: int, bodies: int
) -> None:
    night.service.on(bend, path=path, page=page, times=None)
    raised, (landed,) = night.failed(error)
    assert (landed.verdict, landed.reason, landed.judged_at) == (Verdict.FAILED, raised.message, NOW)
    assert (landed.snapshot_date, landed.bodies, landed.counts_for_its_day) == (TODAY, bodies, False)
    assert len(list(night.raw.open(landed).pages())) == bodies
    night.service.mend()
    assert night.fetch().landing == 2


def test_a_failure_under_a_date_in_doubt_leaves_nothing(night: Night) -> None:
    """Without the auth check nobody knows that the service has tomorrow's date."""
    night.service.on(faults.status(503), path="auth", times=None)
    _, landed = night.failed(UnreachableError, day=TOMORROW)
    assert landed == []


@pytest.mark.parametrize("stop", [KeyboardInterrupt, ValueError, OSError])
def test_a_fetch_that_is_interrupted_leaves_nothing(night: Night, stop: type[BaseException]) -> None:
    def interrupted(set_name: str, page: int, pages: int) -> None:
        if page == 2:
            raise stop

    with pytest.raises(stop):
        night.fetch(progress=interrupted)
    assert list(night.raw.root.iterdir()) == []


# --- details ---------------------------------------------------------------------------------------------------------


# The answer instead of a detail, and how often the detail is requested then.


def test_a_service_that_is_gone_is_not_asked_for_every_detail(night: Night) -> None:
    for number in range(10, 100):
        night.service.on(faults.status(500), path=f"student/{number}", times=None)
    night.fetch(choose_details=lambda draft: [1, *range(10, 100)])
    assert len({r.path for r in night.service.requests if r.path.startswith("student/")}) == 1 + MAX_UNREACHABLE
