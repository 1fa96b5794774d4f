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
    after_three_nights: House, expected: Expected, loss: Callable[[House], None]
) -> None:
    loss(after_three_nights)
    after_three_nights.service.students = students(10)
    with pytest.raises(HeldError, match="51 of 61 students"):
        after_three_nights.sync()
    assert after_three_nights.tables() == expected.tables()


@pytest.mark.parametrize("loss", daily(LOSSES, restore_the_first_night))
def test_a_record_found_by_search_stays_whatever_happened_to_the_file(
    after_three_nights: House, expected: Expected, loss: Callable[[House], None]
) -> None:
    """Number 100 is new since the older files: the older files would not even know whom to search for."""
    loss(after_three_nights)
    after_three_nights.service.hide(7, 100)
    done = after_three_nights.sync()
    assert [(a.id, a.answer) for a in done.manifest.absences] == [(7, "found_by_search"), (100, "found_by_search")]
    assert after_three_nights.tables() == expected.night(4, LISTED, classes(4)).tables()


@pytest.mark.story
def test_a_stop_before_publish_is_recovered_before_the_next_decision(
    after_three_nights: House, expected: Expected
) -> None:
    after_three_nights.service.students = more = [*LISTED, *students(30, first=200)]
    rollbook = after_three_nights.rollbook()
    with rollbook.writer().writing():
        snapshot(rollbook.place, landed(rollbook), rollbook.settings, rollbook.clock())
    expected.night(4, more, classes(4))
    after_three_nights.at(5).service.students = students(60)
    with pytest.raises(HeldError, match="31 of 91 students"):
        after_three_nights.sync()
    assert after_three_nights.tables() == expected.tables()


def test_foreign_files_in_the_published_place_are_moved_aside(after_three_nights: House) -> None:
    make_a_folder_of_it(after_three_nights)
    after_three_nights.sync()
    (aside,) = (after_three_nights.warehouse / "build" / "altered").iterdir()
    assert (aside / "somebody's file").read_text() == "kept"
    change_rows(after_three_nights)
    after_three_nights.sync()
    assert len(list((after_three_nights.warehouse / "build" / "altered").iterdir())) == 2
    assert after_three_nights.query("SELECT COUNT(*) FROM history.students WHERE name = 'Mine Now'") == [(0,)]


@pytest.mark.slow
def test_faults_in_the_published_file_are_repaired_from_the_lake(after_three_nights: House, expected: Expected) -> None:
    """The checks refuse what was merged from the file; what was merged from the lake passes."""
    restore_the_first_night(after_three_nights)
    answers = iter([{"rule": ["wrong"]}])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rollbook.store.checks.examine", lambda *_, **__: next(answers, {}))
        after_three_nights.sync()
    assert after_three_nights.tables() == expected.night(4, LISTED, classes(4)).tables()


# --- what cannot be judged now is landed all the same ----------------------------------------------------------------


@pytest.mark.story
def test_a_night_that_cannot_be_judged_is_landed_for_the_next_writer(
    after_three_nights: House, expected: Expected
) -> None:
    restore_the_first_night(after_three_nights)
    after_three_nights.service.students = students(59)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rollbook.store.checks.examine", lambda *_, **__: {"rule": ["wrong"]})
        with pytest.raises(CheckError):
            after_three_nights.sync()
    (landed,) = after_three_nights.landings(night(4))
    assert (landed.verdict, landed.proven, landed.absences) == (None, False, ())
    assert "wrong" in landed.deferred
    after_three_nights.at(5).sync()
    expected.night(4, students(59), classes(4), unproven=["students", "classes"])
    assert after_three_nights.tables() == expected.night(5, students(59), classes(4)).tables()
    (landed,) = after_three_nights.landings(night(4))
    assert landed.verdict is Verdict.UNPROVEN
    assert "could not be compared" in landed.reason


# --- rebuild and backfill ask before taking much away -------------------------------------------------------------


def test_a_rebuild_that_would_lose_many_rows_asks_first(after_three_nights: House, expected: Expected) -> None:
    after_three_nights.night(4, students(120))
    shutil.rmtree(after_three_nights.warehouse / "raw" / f"snapshot_date={night(4)}")
    before = after_three_nights.state()
    with pytest.raises(HeldError, match="59 of 120 students") as held:
        past.rebuild(after_three_nights.rollbook().writer(), accept_loss=True)
    assert held.value.exit_code == 3
    assert "--yes" in held.value.message
    assert after_three_nights.state() == before
    past.rebuild(after_three_nights.rollbook().writer(), accept_loss=True, confirm=always)
    assert after_three_nights.tables() == expected.tables()


@pytest.mark.parametrize("loss", daily([delete, cut_short, make_a_folder_of_it, change_rows], cut_short))
def test_a_rebuild_needs_no_published_file_and_still_asks(
    after_three_nights: House, expected: Expected, loss: Callable[[House], None]
) -> None:
    loss(after_three_nights)
    past.rebuild(after_three_nights.rollbook().writer())
    assert after_three_nights.tables() == expected.tables()
    loss(after_three_nights)
    shutil.rmtree(after_three_nights.warehouse / "raw" / f"snapshot_date={night(1)}")
    with pytest.raises(LostError, match=f"raw/ lacks 1 landing .*: {night(1)}"):
        past.rebuild(after_three_nights.rollbook().writer())


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
def test_a_type_that_snapshots_do_not_fit_is_told(after_three_nights: House) -> None:
    before = after_three_nights.state()["rollbook.duckdb"]
    after_three_nights.service.classes = [school_class(c, class_code=None) for c in range(501, 505)]
    with class_codes_as_numbers():
        for number in (4, 5):
            with pytest.raises(RollbookError) as refused:
                after_three_nights.at(number).sync()
            assert "class_code" in refused.value.message
            assert "C-501" not in refused.value.message
            assert "rollbook rebuild" in refused.value.message
            assert after_three_nights.state()["rollbook.duckdb"] == before
    after_three_nights.at(6).sync()
    assert after_three_nights.query("SELECT DISTINCT class_code FROM classes") == [(None,)]
    assert after_three_nights.query("SELECT snapshot_date FROM spans.days ORDER BY 1") == [
        (night(n),) for n in range(1, 7)
    ]
