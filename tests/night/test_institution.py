"""One institution, one warehouse (G11), and a refused key that ends the sync at once (G13)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rollbook.errors import KeyRefusedError, OtherInstitutionError, UnreachableError
from rollbook.landing.manifest import Verdict
from tests.support.nights import Expected, House, asked, new_house, night
from tests.support.records import classes, students
from tests.support.wire import faults

pytestmark = pytest.mark.nights

OTHER = {"id": 42, "name": "Another School", "key": "another-school"}


@pytest.fixture
def house() -> Iterator[House]:
    with new_house(students(3), classes(1)) as house:
        yield house


def refused(house: House) -> OtherInstitutionError:
    """Sync with the key of another institution: only the auth check is made, and nothing is changed."""
    before = house.state()
    house.service.requests.clear()
    with pytest.raises(OtherInstitutionError) as caught:
        house.sync()
    assert caught.value.exit_code == 1
    assert asked(house.service.requests) == ["auth"]
    assert house.state() == before
    return caught.value


@pytest.mark.story
def test_the_first_sync_binds_the_warehouse_to_its_institution(house: House) -> None:
    house.sync()
    house.service.school = OTHER
    error = refused(house.at(2))
    assert "institution 42" in error.message
    assert "institution 41" in error.message
    assert "ROLLBOOK_API_KEY" in error.message
    (manifest,) = house.landings(night(2))
    assert (manifest.verdict, manifest.school_id, manifest.walks) == (Verdict.FAILED, 42, ())
    assert house.tables() == Expected().night(1, students(3), classes(1)).tables()


def test_a_sync_that_counts_for_nothing_binds_to_nobody(house: House) -> None:
    house.service.on(faults.status(500), path="classes", times=None)
    with pytest.raises(UnreachableError):
        house.sync()
    house.service.mend()
    house.service.school = OTHER
    done = house.sync()
    assert (done.manifest.landing, done.manifest.school_id) == (2, 42)
    house.service.school = {**OTHER, "id": 41}
    refused(house.at(2))


@pytest.mark.parametrize("last", ["auth", "students 2", "classes 1", "students?R-1 1", "student/3"])
def test_a_refused_key_ends_the_sync_and_says_whom_to_ask(house: House, last: str) -> None:
    """The key is revoked in the middle of the night: not one more request is made."""
    house.service.cap = 2
    house.service.students = students(4)
    house.sync()
    before = house.state()
    house.service.requests.clear()
    house.service.students = students(3, first=2)

    def revoke(request: object) -> None:
        if asked(house.service.requests)[-1] == last:
            house.service.key = "a-new-key"

    house.service.before = revoke
    with pytest.raises(KeyRefusedError, match=r"Ask the service representative .*ROLLBOOK_API_KEY") as caught:
        house.at(2).sync(details="all")
    assert asked(house.service.requests)[-1] == last
    assert (caught.value.exit_code, caught.value.status) == (1, 401)
    assert house.state() == before
    assert [m.verdict for m in house.landings(night(2))] == [Verdict.FAILED]
