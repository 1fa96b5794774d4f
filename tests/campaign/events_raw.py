"""What happens to the landed days: files that are damaged until somebody puts them back, days that are lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

from pipelines.mirror import restore
from pipelines.sync import always
from tests.campaign import damage
from tests.campaign.campaign import Campaign, event, register
from tests.campaign.school import shown
from tests.support.nights import night

# The kinds of files in raw/ and beside it, without which Rollbook cannot tell what has landed.
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
    """A file is damaged. What the night fetches is kept; when the file is put back, all counts."""
    path = c.random.choice(sorted(c.warehouse.glob(kind)))
    was, how = path.read_bytes(), c.random.choice(sorted(HOW))
    c.note(f"{path.relative_to(c.warehouse)} {how}")
    HOW[how](path, c.random)
    hurt_digest = damage.digest(path)
    green = c.sync_in_trouble(path.name)
    if path.parent.is_dir() and damage.digest(path) == hurt_digest:  # else the day has expired, or it is made anew
        damage.remove(path)
        path.write_bytes(was)
        path.chmod(0o600)
    if green:
        c.settle()
    c.sync()


def can_be_hurt(c: Campaign, kind: str) -> bool:
    """Whether there is such a file, and everything is as it must be otherwise."""
    return c.fresh and not c.is_lost() and any(c.warehouse.glob(kind))


for _name, _kind in KINDS.items():
    register(
        f"{_name} is damaged",
        play=partial(hurt, kind=_kind),
        ready=partial(can_be_hurt, kind=_kind),
        rare=_kind.startswith(("raw/*", "raw/snapshot_date=*/discarded")),
    )


@event(lambda c: can_be_lost(c))
def a_landed_day_is_lost(c: Campaign) -> None:
    day = c.random.choice(sorted({x.day for x in c.ledger.counted() if not x.expired}))
    name = f"snapshot_date={day}"
    lose(c, name)
    if c.copy is None and c.random.random() < 0.5:
        c.accept_loss(day)
    else:
        bring_back(c, name)
    c.sync()


@event(lambda c: can_be_lost(c))
def all_landed_days_are_lost(c: Campaign) -> None:
    lose(c, "")
    bring_back(c, "")
    c.sync()


@event(lambda c: c.fresh and not c.is_lost())
def all_snapshots_are_lost(c: Campaign) -> None:
    c.damage("snapshots/ is gone", lambda: damage.remove(c.warehouse / "snapshots"))
    c.sync()


@event(lambda c: bool(c.landed_then) and can_be_lost(c))
def the_warehouse_is_set_back(c: Campaign) -> None:
    was = damage.files_of(c.warehouse / "raw")

    def set_back() -> None:
        damage.remove(c.warehouse)
        shutil.copytree(c.older, c.warehouse, symlinks=True)

    c.damage("the whole warehouse is an older one", set_back)
    c.forget_lost_notes()
    if c.copy is None:  # nothing remembers what is lost
        c.ledger.landings = dict(c.landed_then)
        c.ledger.become(min(c.landed_then))
    elif set(c.landed_then) != set(c.ledger.landings):
        showing = c.showing()
        with shown(c.service, showing):
            error = c.run(c.house.sync)
        assert error is not None, "the copy holds days that this warehouse lacks, and the sync is green"
        assert "mirror restore" in error.message, error.message
        assert was.items() <= damage.files_of_copy(c.copy / "raw").items(), "lost days were deleted in the copy"
        restore_all(c)
    c.sync()


# --- what several have in common -------------------------------------------------------------------------------------


def can_be_lost(c: Campaign) -> bool:
    """Whether there is something to lose, and nothing of today to mix it up with."""
    days = {x.day for x in c.ledger.counted() if not x.expired}
    return c.fresh and not c.is_lost() and len(days) > 2 and max(x.day for x in c.ledger.landings.values()) < c.today


def lose(c: Campaign, name: str) -> None:
    """A folder of raw/, or all of it, is gone: a sync says so and keeps what it fetches, and the copy keeps all."""
    raw, aside = c.warehouse / "raw", c.warehouse.parent / "aside"
    was = damage.files_of(raw)
    damage.remove(aside)
    aside.mkdir()
    c.note(f"raw/{name} is lost")
    (raw / name).replace(aside / (name or "raw"))
    assert not c.sync_in_trouble("restore"), "landed days are gone, and the sync is green"
    if c.copy:
        assert was.items() <= damage.files_of_copy(c.copy / "raw").items(), "lost days were deleted in the copy"


def bring_back(c: Campaign, name: str) -> None:
    """Somebody brings it back, from the copy or from a backup."""
    source = c.warehouse.parent / "aside"
    if c.copy and c.random.random() < 0.5:
        c.note("it is restored from the copy")
        damage.remove(source)
        restore(c.copy.as_uri(), "", source)
        source = source / "raw"
    elif not name:
        source = source / "raw"
    damage.put_back(source, c.warehouse / "raw")


def restore_all(c: Campaign) -> None:
    """Somebody makes the whole warehouse anew from its copy."""
    assert c.copy
    damage.remove(c.warehouse)
    restore(c.copy.as_uri(), "", c.warehouse)
    c.forget_lost_notes()
    c.adopt(c.showing(), c.today)
    c.rollbook.mirror.update(c.house.now, adopt=True)
    c.rollbook.rebuild(confirm=always, accept_loss=bool(c.ledger.expired()))
    c.ledger.forget()
    c.note(f"all is restored from the copy, without {night(1)}" if c.ledger.expired() else "all is restored")
    c.settle()
