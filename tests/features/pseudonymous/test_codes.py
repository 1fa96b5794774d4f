"""The table of codes, and `rollbook codes`: whom a code stands for, and new codes for all."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rollbook.cli import app
from rollbook.errors import ArgumentError, DamagedError, RollbookError
from rollbook.features.pseudonymous.pseudonymous import MAX_CODE, MIN_CODE, Codes, begin
from rollbook.reading import access
from tests.support.nights import House, new_house
from tests.support.warehouses.pseudonyms import codes, ident, pupils, rows, taught

pytestmark = pytest.mark.nights

NOW = datetime(2026, 11, 20, 2, 15, tzinfo=UTC)


# --- the table -------------------------------------------------------------------------------------------------------


def test_codes_have_fifteen_digits_and_each_is_drawn_once() -> None:
    assigned = begin(NOW).covering(range(1, 20_001)).codes
    assert len({*assigned.values()}) == 20_000
    assert begin(NOW).covering([1]).codes != begin(NOW).covering([1]).codes
    assert min(assigned.values()) >= MIN_CODE == 10**14
    assert max(assigned.values()) < MAX_CODE == 10**15
    # Neither the ids' order nor their size is in them: of neighbours, as many codes fall as rise.
    drawn = [assigned[n] for n in range(1, 20_001)]
    assert 9_500 < sum(a < b for a, b in itertools.pairwise(drawn)) < 10_500


@pytest.mark.parametrize("content", [b"", b"\xff\xfe"])
def test_odd_bytes_are_told_and_never_taken_for_a_table(tmp_path: Path, content: bytes) -> None:
    table = Codes(tmp_path)
    table.save(begin(NOW))
    table.path.write_bytes(content)
    with pytest.raises(DamagedError, match="rollbook codes rotate"):
        table.load()


# --- the commands ----------------------------------------------------------------------------------------------------


@pytest.fixture
def coded_school(monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    monkeypatch.setenv("COLUMNS", "300")
    with new_house(pupils(3), taught(), pseudonymous=True) as house:
        for name, value in house.environment().items():
            monkeypatch.setenv(name, value)
        yield house


def run(*arguments: str) -> str:
    """The output of a command. Raises what it raises."""
    result = CliRunner().invoke(app, ["codes", *arguments])
    if isinstance(result.exception, RollbookError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def test_find_names_who_is_behind_a_code_also_who_is_gone(coded_school: House) -> None:
    coded_school.night(1)
    coded_school.night(2, pupils(2))
    assigned = codes(coded_school)
    assert run("find", str(assigned[ident(1)])).strip() == (
        f"{assigned[ident(1)]} is student {ident(1)}: Zaphod O'Beeblebrox-1x."
    )
    assert run("find", str(assigned[ident(3)])).strip() == (
        f"{assigned[ident(3)]} is student {ident(3)}: Zaphod O'Beeblebrox-3x, who is no longer listed."
    )
    assert [(e.kind, e.students, e.what) for e in access.entries(coded_school.warehouse)[0]] == [
        ("codes find", 1, "")
    ] * 2


def test_find_says_that_a_code_stands_for_nobody(coded_school: House) -> None:
    with pytest.raises(ArgumentError, match="^7 stands for nobody: copy it from student_id"):
        run("find", "7")
    coded_school.night(1)
    with pytest.raises(ArgumentError, match=r"^7 stands for nobody \(codes are those since 2026-11-20 02:15 UTC\)"):
        run("find", "7")
    with pytest.raises(ArgumentError, match="stands for nobody"):
        run("find", str(ident(1)))


def test_rotate_gives_new_codes_and_forgets_the_old(coded_school: House) -> None:
    coded_school.night(1)
    before = codes(coded_school)
    with pytest.raises(ArgumentError, match="add --yes"):
        run("rotate")
    assert codes(coded_school) == before
    assert "with 3 codes" in run("rotate", "--yes")
    after = codes(coded_school)
    assert not {*before.values()} & {*after.values()}
    assert {code for (code,) in rows(coded_school, "SELECT student_id FROM students")} == {*after.values()}
    with pytest.raises(ArgumentError, match="stands for nobody"):
        run("find", str(before[ident(1)]))
    assert f"is student {ident(1)}" in run("find", str(after[ident(1)]))


@pytest.mark.slow
def test_status_says_of_which_version_the_file_is(coded_school: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def line() -> str:
        result = CliRunner().invoke(app, ["status"])
        assert result.exit_code == 0, result.output
        return next(shown for shown in result.output.splitlines() if shown.startswith("codes"))

    assert "does NOT match the published file, but is up to no day: the next sync makes it again" in line()
    coded_school.night(1)
    assert line().endswith("rollbook-pseudonymous.duckdb matches the published file.")
    with monkeypatch.context() as patch:
        patch.setattr("rollbook.features.pseudonymous.pseudonymous.Pseudonymous.before_publish", lambda *_: None)
        coded_school.night(2)
    assert "does NOT match the published file, but is up to 2026-11-20: the next sync makes it again" in line()
    monkeypatch.setenv("ROLLBOOK_PSEUDONYMOUS", "0")
    assert "the next sync removes it" in line()
