"""The pseudonymous file: made or not as the setting says, read by whom its mode lets, and of odd schools."""

from __future__ import annotations

import os
import stat

import duckdb
import pytest

from pipelines.errors import DamagedError, RollbookError
from pipelines.operations.status import load_status
from tests.support.nights import House, new_house
from tests.support.processes.machines import reached
from tests.support.warehouses.pseudonyms import (
    Secrets,
    codes,
    current,
    declare_personal,
    is_current,
    pseudonymous,
    pupil,
    pupils,
    rows,
    taught,
)


def test_without_the_setting_there_is_none(house: House) -> None:
    house.night(1, over={"pseudonymous": False})
    names = {p.relative_to(house.warehouse).as_posix() for p in house.warehouse.rglob("*")}
    assert not {n for n in names if "pseudonymous" in n or "codes" in n}
    assert load_status(house.rollbook(pseudonymous=False)).pseudonymous is None


@pytest.mark.slow
def test_turned_off_the_file_goes_and_the_codes_stay(house: House, caplog: pytest.LogCaptureFixture) -> None:
    house.night(1)
    known = codes(house)
    found = load_status(house.rollbook(pseudonymous=False)).pseudonymous
    assert found is not None
    assert (found.is_wanted, found.is_current) == (False, True)
    house.night(2, over={"pseudonymous": False})
    assert "ROLLBOOK_PSEUDONYMOUS is not set" in caplog.text
    assert not {p.name for p in house.warehouse.iterdir() if "pseudonymous" in p.name}
    house.night(3)
    assert current(house) == set(known.values())


def test_turned_on_it_is_made_by_the_next_writer(house: House) -> None:
    house.night(1, over={"pseudonymous": False})
    with house.rollbook().writer():
        pass
    assert is_current(house)


OF_IT = {"rollbook-pseudonymous.duckdb", "pseudonymous"}


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "others"), [("644", OF_IT), ("640", set()), ("600", set())])
def test_a_wider_group_reads_it_and_nothing_else(house: House, mode: str, others: set[str]) -> None:
    umask = os.umask(0)
    try:
        house.night(1, over={"pseudonymous_mode": mode})
        assert reached(house.warehouse, 0o004) == others
        assert reached(house.warehouse, 0o040) == (set() if mode == "600" else OF_IT)
        assert stat.S_IMODE(pseudonymous(house).stat().st_mode) == int(mode, 8)
        house.night(2, over={"pseudonymous_mode": mode, "published_mode": "640"})
        assert reached(house.warehouse, 0o004) == others
        # What was opened is closed again by the next writer.
        house.night(3)
        assert reached(house.warehouse, 0o044) == set()
        assert stat.S_IMODE(house.warehouse.stat().st_mode) == 0o700
    finally:
        os.umask(umask)


def test_another_mode_holds_from_the_next_writer_on_whether_it_publishes_or_not(house: House) -> None:
    house.night(1, over={"pseudonymous_mode": "644"})
    file = pseudonymous(house).resolve()
    with house.rollbook(pseudonymous_mode="640").writer():
        pass
    assert [stat.S_IMODE(p.stat().st_mode) for p in (file, file.parent)] == [0o640, 0o750]


def test_the_codes_are_the_owners_alone(house: House) -> None:
    umask = os.umask(0)
    try:
        house.night(1, over={"pseudonymous_mode": "644", "published_mode": "644"})
    finally:
        os.umask(umask)
    table = house.warehouse / "private" / "codes.json"
    assert [stat.S_IMODE(p.stat().st_mode) for p in (table, table.parent)] == [0o600, 0o700]


def test_a_process_that_stays_open_sees_the_new_night_when_it_connects_again(house: House) -> None:
    house.night(1)
    with duckdb.connect(pseudonymous(house), read_only=True) as held:
        house.night(2, pupils(9))
        assert held.execute("SELECT COUNT(*) FROM students").fetchall() == [(8,)]
        assert rows(house, "SELECT COUNT(*) FROM students") == [(9,)]


# --- odd schools -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_school_without_students_and_one_with_a_single_class(house: House) -> None:
    with new_house([], taught()[:1], pseudonymous=True) as empty:
        empty.night(1)
        assert is_current(empty)
        assert current(empty) == set()
        empty.night(2, pupils(1))
        assert len(current(empty)) == 1


@pytest.mark.slow
def test_a_column_that_becomes_personal_is_gone_after_the_next_night(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From its history, too."""
    house.night(1)
    assert rows(house, "SELECT COUNT(class_room) > 0 FROM history.classes") == [(True,)]
    lake = {k: v for k, v in house.state().items() if k.startswith("snapshots")}
    declare_personal(monkeypatch, "classes", "class_room")
    house.night(2)
    assert rows(house, "SELECT COUNT(class_room) FROM history.classes") == [(0,)]
    assert house.query("SELECT COUNT(class_room) > 0 FROM history.classes") == [(True,)]
    # Nothing was flattened again for it.
    assert lake.items() <= house.state().items()


@pytest.mark.slow
def test_names_with_quotes_in_every_place_do_no_harm(house: House) -> None:
    secrets = Secrets()
    listed = [pupil(1, "'"), pupil(2, '"'), pupil(3, "\\"), pupil(4, "%'); DROP TABLE students; --")]
    secrets.add(listed)
    house.night(1, listed)
    assert len(current(house)) == 4
    assert secrets.in_bytes(pseudonymous(house)) == set()


@pytest.mark.slow
def test_an_error_of_the_published_file_does_not_spoil_this_one(house: House) -> None:
    house.night(1)
    house.lose_published()
    with pytest.raises(RollbookError), house.rollbook().writer(recover=False):
        raise DamagedError("as a rebuild that fails would")
    with house.rollbook().writer():
        assert is_current(house)
