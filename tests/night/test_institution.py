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
def school_of_3() -> Iterator[House]:
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
def test_the_first_sync_binds_the_warehouse_to_its_institution(school_of_3: House) -> None:
    school_of_3.sync()
    school_of_3.service.school = OTHER
    error = refused(school_of_3.at(2))
    assert "institution 42" in error.message
    assert "institution 41" in error.message
    assert "ROLLBOOK_API_KEY" in error.message
    (manifest,) = school_of_3.landings(night(2))
    assert (manifest.verdict, manifest.school_id, manifest.walks) == (Verdict.FAILED, 42, ())
    assert school_of_3.tables() == Expected().night(1, students(3), classes(1)).tables()


def test_a_sync_that_counts_for_nothing_binds_to_nobody(school_of_3: House) -> None:
    school_of_3.service.on(faults.status(500), path="classes", times=None)
    with pytest.raises(UnreachableError):
        school_of_3.sync()
    school_of_3.service.mend()
    school_of_3.service.school = OTHER
    done = school_of_3.sync()
    assert (done.manifest.landing, done.manifest.school_id) == (2, 42)
    school_of_3.service.school = {**OTHER, "id": 41}
    refused(school_of_3.at(2))


@pytest.mark.parametrize("last", ["auth", "students 2", "classes 1", "students?R-1 1", "student/3"])
def test_a_refused_key_ends_the_sync_and_says_whom_to_ask(school_of_3: House, last: str) -> None:
    """The key is revoked in the middle of the night: not one more request is made."""
    school_of_3.service.cap = 2
    school_of_3.service.students = students(4)
    school_of_3.sync()
    before = school_of_3.state()
    school_of_3.service.requests.clear()
    school_of_3.service.students = students(3, first=2)

    def revoke(request: object) -> None:
        if asked(school_of_3.service.requests)[-1] == last:
            school_of_3.service.key = "a-new-key"

    school_of_3.service.before = revoke
    with pytest.raises(KeyRefusedError, match=r"Ask the service representative .*ROLLBOOK_API_KEY") as caught:
        school_of_3.at(2).sync(details="all")
    assert asked(school_of_3.service.requests)[-1] == last
    assert (caught.value.exit_code, caught.value.status) == (1, 401)
    assert school_of_3.state() == before
    assert [m.verdict for m in school_of_3.landings(night(2))] == [Verdict.FAILED]
