"""The writer: the lock, and the recovery that comes before any decision."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import date, datetime
from pathlib import Path

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
from rollbook.landing.manifest import Manifest, Verdict
from rollbook.night.listeners import ErasureUnderWay
from rollbook.night.rollbook import Rollbook
from rollbook.night.stages import Landed, merge, merge_into, publish, snapshot
from rollbook.source.fetch import why_refused
from rollbook.store.database import MEMORY_LIMIT, THREADS, USUAL_MEMORY_LIMIT, Limits, machine_errors, reuse_instances
from rollbook.util import files

log = logging.getLogger(__name__)

# More records of a set than this, and DuckDB needs more memory to be as fast.
USUAL = 200_000
# How long a second writer waits for the lock.
WAIT_SECONDS = 900.0


@contextmanager
def reported_end(rollbook: Rollbook, day: date) -> Iterator[None]:
    """Tell the listeners how a sync of the day ends in the block, once the block has let the lock go."""
    try:
        yield
    except Exception as error:
        failure = error  # Python unbinds `error` at the end of the handler
        rollbook.tell(lambda listener: listener.sync_ended(day, failure))
        raise
    rollbook.tell(lambda listener: listener.sync_ended(day, None))


@contextmanager
def writer(rollbook: Rollbook, *, unrecovered: bool = False) -> Iterator[None]:
    """Hold the writer lock (G14), over a warehouse that is first brought to the state that all counted landings
    imply (G4), unless it is to stay `unrecovered`. Raises BusyError if another writer holds the lock for too long, and
    recovery's error.
    """
    with fetching(rollbook, unrecovered=unrecovered) as blocked:
        if blocked is not None:
            raise blocked
        yield


@contextmanager
def fetching(rollbook: Rollbook, *, unrecovered: bool = False) -> Iterator[RollbookError | None]:
    """As `writer`, for a night that fetches: yields recovery's error, with which `land` still keeps the landing.

    The listeners learn of a failure, since not all readers see the log or the UI. A fault of this machine is a
    MachineError, and damaged files are recovered. Raises LostError at the end if a listener found a loss; what was to
    be written is written then.
    """
    with machine_errors(rollbook.warehouse.root):
        rollbook.warehouse.prepare()
        with (
            writer_lock(rollbook.warehouse.build, rollbook.clock()),
            reuse_instances(rollbook.warehouse.scratch, _limits(rollbook)),
        ):
            try:
                blocked = _began(rollbook, unrecovered=unrecovered)
                with _reported(rollbook):
                    yield blocked
            except Exception:  # an interrupt should not wait for a copy
                with suppress(OSError):  # the next writer sweeps
                    rollbook.warehouse.drop_next()
                rollbook.tell(lambda listener: listener.ended(rollbook.clock()))
                raise
            else:
                rollbook.tell(lambda listener: listener.ended(rollbook.clock()))
    rollbook.check_listeners()


def _limits(rollbook: Rollbook) -> Limits:
    """What DuckDB may use for a school of the last landing's size; the first one may be of any."""
    newest = rollbook.newest()
    records = max((walk.received for walk in newest.walks), default=USUAL) if newest else USUAL
    return Limits(1 if records < LARGE else THREADS, USUAL_MEMORY_LIMIT if records < USUAL else MEMORY_LIMIT)


def _swept(rollbook: Rollbook) -> None:
    rollbook.recovery.sweep()
    rollbook.erasures.clean()


def _began(rollbook: Rollbook, *, unrecovered: bool) -> RollbookError | None:
    """Recover, and tell the listeners that a writer has begun. Returns the error that stopped recovery."""
    if unrecovered:
        _swept(rollbook)
        return None
    blocked = None
    try:
        with _repaired(rollbook):
            recover(rollbook)
    except OtherVersionError:  # a landing of this version would not help the other
        raise
    except RollbookError as error:
        log.warning("The warehouse could not be brought up to date: %s", error.message)
        blocked = error
    rollbook.tell(lambda listener: listener.began(rollbook.clock()))
    return blocked


@contextmanager
def _reported(rollbook: Rollbook) -> Iterator[None]:
    """Tell the listeners of a failure in the block."""
    try:
        with _repaired(rollbook):
            yield
    except RollbookError as error:
        failure = error  # Python unbinds `error` at the end of the handler
        rollbook.tell(lambda listener: listener.failed(failure, rollbook.clock()))
        raise


@contextmanager
def _repaired(rollbook: Rollbook) -> Iterator[None]:
    """Make a fault of this machine in the block a MachineError, and recover damaged files. Raises DamagedError."""
    try:
        with machine_errors(rollbook.warehouse.root):
            yield
    except DamagedError as error:
        done = rollbook.recovery.recover_damaged()
        if done is None:
            raise
        raise DamagedError(done) from error


def recover(rollbook: Rollbook) -> None:
    """Bring the warehouse to the state that all counted landings imply, before any decision (G4).

    Missing or outdated days of the lake are recomposed; the published file is merged from the newest sound one that
    Rollbook wrote, or made from the lake if there is none. Erased students are removed first from whatever still
    holds them, and an erasure that was under way is finished. Raises ExpiredError, and LostError.
    """
    _swept(rollbook)
    rollbook.recovery.check_raw()
    rollbook.recovery.recover_lake()
    if rollbook.recovery.is_behind():
        base = rollbook.recovery.base()
        try:
            publish(rollbook, merge_into(rollbook, base))
        except CheckError:
            if base is None or rollbook.landings.expired_days():
                raise
            # The file's content is wrong: start from the lake alone.
            publish(rollbook, merge_into(rollbook, None, full_refresh=True))
    finish_erasure(rollbook)
    decide(rollbook, rollbook.landings.undecided())


def finish_erasure(rollbook: Rollbook) -> None:
    """Finish an erasure that is under way: let the listeners remove the student from what else there is. The
    published files are clean already.
    """
    rollbook.erasures.finish()
    if (pending := rollbook.raw.erasure_register.read().pending) is not None:
        rollbook.tell(lambda listener: listener.began(rollbook.clock()))
        under_way = ErasureUnderWay(
            number=rollbook.raw.erasure_register.count,
            pending=pending,
            erased=rollbook.raw.erasure_register.matcher(),
            counts=dict(pending.counts),
        )
        for listener in rollbook.listeners:  # an error leaves the erasure under way, for the next writer to finish
            listener.erased(under_way)
        rollbook.erasures.close()
        rollbook.tell(lambda listener: listener.on_published(rollbook.clock()))


def decide(rollbook: Rollbook, undecided: Iterable[Manifest]) -> None:
    """Decide on landings whose sync could not, in their order; each is published before the next is compared.

    A landing of another institution never counts: the sync could not tell whose warehouse this is (G11).
    """
    for manifest in undecided:
        school = manifest.school_id
        if school is not None and (refused := why_refused(rollbook.settings, school, rollbook.bound_to())):
            rollbook.raw.record_verdict(manifest, Verdict.FAILED, refused, at=rollbook.clock())
            continue
        try:
            snapshot(rollbook, Landed(manifest))
        except (HeldError, ContractChangedError) as error:
            log.warning("%s", error.message)
        else:
            publish(rollbook, merge(rollbook))


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
