"""The writer: the lock, and the recovery that comes before any decision."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from filelock import Timeout

from rollbook.errors import (
    BusyError,
    CheckError,
    ContractChangedError,
    DamagedError,
    HeldError,
    OtherVersionError,
    RollbookError,
)
from rollbook.ingest import LARGE
from rollbook.landing.erased import StudentTraces
from rollbook.landing.formats import FORMAT
from rollbook.landing.manifest import Manifest, Verdict
from rollbook.night.erasures import Erasures
from rollbook.night.listeners import ErasureUnderWay, Listeners
from rollbook.night.place import Clock, Place, quiet
from rollbook.night.stages import Landed, Merged, merge, merge_into, publish, snapshot
from rollbook.source.fetch import why_refused
from rollbook.source.pagination import Progress
from rollbook.store import schema
from rollbook.store.database import MEMORY_LIMIT, THREADS, USUAL_MEMORY_LIMIT, Limits, machine_errors, reuse_instances
from rollbook.util import files
from rollbook.views import catalog

if TYPE_CHECKING:  # a night is given its settings and does not read any
    from rollbook.settings import Settings

log = logging.getLogger(__name__)

# More records of a set than this, and DuckDB needs more memory to be as fast.
USUAL = 200_000
# How long a second writer waits for the lock.
WAIT_SECONDS = 900.0


@dataclass(frozen=True)
class Ready:
    """The warehouse is as all counted landings imply."""


@dataclass(frozen=True)
class Blocked:
    """The warehouse could not be brought there, by this error. What is fetched is kept for the next writer."""

    error: RollbookError


@dataclass
class _Failures:
    """Whether the listeners are told of a failure, since not all readers see the log or the UI: not before recovery."""

    are_told: bool = False


@dataclass(frozen=True)
class Writer:
    """The writer of a place (G14): by which settings and clock it works, and who learns of that.

    `writing` and `fetching` take the lock; the other methods require it.
    """

    place: Place
    settings: Settings
    listeners: Listeners
    clock: Clock
    progress: Progress = quiet

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the lock, over a warehouse that is as all counted landings imply (G4). Raises BusyError if another
        writer holds the lock for too long, and recovery's error.
        """
        with self.fetching() as state:
            if isinstance(state, Blocked):
                raise state.error
            yield

    @contextmanager
    def unrecovered(self) -> Iterator[None]:
        """As `writing`, over a warehouse that stays as it is."""
        with self._held() as failures:
            self._sweep()
            failures.are_told = True
            yield

    @contextmanager
    def fetching(self) -> Iterator[Ready | Blocked]:
        """As `writing`, for a night that fetches: recovery's error is yielded, since a landing is kept all the same."""
        with self._held() as failures:
            state = self._begin()
            failures.are_told = True
            yield state

    @contextmanager
    def _held(self) -> Iterator[_Failures]:
        """Hold the lock. A fault of this machine is a MachineError, and damaged files are repaired.

        Raises LostError at the end if a listener found a loss; what was to be written is written then.
        """
        place, failures = self.place, _Failures()
        with machine_errors(place.warehouse.root):
            place.warehouse.prepare()
            with (
                writer_lock(place.warehouse.build, self.clock()),
                reuse_instances(place.warehouse.scratch, _limits(place)),
            ):
                try:
                    yield failures
                except Exception as error:  # an interrupt should not wait for a copy
                    failure = self._explained(error)
                    if failures.are_told and isinstance(failure, RollbookError):
                        self.listeners.tell(lambda listener: listener.failed(failure, self.clock()))
                    with suppress(OSError):  # the next writer sweeps
                        place.warehouse.drop_next()
                    self.listeners.tell(lambda listener: listener.ended(self.clock()))
                    if failure is error:
                        raise
                    raise failure from error
                self.listeners.tell(lambda listener: listener.ended(self.clock()))
        self.listeners.check()

    def _begin(self) -> Ready | Blocked:
        """Recover, and tell the listeners that a writer has begun."""
        state: Ready | Blocked = Ready()
        try:
            self.recover()
        except OtherVersionError:  # a landing of this version would not help the other
            raise
        except Exception as error:
            failure = self._explained(error)
            if not isinstance(failure, RollbookError):
                raise
            log.warning("The warehouse could not be brought up to date: %s", failure.message)
            state = Blocked(failure)
        self.listeners.tell(lambda listener: listener.began(self.clock()))
        return state

    def _explained(self, error: Exception) -> Exception:
        """The error as a person is told of it: a MachineError for a fault of this machine. Damaged files are repaired,
        as far as that is possible, and the DamagedError says how.
        """
        try:
            with machine_errors(self.place.warehouse.root):
                raise error
        except DamagedError:
            try:
                with machine_errors(self.place.warehouse.root):
                    done = self.place.recovery.recover_damaged()
            except Exception as failed:  # noqa: BLE001 - it is returned
                return failed
            return error if done is None else DamagedError(done)
        except Exception as explained:  # noqa: BLE001 - it is returned
            return explained

    def _erasures(self) -> Erasures:
        return Erasures(self.place, self.clock, self.progress)

    def _sweep(self, traces: Mapping[Path, StudentTraces] = MappingProxyType({})) -> None:
        self.place.recovery.sweep()
        self._erasures().clean(traces)

    def recover(self, traces: Mapping[Path, StudentTraces] = MappingProxyType({})) -> None:
        """Bring the warehouse to the state that all counted landings imply, before any decision (G4).

        Missing or outdated days of the lake are recomposed; the published file is merged from the newest sound one that
        Rollbook wrote, or made from the lake if there is none. Erased students are removed first from whatever still
        holds them, and an erasure that was under way is finished; `traces` has what is known of the student who is
        erased now, by landing. Raises ExpiredError, and LostError.
        """
        place = self.place
        self._sweep(traces)
        self._upgrade()
        place.recovery.check_raw()
        place.recovery.recover_lake()
        if place.recovery.is_behind():
            base = place.recovery.base()
            try:
                self.publish(merge_into(place, base))
            except CheckError:
                if base is None or place.landings.expired_days():
                    raise
                # The file's content is wrong: start from the lake alone.
                self.publish(merge_into(place, None, full_refresh=True))
        self.finish_erasure()
        self.decide(place.landings.undecided())

    def _upgrade(self) -> None:
        """Bring published files that an earlier version wrote to this format, one after the other. The history of days
        that have expired is nowhere else.
        """
        place = self.place
        for path in place.warehouse.of_earlier_format():
            log.info("%s is brought to format %d", path.name, FORMAT)
            with place.warehouse.finishing(path) as con:
                schema.upgrade(con)
                schema.ensure(con, schema.declared(place.lake.declared))  # a later version may have more tables
                catalog.create_views(con)
            place.warehouse.replace(path)

    def finish_erasure(self) -> None:
        """Finish an erasure that is under way: let the listeners remove the student from what else there is. The
        published files are clean already.
        """
        erasures, register = self._erasures(), self.place.raw.erasure_register
        erasures.finish()
        if (pending := register.read().pending) is not None:
            self.listeners.tell(lambda listener: listener.began(self.clock()))
            under_way = ErasureUnderWay(
                number=register.count, pending=pending, erased=register.matcher(), counts=dict(pending.counts)
            )
            for listener in self.listeners:  # an error leaves the erasure under way, for the next writer to finish
                listener.erased(under_way)
            erasures.close()
            self.listeners.tell(lambda listener: listener.on_published(self.clock()))

    def decide(self, undecided: Iterable[Manifest]) -> None:
        """Decide on landings whose sync could not, in their order; each is published before the next is compared.

        A landing of another institution never counts: the sync could not tell whose warehouse this is (G11).
        """
        place = self.place
        for manifest in undecided:
            school = manifest.school_id
            if school is not None and (refused := why_refused(self.settings, school, place.bound_to())):
                place.raw.record_verdict(manifest, Verdict.FAILED, refused, at=self.clock())
                continue
            try:
                snapshot(place, Landed(manifest), self.settings, self.clock())
            except (HeldError, ContractChangedError) as error:
                log.warning("%s", error.message)
            else:
                self.publish(merge(place))

    def publish(self, merged: Merged) -> None:
        """Publish the next file (`stages.publish`)."""
        publish(self.place, merged, self.settings, self.listeners, self.clock())


@contextmanager
def reported_end(listeners: Listeners, day: date) -> Iterator[None]:
    """Tell the listeners how a sync of the day ends in the block, once the lock is free again."""
    try:
        yield
    except Exception as error:
        failure = error  # Python unbinds `error` at the end of the handler
        if listeners.reports:
            listeners.tell(lambda listener: listener.sync_ended(day, failure))
        raise
    if listeners.reports:
        listeners.tell(lambda listener: listener.sync_ended(day, None))


def _limits(place: Place) -> Limits:
    """What DuckDB may use for a school of the last landing's size; the first one may be of any."""
    newest = place.newest()
    records = max((walk.received for walk in newest.walks), default=USUAL) if newest else USUAL
    return Limits(1 if records < LARGE else THREADS, USUAL_MEMORY_LIMIT if records < USUAL else MEMORY_LIMIT)


@contextmanager
def writer_lock(build: Path, now: datetime) -> Iterator[None]:
    """Hold the writer lock. Raises BusyError if another writer holds it for more than WAIT_SECONDS.

    The lock is the operating system's; a killed writer leaves none behind.
    """
    path = build / "writer.lock"
    lock = files.Lock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        log.warning("Waiting for another writer to finish (%s)", files.holder(path))
        try:
            lock.acquire(timeout=WAIT_SECONDS)
        except Timeout:
            raise BusyError(
                f"Another sync is still writing ({files.holder(path)}). Try again when it is done"
            ) from None
    try:
        files.note_holder(path, f"process {os.getpid()} since {now:%Y-%m-%d %H:%M:%S} UTC")
        yield
    finally:
        lock.release()
