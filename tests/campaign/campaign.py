"""The campaign: the life of a simulated warehouse, night after night, and after each event the warehouse must hold what
the model says.

Everything is drawn from a seed: the school, the settings, what happens in which night. Each event has a place, `12.1`
for the first event of the twelfth night, and draws from a random generator of its own, so that other events stay the
same when some are left out. Events are in `events_*`; here are the parts: a sync with its outcome foretold, an
operator's call, damage, a look at the whole.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import duckdb
import pytest

from rollbook import errors
from rollbook.errors import DamagedError, ExpiredError, HeldError, LostError, RollbookError
from rollbook.features.mirror.mirror import Mirror
from rollbook.night import past
from rollbook.night.past import always
from rollbook.opened import Rollbook
from rollbook.settings import Settings
from tests.campaign import damage, office
from tests.campaign.disk import Disk, PowerFailedError, Trouble
from tests.campaign.ledger import SETS, UNJUDGED, Key, Landing, Ledger, Showing, differences
from tests.campaign.school import CAP, School, shown
from tests.campaign.wire import in_process
from tests.support.consumer import Consumer
from tests.support.nights import SET_OF, House, approve_held, night, tables_in
from tests.support.processes.kills import die_at_step
from tests.support.processes.machines import left_over
from tests.support.wire.service import Service

KEEP_DAYS = 10  # from the middle of a life on
BACKED_UP = 4  # nights between two backups of the whole warehouse
NIGHTS = 30  # of a life
GIVEN = {"students": "[1]", "since_epoch": "1", "since_number": "1"}  # for the macros' parameters; else a day
DONE, REFUSED = 0, 9  # the exit codes of a process that did some work


Play = Callable[["Campaign"], bool | None]


@dataclass(frozen=True)
class Event:
    """An event that may happen, whenever `ready`; `play` returns False when nothing came of the event.

    An event is drawn in proportion to the `weight`.
    """

    name: str
    play: Play
    ready: Callable[[Campaign], bool]
    weight: float = 1.0


EVENTS: dict[str, Event] = {}


def register(name: str, play: Play, ready: Callable[[Campaign], bool], weight: float = 1.0) -> None:
    """Let something be able to happen."""
    EVENTS[name] = Event(name, play, ready, weight)


def event(ready: Callable[[Campaign], bool] = lambda c: True, weight: float = 1.0) -> Callable[[Play], Play]:
    """Make a function an event, under the function's name."""

    def decorate(play: Play) -> Play:
        register(play.__name__.replace("_", " "), play, ready, weight)
        return play

    return decorate


# Per table what is current and what is open in the history.
AGREEMENT = " UNION ALL ".join(
    f"SELECT '{t}', (SELECT COUNT(*) FROM main.{t}), (SELECT COUNT(*) FROM history.{t} WHERE valid_to IS NULL)"
    for t in SET_OF
)
# The landings that the published file records.
RECORDED = "SELECT snapshot_date, landing, outcome FROM ops.syncs"
# Totals of views, each with what must be there: rows of current tables.
TOTALS = (
    "SELECT (SELECT COUNT(*) FROM student_progress), (SELECT COUNT(*) FROM students)",
    "SELECT (SELECT COUNT(*) FROM enrollment_spans WHERE left_on IS NULL), (SELECT COUNT(*) FROM student_classes)",
    "SELECT (SELECT COUNT(*) FROM class_comparison), (SELECT COUNT(*) FROM classes WHERE class_status = 1)",
)
RELATIONS = """
SELECT schema_name, table_name FROM duckdb_tables() UNION ALL
SELECT schema_name, view_name FROM duckdb_views() WHERE NOT internal
"""
MACROS = """
SELECT function_name, parameters FROM duckdb_functions() WHERE function_type = 'table_macro' AND NOT internal
"""


class SteadyHouse(House):
    """A house that reads settings only after a change: reading takes as long as a tenth of a sync."""

    def __init__(self, warehouse: Path, service: Service) -> None:
        super().__init__(warehouse, service)
        self._read: dict[str, Settings] = {}

    def settings(self, **over: Any) -> Settings:
        """The settings of the warehouse."""
        key = repr((self.warehouse, {**self.over, **over}))
        if key not in self._read:
            self._read[key] = super().settings(**over)
        return self._read[key]


class Syncs(Container[str]):
    """The places of the plain syncs."""

    def __contains__(self, place: object) -> bool:
        return str(place).endswith(".0")


class Campaign:
    """A warehouse, a school with a service, the model of what must come of both, and what has happened so far."""

    def __init__(
        self, made: Path, seed: int, nights: int = NIGHTS, only: Container[str] | None = None, *, alone: bool = False
    ) -> None:
        self.made, self.seed, self.nights, self.only = made, seed, nights, only
        self.service = Service(cap=CAP)
        self.random = self.chance("life")
        self.school = School(self.random)
        self.ledger = Ledger()
        self.house = SteadyHouse(made / "w", self.service)
        self.house.over["cache_minutes"] = 0  # a night stands still: each sync would be taken for the last
        self.disk = Disk(made / "w", self.look_as_reader)
        self.number = 0
        # The played events, by place; how often each kind was, and what there is to tell.
        self.places: list[str] = []
        self.played: Counter[str] = Counter()
        self.history: list[str] = []
        # The files that were right when published, and the files that other hands have changed, by digest; and the
        # model and the published file of the last comparison.
        self.known: set[str] = set()
        self.spoiled: set[str] = set()
        self._agreed: tuple[str, int] = ("", -1)
        # The copy in an object store, the file without names and the second process, each in some lives.
        self.copy = made / "copy" if self.random.random() < 0.5 else None
        if self.copy:
            self.house.over["lake"] = self.copy.as_uri()
        if self.random.random() < 0.15:
            self.house.over["pseudonymous"] = True
        self.in_second_process = self.random.random() < 0.1
        # The whole warehouse of some nights ago, and what had landed then.
        self.older = made / "older"
        self.landed_then: dict[Key, Landing] = {}
        # Another institution, in some lives.
        has_neighbour = not alone and self.random.random() < 0.1
        self.neighbour = Campaign(made / "neighbour", -seed, nights, Syncs(), alone=True) if has_neighbour else None
        # Folders and notes of other people, which nobody may delete.
        self.notes: list[str] = []
        # Whether the published file must hold all that counts.
        self.fresh = False
        # Whether landings are missing, so that a sync has nothing to compare with.
        self.missing = False
        # Whether files of the lake were spoiled that nobody may have noticed yet.
        self.worn = False
        # Other systems that poll: after each publish, and now and then.
        self.consumers = Consumer(), Consumer()
        self.polls = self.chance("polls")
        # The view of readers while a writer works: the last file, and the complaints.
        self._reading = duckdb.connect()
        self._last_read: int | None = None
        self.complaints: list[str] = []
        self.reads = 0

    # -- a night ---------------------------------------------------------------------------------------------------

    def play(self) -> None:
        """All nights, and a last look. An error tells the seed and the whole story."""
        large = 0 if self.in_second_process else 10**9
        both = [self.service, *([self.neighbour.service] if self.neighbour else [])]
        with in_process(*both), self.disk.installed(), patch("rollbook.ingest.LARGE", large):
            try:
                for number in range(1, self.nights + 1):
                    self.night(number)
                self.last_look()
            except BaseException as error:
                if self.neighbour:
                    error.add_note("\n".join(["the neighbour:", *self.neighbour.history]))
                error.add_note("\n".join([*self.history, command(self.seed, self.number, self.only and self.places)]))
                raise
            finally:
                self._reading.close()

    def chance(self, place: str) -> Random:
        """The random generator of a place in this life."""
        return Random(f"{self.seed} {place}")

    def night(self, number: int) -> None:
        """A day passes; something may happen; in most nights a plain sync follows."""
        self.number = number
        self.history.append(f"night {number}")
        self.set_clocks()
        if number == NIGHTS // 2:
            self.house.over["keep_days"] = KEEP_DAYS
        chance = self.chance(str(number))
        self.school.random = chance
        self.school.live(self.today)
        if number % BACKED_UP == 0 and self.fresh:
            self.back_up()
        for place in range(0 if number == 1 else chance.choice([0, 0, 0, 1, 1])):
            self.happen(f"{number}.{place + 1}", self.draw)
        if number == 1 or chance.random() < 0.7:
            self.happen(f"{number}.0", lambda: Event("a sync", plain_sync, lambda _: True))
        if self.neighbour:
            self.neighbour.night(number)

    def draw(self) -> Event:
        """Any event that is ready."""
        drawn = {each.name: self.random.random() ** (1 / each.weight) for each in EVENTS.values()}
        in_turn = sorted(EVENTS.values(), key=lambda each: drawn[each.name], reverse=True)
        return next(each for each in in_turn if each.ready(self))

    def happen(self, place: str, draw: Callable[[], Event]) -> None:
        """An event happens, and everything is right afterwards."""
        if self.only is not None and place not in self.only:
            return
        self.random = self.school.random = self.chance(place)
        what = draw()
        self.places.append(place)
        self.history.append(f"  {place} {what.name}")
        if what.play(self) is not False:
            self.played[what.name] += 1
        self.check()

    def last_look(self) -> None:
        """The last published file holds all that counts, and can be made again from what is there; nothing is left
        over.
        """
        self.history.append("the end")
        self.random = self.school.random = self.chance("end")
        self.sync()
        if self.ledger.expired():
            self.operate(lambda: past.backfill(self.rollbook.writer(), night(1), self.today))
        else:
            self.operate(lambda: past.rebuild(self.rollbook.writer()))
        assert self.fresh
        self.read_everything()
        assert left_over(self.warehouse) == []
        if self.neighbour:
            self.neighbour.last_look()

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
        """The earlier published files."""
        return self.rollbook.warehouse.kept()

    @property
    def today(self) -> date:
        return night(self.number)

    def note(self, what: str) -> None:
        """Add to the story that a failure tells."""
        self.history.append(f"    {what}")

    def set_clocks(self, here: timedelta = timedelta(0)) -> None:
        """A quarter past two of a night at the service, and here as well unless the clock is off."""
        there = datetime.combine(self.today, clock(2, 15), UTC)
        self.house.now = there + here
        self.service.now = lambda: there

    @contextmanager
    def clock_off_by(self, days: int) -> Iterator[None]:
        """The clock of the machine is wrong."""
        self.set_clocks(timedelta(days=days))
        yield
        self.set_clocks()

    # -- what is done ----------------------------------------------------------------------------------------------

    def showing(self, **over: Any) -> Showing:
        """The service's records of tonight, with changes."""
        return self.school.showing(self.number, own=office.read(self.warehouse), **over)

    def sync(
        self,
        showing: Showing | None = None,
        *,
        trouble: Callable[[Service, Random], None] | None = None,
    ) -> str:
        """A sync of such records, which must come to what the model says. Returns to what."""
        showing, lost = showing or self.showing(), self.is_lost()
        foretold, error, came = self.try_to_sync(showing, trouble)
        if self.worn and isinstance(error, DamagedError):
            foretold, error, came = self.try_to_sync(showing, trouble)
        if lost:  # the night may be landed, but is only judged once somebody has accepted the loss
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
        self, showing: Showing, trouble: Callable[[Service, Random], None] | None
    ) -> tuple[Landing, RollbookError | None, list[str]]:
        """A sync: the landing that is due, the failure, and the verdicts of what has landed."""
        with shown(self.service, showing):
            if trouble is not None:
                trouble(self.service, self.random)
            error = self.run(self.house.sync)
        self.see_what_was_judged_later()  # before it fetched
        foretold = self.ledger.receive(showing, self.today)
        return foretold, error, self.adopt(showing, self.today)

    def sync_in_trouble(self, *named: str) -> bool:
        """A sync while a file is damaged or gone; returns whether the sync is green, which may be where the file does
        not matter.

        A red sync names a cause among these, and what was fetched is kept.
        """
        foretold, error, came = self.try_to_sync(self.showing(), None)
        if outcome(error) == outcome_of(foretold):
            return error is None  # a hold comes first
        assert outcome(error) == "failed", f"{foretold.verdict} was due, and there was {error!r}"
        assert error is not None
        # A worn disk may be noticed first: a spoiled snapshot is as long as before.
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
        """An operator's call, which works, or `fails` so; `done` tells the model.

        The file published afterwards may be `behind` what counts.
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
        """Somebody approves of what is held: of the newest such day, or of a day by name."""
        waiting = self.ledger.waiting()
        if not waiting:  # the sync met a loss instead
            return
        named = self.random.random() < 0.5
        day = self.random.choice(sorted(waiting)) if named else max(waiting)
        self.note(f"approve {day if named else 'the newest'}")
        requests_before = len(self.service.requests)
        self.operate(
            lambda: approve_held(self.rollbook, day if named else None),
            done=lambda: self.ledger.approve(waiting[day]),
        )
        assert len(self.service.requests) == requests_before, "an approval fetches nothing"

    def run(self, work: Callable[[], object], trouble: Trouble | None = None) -> RollbookError | None:
        """Do some work, while readers look; returns the failure."""
        intact = self.published.is_file() and damage.digest(self.published) in self.known
        self._last_read = self.published.stat().st_ino if intact else None
        try:
            with self.disk.at_work(trouble):
                work()
        except RollbookError as error:
            assert error.message
            self.note(f"{type(error).__name__}: {error.message[:160]}")
            return error
        finally:
            self._last_read = None
        return None

    def interrupt(
        self, work: Callable[[], object], done: Callable[[], None], trouble: Trouble, showing: Showing
    ) -> None:
        """Something happens to a writer, and what was done until then counts, each step as a whole or not at all.

        `done` tells the model what the writer has done; a sync is shown `showing`. Readers have afterwards the file
        from before or the whole next file.
        """
        was_fresh, error = self.fresh, None
        with shown(self.service, showing):
            try:
                error = self.run(work, trouble)
                end = "held" if outcome(error) == "held" else "red" if error else "green"
            except PowerFailedError:
                end = "stopped"
        self.note(f"{trouble.what} at step {self.disk.steps}{' and later' if trouble.lasting else ''}: {end}")
        self.see_what_was_judged_later()
        done()
        self.adopt(showing, self.today)
        self.fresh = False
        if end == "green" or (was_fresh and damage.digest(self.published) not in self.known):
            self.look_at_published(f"{end}, and neither the old nor the new night:")
        self.disk.mend()
        self.adopt(showing, self.today)  # a manifest that could not be read until the disk was mended

    def damage(self, what: str, work: Callable[[], Any]) -> None:
        """Other hands change files; what readers find until the next sync is not Rollbook's doing."""
        if what:
            self.note(what)
        self.fresh, before = False, damage.digest(self.published)
        work()
        self.forget_lost_notes()
        self.spoiled |= {damage.digest(self.published)} - {before}

    def back_up(self) -> None:
        """Keep a copy of the whole warehouse."""
        damage.remove(self.older)
        shutil.copytree(self.warehouse, self.older, symlinks=True)
        self.landed_then = dict(self.ledger.landings)

    def forget_lost_notes(self) -> None:
        """Somebody deleted a folder, together with what Rollbook had moved there."""
        self.notes = [note for note in self.notes if list(self.warehouse.rglob(f"{note}.txt"))]

    # -- what must be ----------------------------------------------------------------------------------------------

    def adopt(self, showing: Showing, label: date) -> list[str]:
        """Let the model know of new landings, each with the verdict that is due."""
        disk = damage.manifests(self.warehouse / "raw")
        new = sorted(disk.keys() - self.ledger.landings.keys())
        for key in new:
            # A landing that could not be compared proves nothing, from the first moment on.
            assert disk[key]["deferred"] or not self.missing, f"{key} was compared with what is not there"
            unproven = SETS if disk[key]["deferred"] else showing.unproven
            landing = self.ledger.receive(replace(showing, unproven=frozenset(unproven)), label)
            verdict = str(disk[key]["verdict"])
            if verdict in (UNJUDGED, "failed"):
                landing = replace(landing, verdict=verdict, moved=None)
            assert (key[0], verdict) == (label, landing.verdict), f"{key} of {label}: {verdict}, {landing.verdict}"
            self.ledger.land(key, landing)
        return [self.ledger.landings[key].verdict for key in new]

    def settle(self, *, recovered: bool = True, behind: bool = False) -> None:
        """The writer is done. The published file holds all that counts, if `recovered`; or `behind` that on purpose."""
        self.fresh = (self.fresh or recovered) and not behind
        self.see_what_was_judged_later()
        if recovered and not behind:
            waiting = [key for key, landing in self.ledger.landings.items() if landing.verdict == UNJUDGED]
            assert waiting == [], f"{waiting} have no verdict, and what was done is green"
        self.check()

    def check(self) -> None:
        """Everything that must hold at any time."""
        self.see_what_was_judged_later()
        self.see_what_expired()
        disk = damage.manifests(self.warehouse / "raw")
        landed, due = {k: str(m["verdict"]) for k, m in disk.items()}, self.ledger.on_disk()
        assert landed == due, f"what is landed is not what was: {sorted(landed.items() ^ due.items())}"
        for key, verdict in disk.items():
            moved = {c["table"]: (c["before"], c["added"], c["changed"], c["removed"]) for c in verdict["counts"]}
            landing = self.ledger.landings[key]
            expected = landing.moved
            assert expected is None or expected.items() <= moved.items(), f"{key} changes {moved}, not {expected}"
        if self.fresh and self.ledger.counted():
            self.look_at_published("the tables are not what counts:")
            self.look_at_copy()
            for note in self.notes:
                assert list(self.warehouse.rglob(f"{note}.txt")), f"{note}, a file of other people, is gone"
        assert not self.complaints, f"what a reader found: {self.complaints}"

    @contextmanager
    def reading(self, path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
        """Read a database file, without what a new instance of DuckDB takes."""
        con = self._reading.cursor()
        con.execute(f"ATTACH '{path.resolve()}' AS rollbook (READ_ONLY)")
        try:
            con.execute("USE rollbook")
            yield con
        finally:
            con.execute("USE memory")
            con.execute("DETACH rollbook")
            con.close()

    def look_at_published(self, complaint: str) -> None:
        """The published file holds and records what counts; the file without names has as many students."""
        agreed = damage.digest(self.published), self.ledger.version
        if agreed == self._agreed:
            return
        with self.reading(self.published) as con:
            rows, recorded = tables_in(con), {(d, n): str(v) for d, n, v in con.execute(RECORDED).fetchall()}
            totals = [con.execute(query).fetchone() for query in TOTALS]
            has_list = con.execute("SELECT 1 FROM duckdb_views() WHERE view_name = 'own_years'").fetchone()
            years = dict(con.execute("FROM own_years").fetchall()) if has_list else {}
            for consumer in self.consumers[: 1 if self.polls.random() < 0.7 else None]:
                consumer.poll(con)
                assert (told := consumer.differences(con)) == [], f"what changes_since tells: {told}"
        expected = self.ledger.tables()
        assert rows == expected, "\n".join([complaint, *differences(rows, expected)])
        due = self.ledger.own_years()
        assert years == due, f"{complaint} own_years differs in {sorted(years.items() ^ due.items())}"
        counted, all_ = self.ledger.recorded()
        assert counted.items() <= recorded.items() <= all_.items(), (
            f"{complaint} ops.syncs lacks {counted.items() - recorded.items()}, has {recorded.items() - all_.items()}"
        )
        for query, total in zip(TOTALS, totals, strict=True):
            assert total is not None
            assert total[0] == total[1], f"{complaint} {query}: {total}"
        if self.house.over.get("pseudonymous") and self.fresh:
            self.look_at_pseudonymous(len(rows["main.students"]))
        if self.random.random() < 0.1:
            self.read_everything()
        self._agreed = agreed
        self.known.add(agreed[0])

    def look_at_pseudonymous(self, students: int) -> None:
        """The file without names has all students, and none of their names."""
        with self.reading(self.warehouse / "rollbook-pseudonymous.duckdb") as con:
            rows = con.execute("SELECT * FROM main.students").fetchall()
        assert len(rows) == students, f"{len(rows)} students without names, of {students}"
        assert not [row for row in rows if "@school.example" in repr(row)], "a name is in the file without names"

    def read_everything(self) -> None:
        """Read every row of every table, view and macro; the macros for a student, and as of a day."""
        try:
            with self.reading(self.published) as con:
                for schema, name in con.execute(RELATIONS).fetchall():
                    con.execute(f"SELECT * FROM {schema}.{name}").fetchall()
                for name, parameters in con.execute(MACROS).fetchall():
                    given = [GIVEN.get(each, f"DATE '{self.today}'") for each in parameters]
                    con.execute(f"SELECT * FROM {name}({', '.join(given)})").fetchall()
        except duckdb.Error as error:  # a view of snapshots is as whole as the snapshots
            if not (self.worn and "/snapshots/" in str(error)):
                raise

    def look_as_reader(self) -> None:
        """Between two steps of a writer, a reader finds the file from before or the next file, and each is whole."""
        if self._last_read is None:
            return
        try:
            inode = self.published.stat().st_ino
        except FileNotFoundError:
            self.complaints.append("there is no file")
            self._last_read = None
            return
        if inode != self._last_read:
            self._last_read = inode
            self.reads += 1
            with self.reading(self.published) as con:
                rows = con.execute(AGREEMENT).fetchall()
            self.complaints += [
                f"{t}: {now} current rows, {still} open versions" for t, now, still in rows if now != still
            ]

    def look_at_copy(self) -> None:
        """The copy holds every landing that is here, and otherwise only landings that were given up."""
        if self.copy:
            here, there = damage.files_of(self.warehouse / "raw"), damage.files_of_copy(self.copy / "raw")
            assert there == here, f"what is copied is not what is landed: {sorted(there.items() ^ here.items())}"

    def see_what_expired(self) -> None:
        """Days may only go from disk when old enough by the newest counted day, and when nothing of the day waits."""
        there = {day for day, _ in damage.landings(self.warehouse / "raw")}
        missing = {day for day, _ in self.ledger.on_disk()} - there
        newest, waiting = self.ledger.newest(), self.ledger.waiting()
        for day in sorted(missing):
            assert newest is not None
            assert "keep_days" in self.house.over, f"{day} is gone"
            assert day <= newest - timedelta(days=KEEP_DAYS), f"{day} is gone, and {newest} is the newest day"
            assert day not in waiting, f"{day} is gone, which waits for approval"
            self.played["a day expires"] += 1
            for key, landing in list(self.ledger.landings.items()):
                if landing.day == day:
                    self.ledger.become(key, expired=True)

    def see_what_was_judged_later(self) -> None:
        """A landing without a verdict is judged by a later writer, in the order of landing."""
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
        """Go on without the expired days, and without other days that are gone; the copy keeps those until it is told,
        and says so.
        """
        self.note("the loss is accepted")
        is_kept_in_copy = pytest.raises(LostError, match="mirror sync --accept-loss") if self.copy and days else None
        with is_kept_in_copy or nullcontext():
            past.rebuild(self.rollbook.writer(), confirm=always, accept_loss=True)
        if self.copy:
            self.rollbook.listener(Mirror).update(self.house.now, accept_loss=True)
        self.ledger.forget(days)
        self.settle()


def plain_sync(c: Campaign) -> None:
    """A sync; what is held is approved: a few missed nights add up, and every later night would be held as well."""
    if c.sync() == "held":
        c.approve()


def outcome(error: RollbookError | None) -> str:
    """The outcome of a sync."""
    if error is None:
        return "counted"
    return "held" if isinstance(error, HeldError) and error.exit_code == 3 else "failed"


def outcome_of(landing: Landing) -> str:
    """The outcome that a sync must have."""
    return "counted" if landing.counts else landing.verdict


def forked(work: Callable[[], object], *, die_at: int | None = None) -> BaseProcess:
    """Do some work in a process of its own; with `die_at`, the process kills itself just before the n-th rename or
    link.
    """

    def working() -> None:
        if die_at is not None:
            die_at_step(die_at)
        try:
            work()
        except errors.RollbookError:
            os._exit(REFUSED)

    process = multiprocessing.get_context("fork").Process(target=working, daemon=True)
    process.start()
    return process


def killed(work: Callable[[], object], die_at: int) -> bool:
    """Kill some work with SIGKILL before the n-th rename or link; returns whether there were so many."""
    process = forked(work, die_at=die_at)
    process.join(60)
    assert process.exitcode in (DONE, REFUSED, -signal.SIGKILL), f"the writer ended by itself, with {process.exitcode}"
    return process.exitcode == -signal.SIGKILL


def command(seed: int, nights: int, only: object = None) -> str:
    """The command that plays a life again, or what is left."""
    left = f" --only {','.join(only)}" if isinstance(only, list) else ""
    return f"python -m tests.campaign --seed {seed} --nights {nights}{left}"
