"""`rollbook share` as it is typed, and the lines of `status`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rollbook import feature
from rollbook.errors import ArgumentError
from rollbook.features.share import commands
from rollbook.features.share.register import Register
from rollbook.reading import access
from tests.support.nights import House, line_of, new_house
from tests.support.processes.commands import run_at
from tests.support.records import classes, students
from tests.support.warehouses.begun import begin

WITHOUT = {"ROLLBOOK_PSEUDONYMOUS": ""}
WITH = {"ROLLBOOK_PSEUDONYMOUS": "1"}


def test_a_token_is_shown_once_in_the_lines_to_type(tmp_path: Path) -> None:
    assert run_at(tmp_path, "share", "list").stdout == "Nobody has a token: `rollbook share add NAME` makes one.\n"
    added = run_at(tmp_path, "share", "add", "ash-excel", **WITH)
    assert (added.returncode, added.stderr) == (0, "")
    *_, secret, attach, use = added.stdout.splitlines()
    assert re.fullmatch(
        r"CREATE SECRET rollbook \(TYPE http, BEARER_TOKEN '[\w-]{43}', SCOPE 'https://rollbook.example.org/file/'\);",
        secret,
    )
    assert attach == (
        "ATTACH 'https://rollbook.example.org/file/rollbook-pseudonymous.duckdb' AS rollbook (READ_ONLY);"
    )
    assert use == "USE rollbook;"
    token = secret.split("'")[1]
    listed = run_at(tmp_path, "share", "list", **WITH)
    assert "ash-excel" in listed.stdout
    assert listed.stderr == (
        "Warning: rollbook-pseudonymous.duckdb is not there, so its readers get nothing: the next sync makes it.\n"
    )
    removed = run_at(tmp_path, "share", "remove", "ash-excel")
    assert (removed.returncode, removed.stdout) == (0, "The token of ash-excel lets nobody in any more.\n")
    assert run_at(tmp_path, "share", "remove", "ash-excel").returncode == 2
    told = [(entry.kind, entry.students, entry.what) for entry in access.entries(tmp_path)[0]]
    assert told == [
        ("share add", 0, "rollbook-pseudonymous.duckdb to ash-excel"),
        ("share remove", 0, "ash-excel"),
    ]
    assert token not in listed.stdout + str(access.entries(tmp_path))


def test_the_lines_have_the_address_that_is_set(tmp_path: Path) -> None:
    url = "https://records.school.example"
    added = run_at(tmp_path, "share", "add", "ash", **WITH, ROLLBOOK_EXPLORE_URL=url)
    assert added.stdout.startswith("The token is shown only now, and is for one program. In DuckDB, type:\n")
    assert f"SCOPE '{url}/file/'" in added.stdout
    assert f"ATTACH '{url}/file/rollbook-pseudonymous.duckdb'" in added.stdout


def test_names_are_given_only_to_somebody_who_confirms_it(tmp_path: Path) -> None:
    refused = run_at(tmp_path, "share", "add", "ash", "--names", **WITHOUT)
    assert (refused.returncode, refused.stderr) == (
        2,
        "Error: Not confirmed, so there is no token. Without a terminal, add --yes\n",
    )
    assert Register(tmp_path).read() == ()
    given = run_at(tmp_path, "share", "add", "ash", "--names", "--yes", **WITHOUT)
    assert "ATTACH 'https://rollbook.example.org/file/rollbook.duckdb'" in given.stdout


def test_without_a_pseudonymous_file_it_says_why_and_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = run_at(tmp_path, "share", "add", "ash", **WITHOUT)
    assert (refused.returncode, refused.stderr) == (
        2,
        "Error: ROLLBOOK_PSEUDONYMOUS is not set, so there is no file without names. With --names, ash gets the whole"
        " file\n",
    )
    monkeypatch.setenv("ROLLBOOK_WAREHOUSE", str(tmp_path))
    monkeypatch.setenv("ROLLBOOK_PSEUDONYMOUS", "1")
    others = tuple(each for each in feature.present() if each.name != "pseudonymous")
    monkeypatch.setattr("rollbook.features.share.register.present", lambda: others)
    with pytest.raises(
        ArgumentError, match="makes the pseudonymous file is not installed, so there is no file without"
    ):
        commands.add("ash")
    commands.add("ash", names=True, yes=True)
    assert [each.name for each in Register(tmp_path).read()] == ["ash"]


def test_a_token_that_cannot_be_logged_is_not_made(tmp_path: Path) -> None:
    access.note(tmp_path, "sql")
    (log,) = (tmp_path / "private").glob("access-*.jsonl")
    log.unlink()
    log.mkdir()
    refused = run_at(tmp_path, "share", "add", "ash", **WITH)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "unlogged access is refused" in refused.stderr
    assert Register(tmp_path).read() == ()


@pytest.mark.nights
def test_status_says_who_reads_from_elsewhere_and_what_hinders() -> None:
    with new_house(students(9), classes(2)) as house:
        begin(house)
        assert line_of(house.rollbook(), "share") is None
        added(house, "ash", names=True)
        assert line_of(house.rollbook(), "share") == "1 reader on other machines (`rollbook share list`)"
        added(house, "elm", names=False)
        assert line_of(house.rollbook(), "share") == (
            "2 readers on other machines (`rollbook share list`); rollbook-pseudonymous.duckdb is not there, so its"
            " readers get nothing: ROLLBOOK_PSEUDONYMOUS is not set"
        )
        Register(house.warehouse).path.write_bytes(b"{")
        says = line_of(house.rollbook(), "share")
        assert says is not None
        assert "cannot be read (DecodeError), so nobody gets in" in says


def added(house: House, name: str, *, names: bool) -> None:
    Register(house.warehouse).add(name, names=names, at=house.now)
