"""All institutions at a glance: who is synced, held, late, paused, and what a monitoring system gets of it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, time
from pathlib import Path

import duckdb
import pytest

from rollbook.features.district.nights import InstitutionStatus, load_overview, record
from rollbook.features.district.worker import NightKind, NightOutcome
from tests.support.nights import night
from tests.support.records import students
from tests.support.warehouses.district import District, copied, new_district

pytestmark = pytest.mark.nights

AT = datetime.combine(night(2), time(2, 20), UTC)


@pytest.fixture(scope="module")
def every_state() -> Iterator[District]:
    """ash is synced, birch held, cedar late, elm refused, fir paused, and 007 is new."""
    with new_district(["ash", "birch", "cedar", "elm", "fir", "007"]) as district:
        district["birch"].students = students(60)
        for name in ("ash", "birch", "cedar"):
            district.house(name).night(1)
        district.house("ash").night(2)
        district["birch"].students = students(20)
        with pytest.raises(Exception, match="would be removed"):
            district.house("birch").night(2)
        run = district.warehouse / "district"
        failed = NightOutcome(kind=NightKind.FAILED, at=AT, day=night(2), message="The key.", refused=True, requests=1)
        record(run, "elm", failed)
        district.pause("fir", "holidays")
        yield district


@pytest.fixture
def known(every_state: District) -> dict[str, InstitutionStatus]:
    with every_state.in_environment():
        run = every_state.institutions(2)
        run.now = datetime.combine(night(2), time(12), UTC)
        return {status.institution: status for status in load_overview(run).institutions}


def test_each_is_shown_as_it_is(known: dict[str, InstitutionStatus]) -> None:
    assert {name: status.shown for name, status in known.items()} == {
        "ash": "synced",
        "birch": "held",
        "cedar": "late",
        "elm": "failed",
        "fir": "paused",
        "007": "never",
    }
    last = {name: status.last for name, status in known.items() if status.last}
    assert last["ash"].day == known["ash"].readers_see == night(2)
    assert (last["birch"].day, known["birch"].readers_see) == (night(2), night(1))
    assert last["birch"].message.startswith("40 of 60 students")
    assert (last["elm"].requests, known["elm"].refused_nights) == (1, 1)
    assert known["007"].late_by is None
    assert [name for name, status in known.items() if status.is_fine] == ["ash"]


@pytest.mark.parametrize("is_empty", [True, False])
def test_one_whose_file_cannot_be_read_is_not_shown_as_synced(
    every_state: District, tmp_path: Path, is_empty: bool
) -> None:
    with copied(every_state, tmp_path) as copy_of_district:
        file = copy_of_district.house("ash").published.resolve()
        file.unlink()
        if is_empty:
            file.touch()
        else:
            duckdb.connect(file).close()  # somebody else's
        (ash,) = load_overview(copy_of_district.institutions(2, only=["ash"])).institutions
    assert (ash.shown, ash.readers_see) == ("late", None)
