"""Alerts: one message for each failed, held or late sync and each set that stays unproven, and a message when syncs
recover.

`Alerts` listens to the nights of a process, however the process was started. A process outside reports what no process
can tell: a night that never came, a process that was killed. `build/alerts.json` keeps which outcomes were reported
and which messages are undelivered, so that nothing is sent twice after a restart, or when two processes see the same
run. `deliver` sends the messages of one institution or of many: a message for each list of addresses, with a paragraph
for each cause. Errors here are only logged: no sync fails because of an alert.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, NamedTuple
from uuid import uuid4

import msgspec
from filelock import Timeout

from rollbook.errors import (
    ArgumentError,
    HeldError,
    OtherVersionError,
    RollbookError,
    UndeliveredError,
    unexpected_error,
)
from rollbook.features.alerts.addresses import AlertSettings
from rollbook.features.alerts.channels import send
from rollbook.landing import formats
from rollbook.night.listeners import Listener
from rollbook.night.place import Clock, Place
from rollbook.reading.query import run_query
from rollbook.rights.erasure import take_out_of_text
from rollbook.settings import Settings
from rollbook.util import cron, files
from rollbook.util.text import count_of, listed

log = logging.getLogger(__name__)

# Reported outcomes that are remembered; far more than the runs that can be waiting for the sensor.
REMEMBERED = 500
# Minutes until each retry of an undelivered message; after the last retry the message is dropped as outdated.
RETRY_MINUTES = (1, 5, 15, 60, 180, 360, 720)
# How long a message waits to be combined with other institutions' messages, which end their nights at different times.
BATCH_DELAY = timedelta(minutes=10)
# Lease: a process that took messages must settle each within this time; otherwise a message is retried.
TAKEN = timedelta(minutes=5)
MAX_CAUSES = 20
LOCK_SECONDS = 60.0
MAX_NAME = 80


class AlertKind(StrEnum):
    """How a sync ended, that a sync is late, or that a set stays unproven. Urgent outcomes come first in a message."""

    FAILED = "failed"
    HELD = "held"
    LATE = "late"
    UNPROVEN = "unproven"
    SYNCED = "good again"


@dataclass(frozen=True)
class Outcome:
    """One outcome to report. `id` is unique; `text` says what happened and what to do next, without a pupil's data."""

    id: str
    kind: AlertKind
    day: date | None = None
    text: str = ""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """An undelivered message: the names of the remaining addresses, the time of the next try, and the tries so far.

    The first line of `text` is what the outcome says.
    """

    kind: AlertKind
    day: date | None
    subject: str
    text: str
    channels: tuple[str, ...]
    next_at: datetime
    tries: int = 0


class AlertState(formats.Stored, frozen=True, kw_only=True):
    """The content of `build/alerts.json`: when alerts were turned on, when a sync ended last, the ids of reported
    outcomes, whether the last outcome was bad, and the outbox.
    """

    since: datetime
    ended_at: datetime | None = None
    reported: tuple[str, ...] = ()
    failing: bool = False
    outbox: tuple[Message, ...] = ()


class Alerts(Listener):
    """The alerts of one warehouse. No method raises. Without `channels`, nothing is to be reported."""

    name = "the alerts"

    # The state that could not be written, kept for this process: the alert may be about a full disk.
    unwritten: ClassVar[dict[Path, AlertState]] = {}

    def __init__(self, place: Place, settings: Settings, clock: Clock) -> None:
        self.place = place
        self.settings = settings
        self.clock = clock
        self.channels = AlertSettings.of(settings).notify_names
        self._path = place.warehouse.build / "alerts.json"

    def began(self, at: datetime) -> None:  # noqa: ARG002 - whatever was restored, and whenever
        """Take erased students out of undelivered messages, also of a restored file."""
        register = self.place.raw.erasure_register
        if register.count:
            take_out_of_text(self._path, register.matcher().__contains__)

    def sync_ended(self, day: date, error: Exception | None) -> None:
        """Report the sync and deliver what is due. A person who gave a wrong argument was told."""
        if not self.channels or isinstance(error, ArgumentError):
            return
        kind, text = AlertKind.SYNCED, ""
        if error is not None:
            kind = AlertKind.HELD if isinstance(error, HeldError) else AlertKind.FAILED
            unexpected = unexpected_error(type(error).__name__, "The log of the process that synced says where")
            text = error.message.removeprefix("Held: ") if isinstance(error, RollbookError) else unexpected
        self.report(Outcome(str(uuid4()), kind, day, text))
        deliver({"": self})

    def report(self, outcome: Outcome) -> bool:
        """Queue a message for an outcome that was not reported before; a good one only after a bad one.

        A sync that leaves a set unproven for long is not good: that is reported instead, once. Returns whether a
        message was queued.
        """
        with self._locked():
            state = self.load()
            if outcome.id in state.reported:
                return False
            outcomes = [outcome]
            if (
                outcome.kind is AlertKind.SYNCED
            ):  # each set that stays unproven is one outcome, for as long as it stays so
                outcomes += [
                    Outcome(f"unproven {u.set} {u.since}", AlertKind.UNPROVEN, outcome.day, u.description)
                    for u in self.place.landings.long_unproven()
                ]
            good = outcomes == [outcome] and outcome.kind is AlertKind.SYNCED
            new = [o for o in outcomes if o.id not in state.reported]
            due = [o for o in new if o.kind is not AlertKind.SYNCED or (good and state.failing)]
            self._save(
                msgspec.structs.replace(
                    state,
                    ended_at=state.ended_at if outcome.kind is AlertKind.LATE else self.clock(),
                    reported=(*state.reported, *(o.id for o in new))[-REMEMBERED:],
                    failing=not good,
                    outbox=(*state.outbox, *map(self._message, due)),
                )
            )
            return bool(due)

    def take(self, message: Message) -> Message | None:
        """Lease a message, to be sent; None if another process has the message."""
        taken = msgspec.structs.replace(message, next_at=self.clock() + TAKEN)
        return taken if self._exchange(message, taken) else None

    def settle(self, taken: Message, failed: Mapping[str, UndeliveredError]) -> None:
        """Record the result of a taken message: the errors by address. Undelivered messages are retried, for a day."""
        left = tuple(name for name, error in failed.items() if error.retryable)
        if not left or taken.tries == len(RETRY_MINUTES):
            self._exchange(taken)
            return
        next_at = self.clock() + timedelta(minutes=RETRY_MINUTES[taken.tries])
        self._exchange(taken, msgspec.structs.replace(taken, channels=left, tries=taken.tries + 1, next_at=next_at))

    def _exchange(self, message: Message, *by: Message) -> bool:
        with self._locked():
            state = self.load()
            if message not in state.outbox:
                return False
            others = tuple(m for m in state.outbox if m != message)
            self._save(msgspec.structs.replace(state, outbox=(*others, *by)))
            return True

    def missed_night(self) -> datetime | None:
        """The scheduled time of the last night past its grace period, reported or not; None for a night before alerts
        were turned on.
        """
        night = cron.due(self.settings.cron)
        tick = cron.last_tick(self.settings.cron, self.settings.zone, self.clock() - night.grace)
        with self._locked():
            state = self.load()
            if not state.reported and not self._path.exists():
                self._save(state)  # records when alerts were turned on
            return tick if tick >= state.since else None

    def report_late(self, has_ended_since: Callable[[datetime], bool]) -> datetime | None:
        """Report the last night, once, if late: past the grace period, and no sync has finished since the night was due
        (a finished sync sends an alert). Returns a newly late night's time.
        """
        night = self.missed_night()
        if night is None:
            return None
        outcome_id = f"late {night.astimezone(UTC):%Y-%m-%dT%H:%M}Z"
        state, since = self.load(), night - cron.due(self.settings.cron).slack
        has_ended = (state.ended_at is not None and state.ended_at >= since) or has_ended_since(since)
        if outcome_id in state.reported or has_ended:
            return None
        text = (
            f"It was due at {night:%H:%M} ({self.settings.timezone}), and no sync has ended since. If the UI shows none"
            " under way or waiting, check that the machine was on, and that `rollbook serve` runs or `rollbook district"
            f" sync` is started each night. To sync now, run `{self.settings.command('sync')}`"
        )
        self.report(Outcome(outcome_id, AlertKind.LATE, night.date(), text))
        return night

    def _message(self, outcome: Outcome) -> Message:
        published: list[tuple[object, ...]] = []
        with suppress(RollbookError, OSError):  # no file yet, or another process has the file open for writing
            published = run_query(
                self.place.warehouse.published_file,
                """
                SELECT
                    ANY_VALUE(i.school_name), s.snapshot_date,
                    STRING_AGG(FORMAT('{} {}', c.received, c.set_name), ', ' ORDER BY c.set_name DESC)
                FROM ops.syncs AS s LEFT JOIN ops.sync_sets AS c USING (snapshot_date, landing)
                LEFT JOIN institution AS i ON TRUE
                WHERE s.outcome = 'synced'
                GROUP BY s.snapshot_date, s.landing
                ORDER BY s.snapshot_date DESC, s.landing DESC LIMIT 1
                """,
            ).rows
        school, day, counts = published[0] if published else (None, None, None)
        # Without the characters that chat services read as a mention, a link or markup.
        name = " ".join(str(school or "").translate(dict.fromkeys(map(ord, "<>`*_@"), " ")).split())[:MAX_NAME]
        name = name or self.settings.base_url.partition("://")[2] or "this warehouse"
        text = outcome.text.strip() or "Nothing is left to do"
        stop = "" if text.endswith((".", "!", "?")) else "."
        readers = f"Readers have what was published last: {day}, {counts}." if day else "Nothing was published yet."
        of = f" of {outcome.day}" if outcome.day else ""
        is_ = "" if outcome.kind is AlertKind.FAILED else "is "
        return Message(
            kind=outcome.kind,
            day=outcome.day,
            subject=f"Rollbook, {name}: the sync{of} {is_}{outcome.kind}",
            text=f"{text}{stop}\n{readers}",
            channels=self.channels,
            next_at=self.clock(),
        )

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other processes from reporting the same outcome. Goes on without a lock that cannot be taken."""
        with ExitStack() as stack:
            try:
                files.folder(self._path.parent)
                lock = files.Lock(self._path.with_suffix(".lock"), timeout=LOCK_SECONDS)
                stack.enter_context(lock)
            except (OSError, Timeout) as error:
                log.warning("The alerts go on without their lock (%s)", type(error).__name__)
            yield

    def load(self) -> AlertState:
        """The reported outcomes, and which messages are not delivered yet."""
        try:
            return self.unwritten.get(self._path) or formats.decode(self._path.read_bytes(), AlertState, self._path)
        except (OSError, msgspec.DecodeError, OtherVersionError) as error:  # people are told of that outcome, too
            if not isinstance(error, FileNotFoundError):
                log.warning("%s cannot be read (%s); a new one is started", self._path.name, type(error).__name__)
        return AlertState(since=self.clock())

    def _save(self, state: AlertState) -> None:
        try:
            files.write(self._path, msgspec.json.encode(state))
            self.unwritten.pop(self._path, None)
        except OSError as error:
            log.warning("%s cannot be written (%s)", self._path.name, type(error).__name__)
            self.unwritten[self._path] = state


# -- delivery ----------------------------------------------------------------------------------------------------------


class News(NamedTuple):
    """A message of one institution."""

    name: str
    alerts: Alerts
    message: Message

    def is_due(self, *, wait: bool) -> bool:
        """Whether it is time to send the message; with `wait`, a new message must also have waited for others."""
        delay = BATCH_DELAY if wait and not self.message.tries else timedelta()
        return self.message.next_at + delay <= self.alerts.clock()


def deliver(alerts: Mapping[str, Alerts], *, wait: bool = False) -> None:
    """Send the institutions' due messages, each with the new messages for the same addresses. Never raises.

    With `wait`, a new message is due only after a wait for others.
    """
    groups: dict[tuple[str, tuple[str, ...]], list[News]] = {}
    for name, own in alerts.items():
        notify = AlertSettings.of(own.settings).notify
        for message in own.load().outbox:
            channels = tuple(c for c in message.channels if c in own.channels)  # other addresses are no longer set
            group = groups.setdefault((notify.get_secret_value() if notify else "", channels), [])
            group.append(News(name, own, message))
    for (_, channels), due in groups.items():
        if any(news.is_due(wait=wait) for news in due):
            now = [news for news in due if not news.message.tries or news.is_due(wait=False)]
            taken = [news._replace(message=mine) for news in now if (mine := news.alerts.take(news.message))]
            notify = AlertSettings.of(taken[0].alerts.settings).notify if taken else None
            failed = send(notify, channels, *_written(taken)) if notify and channels else {}
            for error in failed.values():
                log.warning("An alert was not delivered: %s", error.message)
            for news in taken:
                news.alerts.settle(news.message, failed)


def _written(group: Sequence[News]) -> tuple[str, str]:
    """The subject and text of one message that covers a whole `group`."""
    last = group[-1].message
    institutions = {news.name for news in group}
    if len(institutions) == 1:
        earlier = [f"{news.message.subject}\n{news.message.text}" for news in group[:-1]]
        return last.subject, "\n\n".join([last.text, *earlier])
    by_cause: dict[tuple[AlertKind, date | None, str], list[News]] = {}
    for news in group:
        # The institution's name is replaced, to group equal causes.
        cause = re.sub(rf"(?<![\w-]){re.escape(news.name)}(?![\w-])", "NAME", news.message.text.partition("\n")[0])
        by_cause.setdefault((news.message.kind, news.message.day, cause), []).append(news)
    kinds = list(AlertKind)
    causes = sorted(by_cause.items(), key=lambda item: (kinds.index(item[0][0]), -len(item[1]), item[0][1] or date.min))
    counts = {kind: len({news.name for news in group if news.message.kind is kind}) for kind in kinds}
    parts = []
    for (kind, day, cause), of_cause in causes[:MAX_CAUSES]:
        of = f" ({day})" if day else ""
        text = of_cause[0].message.text if len(of_cause) == 1 else cause
        parts.append(f"{kind.capitalize()}{of}: {listed([news.name for news in of_cause])}\n{text}")
    if (more := len(causes) - MAX_CAUSES) > 0:
        parts.append(f"And {more:,} more: see `rollbook district status`.")
    subject = ", ".join(f"{count:,} {kind}" for kind, count in counts.items() if count)
    return f"Rollbook, {count_of(len(institutions), 'institution')}: {subject}", "\n\n".join(parts)
