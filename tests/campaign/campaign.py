"""The campaign: night after night something happens to a warehouse, and after each thing it must hold what the model says.

What happens is in `events_*`; here is what all of them are made of: a sync with its outcome foretold, an operator's
call, damage, a look at the whole.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest

from pipelines.errors import DamagedError, ExpiredError, HeldError, RollbookError
from pipelines.mirror.mirror import Mirror
from pipelines.settings import Settings
from pipelines.sync import Rollbook, always
from tests.campaign import damage
from tests.campaign.ledger import SETS, UNJUDGED, Key, Landing, Ledger, Showing, differences
from tests.campaign.reader import Reader, read_everything
from tests.campaign.school import School, shown
from tests.support.nights import House, night
from tests.support.processes.machines import left_over
from tests.support.wire.service import Service

KEEP_DAYS = 10  # from the middle of the campaign on
BACKED_UP = 4  # nights between two backups of the whole warehouse


Play = Callable[["Campaign"], bool | None]


@dataclass(frozen=True)
class Event:
    """Something that may happen, whenever it is `ready`; `play` returns False when it came to nothing.

    A `rare` one is ready in few nights, so it is drawn more often then.
    """

    name: str
    play: Play
    ready: Callable[[Campaign], bool]
    rare: bool = False


EVENTS: dict[str, Event] = {}
RARE_ENOUGH = 3


def register(name: str, play: Play, ready: Callable[[Campaign], bool], *, rare: bool = False) -> None:
    """Let something be able to happen."""
    EVENTS[name] = Event(name, play, ready, rare)


def event(ready: Callable[[Campaign], bool] = lambda c: True, *, rare: bool = False) -> Callable[[Play], Play]:
    """Let what a function plays be able to happen, under its name."""

    def decorate(play: Play) -> Play:
        register(play.__name__.replace("_", " "), play, ready, rare=rare)
        return play

    return decorate


@contextmanager
def second_process(*, wanted: bool) -> Iterator[None]:
    """Let a second process take what comes, as in a large school, or not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipelines.sync.ingest.LARGE", 0 if wanted else 10**9)
        yield


class SteadyHouse(House):
    """A house that reads its settings once for each that an event changes: that takes as long as a small sync."""

    def __init__(self, warehouse: Path, service: Service) -> None:
        super().__init__(warehouse, service)
        self._read: dict[str, Settings] = {}

    def settings(self, **over: Any) -> Settings:
        """The settings of this warehouse."""
        key = repr({**self.over, **over})
        if key not in self._read:
            self._read[key] = super().settings(**over)
        return self._read[key]


class Campaign:
    """A warehouse, its school and service, the model of what must come of it, and what has happened so far."""

    def __init__(self, warehouse: Path, service: Service, reader: Reader, seed: int, nights: int) -> None:
        self.service = service
        self.house = SteadyHouse(warehouse, service)
        self.reader = reader
        self.random = Random(seed)
        self.school = School(self.random)
        self.ledger = Ledger()
        self.nights = nights
        self.number = 0
        self.played: Counter[str] = Counter()
        self.history: list[str] = []
        # The files that were found to be right when they were published, and those that other hands have changed, by
        # their digests.
        self.known: set[str] = set()
        self.spoiled: set[str] = set()
        # The copy in an object store, in every other campaign.
        self.copy = warehouse.parent / "copy" if seed % 2 else None
        if self.copy:
            self.house.over["lake"] = self.copy.as_uri()
        # The whole warehouse as it was some nights ago, and what had landed then.
        self.older = warehouse.parent / "older"
        self.landed_then: dict[Key, Landing] = {}
        # Folders and notes of other people, which nobody may delete.
        self.notes: list[str] = []
        # Whether the published file must hold all that counts.
        self.fresh = False
        # Whether files of the lake were spoiled that nobody may have noticed yet.
        self.worn = False
        # Whether nothing more happens this night.
        self.off = False

    # -- a night ---------------------------------------------------------------------------------------------------

    def play(self) -> None:
        """All nights, and a last look."""
        for number in range(1, self.nights + 1):
            with second_process(wanted=self.random.random() < 0.15):
                self.night(number)
        self.last_look()

    def night(self, number: int) -> None:
        """A day passes; some things happen; in most nights a plain sync follows."""
        self.number = number
        self.history.append(f"night {number}")
        self.set_clocks()
        if number == self.nights // 2:
            self.house.over["keep_days"] = KEEP_DAYS
        self.school.live()
        self.off = False
        if number % BACKED_UP == 0 and self.fresh:
            self.back_up()
        for _ in range(0 if number == 1 else self.random.choice([3, 3, 4, 4])):
            if not self.off:
                self.happen(self.draw())
        a_sync_follows = number == 1 or (not self.off and self.random.random() < 0.6)
        if a_sync_follows and self.sync() == "held":
            self.approve()  # a few missed nights add up, and every later one would be held as well

    def draw(self) -> Event:
        """Mostly one that has come up least so far, else any."""
        ready = [e for e in EVENTS.values() if e.ready(self)]
        rare = [e for e in ready if e.rare and self.played[e.name] < RARE_ENOUGH]
        if rare and self.random.random() < 0.5:
            return self.random.choice(rare)
        fewest = min(self.played[e.name] for e in ready)
        if self.random.random() < 0.85:
            ready = [e for e in ready if self.played[e.name] == fewest]
        return self.random.choice(ready)

    def happen(self, what: Event) -> None:
        """One thing happens, and everything is as it must be afterwards."""
        self.history.append(f"  {what.name}")
        if what.play(self) is not False:
            self.played[what.name] += 1
        self.check()

    def last_look(self) -> None:
        """What is published last is what counts, and it can be made again from what is there; nothing is left over."""
        self.history.append("the end")
        self.sync()
        if self.ledger.expired():
            self.operate(lambda: self.rollbook.backfill(night(1), self.today))
        else:
            self.operate(lambda: self.rollbook.rebuild())
        assert self.fresh
        assert left_over(self.warehouse) == []
        assert self.reader.reads > self.nights, "nobody read"

    # -- where and when --------------------------------------------------------------------------------------------

    @property
    def warehouse(self) -> Path:
        return self.house.warehouse

    @property
    def published(self) -> Path:
        return self.house.published

    @property
    def rollbook(self) -> Rollbook:
        return self.house.rollbook()

    def kept(self) -> list[Path]:
        """The published files before this one."""
        return self.rollbook.warehouse.kept()

    @property
    def today(self) -> date:
        return night(self.number)

    def note(self, what: str) -> None:
        """Add to the story that a failure tells."""
        self.history.append(f"    {what}")

    def set_clocks(self, here: timedelta = timedelta(0)) -> None:
        """A quarter past two of this night at the service, and here as well unless the clock is off."""
        there = datetime.combine(self.today, clock(2, 15), UTC)
        self.house.now = there + here
        self.service.now = lambda: there

    @contextmanager
    def clock_off_by(self, days: int) -> Iterator[None]:
        """The clock of this machine is wrong."""
        self.set_clocks(timedelta(days=days))
        yield
        self.set_clocks()

    # -- what is done ----------------------------------------------------------------------------------------------

    def showing(self, **over: Any) -> Showing:
        """What the service shows tonight, but for this."""
        return self.school.showing(self.number, **over)

    def sync(
        self,
        showing: Showing | None = None,
        *,
        label: date | None = None,
        trouble: Callable[[Service, Random], None] | None = None,
    ) -> str:
        """A sync that is shown this; it must come to what the model says. Returns to what."""
        showing, label, lost = showing or self.showing(), label or self.today, self.is_lost()
        foretold, error, came = self.try_to_sync(showing, label, trouble)
        if self.worn and isinstance(error, DamagedError):
            foretold, error, came = self.try_to_sync(showing, label, trouble)
        if lost:  # it may be landed, but is only judged once somebody has accepted the loss
            assert error is not None, "no file remembers the expired days, and the sync is green"
            if isinstance(error, ExpiredError):
                self.accept_loss()
            return "lost"
        assert outcome(error) == outcome_of(foretold), f"{foretold.verdict} was due, and there was {error!r}"
        assert len(came) == 1 or foretold.verdict == "failed", came
        self.note(f"sync: {foretold.verdict}")
        self.settle()
        return foretold.verdict

    def try_to_sync(
        self, showing: Showing, label: date, trouble: Callable[[Service, Random], None] | None
    ) -> tuple[Landing, RollbookError | None, list[str]]:
        """A sync: the landing that is due, how it failed, and the verdicts of what has landed."""
        with shown(self.service, showing):
            if trouble is not None:
                trouble(self.service, self.random)
            error = self.run(self.house.sync)
        self.see_what_was_judged_later()  # before it fetched
        foretold = self.ledger.receive(showing, label)
        return foretold, error, self.adopt(showing, label)

    def sync_in_trouble(self, *named: str) -> bool:
        """A sync while a file is damaged or gone; returns whether it is green, as it may be if that does not matter.

        If it is not, it names one of these, and what it fetched is kept.
        """
        foretold, error, came = self.try_to_sync(self.showing(), self.today, None)
        if outcome(error) == outcome_of(foretold):
            return True
        assert outcome(error) == "failed", f"{foretold.verdict} was due, and there was {error!r}"
        assert error is not None
        # A worn disk may be noticed first: a spoiled snapshot is as long as it was.
        named = (*named, "snapshots") if self.worn and isinstance(error, DamagedError) else named
        assert any(name in error.message for name in named), f"{named} is not named: {error.message}"
        assert came in ([UNJUDGED], [foretold.verdict]), f"what was fetched is not kept: {came}, {error!r}"
        return False

    def operate(
        self,
        work: Callable[[], object],
        *,
        fails: type[RollbookError] | None = None,
        done: Callable[[], None] = lambda: None,
        behind: bool = False,
    ) -> None:
        """An operator's call, which works, or `fails` in this way; `done` tells the model.

        What is published afterwards may be `behind` what counts.
        """
        lost = self.is_lost()
        error = self.run(work)
        if self.worn and isinstance(error, DamagedError) and fails is not DamagedError:
            error = self.run(work)
        if lost and isinstance(error, ExpiredError):
            self.accept_loss()
            return
        if fails is None and error is not None:
            raise error
        assert fails is None or isinstance(error, fails), f"{fails} was due, and there was {error!r}"
        self.see_what_was_judged_later()  # before anything else was done
        if error is None:
            done()
        self.settle(recovered=error is None and not behind, behind=behind)

    def approve(self) -> None:
        """Somebody approves of what is held: of the newest such day, or of one by name."""
        waiting = self.ledger.waiting()
        if not waiting:  # the sync met a loss instead
            return
        named = self.random.random() < 0.5
        day = self.random.choice(sorted(waiting)) if named else max(waiting)
        self.note(f"approve {day if named else 'the newest'}")
        asked = len(self.service.requests)
        self.operate(
            lambda: self.house.approve(day if named else None),
            done=lambda: self.ledger.approve(waiting[day]),
        )
        assert len(self.service.requests) == asked, "an approval fetches nothing"

    def run(self, work: Callable[[], object]) -> RollbookError | None:
        """Do some work; returns how it failed."""
        try:
            work()
        except RollbookError as error:
            assert error.message
            self.note(f"{type(error).__name__}: {error.message[:160]}")
            return error
        return None

    def damage(self, what: str, work: Callable[[], Any]) -> None:
        """Other hands change files; what readers find until the next sync is not Rollbook's doing."""
        if what:
            self.note(what)
        self.reader.disturb()
        self.fresh, before = False, damage.digest(self.published)
        work()
        self.forget_lost_notes()
        self.spoiled |= {damage.digest(self.published)} - {before}

    def back_up(self) -> None:
        """Keep the whole warehouse as it is."""
        damage.remove(self.older)
        shutil.copytree(self.warehouse, self.older, symlinks=True)
        self.landed_then = dict(self.ledger.landings)

    def forget_lost_notes(self) -> None:
        """Somebody deleted a folder, and what Rollbook had moved into it with it."""
        self.notes = [note for note in self.notes if list(self.warehouse.rglob(f"{note}.txt"))]

    # -- what must be ----------------------------------------------------------------------------------------------

    def adopt(self, showing: Showing, label: date) -> list[str]:
        """Let the model know of landings that have come of this, each with the verdict that it must have."""
        disk = damage.manifests(self.warehouse / "raw")
        new = sorted(disk.keys() - self.ledger.landings.keys())
        for key in new:
            # What nothing could be compared with when it came proves nothing.
            unproven = SETS if disk[key]["deferred"] else showing.unproven
            landing = self.ledger.receive(replace(showing, unproven=frozenset(unproven)), label)
            verdict = str(disk[key]["verdict"])
            if verdict in (UNJUDGED, "failed"):
                landing = replace(landing, verdict=verdict, moved=None)
            assert (key[0], verdict) == (label, landing.verdict), f"{key} of {label}: {verdict}, {landing.verdict}"
            self.ledger.land(key, landing)
        return [self.ledger.landings[key].verdict for key in new]

    def settle(self, *, recovered: bool = True, behind: bool = False) -> None:
        """The writer is done. What is published is all that counts, if it `recovered`; or `behind` that on purpose."""
        self.fresh = (self.fresh or recovered) and not behind
        self.see_what_was_judged_later()
        if recovered and not behind:
            waiting = [key for key, landing in self.ledger.landings.items() if landing.verdict == UNJUDGED]
            assert waiting == [], f"{waiting} have no verdict, and what was done is green"
        self.check()
        if self.fresh or behind:
            self.reader.calm()

    def check(self) -> None:
        """Everything that must hold at any time."""
        self.see_what_was_judged_later()
        self.see_what_expired()
        disk = damage.manifests(self.warehouse / "raw")
        assert {k: str(m["verdict"]) for k, m in disk.items()} == self.ledger.on_disk(), (
            "what is landed is not what was"
        )
        for key, found in disk.items():
            moved = {c["table"]: (c["before"], c["added"], c["changed"], c["removed"]) for c in found["counts"]}
            due = self.ledger.landings[key].moved
            assert due is None or due.items() <= moved.items(), f"{key} changes {moved}, and {due} is what it changes"
        if self.fresh and self.ledger.counted():
            self.look_at_published("the tables are not what counts:")
            self.look_at_copy()
            for note in self.notes:
                assert list(self.warehouse.rglob(f"{note}.txt")), f"{note}, a file of other people, is gone"
        complaints = self.reader.complaints()
        assert not complaints, f"what a reader found: {complaints}"

    def look_at_published(self, complaint: str) -> None:
        """The published file holds what counts; all that is in it can be read."""
        found, expected = self.house.tables(), self.ledger.tables()
        assert found == expected, "\n".join([complaint, *differences(found, expected)])
        if (known := damage.digest(self.published)) not in self.known:
            if self.number % 4 == 0:  # every night would double the campaign
                try:
                    read_everything(self.published, self.today)
                except duckdb.Error as error:  # a view of snapshots is as whole as they are
                    if not (self.worn and "/snapshots/" in str(error)):
                        raise
            self.known.add(known)

    def look_at_copy(self) -> None:
        """The copy holds every landing that is here, and no other but those that were given up."""
        if self.copy:
            here, there = damage.files_of(self.warehouse / "raw"), damage.files_of_copy(self.copy / "raw")
            assert there == here, f"what is copied is not what is landed: {sorted(there.items() ^ here.items())}"

    def look_after_kill(self, was_fresh: bool) -> None:
        """Readers have the file from before or the whole next one; what counts is for the next writer to bring in."""
        self.fresh = False
        if was_fresh and damage.digest(self.published) not in self.known:
            self.look_at_published("neither the old nor the new night:")

    def see_what_expired(self) -> None:
        """Days may only go from disk when they are old enough by the newest counted day, and nothing of them waits."""
        there = {day for day, _ in damage.landings(self.warehouse / "raw")}
        gone = {day for day, _ in self.ledger.on_disk()} - there
        newest, waiting = self.ledger.newest(), self.ledger.waiting()
        for day in sorted(gone):
            assert newest is not None
            assert "keep_days" in self.house.over, f"{day} is gone"
            assert day <= newest - timedelta(days=KEEP_DAYS), f"{day} is gone, and {newest} is the newest day"
            assert day not in waiting, f"{day} is gone, which waits for approval"
            self.played["a day expires"] += 1
            for key, landing in list(self.ledger.landings.items()):
                if landing.day == day:
                    self.ledger.become(key, expired=True)

    def see_what_was_judged_later(self) -> None:
        """What was landed without a verdict is judged by a later writer, in the order of landing."""
        disk = damage.landings(self.warehouse / "raw")
        for key, landing in sorted(self.ledger.landings.items()):
            if landing.verdict == UNJUDGED and disk.get(key, UNJUDGED) != UNJUDGED:
                judged = self.ledger.judge(landing)
                assert disk[key] == judged.verdict, f"{key}, judged later: {disk[key]}; {judged.verdict} was due"
                self.ledger.become(key, verdict=judged.verdict, moved=judged.moved)

    def is_lost(self) -> bool:
        """Whether days have expired that no file remembers any more."""
        return bool(self.ledger.expired()) and not any(map(self.is_own, [self.published, *self.kept()]))

    def is_own(self, path: Path) -> bool:
        """Whether a file is there, and no other hands have changed it."""
        return path.is_file() and damage.digest(path) not in self.spoiled

    def accept_loss(self, *days: date) -> None:
        """Go on without the expired days, and without others that are gone."""
        self.note("the loss is accepted")
        self.rollbook.rebuild(confirm=always, accept_loss=True)
        if self.copy:
            self.rollbook.listener(Mirror).update(self.house.now, accept_loss=True)
        self.ledger.forget(days)
        self.settle()


def outcome(error: RollbookError | None) -> str:
    """What a sync came to."""
    if error is None:
        return "counted"
    return "held" if isinstance(error, HeldError) and error.exit_code == 3 else "failed"


def outcome_of(landing: Landing) -> str:
    """What a sync must come to."""
    return "counted" if landing.counts else landing.verdict
