"""The machine's faults: each ends in a message that says what to do, an intact published file, and a next sync that recovers.

The disks, accounts and limits are real (`tests.support.machines`). What is published afterwards is what the slow model makes of
what the service told; the service's own faults are in `tests/fault_matrix`, killed writers in `test_kill`.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import BusyError, DamagedError, MachineError, RollbookError
from pipelines.operations.diff import diff
from pipelines.operations.doctor import Doctor, Outcome
from pipelines.operations.status import load_status as look
from pipelines.sync import Rollbook, always
from tests.support.machines import MB, Disk, as_nobody, disk, elsewhere, left_over, no_file_above, open_below
from tests.support.nights import House, Told, folder, night
from tests.support.records import classes, student, students
from tests.support.service import Service

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

STAGES = ("land", "snapshot", "merge", "publish")
COUNT = 400
TONIGHT = [
    student(1, name="Another"),
    *students(COUNT // 2 - 2, first=2),
    *students(COUNT // 2, first=COUNT // 2 + 1),
    student(COUNT + 1),
]  # one changed, one gone, one new


@pytest.fixture
def service() -> Iterator[Service]:
    with Service(students(COUNT), classes(3)) as running:
        yield running


@pytest.fixture
def house(service: Service) -> Iterator[House]:
    """A warehouse after two nights of the same, so that there is an older published file as well."""
    with folder() as made:
        yield two_nights(House(made / "w", service))


@pytest.fixture
def small(service: Service) -> Iterator[tuple[House, Disk]]:
    """The same on a disk of its own."""
    with disk() as mounted:
        yield two_nights(House(mounted.path / "w", service)), mounted


def two_nights(house: House) -> House:
    house.at(1).sync()
    house.at(2).sync()
    house.service.students = list(TONIGHT)
    return house.at(3)


@pytest.fixture
def told() -> Told:
    """What must be published after the third night, in the end."""
    first = students(COUNT), classes(3)
    return Told().night(1, *first).night(2, *first).night(3, TONIGHT, classes(3))


def healed(house: House, told: Told) -> None:
    """The next sync needs no hand, and leaves nothing behind."""
    house.sync()
    assert house.tables() == told.tables()
    assert left_over(house.warehouse) == []
    assert open_below(house.warehouse) == []


def stages(book: Rollbook, until: str = "") -> Iterator[tuple[str, Callable[[], Any]]]:
    """The stages of tonight's sync, to be called one by one."""
    made: dict[str, Any] = {}
    yield "land", lambda: made.update(manifest=book.land())
    yield "snapshot", lambda: book.snapshot(made["manifest"])
    yield "merge", book.merge
    yield "publish", book.publish


# --- the disk is full ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", STAGES)
def test_a_disk_that_is_full_in_a_stage_is_said_and_the_next_sync_makes_it_good(
    small: tuple[House, Disk], told: Told, stage: str
) -> None:
    house, mounted = small
    before, book = house.state(), house.rollbook()
    with book.writer():
        for name, work in stages(book):
            if name != stage:
                work()
                continue
            with mounted.full(), pytest.raises(MachineError) as refused:
                work()
            break
    assert refused.value.message.startswith("The disk is full: 0 bytes are left")
    assert "Make room (`rollbook prune --dry-run` shows" in refused.value.message
    assert "Readers keep what was published" in refused.value.message
    published = "rollbook.duckdb"
    assert house.state()[published] == before[published]
    assert open_below(house.warehouse) == []
    healed(house, told)


def test_wherever_a_sync_runs_out_of_room_it_says_so_and_the_next_one_makes_it_good(
    small: tuple[House, Disk], told: Told
) -> None:
    """With a little more room each time, the sync gets a little further, until at last there is enough.

    What an earlier try had landed may be published by a later one, before that runs out of room itself.
    """
    house, mounted = small
    first = students(COUNT), classes(3)
    two = Told().night(1, *first).night(2, *first)
    unproven = Told().night(1, *first).night(2, *first)
    unproven.night(3, TONIGHT, classes(3), unproven=["students", "classes"])
    whole, failed = [two.tables(), unproven.tables(), told.tables()], 0
    size = house.published.stat().st_size
    for leave in (0, 8_192, 40_960, 100_000, 300_000, MB, size // 2, size, size + MB, size + 2 * MB, size * 2 + 4 * MB):
        try:
            with mounted.full(leave):
                house.sync()
        except MachineError as error:
            assert "The disk is full" in error.message
            assert house.tables() in whole
            failed += 1
        else:
            break
        assert open_below(house.warehouse) == []
    assert failed >= 6
    healed(house, told)


def test_a_first_sync_on_a_full_disk_leaves_nothing_published(service: Service) -> None:
    with disk() as mounted:
        house = House(mounted.path / "w", service).at(1)
        with mounted.full(200_000), pytest.raises(MachineError, match="The disk is full"):
            house.sync()
        assert not house.published.exists()
        house.sync()
        assert house.tables() == Told().night(1, students(COUNT), classes(3)).tables()
        assert left_over(house.warehouse) == []


def test_a_full_disk_makes_no_failure_of_the_service_a_mystery(small: tuple[House, Disk]) -> None:
    """The service fails while there is no room to note that it failed: still one clear message, nothing half-done."""
    house, mounted = small
    house.service.key = "changed"
    with mounted.full(), pytest.raises(RollbookError) as refused:
        house.sync()
    assert "The disk is full" in refused.value.message or "does not accept the API key" in refused.value.message
    assert [m.snapshot_date for m in house.rollbook().raw.manifests()] == [night(1), night(2)]
    assert open_below(house.warehouse) == []


def test_a_file_that_may_not_grow_is_said(house: House, told: Told) -> None:
    """As a quota or `ulimit -f` has it."""
    before = house.state()["rollbook.duckdb"]
    refused = elsewhere(house.sync, first=no_file_above(house.published.stat().st_size // 2))
    assert isinstance(refused, MachineError), refused
    assert "would be larger than this account or its disk allows (ulimit -f" in refused.message
    assert house.state()["rollbook.duckdb"] == before
    healed(house, told)


# --- it may not be written to ----------------------------------------------------------------------------------------


def test_a_read_only_warehouse_is_said_and_may_still_be_looked_at(small: tuple[House, Disk], told: Told) -> None:
    house, mounted = small
    with mounted.read_only():
        with pytest.raises(
            MachineError, match="cannot be written: its disk is mounted read-only. Mount it for writing"
        ):
            house.sync()
        assert look(house.rollbook()).history.count == 2
        assert diff(house.rollbook()).outcome == "synced"
        found = {f.what: f for f in Doctor(house.rollbook()).examine()}
        assert found["files"].outcome is Outcome.FAILED
        assert "mounted read-only" in found["files"].says
    healed(house, told)


@pytest.mark.skipif(os.getuid() != 0, reason="becoming another account takes root")
@pytest.mark.parametrize("ours", [".", "raw", "snapshots/students", "build"], ids=str)
def test_a_warehouse_of_another_account_is_said(house: House, told: Told, ours: str) -> None:
    """All of it, or a folder that somebody made as root."""
    if ours != ".":
        for path in (house.warehouse.parent, house.warehouse, *house.warehouse.rglob("*")):
            os.chown(path, 65534, 65534)
        shutil.chown(house.warehouse / ours, 0, 0)
        (house.warehouse / ours).chmod(0o555)
    refused = elsewhere(house.sync, first=as_nobody)
    assert isinstance(refused, MachineError), refused
    assert "This account (nobody) may not use" in refused.message
    assert f"chown -R nobody {house.warehouse}" in refused.message
    (finding,) = elsewhere(
        lambda: [f for f in Doctor(house.rollbook()).examine() if f.what == "files"], first=as_nobody
    )
    assert finding.outcome is Outcome.FAILED
    healed(house, told)  # root may


# --- files that were damaged -----------------------------------------------------------------------------------------


def test_whatever_lies_in_the_build_folder_is_swept_away(house: House, told: Told) -> None:
    build = house.warehouse / "build"
    for name in ("next.duckdb", "next.duckdb.wal", "writer.txt", "spill/duckdb_temp_storage-0.tmp"):
        (build / name).write_bytes(random.Random(name).randbytes(5000))
    for name in ("stage/landing=1", "day/students"):
        (build / name).mkdir(parents=True)
        (build / name / "part-0.parquet").write_bytes(b"garbage")
    healed(house, told)


def test_a_corrupt_build_file_is_never_published(house: House, told: Told) -> None:
    """Damage in the next file between merge and publish: the publish fails and says what to run."""
    before, book = house.state()["rollbook.duckdb"], house.rollbook()
    with book.writer():
        _manifest, _ = book.snapshot(book.land())
        book.merge()
        book.warehouse.next.write_bytes(b"garbage" * 1000)
        with pytest.raises(DamagedError, match="next.duckdb cannot be read: run"):
            book.publish()
    assert house.state()["rollbook.duckdb"] == before
    healed(house, told)


def part(house: House, table: str, number: int) -> Path:
    return house.warehouse / "snapshots" / table / f"snapshot_date={night(number)}" / "part-0.parquet"


@pytest.mark.parametrize("keep", [0, 4, 0.5, 0.99])
def test_a_truncated_parquet_file_is_made_again_by_the_next_sync(house: House, told: Told, keep: float) -> None:
    file = part(house, "student_activity", 2)
    whole = file.read_bytes()
    file.write_bytes(whole[: int(keep * len(whole)) if keep < 1 else int(keep)])
    healed(house, told)
    assert file.read_bytes() == whole


@pytest.mark.parametrize("whole", [0, 100], ids=["all of it", "all but its end"])
def test_a_parquet_file_damaged_at_its_full_length_is_found_when_read_and_made_again_by_the_next_sync(
    house: House, told: Told, whole: int
) -> None:
    """Its length says nothing, so it is found when it is read: here by a rebuild from the snapshots."""
    house.sync()
    file = part(house, "students", 2)
    content = file.read_bytes()
    kept = len(content) - 8 - int.from_bytes(content[-8:-4], "little") if whole else len(content)
    file.write_bytes(os.urandom(kept) + content[kept:])
    before = house.state()["rollbook.duckdb"]
    book = house.rollbook()
    with book.writer(), pytest.raises(DamagedError) as refused:
        book.merge(full_refresh=True)
    assert refused.value.message == (
        f"The snapshots of {night(2)} were damaged and have been taken out. Run `rollbook sync` (or wait for the night):"
        " it makes them again from what was landed, where that is still there"
    )
    assert house.state()["rollbook.duckdb"] == before
    healed(house, told)
    assert file.read_bytes() == content
    with book.writer():
        book.merge(full_refresh=True)
        book.publish()
    assert house.tables() == told.tables()


def gone(content: bytes) -> bytes:
    return b""


def garbage(content: bytes) -> bytes:
    return random.Random(1).randbytes(len(content))


def cut_short(content: bytes) -> bytes:
    return content[: len(content) // 2]


def torn(content: bytes) -> bytes:
    """The head is whole, and with it the catalog's address; every block after it is not."""
    return content[:12_288] + bytes(len(content) - 12_288)


def scratched(content: bytes) -> bytes:
    """Only data are damaged: the file opens, and fails when they are read."""
    worn = bytearray(content)
    for place in range(262_144, len(worn) - 262_144, 131_072):
        worn[place : place + 64] = os.urandom(64)
    return bytes(worn)


@pytest.mark.parametrize("damage", [gone, garbage, cut_short, torn, scratched])
def test_a_damaged_published_file_is_made_again_by_the_next_sync(
    house: House, told: Told, damage: Callable[[bytes], bytes]
) -> None:
    """From the one published before, brought up to date from the lake, before anything is judged."""
    house.published.write_bytes(damage(house.published.read_bytes()))
    house.sync()
    assert house.tables() == told.tables()
    assert left_over(house.warehouse) == []


@pytest.mark.parametrize("damage", [torn, scratched])
def test_a_worn_disk_under_the_published_file_is_said_and_made_good_by_the_next_sync(
    house: House, told: Told, damage: Callable[[bytes], bytes]
) -> None:
    """Size and time are as they were, so the damage shows only when it is read."""
    before = house.published.stat()
    content = damage(house.published.read_bytes())
    with house.published.open("r+b") as file:
        file.write(content)
    os.utime(house.published, ns=(before.st_atime_ns, before.st_mtime_ns))
    try:
        house.sync()
    except DamagedError as error:
        assert "rollbook.duckdb was damaged. Run `rollbook sync`" in error.message
        assert house.query("SELECT COUNT(*) FROM students") == [(COUNT,)]  # readers have the one before meanwhile
        house.sync()
    assert house.tables() == told.tables()
    assert left_over(house.warehouse) == []


@pytest.mark.parametrize("damage", [gone, garbage, cut_short, torn, scratched])
def test_a_damaged_published_file_without_an_older_one_is_made_again_from_the_lake(
    house: House, told: Told, damage: Callable[[bytes], bytes]
) -> None:
    shutil.rmtree(house.warehouse / "build" / "previous")
    house.published.write_bytes(damage(house.published.read_bytes()))
    healed(house, told)


def test_a_published_file_that_was_removed_is_made_again(house: House, told: Told) -> None:
    house.published.unlink()
    healed(house, told)


@pytest.mark.parametrize("file", ["manifest.json", "bodies.zst", "pages.jsonl"])
def test_a_damaged_landing_says_what_to_do_and_that_helps(house: House, file: str) -> None:
    """Restored, all is as before; moved out of raw/, the rebuild goes on without that day."""
    expected = house.tables()
    landing = house.warehouse / "raw" / f"snapshot_date={night(2)}" / "landing=1"
    whole = (landing / file).read_bytes()
    (landing / file).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DamagedError) as refused:
        house.rollbook().rebuild()
    assert f"raw/snapshot_date={night(2)}/landing=1/{file} cannot be used" in refused.value.message
    assert "run `rollbook rebuild`" in refused.value.message
    assert house.tables() == expected
    (landing / file).write_bytes(whole)
    house.rollbook().rebuild()
    assert house.tables() == expected
    shutil.move(landing, house.warehouse.parent / "aside")
    house.rollbook().rebuild(confirm=always)
    assert house.tables() == Told().night(1, students(COUNT), classes(3)).tables()


# --- others at the same time -----------------------------------------------------------------------------------------


def test_two_syncs_started_at_once_run_one_after_the_other(house: House, told: Told) -> None:
    context = multiprocessing.get_context("fork")
    with context.Pool(2) as pool:
        waiting = [pool.apply_async(_sync, (house.settings(), house.now)) for _ in range(2)]
        landings = sorted(w.get(60) for w in waiting)
    assert landings == [1, 2]
    assert house.tables() == told.tables()
    assert [m.verdict for m in house.landings(night(3))] == ["synced", "synced"]
    healed(house, told)


def _sync(settings: Any, now: datetime) -> int:
    return Rollbook(settings, clock=lambda: now).sync().manifest.landing


def test_a_second_writer_that_waited_long_enough_is_refused_in_a_sentence(
    house: House, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipelines.sync.lock.WAIT_SECONDS", 0.2)
    with house.rollbook().writer():
        refused = elsewhere(house.sync)
    assert isinstance(refused, BusyError)
    assert f"Another sync is still writing (process {os.getpid()} since {night(3)} 02:15:00 UTC)" in refused.message
    assert "Try again when it is done" in refused.message
    healed(house, told)


def test_a_published_file_that_an_analyst_opened_for_writing_is_said(house: House, told: Told) -> None:
    """They need not have: readers of a read-only connection are never in the way."""
    context = multiprocessing.get_context("fork")
    ready, over = context.Event(), context.Event()
    analyst = context.Process(target=_hold_open, args=(house.published, ready, over), daemon=True)
    analyst.start()
    try:
        assert ready.wait(10)
        with pytest.raises(BusyError, match="Another program has rollbook.duckdb open for writing. Close it there"):
            house.sync()
    finally:
        over.set()
        analyst.join(10)
    healed(house, told)


def _hold_open(published: Path, ready: Any, over: Any) -> None:
    import duckdb

    with duckdb.connect(published):
        ready.set()
        over.wait(30)


# --- the clock -------------------------------------------------------------------------------------------------------


def test_a_clock_set_back_fetches_nothing_and_says_so(house: House, told: Told) -> None:
    """Else tonight's records would be filed under a day that is long over, and change what was known of it."""
    before, now = house.state(), house.now
    house.service.now = lambda: now
    house.service.requests.clear()
    house.now -= timedelta(days=2)
    with pytest.raises(MachineError) as refused:
        house.sync()
    assert refused.value.message.startswith(f"The clock of this machine says {night(1)} 02:15 UTC, which is before its")
    assert "Nothing was fetched: set the clock right, then run `rollbook sync`." in refused.value.message
    assert [r.path for r in house.service.requests] == ["auth"]
    assert house.state() == before
    assert len(house.landings(night(1))) == 1
    house.now = now
    healed(house, told)


def test_a_clock_set_back_within_the_day_does_no_harm(house: House, told: Told) -> None:
    house.sync()
    house.now -= timedelta(hours=2)
    healed(house, told)


@pytest.mark.parametrize("ahead", [2, 4, 365])
@pytest.mark.parametrize("over", [{}, {"keep_days": 1}])
def test_a_clock_that_ran_ahead_lands_nothing_and_the_next_right_night_is_as_ever(
    house: House, told: Told, ahead: int, over: dict[str, int]
) -> None:
    """Else a night is filed under a day to come, and every right one after it comes to nothing."""
    before, right, days = house.state(), house.now, house.rollbook().raw.days()
    house.service.now = lambda: right
    house.now += timedelta(days=ahead)
    with pytest.raises(
        MachineError, match=f"It is {house.now.date()} by .* and {right.date()} by that of the"
    ) as caught:
        house.sync(over=over)
    assert caught.value.message.count("clock") == 2
    assert (house.state(), house.rollbook().raw.days()) == (before, days)
    house.now = right
    healed(house, told)
    assert max(house.rollbook().raw.days()) == right.date()


def test_a_clock_a_day_behind_the_service_may_be_a_zones_but_not_once_it_was_ahead(house: House) -> None:
    """Set back over midnight, with the service where it was: tonight's records are not last night's."""
    right = house.now
    house.service.now = lambda: right
    house.sync()
    house.now -= timedelta(days=1)
    with pytest.raises(MachineError, match="which is before its last sync"):
        house.sync()
    assert len(house.landings(night(2))) == 1


def test_a_clock_of_before_the_first_day_names_the_setting(house: House) -> None:
    house.now = datetime(1970, 1, 1, 0, 5, tzinfo=UTC)
    with pytest.raises(RollbookError, match="ROLLBOOK_FIRST_DATE"):
        house.sync()
