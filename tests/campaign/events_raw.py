"""Events of the landed days: files that are damaged until somebody puts them back, days that are lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random

from rollbook.features.mirror.mirror import restore
from tests.campaign import damage
from tests.campaign.campaign import Campaign, event, register
from tests.campaign.disk import STOPPED, Trouble
from tests.campaign.ledger import Key

# The kinds of files in raw/ and beside, without which Rollbook cannot tell what has landed.
KINDS = {
    "a manifest": "raw/snapshot_date=*/landing=*/manifest.json",
    "the bodies of a landing": "raw/snapshot_date=*/landing=*/bodies.zst",
    "the index of a landing": "raw/snapshot_date=*/landing=*/pages.jsonl",
    "the rejects of a landing": "raw/snapshot_date=*/landing=*/rejects.jsonl",
    "the list of expired days": "raw/*.json",
    "a discarded landing": "raw/snapshot_date=*/discarded=*/*",
}
HOW: dict[str, Callable[[Path, Random], None]] = {
    "has another byte": damage.flip,
    "is cut short": damage.cut,
    "is gone": damage.delete,
    "is a folder": damage.become_folder,
}


def hurt(c: Campaign, kind: str) -> None:
    """A file is damaged. The night's fetch is kept; when the file is put back, all counts."""
    path = c.random.choice(sorted(c.warehouse.glob(kind)))
    was, how = path.read_bytes(), c.random.choice(sorted(HOW))
    c.note(f"{path.relative_to(c.warehouse)} {how}")
    HOW[how](path, c.random)
    hurt_digest = damage.digest(path)
    # The name of the file, and its day; without the list of expired days, these days are lost.
    day = path.relative_to(c.warehouse).parts[1].removeprefix("snapshot_date=")
    if c.sync_in_trouble(path.name, "raw/ lacks" if kind == KINDS["the list of expired days"] else day):
        c.look_at_published("green, and not what counts:")
    if path.parent.is_dir() and damage.digest(path) == hurt_digest:  # else the day has expired, or is made again
        damage.remove(path)
        path.write_bytes(was)
        path.chmod(0o600)
    c.sync()


def can_be_hurt(c: Campaign, kind: str) -> bool:
    """Whether there is such a file, and everything else is right."""
    return c.fresh and not c.is_lost() and any(c.warehouse.glob(kind))


for _name, _kind in KINDS.items():
    register(
        f"{_name} is damaged",
        play=partial(hurt, kind=_kind),
        ready=partial(can_be_hurt, kind=_kind),
        weight=5 if _kind.startswith(("raw/*", "raw/snapshot_date=*/discarded")) else 1,
    )


@event(lambda c: can_be_lost(c), weight=3)
def a_landed_day_is_lost(c: Campaign) -> None:
    day = c.random.choice(sorted({x.day for x in c.ledger.counted() if not x.expired}))
    name = f"snapshot_date={day}"
    lose(c, name)
    if c.random.random() < 0.5:
        c.accept_loss(day)
    else:
        bring_back(c)
    c.sync()


@event(lambda c: can_be_lost(c), weight=3)
def all_landed_days_are_lost(c: Campaign) -> None:
    lose(c, "")
    bring_back(c)
    c.sync()


@event(lambda c: c.fresh and not c.is_lost(), weight=3)
def todays_landing_is_lost(c: Campaign) -> bool:
    """Two syncs come before somebody notices; each keeps what came, and none takes the lost landing's number."""
    c.sync()
    if c.is_lost() or c.worn or not any(x.day == c.today and x.counts for x in c.ledger.landings.values()):
        return False
    lose(c, f"snapshot_date={c.today}")
    with missing(c):
        assert not c.sync_in_trouble("estore"), "today's landing is gone, and the second sync is green"
    bring_back(c)
    c.sync()
    return True


@event(lambda c: can_be_lost(c), weight=3)
def a_writer_is_stopped_while_a_day_is_missing(c: Campaign) -> None:
    """Somebody has slipped out of the list, and the landing may not remove that student."""
    day = c.random.choice(sorted({x.day for x in c.ledger.counted() if not x.expired}))
    aside(c, f"snapshot_date={day}")
    slipped = frozenset(c.random.sample(sorted(c.school.pupils), 2))
    trouble = Trouble(STOPPED, c.random.randint(1, 40), c.random)
    with missing(c):
        c.interrupt(c.house.sync, lambda: None, trouble, c.showing(hidden=slipped))
    bring_back(c)
    c.sync()


@event(lambda c: c.fresh and not c.is_lost())
def all_snapshots_are_lost(c: Campaign) -> None:
    c.damage("snapshots/ is gone", lambda: damage.remove(c.warehouse / "snapshots"))
    c.sync()


@event(lambda c: bool(c.landed_then) and can_be_lost(c), weight=3)
def the_warehouse_is_set_back(c: Campaign) -> None:
    was, landed = damage.files_of(c.warehouse / "raw"), dict(c.ledger.landings)

    def set_back() -> None:
        damage.remove(c.warehouse)
        shutil.copytree(c.older, c.warehouse, symlinks=True)

    c.damage("the whole warehouse is an older one", set_back)
    c.ledger.know(c.landed_then)
    if c.copy and landed.keys() - c.landed_then.keys():
        assert not c.sync_in_trouble("mirror restore"), "the copy holds days that are lost here, and the sync is green"
        kept_all(c, was, c.landed_then)
        bring_back_copy(c)
        c.ledger.know(landed | c.ledger.landings)
    c.sync()


# --- what several have in common -------------------------------------------------------------------------------------


def can_be_lost(c: Campaign) -> bool:
    """Whether there is something to lose, and nothing of today to be mixed up."""
    days = {x.day for x in c.ledger.counted() if not x.expired}
    return c.fresh and not c.is_lost() and len(days) > 2 and max(x.day for x in c.ledger.landings.values()) < c.today


def lose(c: Campaign, name: str) -> None:
    """A folder of raw/, or the whole, is gone: a sync says so and keeps what came, and the copy keeps all."""
    was = damage.files_of(c.warehouse / "raw")
    aside(c, name)
    with missing(c):
        assert not c.sync_in_trouble("estore"), "landed days are gone, and the sync is green"
    kept_all(c, was)


def aside(c: Campaign, name: str) -> None:
    """A folder of raw/, or the whole, is gone, as far as the warehouse can tell."""
    away = c.warehouse.parent / "aside" / "raw"
    damage.remove(away.parent)
    away.mkdir(parents=True)
    c.note(f"raw/{name} is lost")
    (c.warehouse / "raw" / name).replace(away / name)


@contextmanager
def missing(c: Campaign) -> Iterator[None]:
    """Landings are missing for as long as the block lasts."""
    c.missing = True
    yield
    c.missing = False


def kept_all(c: Campaign, was: dict[str, str], again: Container[Key] = ()) -> None:
    """The copy holds all landings that were there, but for landings that have come `again`."""
    if c.copy:
        there = damage.files_of_copy(c.copy / "raw")
        lost = {name for name, digest in was.items() if there.get(name) != digest and "/landing=" in name}
        assert {name for name in lost if damage.key_of(name) not in again} == set(), "deleted in the copy"


def bring_back(c: Campaign) -> None:
    """Somebody brings back what is lost, from the copy or from a backup."""
    if c.copy and c.random.random() < 0.5:
        bring_back_copy(c)
    else:
        damage.put_back(c.warehouse.parent / "aside" / "raw", c.warehouse / "raw")


def bring_back_copy(c: Campaign) -> None:
    """Somebody restores the copy into a folder, and copies what is missing into the warehouse."""
    assert c.copy
    c.note("what is missing is restored from the copy")
    restored = c.warehouse.parent / "restored"
    damage.remove(restored)
    restore(c.copy.as_uri(), "", restored)
    damage.put_back(restored / "raw", c.warehouse / "raw")
