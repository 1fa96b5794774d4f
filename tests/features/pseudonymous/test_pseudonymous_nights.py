"""The pseudonymous file from night to night: what follows every publish, and what a failure or a kill leaves behind."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

from rollbook.errors import MachineError
from tests.support.nights import House, line_of, night
from tests.support.tiers import slow, weekly
from tests.support.warehouses.pseudonyms import (
    codes,
    current,
    ident,
    is_current,
    pseudonymous,
    pupil,
    pupils,
    rows,
)

pytestmark = pytest.mark.nights


def versions(house: House) -> list[str]:
    return sorted(p.name for p in (house.warehouse / "pseudonymous").iterdir())


# --- the codes -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_codes_stay_the_same_also_for_returning_students(house: House) -> None:
    house.night(1)
    first = codes(house)
    house.night(2, pupils(7))
    house.night(3, [*pupils(6), pupil(9)])
    house.night(4, pupils(8))
    assert {s: c for s, c in codes(house).items() if s in first} == first
    assert set(codes(house)) == {*first, ident(9)}
    assert current(house) == set(first.values())
    assert rows(house, f"SELECT COUNT(*) FROM history.students WHERE student_id = {first[ident(8)]}") == [(2,)]


# --- failures and kills ----------------------------------------------------------------------------------------------


def no_room(*_: Any) -> None:
    raise MachineError("The disk is full")


@pytest.mark.slow
def test_a_failure_leaves_the_older_file_and_the_night_goes_on(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    house.night(1)
    for fault in (no_room, lambda *_: duckdb.sql("SELECT * FROM Zaphod")):
        with monkeypatch.context() as patch:
            patch.setattr("rollbook.views.catalog.create_views", fault)
            house.night(2, pupils(9))
            assert "rollbook-pseudonymous.duckdb could not be brought up to date" in caplog.text
            assert "Zaphod" not in caplog.text
            assert house.query("SELECT COUNT(*) FROM students") == [(9,)]
            assert rows(house, "SELECT COUNT(*), (SELECT newest_day FROM ops.release) FROM students") == [(8, night(1))]
            assert not is_current(house)
        caplog.clear()
    house.night(3)
    assert is_current(house)
    assert len(versions(house)) == 2


def test_a_kill_between_both_swaps_is_repaired_by_the_next_writer(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    house.night(1)
    with monkeypatch.context() as patch:
        patch.setattr("rollbook.features.pseudonymous.pseudonymous.Pseudonymous.on_published", killed)
        with pytest.raises(SystemExit):
            house.night(2, pupils(9))
    assert not is_current(house)
    with house.rollbook().writer().writing():
        assert is_current(house)
    assert "did not match the published file; it was made again" in caplog.text
    assert current(house) == set(codes(house).values())
    assert not (house.warehouse / "build" / "next-pseudonymous.duckdb").exists()


def killed(*_: Any, **__: Any) -> None:
    raise SystemExit(9)


def is_current_by_status(house: House) -> bool:
    return line_of(house.rollbook(), "codes") == "rollbook-pseudonymous.duckdb matches the published file"


@pytest.mark.slow
@pytest.mark.parametrize("harm", ["cut", weekly("lost")])
def test_a_lost_table_of_codes_is_told_and_no_code_changes_silently(
    house: House, caplog: pytest.LogCaptureFixture, harm: str
) -> None:
    house.night(1)
    table, before = house.warehouse / "private" / "codes.json", current(house)
    content = table.read_bytes()
    if harm == "lost":
        table.unlink()
    else:
        table.write_bytes(content[:-20])
    house.night(2, pupils(9))
    assert "rollbook codes rotate" in caplog.text
    assert house.query("SELECT COUNT(*) FROM students") == [(9,)]
    assert current(house) == before
    table.write_bytes(content)
    house.night(3)
    assert before < current(house)


@pytest.mark.parametrize("content", [slow(None), weekly(b""), weekly(b"no database")])
def test_a_damaged_file_is_told_and_made_again(house: House, content: bytes | None) -> None:
    house.night(1)
    file = pseudonymous(house).resolve()
    file.unlink() if content is None else file.write_bytes(content)
    assert not is_current_by_status(house)
    with house.rollbook().writer().writing():
        pass
    assert is_current(house)
