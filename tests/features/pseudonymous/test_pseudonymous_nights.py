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
def test_codes_stay_the_same_also_for_returning_students(coded_school: House) -> None:
    coded_school.night(1)
    first = codes(coded_school)
    coded_school.night(2, pupils(7))
    coded_school.night(3, [*pupils(6), pupil(9)])
    coded_school.night(4, pupils(8))
    assert {s: c for s, c in codes(coded_school).items() if s in first} == first
    assert set(codes(coded_school)) == {*first, ident(9)}
    assert current(coded_school) == set(first.values())
    assert rows(coded_school, f"SELECT COUNT(*) FROM history.students WHERE student_id = {first[ident(8)]}") == [(2,)]


# --- failures and kills ----------------------------------------------------------------------------------------------


def no_room(*_: Any) -> None:
    raise MachineError("The disk is full")


@pytest.mark.slow
def test_a_failure_leaves_the_older_file_and_the_night_goes_on(
    coded_school: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    coded_school.night(1)
    for fault in (no_room, lambda *_: duckdb.sql("SELECT * FROM Zaphod")):
        with monkeypatch.context() as patch:
            patch.setattr("rollbook.views.catalog.create_views", fault)
            coded_school.night(2, pupils(9))
            assert "rollbook-pseudonymous.duckdb could not be brought up to date" in caplog.text
            assert "Zaphod" not in caplog.text
            assert coded_school.query("SELECT COUNT(*) FROM students") == [(9,)]
            assert rows(coded_school, "SELECT COUNT(*), (SELECT newest_day FROM ops.release) FROM students") == [
                (8, night(1))
            ]
            assert not is_current(coded_school)
        caplog.clear()
    coded_school.night(3)
    assert is_current(coded_school)
    assert len(versions(coded_school)) == 2


def test_a_kill_between_both_swaps_is_repaired_by_the_next_writer(
    coded_school: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    coded_school.night(1)
    with monkeypatch.context() as patch:
        patch.setattr("rollbook.features.pseudonymous.pseudonymous.Pseudonymous.on_published", killed)
        with pytest.raises(SystemExit):
            coded_school.night(2, pupils(9))
    assert not is_current(coded_school)
    with coded_school.rollbook().writer().writing():
        assert is_current(coded_school)
    assert "did not match the published file; it was made again" in caplog.text
    assert current(coded_school) == set(codes(coded_school).values())
    assert not (coded_school.warehouse / "build" / "next-pseudonymous.duckdb").exists()


def killed(*_: Any, **__: Any) -> None:
    raise SystemExit(9)


def is_current_by_status(house: House) -> bool:
    return line_of(house.rollbook(), "codes") == "rollbook-pseudonymous.duckdb matches the published file"


@pytest.mark.slow
@pytest.mark.parametrize("harm", ["cut", weekly("lost")])
def test_a_lost_table_of_codes_is_told_and_no_code_changes_silently(
    coded_school: House, caplog: pytest.LogCaptureFixture, harm: str
) -> None:
    coded_school.night(1)
    table, before = coded_school.warehouse / "private" / "codes.json", current(coded_school)
    content = table.read_bytes()
    if harm == "lost":
        table.unlink()
    else:
        table.write_bytes(content[:-20])
    coded_school.night(2, pupils(9))
    assert "rollbook codes rotate" in caplog.text
    assert coded_school.query("SELECT COUNT(*) FROM students") == [(9,)]
    assert current(coded_school) == before
    table.write_bytes(content)
    coded_school.night(3)
    assert before < current(coded_school)


@pytest.mark.parametrize("content", [slow(None), weekly(b""), weekly(b"no database")])
def test_a_damaged_file_is_told_and_made_again(coded_school: House, content: bytes | None) -> None:
    coded_school.night(1)
    file = pseudonymous(coded_school).resolve()
    file.unlink() if content is None else file.write_bytes(content)
    assert not is_current_by_status(coded_school)
    with coded_school.rollbook().writer().writing():
        pass
    assert is_current(coded_school)
