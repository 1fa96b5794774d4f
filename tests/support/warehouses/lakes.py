"""Lakes of several institutions with odd records, made without a service, and the histories that each has by itself."""

from __future__ import annotations

import json
import random
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import duckdb

from rollbook.landing.manifest import LandedBody
from rollbook.store import schema
from rollbook.store.history.engine import History
from rollbook.store.lake import Lake, Part, Staged, compose
from rollbook.store.staging import Staging
from rollbook.tables import SETS
from tests.support.flattening import flatten
from tests.support.records import MISSING, Record, school_class, student, within

# Around the turn of the year; 007 is a number to some engines.
FIRST = date(2026, 12, 28)
NAMES = ("007", "ash", "birch")
TEXTS = ("x", "", None, "007", "é ' \" , \n")
MINUTES = (0.0, -0.0, 1210.5, 12_345_678.25, 1e16, 66.66666666666667, 1e-7)


# All that are ever listed: a proven day states the others absent.
ALL_IDS = {"students": frozenset(range(1, 6)), "classes": frozenset({501, 502})}


class SmallLake:
    """An institution's lake, with the history."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lake = Lake(folder / "snapshots")
        self.con = duckdb.connect()
        schema.ensure(self.con)

    def land(self, day: date, records: dict[str, Any], proven: set[str]) -> None:
        """Land a day: what was shown of each set, and which sets were proven."""
        landed = []
        for name, shown in records.items():
            staging = Staging(self.folder / f"stage-{day}-{name}")
            body = LandedBody(name, "auth" if name == "auth" else "walk", 1, json.dumps({"data": shown}).encode())
            for batch in flatten(name, [body] if shown or name != "details" else []):
                staging.add(batch.tables)
            staging.close()
            listed = {record[SETS[name].id_field] for record in shown} if name in ALL_IDS else set()
            absent = ALL_IDS[name] - listed if name in proven else frozenset[int]()
            landed.append(Part(name, (Staged(staging.folder, 1),), {1: absent} if absent else {}, name in proven))
        self.lake.commit(compose(self.con, day, landed, self.folder / "day"), (1,), landed)

    def catch_up(self) -> None:
        """Bring the history up to the lake."""
        history = History(self.con, self.lake)
        history.catch_up(history.behind())


def lakes(folder: Path, seed: int, *, nightly: bool) -> dict[str, SmallLake]:
    """A lake for each institution: the same ids, other days, a late beginner; days landed out of order.

    Its history is brought up `nightly`, or once at the end, which takes less time.
    """
    rng = random.Random(seed)
    lakes = {}
    for place, name in enumerate(NAMES):
        offsets = sorted(rng.sample(range(2 * place, 9), rng.randint(4, 5)))
        rng.shuffle(offsets)
        (folder / name).mkdir()
        lakes[name] = SmallLake(folder / name)
        for offset in offsets:
            proven = {s for s in ("students", "classes") if rng.random() < 0.7}
            lakes[name].land(FIRST + timedelta(days=offset), shown(rng), proven)
            if nightly or offset == offsets[-1]:
                lakes[name].catch_up()
    return lakes


def shown(rng: random.Random) -> dict[str, Any]:
    """A day's records: some not listed, some refused, some that leave out a part, a value that moves between columns."""
    return {
        "auth": {"school": {"id": 1, "name": rng.choice(("A", "B"))}},
        "details": [],
        "students": [odd_student(rng, n) for n in range(1, 6) if rng.random() < 0.8],
        "classes": [
            school_class(n, class_room=rng.choice(TEXTS), class_code=rng.choice(TEXTS))
            for n in (501, 502)
            if rng.random() < 0.8
        ],
    }


def odd_student(rng: random.Random, number: int) -> Record:
    """A student's record: now plain, now with odd values, now refused, now without a part."""
    kind = rng.random()
    if kind < 0.15:
        return student(number, name=MISSING)
    if kind < 0.3:
        left_out: dict[str, Any] = {
            rng.choice(("classes", "activity_tracking", "summary")): rng.choice((MISSING, None))
        }
        return student(number, **left_out)
    first, last = rng.choice(((rng.choice(TEXTS), None), (None, rng.choice(TEXTS)), ("x", "x")))
    listed = rng.sample([(501, "a"), (501, None), (502, ""), (503, "007")], rng.randint(0, 3))
    return student(
        number,
        first_name=first,
        last_name=last,
        reference_id=rng.choice(TEXTS),
        classes=[{"class_id": c, "class_title": title} for c, title in dict(listed).items()],
        **within("summary", total_time_minutes=rng.choice(MINUTES), average_score=rng.choice((None, 0, 81.5, 2.675))),
    )
