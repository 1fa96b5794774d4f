"""Telling somebody: a failed, held or late sync, and the first good one after, once each. No Dagster.

What happened comes in as an `Outcome`; what was told already, and what could not be delivered yet, is kept in
`build/alerts.json`, so that a restart, or a second process that saw the same run, tells nothing twice. Whatever goes
wrong here is a line in the log: no sync fails because nobody could be told of it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import ClassVar

import msgspec
from filelock import FileLock, Timeout

from pipelines import cron, files
from pipelines.errors import RollbookError, UndeliveredError
from pipelines.export.query import run_query
from pipelines.notify.channels import by_mail, to_webhook
from pipelines.settings import Settings
from pipelines.source.fetch import utc_now
from pipelines.store.statements import statements
from pipelines.sync import Rollbook

sql = statements("pipelines.notify")

log = logging.getLogger(__name__)

# What was told stays known for longer than any run waits to be looked at.
REMEMBERED = 500
# Minutes until an undelivered message is tried again; after the last it is no news any more.
AGAIN_AFTER = (1, 5, 15, 60, 180, 360, 720)
# Whoever delivers waits for no more than this many messages; the rest go the next time.
AT_ONCE = 2
LOCK_SECONDS = 60.0
NAME_MOST = 80


class Kind(StrEnum):
    """What became of a sync."""

    SYNCED = "synced"
    FAILED = "failed"
    HELD = "held"
    LATE = "late"


@dataclass(frozen=True)
class Outcome:
    """One thing to tell of: `id` names it for good, `said` is what happened and what to do next, without a pupil."""

    id: str
    kind: Kind
    day: date | None = None
    said: str = ""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message on its way: the channels it has not reached yet, how often they were tried, when they will be."""

    subject: str
    text: str
    channels: tuple[str, ...]
    next_at: datetime
    tries: int = 0


class State(msgspec.Struct, frozen=True, kw_only=True):
    """Since when alerts are on, what was told, whether the last of it was trouble, and what waits to be delivered."""

    since: datetime
    told: tuple[str, ...] = ()
    trouble: bool = False
    outbox: tuple[Message, ...] = ()


class Alerts:
    """The alerts of one warehouse. None of this raises."""

    # Where the state could not be written (a full disk is what an alert may be about), this process remembers it.
    _unwritten: ClassVar[dict[Path, State]] = {}

    def __init__(self, rollbook: Rollbook, *, clock: Callable[[], datetime] = utc_now) -> None:
        self.rollbook = rollbook
        self.settings = rollbook.settings
        self.clock = clock
        self.channels = _channels(self.settings)
        self._path = rollbook.warehouse.build / "alerts.json"

    @property
    def wanted(self) -> bool:
        """Whether there is anybody to tell."""
        return bool(self.channels)

    def report(self, outcome: Outcome) -> bool:
        """Put what is worth telling into the outbox, unless it was told before. Returns whether it was put there."""
        with self._locked():
            state = self._load()
            if outcome.id in state.told:
                return False
            good = outcome.kind is Kind.SYNCED
            news = state.trouble or not good
            fresh = (self._message(outcome),) if news else ()
            self._save(
                msgspec.structs.replace(
                    state,
                    told=(*state.told, outcome.id)[-REMEMBERED:],
                    trouble=not good,
                    outbox=(*state.outbox, *fresh),
                )
            )
            return news

    def deliver(self) -> None:
        """Send what waits and is due. What does not get through is tried again later, for a day."""
        with self._locked():
            state, now = self._load(), self.clock()
            due = [m for m in state.outbox if m.next_at <= now][:AT_ONCE]
            for message in due:
                left = self._send(message, now)
                others = tuple(m for m in state.outbox if m is not message)
                state = msgspec.structs.replace(state, outbox=(*others, left) if left else others)
                self._save(state)

    def missed(self) -> datetime | None:
        """The moment of the last night that is over its grace, if alerts were on when it came; told or not."""
        night = cron.due(self.settings.cron)
        tick = cron.last_tick(self.settings.cron, self.settings.zone, self.clock() - night.grace)
        with self._locked():
            state = self._load()
            if not state.told and not self._path.exists():
                self._save(state)  # from now on
            return tick if tick >= state.since else None

    def told(self, outcome_id: str) -> bool:
        """Whether this was told."""
        return outcome_id in self._load().told

    # -- what is said ----------------------------------------------------------------------------------------------

    def _message(self, outcome: Outcome) -> Message:
        of = f" of {outcome.day}" if outcome.day else ""
        title = {
            Kind.SYNCED: f"the sync{of} is good again",
            Kind.FAILED: f"the sync{of} failed",
            Kind.HELD: f"the sync{of} is held",
            Kind.LATE: f"the sync{of} is late",
        }[outcome.kind]
        subject = f"Rollbook, {self._institution()}: {title}"
        said = outcome.said.strip()
        stop = "" if said.endswith((".", "!", "?")) or not said else "."
        lines = [subject, said + stop, *self._counts(outcome)]
        return Message(
            subject=subject,
            text="\n".join(line for line in lines if line),
            channels=tuple(self.channels),
            next_at=self.clock(),
        )

    def _institution(self) -> str:
        name = self._one("SELECT school_name FROM institution")
        if not name:
            return self.settings.base_url.partition("://")[2]
        # What a chat service would take for a command or a link stays out.
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
            row = self._one(sql("synced"), {"day": outcome.day})
            if row:
                said = "{}; {} rows added, {} changed, {} removed. Nothing is left to do."
                yield said.format(*row)
            return
        row = self._one(sql("last"))
        if row:
            yield "Readers have what was published last: {}, {}.".format(*row)
        else:
            yield "Nothing was published yet."

    def _one(self, query: str, parameters: Mapping[str, object] | None = None) -> tuple[object, ...] | None:
        try:
            rows = run_query(self.rollbook.warehouse.published, query, dict(parameters or {})).rows
        except (RollbookError, OSError):  # no file yet, or one that somebody else has open for writing
            return None
        return rows[0] if rows else None

    # -- how it is sent --------------------------------------------------------------------------------------------

    def _send(self, message: Message, now: datetime) -> Message | None:
        """Try every channel that is left; returns what is still to be tried, and when."""
        left = []
        for name in message.channels:
            try:
                self.channels[name](message.subject, message.text)
            except KeyError:  # no longer set
                continue
            except UndeliveredError as error:
                log.warning("An alert did not get through: %s", error.message)
                if error.again:
                    left.append(name)
        if not left or message.tries == len(AGAIN_AFTER):
            return None
        again = now + timedelta(minutes=AGAIN_AFTER[message.tries])
        return msgspec.structs.replace(message, channels=tuple(left), tries=message.tries + 1, next_at=again)

    # -- what is kept ----------------------------------------------------------------------------------------------

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other processes from telling the same at the same time; go on without, where no lock can be had."""
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
            log.warning("%s cannot be read (%s) and is begun anew", self._path.name, type(error).__name__)
            return State(since=self.clock())

    def _save(self, state: State) -> None:
        try:
            files.write(self._path, msgspec.json.encode(state))
            self._unwritten.pop(self._path, None)
        except OSError as error:
            log.warning("%s cannot be written (%s)", self._path.name, type(error).__name__)
            self._unwritten[self._path] = state


def _channels(settings: Settings) -> dict[str, Callable[[str, str], None]]:
    """What sends a subject and a text, by name."""
    channels: dict[str, Callable[[str, str], None]] = {}
    if settings.alert_webhook is not None:
        url = settings.alert_webhook
        channels["webhook"] = lambda _subject, text: to_webhook(url, text)
    if settings.smtp_url is not None and settings.alert_to is not None:
        sender = settings.alert_from or settings.alert_to.partition(",")[0]
        channels["mail"] = partial(by_mail, settings.smtp_url, sender, settings.alert_to)
    return channels
