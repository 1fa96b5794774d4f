"""The landed days are the memory (G4): what happens to the published file does not change how a night is judged."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from rollbook.errors import (
    CheckError,
    HeldError,
    LostError,
    RollbookError,
)
from rollbook.flatten import rows
from rollbook.landing.manifest import Verdict
from rollbook.night import past
from rollbook.night.past import always
from rollbook.night.stages import snapshot
from rollbook.tables import TABLES
from tests.night.recovery.losses import (
    LISTED,
    LOSSES,
    change_rows,
    cut_short,
    delete,
    make_a_folder_of_it,
    restore_the_first_night,
)
from tests.support.nights import Expected, House, landed, night
from tests.support.records import classes, school_class, students
from tests.support.tiers import daily

pytestmark = pytest.mark.nights

# --- what may become of the published file ---------------------------------------------------------------------------


@pytest.mark.parametrize("loss", daily(LOSSES, delete, restore_the_first_night, change_rows))
def test_a_mass_removal_is_held_whatever_happened_to_the_published_file(
    house: House, expected: Expected, loss: Callable[[House], None]
) -> None:
    loss(house)
    house.service.students = students(10)
    with pytest.raises(HeldError, match="51 of 61 students"):
        house.sync()
    assert house.tables() == expected.tables()


@pytest.mark.parametrize("loss", daily(LOSSES, restore_the_first_night))
def test_a_record_found_by_search_stays_whatever_happened_to_the_file(
    house: House, expected: Expected, loss: Callable[[House], None]
) -> None:
    """Number 100 is new since the older files: the older files would not even know whom to search for."""
    loss(house)
    house.service.hide(7, 100)
    done = house.sync()
    assert [(a.id, a.answer) for a in done.manifest.absences] == [(7, "found_by_search"), (100, "found_by_search")]
    assert house.tables() == expected.night(4, LISTED, classes(4)).tables()


@pytest.mark.story
def test_a_stop_before_publish_is_recovered_before_the_next_decision(house: House, expected: Expected) -> None:
    house.service.students = more = [*LISTED, *students(30, first=200)]
    rollbook = house.rollbook()
    with rollbook.writer().writing():
        snapshot(rollbook.place, landed(rollbook), rollbook.settings, rollbook.clock())
    expected.night(4, more, classes(4))
    house.at(5).service.students = students(60)
    with pytest.raises(HeldError, match="31 of 91 students"):
        house.sync()
    assert house.tables() == expected.tables()


def test_foreign_files_in_the_published_place_are_moved_aside(house: House) -> None:
    make_a_folder_of_it(house)
    house.sync()
    (aside,) = (house.warehouse / "build" / "altered").iterdir()
    assert (aside / "somebody's file").read_text() == "kept"
    change_rows(house)
    house.sync()
    assert len(list((house.warehouse / "build" / "altered").iterdir())) == 2
    assert house.query("SELECT COUNT(*) FROM history.students WHERE name = 'Mine Now'") == [(0,)]


@pytest.mark.slow
def test_faults_in_the_published_file_are_repaired_from_the_lake(house: House, expected: Expected) -> None:
    """The checks refuse what was merged from the file; what was merged from the lake passes."""
    restore_the_first_night(house)
    answers = iter([{"rule": ["wrong"]}])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rollbook.store.checks.examine", lambda *_, **__: next(answers, {}))
        house.sync()
    assert house.tables() == expected.night(4, LISTED, classes(4)).tables()


# --- what cannot be judged now is landed all the same ----------------------------------------------------------------


@pytest.mark.story
def test_a_night_that_cannot_be_judged_is_landed_for_the_next_writer(house: House, expected: Expected) -> None:
    restore_the_first_night(house)
    house.service.students = students(59)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rollbook.store.checks.examine", lambda *_, **__: {"rule": ["wrong"]})
        with pytest.raises(CheckError):
            house.sync()
    (landed,) = house.landings(night(4))
    assert (landed.verdict, landed.proven, landed.absences) == (None, False, ())
    assert "wrong" in landed.deferred
    house.at(5).sync()
    expected.night(4, students(59), classes(4), unproven=["students", "classes"])
    assert house.tables() == expected.night(5, students(59), classes(4)).tables()
    (landed,) = house.landings(night(4))
    assert landed.verdict is Verdict.UNPROVEN
    assert "could not be compared" in landed.reason


# --- rebuild and backfill ask before taking much away -------------------------------------------------------------


def test_a_rebuild_that_would_lose_many_rows_asks_first(house: House, expected: Expected) -> None:
    house.night(4, students(120))
    shutil.rmtree(house.warehouse / "raw" / f"snapshot_date={night(4)}")
    before = house.state()
    with pytest.raises(HeldError, match="59 of 120 students") as held:
        past.rebuild(house.rollbook().writer(), accept_loss=True)
    assert held.value.exit_code == 3
    assert "--yes" in held.value.message
    assert house.state() == before
    past.rebuild(house.rollbook().writer(), accept_loss=True, confirm=always)
    assert house.tables() == expected.tables()


@pytest.mark.parametrize("loss", daily([delete, cut_short, make_a_folder_of_it, change_rows], cut_short))
def test_a_rebuild_needs_no_published_file_and_still_asks(
    house: House, expected: Expected, loss: Callable[[House], None]
) -> None:
    loss(house)
    past.rebuild(house.rollbook().writer())
    assert house.tables() == expected.tables()
    loss(house)
    shutil.rmtree(house.warehouse / "raw" / f"snapshot_date={night(1)}")
    with pytest.raises(LostError, match=f"raw/ lacks 1 landing .*: {night(1)}"):
        past.rebuild(house.rollbook().writer())


@contextmanager
def class_codes_as_numbers() -> Iterator[None]:
    """Let class_code be declared otherwise."""
    table = TABLES["classes"]
    columns = tuple(replace(c, type="BIGINT") if c.name == "class_code" else c for c in table.columns)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(TABLES, "classes", replace(table, columns=columns))
        rows.shape.cache_clear()
        yield
    rows.shape.cache_clear()


@pytest.mark.slow
def test_a_type_that_snapshots_do_not_fit_is_told(house: House) -> None:
    before = house.state()["rollbook.duckdb"]
    house.service.classes = [school_class(c, class_code=None) for c in range(501, 505)]
    with class_codes_as_numbers():
        for number in (4, 5):
            with pytest.raises(RollbookError) as refused:
                house.at(number).sync()
            assert "class_code" in refused.value.message
            assert "C-501" not in refused.value.message
            assert "rollbook rebuild" in refused.value.message
            assert house.state()["rollbook.duckdb"] == before
    house.at(6).sync()
    assert house.query("SELECT DISTINCT class_code FROM classes") == [(None,)]
    assert house.query("SELECT snapshot_date FROM spans.days ORDER BY 1") == [(night(n),) for n in range(1, 7)]
