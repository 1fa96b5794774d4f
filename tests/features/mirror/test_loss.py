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
def house(tmp_path: Path) -> Iterator[House]:
    with new_house(students(30), classes(2), lake=(tmp_path / "copy").as_uri()) as house:
        yield house


@pytest.fixture
def nights(house: House) -> ChangingNights:
    return begin_changing(house, 3)


def lose_raw(house: House) -> None:
    shutil.rmtree(house.warehouse / "raw")


def test_a_lost_raw_folder_fails_the_night_and_returns_from_the_copy(
    house: House, nights: ChangingNights, tmp_path: Path
) -> None:
    lose_raw(house)
    with pytest.raises(LostError, match=r"rollbook mirror restore --into FOLDER"):
        nights.play(1)
    assert copied_days(house) == [night(n) for n in (1, 2, 3, 4)]
    assert house.rollbook().listener(Mirror).verify() == []
    for name in ("status", "verify", "sync"):
        output = mirror_command(house, name)
        assert output.exit_code == 1
        assert "is missing here" in str(output.exception)
    assert copied_days(house) == [night(n) for n in (1, 2, 3, 4)]

    assert mirror_command(house, "restore", "--into", str(tmp_path / "back")).exit_code == 0
    shutil.copytree(tmp_path / "back" / "raw", house.warehouse / "raw", dirs_exist_ok=True)
    house.sync()
    listed = nights.listed(4)
    nights.expected.night(4, listed, house.service.classes, unproven=["students", "classes"])
    nights.expected.night(4, listed, house.service.classes)
    assert house.tables() == nights.expected.tables()
    assert mirror_command(house, "status").exit_code == 0
    assert mirror_command(house, "verify").exit_code == 0


def test_a_restored_warehouse_publishes_and_deletes_nothing_in_the_copy(house: House, tmp_path: Path) -> None:
    nights = begin_changing(house, 1)
    shutil.copytree(house.warehouse, tmp_path / "backup", symlinks=True)
    nights.play(1)
    shutil.rmtree(house.warehouse)
    shutil.copytree(tmp_path / "backup", house.warehouse, symlinks=True)
    with pytest.raises(LostError, match=rf"is missing here.*{night(2)}/landing=1.*mirror sync --accept-loss"):
        nights.play(1)
    assert house.query("SELECT MAX(snapshot_date) FROM spans.days") == [(night(3),)]
    assert copied_days(house) == [night(n) for n in (1, 2, 3)]
    with pytest.raises(LostError):
        house.at(4).sync()
    assert restored(house, tmp_path / "new").query("SELECT COUNT(*) FROM spans.days") == [(4,)]

    assert mirror_command(house, "sync", "--accept-loss").exit_code == 0
    assert copied_days(house) == [night(n) for n in (1, 3, 4)]
    house.at(5).sync()
    assert copied_days(house) == [night(n) for n in (1, 3, 4, 5)]


def test_another_landing_with_a_lost_ones_number_does_not_replace_it(house: House, tmp_path: Path) -> None:
    begin(house)
    shutil.copytree(house.warehouse, tmp_path / "backup", symlinks=True)
    house.night(2, students(31))
    before = restored(house, tmp_path / "before").tables()
    shutil.rmtree(house.warehouse)
    shutil.copytree(tmp_path / "backup", house.warehouse, symlinks=True)
    house.now = house.now.replace(hour=9)
    house.service.students = students(29)
    with pytest.raises(LostError, match=f"snapshot_date={night(2)}/landing=1"):
        house.sync()
    assert restored(house, tmp_path / "after").tables() == before


@pytest.mark.story
@pytest.mark.parametrize("file", ["manifest.json", "bodies.zst"])
def test_a_damaged_or_missing_file_stays_whole_in_the_copy(
    house: House, nights: ChangingNights, tmp_path: Path, file: str
) -> None:
    damaged = house.warehouse / "raw" / f"snapshot_date={night(2)}" / "landing=1" / file
    whole = damaged.read_bytes()
    damaged.unlink() if file == "bodies.zst" else damaged.write_bytes(whole[:100])
    with pytest.raises(LostError, match=f"snapshot_date={night(2)}/landing=1"):
        house.rollbook().listener(Mirror).update(house.now)
    assert house.rollbook().listener(Mirror).verify() == []
    assert restored(house, tmp_path / "new").tables() == nights.expected.tables()
    damaged.write_bytes(whole)
    house.rollbook().listener(Mirror).update(house.now)


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
def test_every_writer_ends_with_a_loss_that_the_copy_found(house: House, write: Callable[[House], object]) -> None:
    erase(house, 21)
    (certificate,) = (house.warehouse / "private" / "erasures").glob("certificate-*.md")
    certificate.unlink()
    with pytest.raises(LostError, match="is missing here"):
        write(house)


@pytest.mark.slow
def test_changes_by_our_own_commands_are_no_loss(house: House) -> None:
    nights = begin_changing(house, 1)
    house.at(2).service.key = "changed"
    with pytest.raises(Exception, match="key"):
        house.sync()
    house.service.key = KEY
    nights.number = 2
    nights.play(2)
    discard(house.rollbook().writer(), night(3), reason="nonsense")
    assert mirror_command(house, "status").exit_code == 0
    undo_discard(house.rollbook().writer(), night(3))
    discard(house.rollbook().writer(), night(4), reason="nonsense")
    erase(house, 20)
    assert mirror_command(house, "status").exit_code == 0
    nights.play(3, keep_days=2)
    assert copied_days(house) == house.rollbook().raw.days() == [night(n) for n in (5, 6, 7)]
    assert not list(copy_of(house).rglob(f"snapshot_date={night(2)}/*"))
    assert mirror_command(house, "verify").exit_code == 0
