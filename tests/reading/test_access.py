"""The access log: every reading in it before it is shown, private, whole, kept for its time; and no value in it."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
from filelock import FileLock

from rollbook.errors import BusyError, MachineError
from rollbook.features.explore.book import Book
from rollbook.landing.formats import FORMAT
from rollbook.reading import access
from rollbook.util import machine
from tests.support.processes.commands import run_at
from tests.support.warehouses.school import School

NOW = datetime(2026, 11, 22, 2, 15, tzinfo=UTC)


def logged(root: Path) -> Path:
    """The file of this month."""
    return root / "private" / f"access-{datetime.now(UTC):%Y-%m}.jsonl"


def lines(root: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in logged(root).read_text().splitlines()]


def told(root: Path) -> list[tuple[str, int | None, str]]:
    return [(line["kind"], line["students"], line["what"]) for line in lines(root)]


def landed(root: Path, at: datetime) -> None:
    """A landing of a day: its folder says the day."""
    (root / "raw" / f"snapshot_date={at.date()}" / "landing=1").mkdir(parents=True)


@pytest.fixture
def clock() -> Iterator[time_machine.Traveller]:
    """A clock that is stopped until it is moved."""
    with time_machine.travel(NOW, tick=False) as travelling:
        yield travelling


# --- one line --------------------------------------------------------------------------------------------------------


def test_a_reading_is_one_line(tmp_path: Path, clock: time_machine.Traveller) -> None:
    before = os.umask(0)
    try:
        access.note(tmp_path, "sql", students=3, what="FROM roster")
        access.note(tmp_path, "export")
    finally:
        os.umask(before)
    user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    first, second = lines(tmp_path)
    assert first | {"login": ""} == {
        "format": FORMAT, "at": "2026-11-22T02:15:00Z", "user": user, "login": "",
        "reader": "", "kind": "sql", "students": 3, "what": "FROM roster",
    }  # fmt: skip
    assert (second["kind"], second["students"], second["what"]) == ("export", None, "")
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "private", *(tmp_path / "private").iterdir())}
    assert modes == {"private": 0o700, "access-2026-11.jsonl": 0o600, ".access.lock": 0o600}


def test_the_login_behind_an_account_is_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "uid").write_text("4294967295")
    monkeypatch.setattr(machine, "LOGIN_UID", tmp_path / "uid")
    monkeypatch.setenv("SUDO_USER", "counsellor")
    monkeypatch.setenv("LOGNAME", "somebody-else")
    access.note(tmp_path, "sql")
    (tmp_path / "uid").write_text("0")
    monkeypatch.setattr(machine, "name_of_account", lambda uid: "rollbook" if uid else "root")
    monkeypatch.setattr(os, "geteuid", lambda: 1)
    access.note(tmp_path, "sql")
    assert [line["login"] for line in lines(tmp_path)] == ["counsellor", "root"]
    assert "somebody-else" not in logged(tmp_path).read_text()


# --- a log that cannot be written ------------------------------------------------------------------------------------


def test_on_a_full_disk_the_reading_fails_and_later_lines_are_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    access.note(tmp_path, "before")
    write = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda fd, line: write(fd, line[:10]))
        with pytest.raises(MachineError, match="cannot be written .*, and unlogged access is refused: make room"):
            access.note(tmp_path, "sql")
    access.note(tmp_path, "after")
    assert [e.kind for e in access.entries(tmp_path)[0]] == ["before", "after"]


def test_a_lock_that_is_kept_ends_the_reading_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "LOCK_SECONDS", 0.05)
    (tmp_path / "private").mkdir()
    with FileLock(tmp_path / "private" / ".access.lock"), pytest.raises(BusyError, match="run it again"):
        access.note(tmp_path, "sql")


@pytest.mark.parametrize(("number", "owner", "raises"), [
    (errno.EACCES, 0, True), (errno.EACCES, 1, False), (errno.EROFS, 0, False), (errno.ENOSPC, 1, True),
])  # fmt: skip
def test_an_account_that_cannot_write_the_log_reads_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, number: int, owner: int,
    raises: bool,
) -> None:  # fmt: skip
    def refuse(folder: Path) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("rollbook.reading.access.files.folder", refuse)
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + owner)
    access._warn.cache_clear()
    if raises:
        with pytest.raises(MachineError, match="give .*private back to the account that owns the warehouse"):
            access.note(tmp_path, "sql")
        return
    access.note(tmp_path, "sql")
    access.note(tmp_path, "sql")
    assert [record.getMessage() for record in caplog.records] == [
        f"Only its owner can write the access log in {tmp_path / 'private'}: what this account reads is not logged"
    ]


# --- its time --------------------------------------------------------------------------------------------------------


def test_a_months_lines_go_after_their_time(
    tmp_path: Path, clock: time_machine.Traveller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROLLBOOK_ACCESS_LOG_DAYS", "60")
    for day in (0, 8, 9, 68, 69):
        clock.move_to(NOW + timedelta(days=day))
        landed(tmp_path, NOW + timedelta(days=day))
        access.note(tmp_path, f"day {day}")
    # The days 0 and 8 are in November, which ended 61 days before day 69.
    assert [e.kind for e in access.entries(tmp_path)[0]] == ["day 9", "day 68", "day 69"]
    later = (NOW + timedelta(days=68)).date()
    assert [e.kind for e in access.entries(tmp_path, later)[0]] == ["day 68", "day 69"]
    # A clock that no landing has confirmed deletes nothing, whether a year is wrong or right.
    access.keep_up(tmp_path, 60, NOW + timedelta(days=500))
    assert len(access.entries(tmp_path)[0]) == 3
    landed(tmp_path, NOW + timedelta(days=200))
    access.keep_up(tmp_path, 60, NOW)
    assert len(access.entries(tmp_path)[0]) == 3
    access.keep_up(tmp_path, 60, NOW + timedelta(days=200))  # as the nightly writer does though nobody looks
    assert access.entries(tmp_path) == ([], 0)


def test_lines_expire_only_after_a_landing_of_any_institution(
    tmp_path: Path, clock: time_machine.Traveller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROLLBOOK_ACCESS_LOG_DAYS", "60")
    common = tmp_path / "district"
    common.mkdir()
    access.note(common, "district sql")
    clock.move_to(NOW + timedelta(days=300))
    access.note(common, "district sql")
    assert len(access.entries(common)[0]) == 2
    landed(tmp_path / "north", NOW)
    landed(tmp_path / "south", NOW + timedelta(days=300))
    access.note(common, "district sql")
    assert [entry.at.date() for entry in access.entries(common)[0]] == [(NOW + timedelta(days=300)).date()] * 2


def test_the_ids_of_older_lines_go_and_nothing_else(tmp_path: Path) -> None:
    lines_before = [("pages", "student-739184620571"), ("pages", "class-501"), ("pages", "teacher-7"), ("pages", "")]
    lines_before += [("sql", "SELECT student-?"), ("export", "FROM roster")]
    for kind, what in lines_before:
        access.note(tmp_path, kind, students=1, what=what)
    before = access.entries(tmp_path)[0]
    access.forget_ids(tmp_path)
    after = access.entries(tmp_path)
    assert [e.what for e in after[0]] == ["student", "class", "teacher", "", "SELECT student-?", "FROM roster"]
    assert ([(e.at, e.kind, e.students) for e in after[0]], after[1]) == (
        [(e.at, e.kind, e.students) for e in before],
        0,
    )
    assert stat.S_IMODE(logged(tmp_path).stat().st_mode) == 0o600


# --- who writes into it ----------------------------------------------------------------------------------------------


def test_the_commands_write_what_they_show_and_no_value(small: School, tmp_path: Path) -> None:
    ((ident, name),) = small.rows("SELECT student_id, name FROM students ORDER BY 1 LIMIT 1")
    one = f"SELECT student_id, class_title FROM roster WHERE student_id = {ident} AND name = '{name}'"
    everyone = small.rows("SELECT COUNT(*) FROM students")[0][0]
    in_classes = small.rows("SELECT COUNT(DISTINCT student_id) FROM roster")[0][0]
    assert run_at(small.warehouse, "sql", one).returncode == 0
    assert run_at(small.warehouse, "sql", "FROM students", "--rows", "7").returncode == 0
    assert run_at(small.warehouse, "sql", "SELECT COUNT(*) FROM students").returncode == 0
    assert name in run_at(small.warehouse, "sql", "SELECT ERROR(name) FROM students ORDER BY student_id").stderr
    assert run_at(small.warehouse, "sql", f"SELEC '{name}'").returncode == 2
    for form in ("csv", "xlsx"):
        done = run_at(small.warehouse, "export", "roster", "--out", str(tmp_path / f"f.{form}"))
        assert done.returncode == 0, done.stderr
    assert run_at(small.warehouse, "export", "classes", "--out", str(tmp_path / "g.csv")).returncode == 0
    assert run_at(small.warehouse, "export", f"FROM students WHERE name <> '{name}'").returncode == 0
    assert told(small.warehouse) == [
        ("sql", 1, "SELECT student_id, class_title FROM roster WHERE student_id = ? AND name = ?"),
        ("sql", 7, "FROM students"),
        ("sql", None, "SELECT COUNT(*) FROM students"),
        ("sql", None, "SELECT ERROR(name) FROM students ORDER BY student_id"),
        ("sql", None, ""),
        *[("export", in_classes, "FROM roster")] * 2,
        ("export", None, "FROM classes"),
        ("export", everyone - 1, "FROM students WHERE name <> ?"),
    ]
    content = logged(small.warehouse).read_text()
    assert name not in content
    assert str(ident) not in content


def test_nothing_is_shown_or_written_that_is_not_logged(small: School, tmp_path: Path) -> None:
    logged(small.warehouse).mkdir(parents=True)
    for arguments in (("sql", "FROM students"), ("export", "students", "--out", str(tmp_path / "f.csv"))):
        done = run_at(small.warehouse, *arguments)
        assert (done.returncode, done.stdout) == (1, "")
        assert "unlogged access is refused" in " ".join(done.stderr.split())
    assert [p.name for p in tmp_path.iterdir() if p.name != "w"] == []
    with pytest.raises(MachineError):
        Book(small.warehouse).note("explore", "student", 1)


def test_access_shows_the_log_and_escapes_it(small: School) -> None:
    access.note(small.warehouse, "sql", students=1234, what="SELECT \x1b[31m ?")
    access.note(small.warehouse, "export")
    with logged(small.warehouse).open("ab") as file:
        file.write(b"no line of ours\n")
    done = run_at(small.warehouse, "access")
    assert done.returncode == 0, done.stderr
    cells = [[c.strip() for c in line.split("│")[2:]] for line in done.stdout.splitlines() if "│" in line]
    assert cells == [["sql", "1,234", r"SELECT \u001b[31m ?"], ["export", "unknown", ""]]
    assert "1 line of the log could not be read" in done.stderr
    one = run_at(small.warehouse, "access", "--rows", "1")
    assert ("1,234" in one.stdout, "1 older" in one.stderr) == (False, True)
    tomorrow = f"{datetime.now(UTC) + timedelta(days=1):%Y-%m-%d}"
    assert "export" not in run_at(small.warehouse, "access", "--since", tomorrow).stdout


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
def test_access_logged_by_root_stays_the_owners_file(tmp_path: Path) -> None:
    os.chown(tmp_path, 65534, 65534)
    access.note(tmp_path, "sql")
    paths = [tmp_path / "private", *(tmp_path / "private").iterdir()]
    assert {path.name: path.stat().st_uid for path in paths} == dict.fromkeys(
        ("private", logged(tmp_path).name, ".access.lock"), 65534
    )


def test_complex_queries_are_logged_without_a_count_of_students(small: School, tmp_path: Path) -> None:
    queries = [
        "SELECT 1 AS student_id, STRING_AGG(name, ';') FROM students",
        "SELECT class_id AS student_id, name FROM roster",
        "SELECT * REPLACE (1 AS student_id) FROM students",
        "SELECT student_id, (SELECT STRING_AGG(name, ';') FROM students) FROM roster LIMIT 1",
        "WITH roster AS (SELECT 1 AS student_id, name FROM students) FROM roster",
        "SELECT student_id, name FROM students AS s(name, student_id, email)",
        "SELECT s.student_id, r.name FROM students AS s CROSS JOIN roster AS r",
    ]
    for query in queries:
        done = run_at(small.warehouse, "sql", query)
        assert done.returncode == 0, done.stderr
    assert run_at(small.warehouse, "export", queries[0], "--out", str(tmp_path / "f.csv")).returncode == 0
    assert [students for _, students, _ in told(small.warehouse)] == [None] * (len(queries) + 1)
