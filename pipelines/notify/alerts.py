"""Alerts: one message for each failed, held or late sync and each set that stays unproven, and one when syncs recover.

The input is an `Outcome`. `build/alerts.json` keeps which outcomes were reported and which messages are undelivered, so
that nothing is sent twice after a restart, or when two processes see the same run. Errors here are only logged: no sync
fails because of an alert.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import ClassVar

import msgspec
from filelock import FileLock, Timeout

from pipelines import cron, files
from pipelines.errors import RollbookError, UndeliveredError
from pipelines.export.query import run_query
from pipelines.notify.channels import send
from pipelines.source.fetch import utc_now
from pipelines.sync import Rollbook

log = logging.getLogger(__name__)

# Reported outcomes that are remembered; far more than the runs that can be waiting for the sensor.
REMEMBERED = 500
# Minutes until each retry of an undelivered message; after the last one it is dropped as outdated.
RETRY_MINUTES = (1, 5, 15, 60, 180, 360, 720)
# Messages sent per attempt; the rest wait for the next one.
MESSAGES_AT_ONCE = 2
LOCK_SECONDS = 60.0
NAME_MOST = 80


class Kind(StrEnum):
    """How a sync ended, that it is late, or that a set stays unproven night after night."""

    SYNCED = "synced"
    FAILED = "failed"
    HELD = "held"
    LATE = "late"
    UNPROVEN = "unproven"


@dataclass(frozen=True)
class Outcome:
    """One outcome to report. `id` is unique; `text` says what happened and what to do next, without a pupil's data."""

    id: str
    kind: Kind
    day: date | None = None
    text: str = ""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """An undelivered message: the names of the remaining addresses, the time of the next try, and the tries so far.

    `kind`, `day` and `said` come from the outcome; `together` groups messages by them.
    """

    subject: str
    text: str
    channels: tuple[str, ...]
    next_at: datetime
    tries: int = 0
    kind: str = ""
    day: date | None = None
    said: str = ""


class State(msgspec.Struct, frozen=True, kw_only=True):
    """The content of `build/alerts.json`: when alerts were turned on, the ids of reported outcomes, whether the last
    one was bad, and the outbox.
    """

    since: datetime
    reported: tuple[str, ...] = ()
    failing: bool = False
    outbox: tuple[Message, ...] = ()


class Alerts:
    """The alerts of one warehouse. No method raises."""

    # The state that could not be written, kept for this process: the alert may be about a full disk.
    _unwritten: ClassVar[dict[Path, State]] = {}

    def __init__(self, rollbook: Rollbook, *, clock: Callable[[], datetime] = utc_now) -> None:
        self.rollbook = rollbook
        self.settings = rollbook.settings
        self.clock = clock
        self.channels = self.settings.notify_names
        self._path = rollbook.warehouse.build / "alerts.json"

    @property
    def enabled(self) -> bool:
        """Whether there is an address to send to."""
        return bool(self.channels)

    def report(self, outcome: Outcome) -> bool:
        """Queue a message for an outcome that was not reported before; a good one only if the last one was bad.

        A sync that leaves a set unproven for long is not good: that is reported instead, once. Returns whether a
        message was queued.
        """
        with self._locked():
            state = self._load()
            if outcome.id in state.reported:
                return False
            outcomes = [outcome, *(self._unproven(outcome.day) if outcome.kind is Kind.SYNCED else ())]
            good = outcomes == [outcome] and outcome.kind is Kind.SYNCED
            new = [o for o in outcomes if o.id not in state.reported]
            told = [o for o in new if o.kind is not Kind.SYNCED or (good and state.failing)]
            self._save(
                msgspec.structs.replace(
                    state,
                    reported=(*state.reported, *(o.id for o in new))[-REMEMBERED:],
                    failing=not good,
                    outbox=(*state.outbox, *map(self._message, told)),
                )
            )
            return bool(told)

    def _unproven(self, day: date | None) -> list[Outcome]:
        """The sets that stay unproven night after night, each as one outcome for as long as that lasts."""
        lasting = self.rollbook.landings.long_unproven()
        return [Outcome(f"unproven {u.set} {u.since}", Kind.UNPROVEN, day, u.description) for u in lasting]

    def deliver(self) -> None:
        """Send the messages that are due. Undelivered ones are retried, for a day."""
        with self._locked():
            state, now = self._load(), self.clock()
            due = [m for m in state.outbox if m.next_at <= now][:MESSAGES_AT_ONCE]
            for message in due:
                retry = self._left(message, self._send(message), now)
                others = tuple(m for m in state.outbox if m is not message)
                state = msgspec.structs.replace(state, outbox=(*others, *retry))
                self._save(state)

    def waiting(self) -> tuple[Message, ...]:
        """The messages that are not delivered yet."""
        return self._load().outbox

    def take(self, message: Message, until: datetime) -> Message | None:
        """Lease a message until then, to send it with others; None if another process has it."""
        taken = msgspec.structs.replace(message, next_at=until)
        return taken if self._exchange(message, (taken,)) else None

    def settle(self, taken: Message, failed: Mapping[str, UndeliveredError]) -> None:
        """Record the result of a taken message: the errors by address."""
        self._exchange(taken, self._left(taken, failed, self.clock()))

    def _exchange(self, message: Message, by: tuple[Message, ...]) -> bool:
        with self._locked():
            state = self._load()
            others = tuple(m for m in state.outbox if m != message)
            if len(others) == len(state.outbox):
                return False
            self._save(msgspec.structs.replace(state, outbox=(*others, *by)))
            return True

    def missed_night(self) -> datetime | None:
        """The scheduled time of the last night past its grace period, reported or not; None if it was before alerts
        were turned on.
        """
        night = cron.due(self.settings.cron)
        tick = cron.last_tick(self.settings.cron, self.settings.zone, self.clock() - night.grace)
        with self._locked():
            state = self._load()
            if not state.reported and not self._path.exists():
                self._save(state)  # records when alerts were turned on
            return tick if tick >= state.since else None

    def was_reported(self, outcome_id: str) -> bool:
        """Whether an outcome was reported."""
        return outcome_id in self._load().reported

    # -- the text --------------------------------------------------------------------------------------------------

    def _message(self, outcome: Outcome) -> Message:
        of = f" of {outcome.day}" if outcome.day else ""
        title = {
            Kind.SYNCED: f"the sync{of} is good again",
            Kind.FAILED: f"the sync{of} failed",
            Kind.HELD: f"the sync{of} is held",
            Kind.LATE: f"the sync{of} is late",
            Kind.UNPROVEN: f"the sync{of} is unproven again",
        }[outcome.kind]
        subject = f"Rollbook, {self._institution()}: {title}"
        text = outcome.text.strip()
        stop = "" if text.endswith((".", "!", "?")) or not text else "."
        lines = [text + stop, *self._counts(outcome)]
        return Message(
            subject=subject,
            text="\n".join(line for line in lines if line),
            channels=self.channels,
            next_at=self.clock(),
            kind=outcome.kind,
            day=outcome.day,
            said=text + stop,
        )

    def _institution(self) -> str:
        name = self._one("SELECT school_name FROM institution")
        if not name:
            return self.settings.base_url.partition("://")[2] or "this warehouse"
        # Without the characters that chat services read as a mention, a link or markup.
        return " ".join(str(name[0]).translate(dict.fromkeys(map(ord, "<>`*_@"), " ")).split())[:NAME_MOST]

    def _counts(self, outcome: Outcome) -> Iterator[str]:
        if outcome.kind is Kind.HELD and outcome.day:
            try:
                held = self.rollbook.landings.held(outcome.day)
            except RollbookError:
                held = None
            for c in held.counts if held else ():
                if c.added or c.changed or c.removed:
                    yield f"{c.table}: {c.before} rows, {c.added} added, {c.changed} changed, {c.removed} removed"
        if outcome.kind is Kind.SYNCED and outcome.day:
            row = self._one(
                """
                SELECT
                    STRING_AGG(FORMAT('{} {}', c.received, c.set_name), ', ' ORDER BY c.set_name DESC),
                    ANY_VALUE(s.rows_added), ANY_VALUE(s.rows_changed), ANY_VALUE(s.rows_removed)
                FROM ops.syncs AS s LEFT JOIN ops.sync_sets AS c USING (snapshot_date, landing)
                WHERE s.outcome = 'synced' AND s.snapshot_date = $day
                GROUP BY s.landing
                ORDER BY s.landing DESC LIMIT 1
            """,
                {"day": outcome.day},
            )
            counts = "{}; {} rows added, {} changed, {} removed. ".format(*row) if row else ""
            yield counts + "Nothing is left to do."
            return
        row = self._one("""
            SELECT s.snapshot_date, STRING_AGG(FORMAT('{} {}', c.received, c.set_name), ', ' ORDER BY c.set_name DESC)
            FROM ops.syncs AS s LEFT JOIN ops.sync_sets AS c USING (snapshot_date, landing)
            WHERE s.outcome = 'synced'
            GROUP BY s.snapshot_date, s.landing
            ORDER BY s.snapshot_date DESC, s.landing DESC LIMIT 1
        """)
        if row:
            yield "Readers have what was published last: {}, {}.".format(*row)
        else:
            yield "Nothing was published yet."

    def _one(self, query: str, parameters: Mapping[str, object] | None = None) -> tuple[object, ...] | None:
        try:
            rows = run_query(self.rollbook.warehouse.published, query, dict(parameters or {})).rows
        except (RollbookError, OSError):  # no file yet, or another process has it open for writing
            return None
        return rows[0] if rows else None

    # -- delivery --------------------------------------------------------------------------------------------------

    def _send(self, message: Message) -> dict[str, UndeliveredError]:
        """Send to every remaining address; returns the error of each that was not delivered to."""
        names = [name for name in message.channels if name in self.channels]  # others are no longer set
        notify = self.settings.notify
        failed = send(notify, names, message.subject, message.text) if notify and names else {}
        for error in failed.values():
            log.warning("An alert was not delivered: %s", error.message)
        return failed

    def _left(self, message: Message, failed: Mapping[str, UndeliveredError], now: datetime) -> tuple[Message, ...]:
        """The message to retry later, if any."""
        left = tuple(name for name, error in failed.items() if error.retryable)
        if not left or message.tries == len(RETRY_MINUTES):
            return ()
        next_at = now + timedelta(minutes=RETRY_MINUTES[message.tries])
        return (msgspec.structs.replace(message, channels=left, tries=message.tries + 1, next_at=next_at),)

    # -- the state file --------------------------------------------------------------------------------------------

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other processes from reporting the same outcome. Goes on without the lock if it cannot be taken."""
        lock = FileLock(self._path.with_suffix(".lock"), mode=files.PRIVATE_FILE)
        try:
            files.folder(self._path.parent)
            lock.acquire(timeout=LOCK_SECONDS)
        except (OSError, Timeout) as error:
            log.warning("The alerts go on without their lock (%s)", type(error).__name__)
        try:
            yield
        finally:
            lock.release()

    def _load(self) -> State:
        if self._path in self._unwritten:
            return self._unwritten[self._path]
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=State)
        except FileNotFoundError:
            return State(since=self.clock())
        except (OSError, msgspec.DecodeError, msgspec.ValidationError) as error:
            log.warning("%s cannot be read (%s); a new one is started", self._path.name, type(error).__name__)
            return State(since=self.clock())

    def _save(self, state: State) -> None:
        try:
            files.write(self._path, msgspec.json.encode(state))
            self._unwritten.pop(self._path, None)
        except OSError as error:
            log.warning("%s cannot be written (%s)", self._path.name, type(error).__name__)
            self._unwritten[self._path] = state
