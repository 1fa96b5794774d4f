"""All histories again, here or as tasks: compared, and published by each institution's own checks."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator

import pytest

from rollbook import settings
from rollbook.assembly import assemble
from rollbook.errors import BusyError, NothingLandedError, SettingError
from rollbook.features.district import build as building
from rollbook.features.district.build import Difference
from rollbook.features.district.settings import DUCKDB, SAIL
from rollbook.features.district.tasks import OTHER_DAYS
from rollbook.features.district.views import shared
from rollbook.opened import Rollbook
from rollbook.store.district import DistrictFile
from tests.support.nights import night
from tests.support.reading import rows
from tests.support.tiers import weekly
from tests.support.warehouses.district import District
from tests.support.warehouses.scripted import LATER, NIGHTS, ODD, OTHER, SHARING, SYNCED, scripted_district

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def odd_district() -> Iterator[District]:
    """Three institutions with odd nights; `yew` never synced."""
    with scripted_district(NIGHTS, ODD) as district:
        yield district


def verify(
    district: District, engine: str = DUCKDB, *only: str
) -> tuple[tuple[str, ...], list[Difference], dict[str, str]]:
    return building.compare_histories(district.warehouse / "district", district.known, engine, only)


def rebuild(district: District, engine: str = DUCKDB, *only: str) -> dict[str, str]:
    """The result of a rebuild for each institution: nothing, or why it was not done."""
    done = building.rebuild(district.warehouse / "district", district.known, engine, only)
    return {name: rebuilt.error for name, rebuilt in done}


def contents(district: District, name: str) -> dict[str, Counter[str]]:
    """The rows of an institution's tables, except the record of the work."""
    tables = [f"{r.schema}.{r.name}" for r in shared() if r.schema != "ops"]
    return {t: Counter(map(repr, rows(district.warehouse / name / "rollbook.duckdb", f"FROM {t}"))) for t in tables}


def opened(name: str) -> Rollbook:
    """An institution's warehouse, as a command opens it."""
    return assemble(settings.load(institution=name, fetches=False))


def version(name: str) -> str:
    return str(opened(name).warehouse.version())


@pytest.mark.parametrize("engine", [DUCKDB, SAIL])
def test_published_histories_match_the_lakes(odd_district: District, engine: str) -> None:
    compared, *others = verify(odd_district, engine)
    assert (set(compared), others) == (set(SYNCED), [[], {}])
    assert odd_district.left_by_builds() == [], "pupils' records are left"


@pytest.mark.parametrize("engine", [DUCKDB, weekly(SAIL)])
def test_a_rebuild_publishes_the_same_rows_again(odd_district: District, engine: str) -> None:
    before = {name: contents(odd_district, name) for name in SYNCED}
    versions = {name: version(name) for name in SYNCED}
    done = rebuild(odd_district, engine)
    assert {name: done[name] for name in SYNCED} == dict.fromkeys(SYNCED, "")
    for name in SYNCED:
        assert version(name) != versions[name]
        assert contents(odd_district, name) == before[name]
        assert opened(name).place.recovery.is_current()


def test_a_lost_file_is_made_again_from_what_was_landed(odd_district: District) -> None:
    before = contents(odd_district, OTHER)
    for path in (odd_district.warehouse / OTHER / "published").iterdir():
        path.unlink()
    assert rebuild(odd_district, SAIL, OTHER) == {OTHER: ""}
    assert contents(odd_district, OTHER) == before


def test_days_lost_from_the_lake_are_composed_again_from_landings(odd_district: District) -> None:
    rollbook = opened(SHARING)
    lost = [day for day in rollbook.lake.days() if day > night(1)]
    before = contents(odd_district, SHARING)
    for day in lost:
        (rollbook.lake.root / "observed" / f"snapshot_date={day}" / "_day.json").unlink()
    with pytest.raises(NothingLandedError, match=f"{SHARING}: {OTHER_DAYS}"):
        verify(odd_district, DUCKDB, SHARING)
    assert rebuild(odd_district, DUCKDB, SHARING) == {SHARING: ""}
    assert contents(odd_district, SHARING) == before
    assert verify(odd_district, DUCKDB, SHARING)[1] == []


def test_lost_landings_stop_a_rebuild(odd_district: District) -> None:
    rollbook = opened(LATER)
    for day in rollbook.raw.days()[1:]:
        shutil.rmtree(rollbook.raw.root / f"snapshot_date={day}")
    assert "raw/ lacks" in rebuild(odd_district, DUCKDB, LATER)[LATER]


@pytest.mark.parametrize("engine", [DUCKDB, weekly(SAIL)])
def test_a_row_that_differs_is_found(odd_district: District, engine: str) -> None:
    """One value of one version, one row too many, and one too few: in the tables of one institution."""
    warehouse = opened(OTHER).warehouse
    with warehouse.finishing(warehouse.published_file) as con:
        con.execute(
            "UPDATE history.students SET first_name = 'x' WHERE rowid = (SELECT MIN(rowid) FROM history.students)"
        )
        con.execute("INSERT INTO main.student_classes FROM main.student_classes LIMIT 1")
        con.execute("DELETE FROM main.changes WHERE rowid = (SELECT MIN(rowid) FROM main.changes)")
    warehouse.replace(warehouse.published_file)
    compared, check, left_out = verify(odd_district, engine, OTHER)
    assert (compared, left_out) == ((OTHER,), {})
    assert sorted(check, key=lambda d: d.table) == [
        Difference(OTHER, "changes", lacking=1, surplus=0),
        Difference(OTHER, "history.students", lacking=1, surplus=1),
        Difference(OTHER, "student_classes", lacking=0, surplus=1),
    ]
    assert rebuild(odd_district, engine, OTHER) == {OTHER: ""}
    assert verify(odd_district, engine, OTHER)[1] == []


def test_one_at_a_time_and_only_known_names(odd_district: District) -> None:
    with (
        DistrictFile(odd_district.warehouse / "district").building(),
        pytest.raises(BusyError, match="wait until it is done"),
    ):
        verify(odd_district)
    with pytest.raises(SettingError, match="no such institution; did you mean ash"):
        rebuild(odd_district, DUCKDB, "ashh")
