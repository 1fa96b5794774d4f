"""Batches the alerts of many institutions: one message per list of addresses, with a paragraph for each cause.

Each institution's own `Alerts` keep its outbox, so that nothing is lost when a process ends before sending, and nothing
is sent twice.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from pipelines import settings
from pipelines.compose import compose
from pipelines.errors import RollbookError
from pipelines.notify.alerts import Alerts, Kind, Message
from pipelines.notify.channels import send
from pipelines.source.fetch import utc_now
from pipelines.text import count_of, listed

log = logging.getLogger(__name__)

# How long a message waits to be batched, because institutions finish their nights one by one.
COMPANY = timedelta(minutes=10)
GOOD_COMPANY = timedelta(hours=1)
# Lease: a process that took messages must settle them within this time; otherwise they are retried.
TAKEN = timedelta(minutes=5)
CAUSES_MOST = 20

# In this order: what needs action comes first.
WORDS = {
    Kind.FAILED: "failed",
    Kind.HELD: "held",
    Kind.LATE: "late",
    Kind.UNPROVEN: "unproven",
    Kind.SYNCED: "good again",
}


@dataclass(frozen=True)
class _News:
    """A message of one institution."""

    name: str
    alerts: Alerts
    message: Message

    @property
    def channels(self) -> tuple[str, ...]:
        """The remaining addresses that are still configured."""
        return tuple(name for name in self.message.channels if name in self.alerts.channels)

    @property
    def said(self) -> str:
        """What happened, with the institution's name replaced by a placeholder, to group equal causes."""
        return re.sub(rf"(?<![\w-]){re.escape(self.name)}(?![\w-])", "NAME", self.message.said)

    def is_due(self, *, wait: bool) -> bool:
        """Whether it is time to send the message; with `wait`, a new one must also have waited to be batched."""
        company = GOOD_COMPANY if self.message.kind == Kind.SYNCED else COMPANY
        delay = company if wait and not self.message.tries else timedelta()
        return self.message.next_at + delay <= self.alerts.clock()


def alerts_of(institution: str, clock: Callable[[], datetime] = utc_now) -> Alerts | None:
    """The alerts of one institution; None if it has no addresses, or its settings are invalid."""
    try:
        alerts = Alerts(compose(settings.load(fetches=False, institution=institution)), clock=clock)
    except RollbookError:
        return None
    return alerts if alerts.enabled else None


def deliver(alerts: Mapping[str, Alerts], *, wait: bool = False) -> None:
    """Send the institutions' due messages, batched with new ones for the same addresses. Never raises.

    With `wait`, a new message is due only once it has waited to be batched.
    """
    groups: dict[tuple[str, tuple[str, ...]], list[_News]] = {}
    for name, of_one in alerts.items():
        notify = of_one.settings.notify
        for message in of_one.waiting():
            news = _News(name, of_one, message)
            groups.setdefault((notify.get_secret_value() if notify else "", news.channels), []).append(news)
    for found in groups.values():
        if any(news.is_due(wait=wait) for news in found):
            _send([news for news in found if not news.message.tries or news.is_due(wait=False)])


def _send(found: Sequence[_News]) -> None:
    taken = []
    for news in found:
        message = news.alerts.take(news.message, news.alerts.clock() + TAKEN)
        if message is not None:
            taken.append(_News(news.name, news.alerts, message))
    if not taken:
        return
    notify, channels = taken[0].alerts.settings.notify, taken[0].channels
    failed = send(notify, channels, *_written(taken)) if notify and channels else {}
    for error in failed.values():
        log.warning("An alert was not delivered: %s", error.message)
    for news in taken:
        news.alerts.settle(news.message, failed)


def _written(found: Sequence[_News]) -> tuple[str, str]:
    """The subject and text of one message that covers all of `found`."""
    if len(found) == 1:
        return found[0].message.subject, found[0].message.text
    by_cause: dict[tuple[int, date, str], list[_News]] = {}
    kinds = list(WORDS)
    for news in found:
        kind = kinds.index(Kind(news.message.kind)) if news.message.kind in kinds else 0
        by_cause.setdefault((kind, news.message.day or date.min, news.said), []).append(news)
    causes = sorted(by_cause.items(), key=lambda item: (item[0][0], -len(item[1]), item[0][1]))
    counts = [(WORDS[k], len({n.name for (at, *_), ns in causes if kinds[at] is k for n in ns})) for k in kinds]
    subject = ", ".join(f"{count:,} {word}" for word, count in counts if count)
    parts = [_paragraph(WORDS[kinds[kind]], day, news) for (kind, day, _), news in causes[:CAUSES_MOST]]
    if more := len(causes) - CAUSES_MOST:
        parts += [f"And {more:,} more: see `rollbook fleet status`."] if more > 0 else []
    institutions = count_of(len({news.name for news in found}), "institution")
    return f"Rollbook, {institutions}: {subject}", "\n\n".join(parts)


def _paragraph(word: str, day: date, found: Sequence[_News]) -> str:
    of = f" ({day})" if day != date.min else ""
    said = found[0].message.text if len(found) == 1 else found[0].said or "Nothing is left to do."
    return f"{word[0].upper()}{word[1:]}{of}: {listed([news.name for news in found])}\n{said}"
