"""The codes, the pseudonymous file and the figures that were given away, once a student is erased."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pipelines.privacy.codes import Codes
from pipelines.privacy.disclosure import aggregates
from pipelines.privacy.disclosure.releases import Releases
from pipelines.sync import always
from tests.support.nights import House, new_house, night
from tests.support.processes import canary
from tests.support.records import classes, student, students
from tests.support.warehouses.erasures import erase
from tests.support.warehouses.pseudonyms import rows


@pytest.fixture
def house() -> Iterator[House]:
    """Six nights over a weekend, so that a week was over and its figures were given away."""
    everybody = [*students(30), canary.canary()]
    with new_house(everybody, classes(2), pseudonymous=True, report_names=True, hold_changed_percent=100) as made:
        for number in range(1, 7):
            made.night(number, [*everybody[:-2], student(30, name=f"Night {number}"), everybody[-1]])
        aggregates.release(
            made.warehouse, made.warehouse / "rollbook.duckdb", made.warehouse / "aggregates", k=3,
            today=night(6), mode=0o600,
        )  # fmt: skip
        yield made


def coded(house: House) -> set[int]:
    """The students of the pseudonymous file, by their codes, now and ever."""
    query = "SELECT student_id FROM history.students UNION SELECT student_id FROM history.student_classes"
    return {code for (code,) in rows(house, query)}


def released_ids(house: House) -> set[int]:
    """Whose figures were given away, as the record of it knows."""
    return {s for r in Releases(house.warehouse).all() for c in r.cohorts for s in c.students}


@pytest.mark.slow
def test_code_file_and_released_figures_forget_the_student_and_nobody_else(house: House) -> None:
    release = Codes(house.warehouse).load()
    assert release is not None
    given_away = {p: p.read_bytes() for p in (house.warehouse / "aggregates").rglob("*") if p.is_file()}
    assert given_away
    assert canary.ID in released_ids(house)
    assert release.codes[canary.ID] in coded(house)
    assert any(name.startswith("private/") for name in canary.found(house.warehouse))

    counts = erase(house).counts
    assert counts["codes"] == 1
    assert counts["releases"] >= 1
    others = {s: code for s, code in release.codes.items() if s != canary.ID}
    left = Codes(house.warehouse).load()
    assert left is not None
    assert left.codes == others
    assert coded(house) == set(others.values())
    assert canary.ID not in released_ids(house)
    assert {s for s in released_ids(house) if s > 0} == set(range(1, 31))
    assert canary.found(house.warehouse) == {}
    assert len(list((house.warehouse / "pseudonymous").glob("*.duckdb"))) == 1
    assert {p: p.read_bytes() for p in given_away} == given_away, "what was given away stays as it is"

    house.night(7)  # the service still lists the student
    house.rollbook().rebuild(confirm=always)
    assert coded(house) == set(others.values())
    assert canary.found(house.warehouse) == {}


@pytest.mark.slow
def test_a_pseudonymous_file_that_cannot_be_made_again_is_removed(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("pipelines.privacy.pseudonymous.Pseudonymous.make", full)
        erase(house)
        assert not (house.warehouse / "rollbook-pseudonymous.duckdb").exists()
        assert canary.found(house.warehouse) == {}
    house.night(7)
    assert len(coded(house)) == 30
    assert canary.found(house.warehouse) == {}
