"""The published file as it was known on a day: `rollbook rebuild --as-known-on`."""

from __future__ import annotations

import stat
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rollbook.errors import ArgumentError, BusyError, ExpiredError
from rollbook.night import past
from rollbook.night.past import always
from rollbook.night.rollbook import Rollbook
from rollbook.operations.discard import discard, undo_discard
from rollbook.operations.known import rebuild_as_known_on
from rollbook.privacy import access
from rollbook.util import files
from tests.support.nights import SET_OF, House, new_house, night
from tests.support.processes.commands import run_at
from tests.support.reading import opened, rows
from tests.support.records import classes, student, students
from tests.support.warehouses.begun import begin
from tests.support.warehouses.erasures import erase
from tests.support.warehouses.holds import first_night, is_held

TABLES = [f"{schema}.{t}" for schema in ("main", "history") for t in (*SET_OF, "institution")]
TABLES += ["main.changes", "main.thresholds", "spans.days", "spans.proven"]
TABLES += [f"ops.{t}" for t in ("syncs", "sync_sets", "rejects", "drift")]

Content = dict[str, list[tuple[Any, ...]]]


def content(file: Path) -> Content:
    """Every row that readers have."""
    with opened(file) as con:
        return {name: sorted(con.execute(f"FROM {name}").fetchall(), key=repr) for name in TABLES}


def as_known(house: House, number: int, out: Path) -> Content:
    rebuild_as_known_on(house.rollbook(), night(number), out)
    return content(out)


@pytest.mark.slow
def test_it_is_the_file_that_readers_had_whatever_came_later(tmp_path: Path) -> None:
    with new_house(students(12), classes(2)) as house:
        had: dict[int, Content] = {}
        first_night(house, students(12))
        is_held(house, 2, [*students(2), student(3, summary="refused")])
        house.night(3, [student(1, name="Night 3"), *students(10, first=2)])
        had[3] = content(house.published)
        house.at(5).approve(night(2))  # had been held for three nights
        house.service.students = [student(1, name="Corrected"), *students(11, first=2)]
        house.sync()
        house.service.students = students(12)
        house.sync(fresh=True)  # a second landing of that day
        had[5] = content(house.published)
        discard(house.at(6).rollbook(), night(3), reason="wrong", confirm=always)
        had[6] = content(house.published)
        undo_discard(house.at(7).rollbook(), night(3), confirm=always)
        before = house.state(), folders(house)
        for number, then in had.items():
            assert as_known(house, number, tmp_path / f"{number}.duckdb") == then, number
        # The hold of the second night is known as a hold until its approval.
        verdicts = "SELECT verdict FROM ops.syncs WHERE snapshot_date = DATE '2026-11-21'"
        assert [rows(tmp_path / f"{n}.duckdb", verdicts) for n in (3, 5)] == [[("held",)], [("approved",)]]
        assert (house.state(), folders(house)) == before
    assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()} == {0o600}
    assert rows(tmp_path / "5.duckdb", "SELECT COUNT(*) FROM snapshots.students") == [(0,)]
    assert rows(tmp_path / "3.duckdb", "SELECT name FROM students_as_of(DATE '2026-11-22') WHERE student_id = 1") == [
        ("Night 3",)
    ]


def folders(house: House) -> list[str]:
    """All paths in raw/ and build/, with the time of each file's last change."""
    files_left = [*(house.warehouse / "raw").rglob("*"), *(house.warehouse / "build").rglob("*")]
    return sorted(f"{p} {p.stat().st_mtime_ns if p.is_file() else ''}" for p in files_left)


def test_erasures_always_apply_and_one_that_happens_meanwhile_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with new_house(students(12), classes(1)) as house:
        begin(house)
        house.night(2, students(11))
        erase(house, 7)
        rebuilt = as_known(house, 1, tmp_path / "then.duckdb")
        assert [row[0] for row in rebuilt["main.students"]] == [1, 10, 11, 12, 2, 3, 4, 5, 6, 8, 9]
        assert not any(row[0] == 7 for table in SET_OF for row in rebuilt[f"history.{table}"])
        rebuild = past.rebuild

        def meanwhile(self: Rollbook, **how: Any) -> Any:
            erase(house, 8)
            return rebuild(self, **how)

        monkeypatch.setattr(past, "rebuild", meanwhile)
        with pytest.raises(BusyError, match="A student was erased meanwhile, so nothing was written: run this again"):
            as_known(house, 1, tmp_path / "again.duckdb")
    assert [path.name for path in tmp_path.iterdir()] == ["then.duckdb"]


def test_where_days_have_expired_it_refuses_and_names_them(tmp_path: Path) -> None:
    with new_house(students(12), classes(1), keep_days=1) as house:
        begin(house, nights=5)
        before = house.state()
        with pytest.raises(ExpiredError, match="What was landed on 2026-11-20 to 2026-11-2[12] has expired"):
            as_known(house, 4, tmp_path / "then.duckdb")
        with pytest.raises(ArgumentError, match="Nothing was known on 2026-11-19: no landing counted yet"):
            as_known(house, 0, tmp_path / "then.duckdb")
        with pytest.raises(ArgumentError, match="has not begun, so nothing is known on it"):
            as_known(house, 9, tmp_path / "then.duckdb")
        assert house.state() == before
    assert not list(tmp_path.iterdir())


def test_the_command_writes_the_file_and_a_line_in_the_access_log(tmp_path: Path) -> None:
    with new_house(students(3), classes(1)) as house:
        begin(house)
        house.night(2, students(2))
        out = tmp_path / "then.duckdb"
        given = ("rebuild", "--as-known-on", str(night(1)))
        refused = run_at(house.warehouse, *given)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "Give --as-known-on DAY and --out FILE together" in refused.stderr
        done = run_at(house.warehouse, *given, "--out", str(out))
        assert (done.returncode, done.stderr) == (0, "")
        assert f"Wrote {out}: 2026-11-20, as known on 2026-11-20." in done.stdout
        assert rows(out, "SELECT COUNT(*) FROM students") == [(3,)]
        assert [e.kind for e in access.entries(house.warehouse)[0]] == ["rebuild --as-known-on"]


@pytest.mark.parametrize("undone", [False, True])
def test_a_discard_that_was_only_noted_was_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, undone: bool
) -> None:
    """It, or its undoing, was killed between the note and the move: the folder says which of them holds."""

    def killed(*_: Path) -> None:
        raise KeyboardInterrupt

    with new_house(students(6), classes(2)) as house:
        house.night(1)
        house.night(2, [student(1, name="Second Night"), *students(5, first=2)])
        if undone:
            discard(house.rollbook(), night(2), reason="wrong", confirm=always)
        with monkeypatch.context() as patch:
            patch.setattr(files, "move", killed)
            work = partial(undo_discard, confirm=always) if undone else partial(discard, reason="wrong", confirm=always)
            with pytest.raises(KeyboardInterrupt):
                work(house.rollbook(), night(2))
        house.night(3, students(6))
        named = [("Pupil Number1",)] if undone else [("Second Night",)]
        as_known(house, 3, tmp_path / "3.duckdb")
        for file in (house.published, tmp_path / "3.duckdb"):
            discarded = rows(file, f"SELECT name FROM students_as_of(DATE '{night(2)}') WHERE student_id = 1")
            assert discarded == named, file
        discarded = house.rollbook().raw.discarded(night(2))
        assert [(noted.reason, noted.undone_at) for _, noted in discarded] == [("wrong", None)] * undone


def test_days_that_were_given_up_are_named_and_not_left_out(tmp_path: Path) -> None:
    with new_house(students(6), classes(2), keep_days=2) as house:
        for number in range(1, 6):
            house.night(number)
        with pytest.raises(ExpiredError):
            rebuild_as_known_on(house.rollbook(), night(2), tmp_path / "out.duckdb")
        past.rebuild(house.rollbook(), accept_loss=True, confirm=always)
        with pytest.raises(ExpiredError, match=f"What was landed on {night(1)}"):
            rebuild_as_known_on(house.rollbook(), night(4), tmp_path / "out.duckdb")
