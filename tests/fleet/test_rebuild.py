"""All histories again, from the lakes, by an engine: compared, and published by each institution's own checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from rollbook import settings
from rollbook.compose import compose
from rollbook.errors import BusyError, NothingLandedError, RollbookError, SettingError
from rollbook.fleet import build as building
from rollbook.fleet.build import OTHER_DAYS, RETYPED, Difference, Histories
from rollbook.settings import DUCKDB, SAIL
from rollbook.store.fleet import FleetFile
from rollbook.store.history.engine import Computed
from rollbook.sync.whole import WholeRollbook
from rollbook.views.fleet import shared
from tests.fleet.test_build import LATER, ODD, OTHER, SHARING, SYNCED, played
from tests.support.nights import night
from tests.support.reading import rows
from tests.support.warehouses.district import District
from tests.views.test_scripted_school import NIGHTS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def district() -> Iterator[District]:
    """Three institutions with odd nights; `yew` never synced."""
    with played(NIGHTS, ODD) as district:
        yield district


def verify(
    district: District, engine: str = DUCKDB, *only: str
) -> tuple[tuple[str, ...], list[Difference], dict[str, str]]:
    return building.verify(district.warehouse / "fleet", district.known, engine, only)


def rebuild(district: District, engine: str = DUCKDB, *only: str) -> dict[str, RollbookError | None]:
    """What a rebuild says of each institution: nothing, or why it was not done."""
    return dict(building.rebuild(district.warehouse / "fleet", district.known, engine, only))


def contents(district: District, name: str) -> dict[str, Counter[str]]:
    """The rows of an institution's tables, except the record of the work."""
    tables = [f"{r.schema}.{r.name}" for r in shared() if r.schema != "ops"]
    return {t: Counter(map(repr, rows(district.warehouse / name / "rollbook.duckdb", f"FROM {t}"))) for t in tables}


def opened(name: str) -> WholeRollbook:
    """An institution's warehouse, as a command opens it."""
    return compose(settings.load(institution=name, fetches=False))


def version(name: str) -> str:
    return str(opened(name).warehouse.version())


@pytest.mark.parametrize("engine", [DUCKDB, SAIL])
def test_what_is_published_is_what_the_lakes_say(district: District, engine: str) -> None:
    compared, *others = verify(district, engine)
    assert (set(compared), others) == (set(SYNCED), [[], {}])
    assert district.left_by_builds() == [], "pupils' records are left"


@pytest.mark.parametrize("engine", [DUCKDB, SAIL])
def test_a_rebuild_publishes_the_same_rows_again(district: District, engine: str) -> None:
    before = {name: contents(district, name) for name in SYNCED}
    versions = {name: version(name) for name in SYNCED}
    assert rebuild(district, engine) == dict.fromkeys(SYNCED)
    for name in SYNCED:
        assert version(name) != versions[name]
        assert contents(district, name) == before[name]
        assert opened(name).recovery.is_current()


def test_a_lost_file_is_made_again_from_the_snapshots(district: District) -> None:
    before = contents(district, OTHER)
    for path in (district.warehouse / OTHER / "published").iterdir():
        path.unlink()
    assert rebuild(district, SAIL, OTHER) == {OTHER: None}
    assert contents(district, OTHER) == before


def test_days_that_the_lake_has_lost_are_composed_again_from_what_was_landed(district: District) -> None:
    """Days of the lake were deleted by hand; a rebuild from what is left would remove most students."""
    book = opened(SHARING)
    lost = [day for day in book.lake.days() if day > night(1)]
    before = contents(district, SHARING)
    for day in lost:
        (book.lake.root / "observed" / f"snapshot_date={day}" / "_day.json").unlink()
    assert verify(district, DUCKDB, SHARING)[2] == {SHARING: OTHER_DAYS}
    assert "have changed since" in str(rebuild(district, DUCKDB, SHARING)[SHARING])
    assert sorted(opened(SHARING).lake.days())[-len(lost) :] == sorted(lost)
    assert contents(district, SHARING) == before, "readers saw nothing of it"
    assert rebuild(district, DUCKDB, SHARING) == {SHARING: None}
    assert contents(district, SHARING) == before
    assert verify(district, DUCKDB, SHARING)[1] == []


def test_snapshots_with_a_column_of_another_type_are_left_out(
    district: District, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an earlier Rollbook may have written them; an engine would fail for all institutions."""
    monkeypatch.setattr(building, "schema", lambda _: pa.schema([("student_id", pa.string())]))
    with pytest.raises(NothingLandedError, match=f"{OTHER}: {RETYPED}"):
        verify(district)


def test_a_lake_that_changes_meanwhile_is_not_taken_over(district: District, monkeypatch: pytest.MonkeyPatch) -> None:
    before, computed = version(LATER), Histories.computed

    def of_other_days(self: Histories, name: str) -> Computed:
        return replace(computed(self, name), days={night(1): "another digest"})

    monkeypatch.setattr(Histories, "computed", of_other_days)
    assert "have changed since" in str(rebuild(district, DUCKDB, LATER)[LATER])
    assert version(LATER) == before


def test_one_at_a_time_and_only_known_names(district: District) -> None:
    with FleetFile(district.warehouse / "fleet").building(), pytest.raises(BusyError, match="wait until it is done"):
        verify(district)
    with pytest.raises(SettingError, match="ashh"):
        rebuild(district, DUCKDB, "ashh")
