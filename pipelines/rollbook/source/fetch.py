"""The land stage as one function: auth check, walks, absence check and details, all landed before anything is
flattened.

The function only joins this folder's modules. The caller decides whether a landing counts, and what to do with the
landing.

Whether a key may fill a warehouse is decided here, too (G11, `why_refused`): an institution's claim on a school begins
with its first landing that counts, and ends when the warehouse no longer has such a landing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import httpx
from msgspec.structs import replace

from rollbook import __version__
from rollbook.errors import (
    KeyRefusedError,
    MachineError,
    NothingLandedError,
    OtherInstitutionError,
    RollbookError,
    ServiceError,
    UnreachableError,
)
from rollbook.landing.manifest import Absence, LandedBody, Manifest, Received, Verdict
from rollbook.landing.raw import RawStore
from rollbook.source.client import TIMEOUTS, Client
from rollbook.source.envelope import detail, institution
from rollbook.source.pagination import (
    Progress,
    Published,
    Searches,
    Sink,
    Verified,
    Walked,
    search_uncounted,
    verify_absence,
    walk,
)
from rollbook.tables import SETS, WALKED
from rollbook.util.text import count_of

if TYPE_CHECKING:  # a night is given its settings and does not read any
    from rollbook.settings import Settings

log = logging.getLogger(__name__)

# After so many details in a row without an answer, the service counts as down and the rest are skipped.
MAX_UNREACHABLE = 5
NOT_FOUND = 404
# Correct clocks in two zones differ by at most one date. If dates differ by more, a clock is wrong.
ZONES_APART = timedelta(days=1)
# Between two syncs, so much more time may pass by one clock than by the other: the service's may change to summer time.
CLOCKS_APART = timedelta(hours=2)
# A clock that is kept right may be set back so far.
CORRECTED = timedelta(minutes=1)


def utc_now() -> datetime:
    """Return the current time."""
    return datetime.now(UTC)


def clock_is_wrong(newest: Manifest, started: datetime, there: datetime) -> str:
    """The reason why this machine's clock must be wrong, now or at the newest landing; empty without one.

    A sync cannot start before the last one did, and as much time passes here as at the service (`there`). Where that
    goes back, it plays other days or has set its own clock right, which says nothing about this machine's.
    """
    passed = started - newest.started_at
    passed_there = abs(passed) if newest.service_time is None else there - newest.service_time
    last = f"its last sync ({newest.started_at:%Y-%m-%d %H:%M} UTC, of {newest.snapshot_date})"
    if passed_there < timedelta(0):
        return ""
    if passed < -CORRECTED:
        return f"The clock of this machine says {started:%Y-%m-%d %H:%M} UTC, which is before {last}"
    if abs(passed_there - passed) > CLOCKS_APART:
        hours, hours_there = (round(t / timedelta(hours=1)) for t in (passed, passed_there))
        return (
            f"By the clock of this machine, {count_of(hours, 'hour')} have passed since {last}, and by that of the"
            f" records service {hours_there}"
        )
    return ""


def dates_differ_beyond_time_zones(here: date, there: date) -> bool:
    """Whether the dates of two clocks differ by more than time zones can explain."""
    return abs(here - there) > ZONES_APART


@dataclass(frozen=True)
class Draft:
    """A landing before it is finished: the manifest so far, the ids of each set, and a function that reads the bodies.

    `ids` holds the ids on the counted walks' pages and the ids found by search.
    """

    manifest: Manifest
    ids: Mapping[str, AbstractSet[int]]
    bodies: Callable[[str], Iterator[LandedBody]]


ChooseDetails = Callable[[Draft], Iterable[int]]


@dataclass(frozen=True)
class FetchPlan:
    """What to fetch, and what the nights before say of it.

    `day` is the snapshot's date (default: today in ROLLBOOK_TIMEZONE), `bound_to` the institution of the warehouse,
    `newest` the newest landing that counts there, `hidden` the records of each set that only searches found last time,
    each since when, and `uncounted` gives the records that only held or discarded landings state. `deferred` says why
    the landing can be compared with nothing, if so: the manifest that is committed has the reason, since a landing
    without a reason counts as proven.
    """

    day: date | None = None
    bound_to: int | None = None
    newest: Manifest | None = None
    hidden: Mapping[str, Mapping[int, date]] = field(default_factory=dict)
    uncounted: Published | None = None
    deferred: str = ""


Finished = TypeVar("Finished")
Finished_co = TypeVar("Finished_co", covariant=True)


class Writer(Sink, Protocol[Finished_co]):
    """A landing in progress."""

    snapshot_date: date
    landing: int

    def walked(self, draft: Manifest, presumed: Callable[[], Manifest]) -> None:
        """Called when all walks are done. The searches that follow rarely change the rows: `presumed` returns, on any
        thread, the manifest that they will most likely lead to.
        """

    def bodies(self, draft: Manifest, set_name: str) -> Iterator[LandedBody]:
        """Yield the bodies of a set that would count if the landing were finished now with the manifest."""

    def finish(self, manifest: Manifest) -> Finished_co:
        """Complete the landing; returns it, with the manifest as written."""

    def abandon(self) -> None:
        """Remove everything written."""


def fetch(
    settings: Settings,
    begin: Callable[[date], Writer[Finished]],
    plan: FetchPlan,
    published: Published | None = None,
    *,
    reusable: Finished | None = None,
    choose_details: ChooseDetails | None = None,
    clock: Callable[[], datetime] = utc_now,
    progress: Progress = lambda *_: None,
    timeouts: httpx.Timeout = TIMEOUTS,
) -> Finished:
    """Fetch everything once and land it; returns the landing, which has no verdict yet.

    `begin` starts the landing of a day. `published` gives the current records, for the absence check. `reusable` is a
    landing from minutes ago, which is returned instead once the key has been checked. `choose_details` is called once
    all pages are landed and returns the students whose details to fetch (default: none).

    Raises the client's errors; OtherInstitutionError; NothingLandedError for a day that is not today's date, here or at
    the service; MachineError if the two clocks differ by more than time zones can, or this machine's clock was set
    back. Each error leaves a landing with the verdict `failed` and the reason, so that raw/ records every sync, unless
    it is unclear on which day to file the landing.
    """
    with closing(Client(settings, timeouts=timeouts)) as client:
        started = clock()
        today = started.astimezone(settings.zone).date()
        job = _Fetch(settings, client, begin(plan.day or today), started, progress)
        try:
            job.authenticate(plan.bound_to, today, plan.newest)
            if reusable is not None:
                job.writer.abandon()
                return reusable
            job.walk_sets(published)
            if published is not None:
                if choose_details is None:
                    job.writer.walked(job.manifest, job.presumed(published))
                job.search_vanished(published, plan.uncounted, plan.hidden)
            if choose_details is not None:
                draft = Draft(job.manifest, job.ids, partial(job.writer.bodies, job.manifest))
                fetch_details(client, job.writer, choose_details(draft), progress)
            return job.writer.finish(replace(job.drafted(clock()), deferred=plan.deferred))
        except RollbookError as error:
            job.fail(error, clock(), today)
            raise
        except BaseException:
            job.writer.abandon()
            raise


def fetch_details(client: Client, sink: Sink, ids: Iterable[int], progress: Progress = lambda *_: None) -> None:
    """Fetch the details of students, in turn, and land them.

    A failure costs one record only. Raises KeyRefusedError. Contract: "GET /svcapi/v1/student/<student_id>".
    """
    wanted = list(dict.fromkeys(ids))
    unreachable = 0
    for position, student in enumerate(wanted, 1):
        try:
            answer = client.get(SETS["details"].endpoint.format(id=student), read=detail)
        except KeyRefusedError:
            raise
        except ServiceError as error:
            unreachable = unreachable + 1 if isinstance(error, UnreachableError) else 0
            log.warning("details of student %d: not fetched (%s)", student, type(error).__name__)
            if unreachable == MAX_UNREACHABLE:
                log.warning("the details of %d more students are not asked for", len(wanted) - position)
                return
            continue
        unreachable = 0
        received = Received(
            set="details", kind="detail", page=position, sought=student, received_at=answer.received_at, records=1
        )
        sink.add(received, answer.content)
        progress("details", position, len(wanted))


class _Fetch(Generic[Finished]):
    """A fetch in progress. `manifest` is the manifest so far."""

    def __init__(
        self, settings: Settings, client: Client, writer: Writer[Finished], started: datetime, progress: Progress
    ) -> None:
        self.settings = settings
        self.client = client
        self.writer = writer
        self.progress = progress
        self.is_dated: bool | None = None  # unknown until the service states the date
        self.walks: dict[str, Walked] = {}
        self.ids: dict[str, AbstractSet[int]] = {}
        self.manifest = Manifest(
            snapshot_date=writer.snapshot_date,
            landing=writer.landing,
            started_at=started,
            finished_at=started,
            rollbook=__version__,
        )

    def authenticate(self, bound_to: int | None, today: date, newest: Manifest | None) -> None:
        """Check the key's institution and the service's time.

        The landing's day must be today's date here or at the service, not after today here, and within one day of the
        service's date. Raises OtherInstitutionError, NothingLandedError and MachineError as `fetch` does.
        """
        answer = self.client.get(SETS["auth"].endpoint, read=institution)
        received = Received(set="auth", kind="auth", page=1, received_at=answer.received_at, records=1)
        self.writer.add(received, answer.content)
        auth, day = answer.parsed, self.writer.snapshot_date
        there = auth.timestamp.date()
        started = self.manifest.started_at
        # Named by a person, the service's day may be played, now or last time: then no time passes as it does here.
        wrong = ""
        if newest is not None and day == today and self._is_of_its_date(newest):
            wrong = clock_is_wrong(newest, started, auth.timestamp)
        self.is_dated = (
            day in (today, there) and day <= today and not dates_differ_beyond_time_zones(day, there) and not wrong
        )
        self.manifest = replace(
            self.manifest, school_id=auth.school_id, school_name=auth.school_name, service_time=auth.timestamp
        )
        if refused := why_refused(self.settings, auth.school_id, bound_to):
            raise OtherInstitutionError(f"{refused}. Nothing was fetched.")
        if day != today and not self.is_dated:
            raise NothingLandedError(
                f"Nothing can be fetched for {day}: it is {today} here and {there} at the service, which keeps no"
                " history. Sync without a date; a past day can only be rebuilt from what was landed then (rollbook"
                " backfill)."
            )
        if newest is not None and wrong:
            raise MachineError(
                f"{wrong}. Nothing was fetched: set the clock right, then run `rollbook sync`. If the clock is right"
                f" now and was wrong at the last sync, that sync has the wrong date: first run"
                f" `{self.settings.command(f'discard {newest.snapshot_date}')}`"
            )
        if not self.is_dated:
            raise MachineError(
                f"It is {today} by the clock of this machine (in {self.settings.timezone}) and {there} by that of the"
                " records service. No two time zones differ by that much, so one clock is wrong. Nothing was fetched:"
                " correct this machine's clock, or tell the service's representative. If the service plays another day"
                " on purpose, name that day with --date."
            )

    def _is_of_its_date(self, landing: Manifest) -> bool:
        """Whether a landing is of the date on which it was fetched, by this machine's clock."""
        return landing.started_at.astimezone(self.settings.zone).date() == landing.snapshot_date

    def walk_sets(self, published: Published | None) -> None:
        """Walk every set. Raises RefusedError if the service has none of them."""
        for name in WALKED:
            has_none = partial(_has_none, published, name)
            walks, progress = self.settings.walks, self.progress
            self.walks[name] = walk(self.client, SETS[name], self.writer, walks, progress, has_none=has_none)
            self._note(Verified(self.walks[name]))
        refused = [walked.checks[-1].missing for walked in self.walks.values()]
        if refused[0] is not None and all(error is not None and error.status == NOT_FOUND for error in refused):
            raise refused[0]

    def presumed(self, published: Published) -> Callable[[], Manifest]:
        """A function that returns the manifest if no search finds a vanished record, as on most nights."""
        draft, most = self.manifest, self.settings.verify_most
        walked = [w for w in self.walks.values() if w.walk.proof is not None]

        def manifest() -> Manifest:
            vanished = [(w.walk.set, sorted(published.vanished(w.walk.set, w.ids))) for w in walked]
            asked = [(name, ids) for name, ids in vanished if len(ids) <= most]
            return replace(
                draft,
                absences=tuple(Absence(set=name, id=i, answer="removed") for name, ids in asked for i in ids),
                unverified={name: tuple(ids) for name, ids in vanished if len(ids) > most},
            )

        return manifest

    def search_vanished(
        self, published: Published, uncounted: Published | None, hidden: Mapping[str, Mapping[int, date]]
    ) -> None:
        """Search for the published records that the proven walks no longer list, and then, as far as
        ROLLBOOK_VERIFY_MOST allows, for those that only `uncounted` landings state.

        `hidden` are the records of each set that only searches found on earlier nights, each since when.
        """
        settings, began = self.settings, time.monotonic()
        searches: dict[str, Searches] = {}
        for name, walked in self.walks.items():
            if walked.walk.proof is not None:
                searches[name] = Searches(
                    self.client,
                    SETS[name],
                    published,
                    self.writer,
                    walks=settings.walks,
                    seconds=settings.retry_seconds,
                )
                verified = verify_absence(
                    searches[name],
                    walked,
                    most=settings.verify_most,
                    day=self.manifest.snapshot_date,
                    hidden=hidden.get(name),
                    progress=self.progress,
                )
                self._note(verified)
        if uncounted is not None:
            for each in searches.values():
                self._search_uncounted(each, published, uncounted)
        if searches:
            self.manifest = replace(self.manifest, search_seconds=time.monotonic() - began)

    def _search_uncounted(self, searches: Searches, published: Published, uncounted: Published) -> None:
        name = searches.set.name
        listed, most = self.ids[name], self.settings.verify_most - len(self.manifest.absences)
        if self.manifest.proof(name) is None or most <= 0 or self.manifest.unverified.get(name):
            return
        stated = uncounted.vanished(name, listed)
        current = published.vanished(name, listed)
        asked = {i: names for i, names in stated.items() if i not in current}
        found = search_uncounted(searches, asked, listed, most)
        self.manifest = replace(self.manifest, absences=(*self.manifest.absences, *found))

    def _note(self, verified: Verified) -> None:
        """Keep in the manifest how a set was read so far."""
        walk, m = verified.walked.walk, self.manifest
        self.manifest = replace(
            m,
            walks=tuple({w.set: w for w in (*m.walks, walk)}.values()),
            absences=(*m.absences, *verified.absences),
            unverified=m.unverified | ({walk.set: verified.not_asked} if verified.not_asked else {}),
        )
        self.ids[walk.set] = verified.walked.ids | self.manifest.found(walk.set)

    def fail(self, error: RollbookError, finished: datetime, today: date) -> None:
        """Keep what was received, with the verdict `failed`, unless the day is in doubt."""
        assumed = self.writer.snapshot_date == today
        if not (assumed if self.is_dated is None else self.is_dated):
            self.writer.abandon()
            return
        failed = replace(self.drafted(finished), verdict=Verdict.FAILED, reason=error.message, judged_at=finished)
        try:
            self.writer.finish(failed)
        except BaseException:
            self.writer.abandon()
            raise

    def drafted(self, finished: datetime) -> Manifest:
        """Return the manifest of this moment."""
        client = self.client
        return replace(
            self.manifest,
            finished_at=finished,
            requests=client.requests,
            retries=client.retries,
            bytes_received=client.bytes_received,
            oddities=dict(client.oddities),
        )


def _has_none(published: Published | None, set_name: str) -> bool:
    return published is not None and not published.vanished(set_name, frozenset())


def why_refused(settings: Settings, school_id: int, bound_to: int | None) -> str:
    """The reason why the records of a school may not be fetched into a warehouse; empty where nothing forbids that.

    `bound_to` is the school that the warehouse holds already.
    """
    if bound_to not in (None, school_id):
        return (
            f"The API key belongs to institution {school_id}, this warehouse to institution {bound_to}: set"
            f" {settings.name_of('api_key')} to this institution's key, or ROLLBOOK_WAREHOUSE to another folder. If the"
            " warehouse was filled with another institution's key by mistake, discard what it landed"
            f" (`{settings.command('discard DAY')}`)"
        )
    if (holder := _holder(settings, school_id, unlisted=bound_to is None)) is not None:
        return (
            f"The API key of {settings.institution} belongs to institution {school_id}, whose records {holder} holds"
            " already: correct the key or the address of the one that is wrong. If it is"
            f" {holder}, also discard what it landed (`rollbook --institution {holder} discard DAY`). If"
            f" {settings.institution} is the new name of {holder}, put its folder in the place of"
            f" {settings.institution}/: its history and who was erased are in it"
        )
    return ""


def _holder(settings: Settings, school_id: int, *, unlisted: bool) -> str | None:
    """The other institution whose warehouse holds this school; None outside a district. An empty warehouse may belong
    to a new name: then also an `unlisted` folder.
    """
    for name in settings.others(unlisted=unlisted):
        with suppress(OSError):  # a warehouse that cannot be read stops nobody else
            if RawStore(settings.common_path / name / "raw").school_id() == school_id:
                return name
    return None
