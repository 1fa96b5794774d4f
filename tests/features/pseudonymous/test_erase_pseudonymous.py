"""The codes and the pseudonymous file, once a student is erased."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rollbook.features.pseudonymous.pseudonymous import Codes
from rollbook.night import past
from rollbook.night.past import always
from tests.support.nights import House, new_house
from tests.support.processes import canary
from tests.support.records import classes, student, students
from tests.support.warehouses.erasures import erase
from tests.support.warehouses.pseudonyms import rows

pytestmark = pytest.mark.nights


@pytest.fixture
def coded_nights() -> Iterator[House]:
    """Two nights."""
    everybody = [*students(30), canary.canary()]
    with new_house(everybody, classes(2), pseudonymous=True, report_names=True, hold_changed_percent=100) as house:
        for number in range(1, 3):
            house.night(number, [*everybody[:-2], student(30, name=f"Night {number}"), everybody[-1]])
        yield house


def coded(house: House) -> set[int]:
    """The students of the pseudonymous file, by their codes, now and ever."""
    query = "SELECT student_id FROM history.students UNION SELECT student_id FROM history.student_classes"
    return {code for (code,) in rows(house, query)}


@pytest.mark.slow
def test_the_code_is_forgotten_and_nobody_elses(coded_nights: House) -> None:
    release = Codes(coded_nights.warehouse).load()
    assert release is not None
    assert release.codes[canary.ID] in coded(coded_nights)
    assert any(name.startswith("private/") for name in canary.found(coded_nights.warehouse))

    counts = erase(coded_nights).counts
    assert counts["codes"] == 1
    others = {s: code for s, code in release.codes.items() if s != canary.ID}
    left = Codes(coded_nights.warehouse).load()
    assert left is not None
    assert left.codes == others
    assert coded(coded_nights) == set(others.values())
    assert canary.found(coded_nights.warehouse) == {}
    assert len(list((coded_nights.warehouse / "pseudonymous").glob("*.duckdb"))) == 1

    coded_nights.night(3)  # the service still lists the student
    past.rebuild(coded_nights.rollbook().writer(), confirm=always)
    assert coded(coded_nights) == set(others.values())
    assert canary.found(coded_nights.warehouse) == {}


@pytest.mark.slow
def test_a_pseudonymous_file_that_cannot_be_made_again_is_removed(
    coded_nights: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("rollbook.features.pseudonymous.pseudonymous.Pseudonymous.make", full)
        erase(coded_nights)
        assert not (coded_nights.warehouse / "rollbook-pseudonymous.duckdb").exists()
        assert canary.found(coded_nights.warehouse) == {}
    coded_nights.night(3)
    assert len(coded(coded_nights)) == 30
    assert canary.found(coded_nights.warehouse) == {}


def test_a_restored_table_of_codes_brings_no_erased_student_back(coded_nights: House) -> None:
    codes = Codes(coded_nights.warehouse)
    backup = codes.path.read_bytes()
    erase(coded_nights)
    codes.path.write_bytes(backup)
    release = codes.load()
    assert release is not None
    assert canary.ID not in release.codes
    assert canary.found(coded_nights.warehouse) != {}, "until the next writer"
    coded_nights.night(3)
    assert canary.found(coded_nights.warehouse) == {}
