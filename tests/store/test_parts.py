"""What an institution gives its fleet, from night to night."""

from __future__ import annotations

import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from pipelines.operations.discard import discard
from pipelines.store import parts
from pipelines.store.parts import Given, Parts
from pipelines.sync import always
from tests.support.nights import House, new_house, night, without_views
from tests.support.records import classes, student, students
from tests.support.warehouses.district import District, InstitutionHouse, new_district

ASH, BIRCH = "ash", "birch"


@pytest.fixture(autouse=True)
def _quick() -> Iterator[None]:
    with without_views():
        yield


@pytest.fixture
def district() -> Iterator[District]:
    with new_district([ASH, BIRCH]) as made:
        yield made


@pytest.fixture
def ash(district: District) -> InstitutionHouse:
    """One night of a school with ten students."""
    house = district.house(ASH)
    house.night(1, students(10), classes(2))
    return house


def fleet(house: House) -> Path:
    found = house.settings().fleet_path
    assert found is not None
    return found


def note(house: House) -> Given:
    found = parts.note_of(fleet(house), house.warehouse.name)
    assert found is not None
    return found


def rows(house: House, table: str) -> list[tuple[Any, ...]]:
    """What any engine reads of a table of this institution."""
    path = fleet(house) / table / f"institution={house.warehouse.name}" / "*.parquet"
    with duckdb.connect() as con:
        return con.execute(f"SELECT * FROM read_parquet('{path}', hive_partitioning = false)").fetchall()


def there(house: House) -> dict[str, tuple[int, str]]:
    """The file of each table: its inode and name."""
    found = fleet(house).glob(f"*/institution={house.warehouse.name}/*")
    return {p.parent.parent.name: (p.stat().st_ino, p.name) for p in found}


def is_current(house: House) -> bool:
    """Whether the parts hold what is published, read from both."""
    for full, table in (
        ("main.students", "students"),
        ("ops.syncs", "syncs"),
        *((t, t) for t in ("spans.days", "history.classes")),
    ):
        own = [(house.warehouse.name, *row) for row in house.query(f"FROM {full}")]
        if sorted(rows(house, table), key=repr) != sorted(own, key=repr):
            return False
    return Parts(house.rollbook().warehouse).is_current()


def test_a_publish_writes_each_table_with_the_institution_in_it(ash: InstitutionHouse) -> None:
    for relation in parts.shared():
        own = [(ASH, *row) for row in ash.query(f"FROM {relation.schema}.{relation.name}")]
        assert sorted(rows(ash, parts.title(relation)), key=repr) == sorted(own, key=repr)
    assert is_current(ash)
    assert len(rows(ash, "students")) == 10
    names = [parts.title(r) for r in parts.shared()]
    assert set(there(ash)) == set(names)
    assert {"students", "history.students", "changes", "syncs", "spans.days", "rejects"} <= set(names)
    given = note(ash)
    assert (given.school_id, given.school_name, given.newest_day) == (100, ASH, night(1))
    assert {part.file for part in given.tables.values()} == {f"{given.version}.parquet"}


def test_only_what_changed_is_written_anew_and_the_old_file_goes(ash: InstitutionHouse) -> None:
    before = there(ash)
    ash.night(2, [*students(9), student(10, name="Renamed")])
    assert is_current(ash)
    after = there(ash)
    changed = {table for table in before if before[table] != after[table]}
    assert {"students", "history.students", "changes", "syncs", "spans.days"} <= changed
    same = {"classes", "history.classes", "class_summaries", "thresholds", "institution", "student_classes"}
    assert not changed & same
    assert all(len(list((fleet(ash) / table / "institution=ash").iterdir())) == 1 for table in after)


def test_a_writer_that_was_killed_before_them_is_made_up_for_by_the_next(
    ash: InstitutionHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Parts, "write", lambda _: None)
        ash.night(2, students(11))
    assert not is_current(ash)
    leftover = fleet(ash) / "students" / "institution=ash" / ".half.parquet.partial"
    leftover.touch()
    with ash.rollbook().writer():
        pass
    assert is_current(ash)
    assert not leftover.exists()


@pytest.mark.slow
def test_a_night_whose_parts_cannot_be_written_is_published_all_the_same(
    ash: InstitutionHouse, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Parts, "_part", full)
        ash.night(2, students(11))
    assert ash.query("SELECT COUNT(*) FROM students") == [(11,)]
    assert len(rows(ash, "students")) == 10
    assert "The parts of ash in the fleet could not be written" in caplog.text
    ash.night(3)
    assert is_current(ash)


@pytest.mark.slow
@pytest.mark.parametrize("harm", ["lost", "cut", "note"])
def test_a_part_that_was_lost_or_cut_is_written_again(ash: InstitutionHouse, harm: str) -> None:
    path = parts.path_of(fleet(ash), "classes", ASH, note(ash).tables["classes"])
    if harm == "lost":
        path.unlink()
    elif harm == "cut":
        path.write_bytes(path.read_bytes()[:100])
    else:
        (fleet(ash) / "_parts" / "ash.json").write_text('{"version": 7')
    with ash.rollbook().writer():
        pass
    assert is_current(ash)


@pytest.mark.slow
def test_a_discarded_and_a_restored_night_reach_them(ash: InstitutionHouse) -> None:
    ash.night(2, students(11))
    discard(ash.rollbook(), night(2), 1, reason="not ours", confirm=always)
    assert is_current(ash)
    assert len(rows(ash, "students")) == 10
    ash.rollbook().restore(ash.rollbook().warehouse.kept()[0])
    assert is_current(ash)
    assert len(rows(ash, "students")) == 11


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_they_have_the_mode_of_what_is_published_and_can_be_reached_then(ash: InstitutionHouse) -> None:
    folder = fleet(ash) / "students" / "institution=ash"
    (file,) = folder.iterdir()
    assert [mode(p) for p in (ash.common, fleet(ash), folder, file)] == [0o700, 0o700, 0o700, 0o600]
    with ash.rollbook(published_mode="644").writer():
        pass
    (file,) = folder.iterdir()
    modes = [mode(p) for p in (ash.common, fleet(ash), folder.parent, folder, file)]
    assert modes == [0o711, 0o711, 0o755, 0o755, 0o644]
    assert [mode(fleet(ash) / name) for name in ("_parts", "hosts")] == [0o700] * 2
    with ash.rollbook().writer():
        pass
    assert [mode(p) for p in (folder, file)] == [0o700, 0o600]


@pytest.mark.slow
def test_two_institutions_do_not_touch_each_others(ash: InstitutionHouse, district: District) -> None:
    before = there(ash)
    birch = district.house(BIRCH)
    birch.night(1, students(3), classes(1))
    assert there(ash) == before
    assert is_current(birch)
    assert parts.givers(fleet(ash)) == [ASH, BIRCH]
    assert parts.forget(fleet(ash), ASH)
    assert not parts.forget(fleet(ash), ASH)
    assert there(ash) == {}
    assert is_current(birch)


def test_a_single_school_gives_nothing_and_loads_nothing_of_it() -> None:
    with new_house(students(3), classes(1)) as house:
        house.night(1)
        assert house.rollbook().warehouse.fleet is None
        folders = {p.name for p in house.warehouse.iterdir() if p.is_dir()}
        assert folders == {"raw", "snapshots", "build", "private", "published"}
        assert [p.name for p in house.warehouse.parent.iterdir()] == [house.warehouse.name]
    loaded = "import sys, pipelines.cli; print(*(m for m in sys.modules if m.startswith('pipelines.fleet')))"
    assert subprocess.check_output([sys.executable, "-c", loaded], text=True).strip() == ""
