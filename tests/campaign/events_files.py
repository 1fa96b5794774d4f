"""Events of the warehouse's files, alone and on a bad night of the service."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

from rollbook.errors import DamagedError
from rollbook.night.restore import restore as republish
from tests.campaign import damage
from tests.campaign.campaign import Campaign, event
from tests.campaign.events_service import can_lose_many, lose_many
from tests.support.nights import night
from tests.support.reading import rows

EVERYBODY = "FROM history.students ORDER BY ALL"


def is_there(c: Campaign) -> bool:
    """Whether a file is published."""
    return c.published.is_file()


@event(is_there)
def the_published_file_is_deleted(c: Campaign) -> None:
    hurt(c, lambda path, _: damage.remove(path))


@event(is_there)
def the_published_file_is_cut_short(c: Campaign) -> None:
    hurt(c, damage.cut)


@event(is_there)
def the_published_file_is_scribbled_on(c: Campaign) -> None:
    hurt(c, damage.scribble)


@event(is_there)
def a_folder_is_in_the_published_files_place(c: Campaign) -> None:
    note = f"note-{len(c.notes)}"
    c.notes.append(note)
    hurt(c, lambda path, _: damage.replace_by_folder(path, note))


@event(lambda c: c.fresh)
def an_analyst_changes_rows_of_the_published_file(c: Campaign) -> None:
    hurt(c, damage.edit)


@event(lambda c: bool(restorable(c)))
def an_older_file_is_restored(c: Campaign) -> None:
    restore(c, c.random.choice(restorable(c)))
    maybe_sync(c)


@event(lambda c: bool(c.kept()))
def a_kept_file_is_spoiled(c: Campaign) -> None:
    version = c.random.choice(c.kept())
    c.note(f"{version.name} is spoiled")
    fresh = version.with_suffix(".spoiled")  # a new file: the published file may be linked here as well
    fresh.write_bytes(version.read_bytes()[: c.random.choice([0, 5_000, 20_000])])
    c.spoiled.add(damage.digest(fresh))
    fresh.replace(version)
    if not c.is_lost():
        c.operate(lambda: republish(c.rollbook.writer(), version), fails=DamagedError)


@event(lambda c: bool(c.kept()))
def a_kept_file_is_deleted(c: Campaign) -> None:
    version = c.random.choice(c.kept())
    c.note(f"{version.name} is deleted")
    version.unlink()


# Without the notes inside, nothing tells an edited file from Rollbook's, if that file is all that remembers a day.
@event(lambda c: c.fresh or not c.ledger.expired())
def the_build_folder_is_deleted(c: Campaign) -> None:
    damage.remove(c.warehouse / "build")
    c.forget_lost_notes()
    maybe_sync(c)


@event(lambda c: any((c.warehouse / "snapshots").glob("*/snapshot_date=*/part-0.parquet")))
def a_snapshot_is_lost_or_spoiled(c: Campaign) -> None:
    c.note(damage.spoil_snapshot(c.warehouse / "snapshots", c.random))
    c.worn = True
    maybe_sync(c)


# --- together with a bad night ---------------------------------------------------------------------------------------


@event(lambda c: is_there(c) and can_lose_many(c))
def the_published_file_is_deleted_and_most_students_vanish(c: Campaign) -> None:
    c.damage("the published file is deleted", lambda: damage.remove(c.published))
    lose_many(c)


@event(lambda c: bool(restorable(c)) and can_lose_many(c))
def an_older_file_is_restored_and_most_students_vanish(c: Campaign) -> None:
    restore(c, restorable(c)[-1])
    lose_many(c)


@event(lambda c: is_there(c) and can_lose_many(c))
def all_but_the_landed_days_is_deleted_and_most_students_vanish(c: Campaign) -> None:
    c.damage("the published file is deleted", lambda: damage.remove(c.published))
    for folder in ("build", "snapshots"):
        damage.remove(c.warehouse / folder)
    c.forget_lost_notes()
    lose_many(c)


@event(lambda c: bool(restorable(c)))
def an_older_file_is_restored_and_a_newcomer_slips_out_of_the_list(c: Campaign) -> None:
    newcomer = c.school.join()
    c.sync()
    if versions := restorable(c):
        restore(c, versions[-1])
    c.sync(c.showing(hidden=frozenset({newcomer})))


@event(lambda c: bool(c.ledger.expired()))
def all_files_that_remember_expired_days_are_lost(c: Campaign) -> None:
    c.damage("the published file and all kept ones are deleted", lambda: damage.remove(c.published))
    for version in c.kept():
        version.unlink()
    assert c.is_lost()
    assert c.sync() == "lost"


# --- what several have in common -------------------------------------------------------------------------------------


def hurt(c: Campaign, work: Callable[[Path, Random], None]) -> None:
    """Something is done to the published file; mostly a sync comes next, sometimes something else."""
    c.damage("", lambda: work(c.published, c.random))
    maybe_sync(c)


def maybe_sync(c: Campaign) -> None:
    """Mostly a sync."""
    if c.random.random() < 0.6:
        c.sync()


def restorable(c: Campaign) -> list[Path]:
    """The kept files that nobody changed, the newest first."""
    return [p for p in c.kept() if c.is_own(p)]


def restore(c: Campaign, version: Path) -> None:
    """An operator puts a kept file back; until the next sync readers see that file."""
    was = rows(version, EVERYBODY)
    c.note(f"restore {version.name}")
    c.operate(lambda: republish(c.rollbook.writer(), version), behind=True)
    assert rows(c.published, EVERYBODY) == was, f"{night(c.number)}: what was restored is not there"
    c.known.add(damage.digest(c.published))
