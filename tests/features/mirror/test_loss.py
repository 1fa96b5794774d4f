"""A file that is missing here, but was neither expired nor discarded, stays in the copy until somebody gives it up."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rollbook.errors import LostError
from rollbook.features.mirror.mirror import Mirror
from rollbook.night import past
from rollbook.night.discard import discard, undo_discard
from rollbook.night.prune import prune
from rollbook.night.restore import restore
from tests.support.nights import ChangingNights, House, new_house, night
from tests.support.records import classes, students
from tests.support.warehouses.begun import begin, begin_changing
from tests.support.warehouses.copies import copied_days, copy_of, mirror_command
from tests.support.warehouses.erasures import erase
from tests.support.wire.service import KEY
from tests.support.wire.storage import restored

pytestmark = pytest.mark.nights


@pytest.fixture
def copied_school(tmp_path: Path) -> Iterator[House]:
    with new_house(students(30), classes(2), lake=(tmp_path / "copy").as_uri()) as house:
        yield house


@pytest.fixture
def nights(copied_school: House) -> ChangingNights:
    return begin_changing(copied_school, 3)


def lose_raw(house: House) -> None:
    shutil.rmtree(house.warehouse / "raw")


def test_a_lost_raw_folder_fails_the_night_and_returns_from_the_copy(
    copied_school: House, nights: ChangingNights, tmp_path: Path
) -> None:
    lose_raw(copied_school)
    with pytest.raises(LostError, match=r"rollbook mirror restore --into FOLDER"):
        nights.play(1)
    assert copied_days(copied_school) == [night(n) for n in (1, 2, 3, 4)]
    assert copied_school.rollbook().listener(Mirror).verify() == []
    for name in ("status", "verify", "sync"):
        output = mirror_command(copied_school, name)
        assert output.exit_code == 1
        assert "is missing here" in str(output.exception)
    assert copied_days(copied_school) == [night(n) for n in (1, 2, 3, 4)]

    assert mirror_command(copied_school, "restore", "--into", str(tmp_path / "back")).exit_code == 0
    shutil.copytree(tmp_path / "back" / "raw", copied_school.warehouse / "raw", dirs_exist_ok=True)
    copied_school.sync()
    listed = nights.listed(4)
    nights.expected.night(4, listed, copied_school.service.classes, unproven=["students", "classes"])
    nights.expected.night(4, listed, copied_school.service.classes)
    assert copied_school.tables() == nights.expected.tables()
    assert mirror_command(copied_school, "status").exit_code == 0
    assert mirror_command(copied_school, "verify").exit_code == 0


def test_a_restored_warehouse_publishes_and_deletes_nothing_in_the_copy(copied_school: House, tmp_path: Path) -> None:
    nights = begin_changing(copied_school, 1)
    shutil.copytree(copied_school.warehouse, tmp_path / "backup", symlinks=True)
    nights.play(1)
    shutil.rmtree(copied_school.warehouse)
    shutil.copytree(tmp_path / "backup", copied_school.warehouse, symlinks=True)
    with pytest.raises(LostError, match=rf"is missing here.*{night(2)}/landing=1.*mirror sync --accept-loss"):
        nights.play(1)
    assert copied_school.query("SELECT MAX(snapshot_date) FROM spans.days") == [(night(3),)]
    assert copied_days(copied_school) == [night(n) for n in (1, 2, 3)]
    with pytest.raises(LostError):
        copied_school.at(4).sync()
    assert restored(copied_school, tmp_path / "new").query("SELECT COUNT(*) FROM spans.days") == [(4,)]

    assert mirror_command(copied_school, "sync", "--accept-loss").exit_code == 0
    assert copied_days(copied_school) == [night(n) for n in (1, 3, 4)]
    copied_school.at(5).sync()
    assert copied_days(copied_school) == [night(n) for n in (1, 3, 4, 5)]


def test_another_landing_with_a_lost_ones_number_does_not_replace_it(copied_school: House, tmp_path: Path) -> None:
    begin(copied_school)
    shutil.copytree(copied_school.warehouse, tmp_path / "backup", symlinks=True)
    copied_school.night(2, students(31))
    before = restored(copied_school, tmp_path / "before").tables()
    shutil.rmtree(copied_school.warehouse)
    shutil.copytree(tmp_path / "backup", copied_school.warehouse, symlinks=True)
    copied_school.now = copied_school.now.replace(hour=9)
    copied_school.service.students = students(29)
    with pytest.raises(LostError, match=f"snapshot_date={night(2)}/landing=1"):
        copied_school.sync()
    assert restored(copied_school, tmp_path / "after").tables() == before


@pytest.mark.story
@pytest.mark.parametrize("file", ["manifest.json", "bodies.zst"])
def test_a_damaged_or_missing_file_stays_whole_in_the_copy(
    copied_school: House, nights: ChangingNights, tmp_path: Path, file: str
) -> None:
    damaged = copied_school.warehouse / "raw" / f"snapshot_date={night(2)}" / "landing=1" / file
    whole = damaged.read_bytes()
    damaged.unlink() if file == "bodies.zst" else damaged.write_bytes(whole[:100])
    with pytest.raises(LostError, match=f"snapshot_date={night(2)}/landing=1"):
        copied_school.rollbook().listener(Mirror).update(copied_school.now)
    assert copied_school.rollbook().listener(Mirror).verify() == []
    assert restored(copied_school, tmp_path / "new").tables() == nights.expected.tables()
    damaged.write_bytes(whole)
    copied_school.rollbook().listener(Mirror).update(copied_school.now)


@pytest.mark.parametrize(
    "write",
    [
        lambda house: past.backfill(house.rollbook().writer(), night(1), night(3)),
        lambda house: past.rebuild(house.rollbook().writer()),
        lambda house: discard(house.rollbook().writer(), night(3), reason="nonsense"),
        lambda house: erase(house, 20),
        lambda house: restore(house.rollbook().writer(), house.rollbook().warehouse.kept()[0]),
        lambda house: prune(house.rollbook(keep_days=2).writer()),
    ],
    ids=["backfill", "rebuild", "discard", "erase", "restore", "prune"],
)
@pytest.mark.usefixtures("nights")
def test_every_writer_ends_with_a_loss_that_the_copy_found(
    copied_school: House, write: Callable[[House], object]
) -> None:
    erase(copied_school, 21)
    (certificate,) = (copied_school.warehouse / "private" / "erasures").glob("certificate-*.md")
    certificate.unlink()
    with pytest.raises(LostError, match="is missing here"):
        write(copied_school)


@pytest.mark.slow
def test_changes_by_our_own_commands_are_no_loss(copied_school: House) -> None:
    nights = begin_changing(copied_school, 1)
    copied_school.at(2).service.key = "changed"
    with pytest.raises(Exception, match="key"):
        copied_school.sync()
    copied_school.service.key = KEY
    nights.number = 2
    nights.play(2)
    discard(copied_school.rollbook().writer(), night(3), reason="nonsense")
    assert mirror_command(copied_school, "status").exit_code == 0
    undo_discard(copied_school.rollbook().writer(), night(3))
    discard(copied_school.rollbook().writer(), night(4), reason="nonsense")
    erase(copied_school, 20)
    assert mirror_command(copied_school, "status").exit_code == 0
    nights.play(3, keep_days=2)
    assert copied_days(copied_school) == copied_school.rollbook().raw.days() == [night(n) for n in (5, 6, 7)]
    assert not list(copy_of(copied_school).rglob(f"snapshot_date={night(2)}/*"))
    assert mirror_command(copied_school, "verify").exit_code == 0
