"""Building the fleet's file: never half a file, one build at a time, and one institution's damage stays its own."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

from pipelines.errors import BusyError, CheckError, NothingLandedError
from pipelines.fleet.file import gathering
from pipelines.store import parts
from pipelines.store.published.fleet_file import FleetFile
from tests.support.nights import night
from tests.support.reading import rows
from tests.support.records import classes, student, students
from tests.support.tiers import daily
from tests.support.warehouses.district import District, two_schools

ASH, BIRCH, CEDAR = "ash", "birch", "cedar"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "WAIT_SECONDS", 0.01)
    monkeypatch.setattr("pipelines.views.catalog.create_views", lambda *_: None)


@pytest.fixture(scope="module")
def played() -> Iterator[District]:
    """For copying."""
    with two_schools(CEDAR) as made:
        yield made


def counts(district: District) -> dict[str, int]:
    """How many students of each institution readers see."""
    query = "SELECT institution, COUNT(*) FROM fleet.students GROUP BY ALL"
    return dict(rows(district.warehouse / "fleet.duckdb", query))


def listed(district: District, columns: str) -> list[tuple[Any, ...]]:
    return rows(district.warehouse / "fleet.duckdb", f"SELECT {columns} FROM institutions ORDER BY institution")


def versions(district: District) -> int:
    return len(list((district.warehouse / "published").iterdir()))


def test_readers_get_the_new_file_as_a_whole_and_keep_the_one_they_have_open(district: District) -> None:
    built = district.build()
    assert (built.institutions, built.students, built.newest_day, built.left_out) == (2, 7, night(1), {})
    with duckdb.connect(str(district.warehouse / "fleet.duckdb"), read_only=True) as con:
        district.house(ASH).night(2, students(9))
        assert district.build().students == 12
        assert con.execute("SELECT COUNT(*) FROM students").fetchall() == [(7,)]
        assert counts(district) == {ASH: 9, BIRCH: 3}, "who connects anew gets the new one, in this process, too"
    district.build()
    assert versions(district) == 2, "the newest one, and the one that somebody may just be opening"


def test_a_build_that_fails_leaves_the_last_one(district: District, monkeypatch: pytest.MonkeyPatch) -> None:
    district.build()
    district.house(ASH).night(2, students(9))

    def broken(*_: object) -> None:
        raise CheckError("a check failed")

    with monkeypatch.context() as patch:
        patch.setattr("pipelines.fleet.file.build._check", broken)
        with pytest.raises(CheckError):
            district.build()
    assert counts(district) == {ASH: 4, BIRCH: 3}
    assert district.left_by_builds() == [], "half a file, or links that would keep an erased student"


def test_the_check_finds_rows_that_nobody_gave(district: District, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.fleet.file.build._fill_table", lambda *_: None)
    with pytest.raises(CheckError, match="main.students does not hold what the institutions gave"):
        district.build()
    assert not (district.warehouse / "fleet.duckdb").exists()


@pytest.mark.slow
def test_what_a_killed_build_left_is_removed_by_the_next(district: District) -> None:
    district.build()
    folder = district.warehouse / "fleet" / "_build"
    (folder / "next.duckdb").write_bytes(b"half")
    (folder / "links" / "students").mkdir(parents=True)
    (folder / "links" / "students" / "gone.parquet").write_bytes(b"a link")
    shown = district.warehouse / "published" / "fleet.2999-01-01T00-00-00-000000.duckdb"
    shutil.copyfile(next((district.warehouse / "published").iterdir()), shown)
    district.build()
    assert not (folder / "next.duckdb").exists()
    assert not list((folder / "links").iterdir())
    assert not shown.exists(), "a version that was never shown"


def test_one_build_at_a_time(district: District) -> None:
    district.build()
    with FleetFile(district.warehouse / "fleet").building(), pytest.raises(BusyError, match="fleet.duckdb"):
        district.build()
    district.build()


@pytest.mark.parametrize("harm", daily(["scrambled", "lost", "cut"], "scrambled"))
def test_an_institution_whose_files_are_damaged_is_left_out_until_its_next_sync(district: District, harm: str) -> None:
    district.build()
    fleet = district.warehouse / "fleet"
    given = parts.note_of(fleet, ASH)
    assert given is not None
    path = parts.path_of(fleet, "changes", ASH, given.tables["changes"])
    content = path.read_bytes()
    if harm == "lost":
        path.unlink()
    else:
        path.write_bytes(content[:-9] if harm == "cut" else bytes(len(content)))
    built = district.build()
    assert list(built.left_out) == [ASH]
    assert counts(district) == {BIRCH: 3}
    assert listed(district, "institution, newest_day, left_out IS NULL") == [
        (ASH, None, False), (BIRCH, night(1), True), (CEDAR, None, True),
    ]  # fmt: skip
    if harm == "scrambled":  # as long as it was: it looks whole until somebody reads it
        path.unlink()
    with district.house(ASH).rollbook().writer():
        pass
    assert district.build().left_out == {}
    assert counts(district) == {ASH: 4, BIRCH: 3}


@pytest.mark.slow
def test_an_institution_that_publishes_meanwhile_is_taken_as_a_whole(
    district: District, monkeypatch: pytest.MonkeyPatch
) -> None:
    house, link = district.house(ASH), gathering.link_or_copy
    nights = iter([2])

    def meanwhile(file: Path, name: Path) -> None:
        if name.parent.name == "classes" and name.stem == ASH:  # some tables have been linked, others not
            for number in nights:
                house.night(number, [*students(8), student(9, name="Latecomer")], classes(2))
        link(file, name)

    monkeypatch.setattr(gathering, "link_or_copy", meanwhile)
    assert district.build().left_out == {}
    assert counts(district) == {ASH: 9, BIRCH: 3}
    given = parts.note_of(district.warehouse / "fleet", ASH)
    assert given is not None
    assert listed(district, "version")[0] == (given.version,)


@pytest.mark.slow
def test_who_left_the_registry_stays_until_it_is_forgotten(district: District) -> None:
    district.rename(ASH, "dogwood")
    assert district.build().institutions == 2
    assert listed(district, "institution, in_registry, newest_day") == [
        (ASH, False, night(1)), (BIRCH, True, night(1)), (CEDAR, True, None), ("dogwood", True, None),
    ]  # fmt: skip
    parts.forget(district.warehouse / "fleet", ASH)
    district.build()
    assert counts(district) == {BIRCH: 3}


@pytest.mark.slow
def test_a_school_under_a_new_name_is_counted_once(district: District) -> None:
    district.move(ASH, "rowan").night(2, students(5))
    built = district.build()
    assert built.left_out == {ASH: "it is not in the registry, and its school is there under the name rowan"}
    assert counts(district) == {BIRCH: 3, "rowan": 5}


@pytest.mark.slow
def test_who_may_read_every_institutions_file_may_read_the_fleets(district: District) -> None:
    district.build()
    file = district.warehouse / "fleet.duckdb"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    for name, mode in ((ASH, "644"), (BIRCH, "640")):
        with district.house(name).rollbook(published_mode=mode).writer():
            pass
    district.build()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert stat.S_IMODE(file.resolve().parent.stat().st_mode) == 0o750


def test_without_anything_published_there_is_nothing_to_build(district: District) -> None:
    for name in (ASH, BIRCH):
        parts.forget(district.warehouse / "fleet", name)
    with pytest.raises(NothingLandedError, match="fleet sync"):
        district.build()


def test_the_state_of_the_last_night_is_told_where_it_is_known(district: District) -> None:
    folder = district.warehouse / "fleet" / "state"
    folder.mkdir()
    (folder / "ash.json").write_text(
        '{"last": {"kind": "failed", "at": "2026-11-21T03:00:00+01:00", "day": "2026-11-21", "message": "It is down",'
        ' "requests": 7}, "since": "2026-11-21T03:00:00Z", "paused": "the key was refused"}'
    )
    (folder / "birch.json").write_text("[]")
    district.build()
    told = "last_outcome, last_day, CAST(last_at AS VARCHAR), said, paused, newest_day"
    assert listed(district, told)[:2] == [
        ("failed", night(2), "2026-11-21 02:00:00", "It is down", "the key was refused", night(1)),
        (None, None, None, None, None, night(1)),
    ]


@pytest.mark.slow
def test_parts_of_an_earlier_rollbook_are_read_for_what_they_have(district: District) -> None:
    fleet = district.warehouse / "fleet"
    given = parts.note_of(fleet, ASH)
    assert given is not None
    path = parts.path_of(fleet, "classes", ASH, given.tables["classes"])
    old = "SELECT * EXCLUDE (class_room) REPLACE (CAST(class_status AS VARCHAR) AS class_status), 1 AS unknown"
    with duckdb.connect() as con:
        table = con.execute(f"{old} FROM read_parquet('{path}', hive_partitioning = false)").to_arrow_table()
    pq.write_table(table, path)
    size = path.stat().st_size
    note = fleet / "_parts" / "ash.json"
    note.write_text(note.read_text().replace(f'"size":{given.tables["classes"].size},', f'"size":{size},'))
    assert district.build().left_out == {}
    query = "SELECT institution, class_room, class_status FROM classes ORDER BY ALL"
    assert rows(district.warehouse / "fleet.duckdb", query) == [(ASH, None, 1), (BIRCH, "B 12", 1)]
