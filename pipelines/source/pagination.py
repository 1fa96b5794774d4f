"""The walk: reading a set page by page, in order, and what that proves (G1).

Every page goes to the sink as it comes; of the records only the ids are kept. `Reading` holds the rules, `walk`
repeats a spoiled walk, `search` reads the result of one search by the same rules. What absence means is in `absence`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from pipelines.errors import KeyRefusedError, RefusedError
from pipelines.landing.manifest import Kind, Proof, Walk
from pipelines.source.client import LIMIT, Client
from pipelines.source.envelope import Page, page_of
from pipelines.tables import Set

log = logging.getLogger(__name__)

Progress = Callable[[str, int, int], None]

# A set may grow while it is read, but not without end: after twice the pages first stated, and these, a walk is over.
GROWTH_PAGES = 100
# A service that states pages it does not have is left after this many in a row that brought nothing new.
BARREN_PAGES = 50
# How services answer a page that is past the end; the contract does not show it. Later than page 1 it means the set
# has shrunk under the walk, which spoils it; on page 1, or with another status, it is a refusal.
PAST_THE_END = frozenset({400, 404, 410, 416, 422})


class Sink(Protocol):
    """Where bodies go as they come."""

    def add(
        self,
        *,
        set_name: str,
        kind: Kind,
        page: int,
        content: bytes,
        received_at: datetime,
        records: int,
        walk: int = 1,
        sought: int | None = None,
    ) -> None:
        """Take one body."""


@dataclass(frozen=True)
class Walked:
    """How a set was read, and the ids that the counted walks showed."""

    walk: Walk
    ids: AbstractSet[int]


class Reading:
    """One walk: what its pages stated so far, and whether it can still prove the set.

    `end` is the last page that the service has stated so far, by its page count or by its total, whichever is later,
    so that nothing promised is left unread; `over` turns true there, or at a bound. `spoiled` says in words what
    first went wrong, and stays empty while the walk may be complete.
    """

    def __init__(self, set_name: str, number: int = 1) -> None:
        self.set_name = set_name
        self.number = number
        self.ids: set[int] = set()
        self.received = 0
        self.repeated = 0
        self.unreadable = 0
        self.pages = 0
        self.limit = 0
        self.total = 0
        self.end = 1
        self.spoiled = ""
        self.over = False
        self._most = 0
        self._barren = 0

    def take(self, said: Page) -> None:
        """Take the next page."""
        self.pages += 1
        first = self.pages == 1
        if first:
            self.limit, self.total = said.limit, said.total_count
        self._check_stated(said)
        self.limit, self.total = said.limit, said.total_count
        needed = -(-said.total_count // said.limit)
        self.end = max(said.total_pages, needed, self.end)
        if first:
            self._most = 2 * self.end + GROWTH_PAGES
        self._check_filled(said)
        self._take_ids(said.ids)
        self.over = self.pages >= self.end
        if not self.over and (self.pages >= self._most or self._barren >= BARREN_PAGES):
            self._spoil(f"page {self.pages}: the stated end, page {self.end}, does not come nearer")
            self.over = True

    def refused(self, status: int) -> None:
        """The next page was refused as if it were past the end."""
        self._spoil(f"page {self.pages + 1} of {self.end} was refused ({status})")
        self.over = True

    def proof(self) -> Proof | None:
        """The proof, if this walk showed the whole set; else None, and `spoiled` says why."""
        if not self.spoiled and self.unreadable:
            self._spoil(f"{self.unreadable} records have no id that can be read")
        if not self.spoiled and len(self.ids) != self.total:
            self._spoil(f"{len(self.ids)} ids came, {self.total} were stated")
        if self.spoiled:
            return None
        return Proof(
            set=self.set_name,
            walk=self.number,
            total_count=self.total,
            unique_ids=len(self.ids),
            pages=self.pages,
            limit=self.limit,
        )

    def _check_stated(self, said: Page) -> None:
        """Check what a page states of itself and of the set."""
        at = f"page {self.pages}"
        if said.number != self.pages:
            self._spoil(f"{at}: the service calls it page {said.number}")
        if said.total_count != self.total:
            self._spoil(f"{at}: total_count moved from {self.total} to {said.total_count}")
        if said.limit != self.limit:
            self._spoil(f"{at}: limit moved from {self.limit} to {said.limit}")
        needed = -(-said.total_count // said.limit)
        if said.total_pages != needed and not (needed == 0 and said.total_pages == 1):
            self._spoil(f"{at}: {said.total_pages} pages cannot hold {said.total_count} records by {said.limit}")

    def _check_filled(self, said: Page) -> None:
        """Check how many records a page holds: only the last may be short, none too long."""
        count, last = len(said.ids), self.pages >= self.end
        if count > said.limit:
            self._spoil(f"page {self.pages}: {count} records, more than the limit of {said.limit}")
        elif count < said.limit and not last:
            self._spoil(f"page {self.pages} of {self.end}: {count} records, though the limit is {said.limit}")

    def _take_ids(self, ids: list[int | None]) -> None:
        before = len(self.ids)
        readable = {i for i in ids if i is not None}
        unreadable = ids.count(None)
        if again := len(readable & self.ids):
            self._spoil(f"page {self.pages}: {again} ids had come on earlier pages")
        self.ids |= readable
        new = len(self.ids) - before
        self.received += len(ids)
        self.unreadable += unreadable
        self.repeated += len(ids) - unreadable - new
        self._barren = 0 if new or unreadable else self._barren + 1

    def _spoil(self, why: str) -> None:
        self.spoiled = self.spoiled or f"walk {self.number}, {why}"


def walk(client: Client, set_: Set, sink: Sink, walks: int = 3, progress: Progress | None = None) -> Walked:
    """Read a whole set, again while it is not proven, at most `walks` times.

    Each walk is read to its stated end even when spoiled: a set that stays unproven may still add and update, and all
    of its pages do. Raises what the client raises. Contract: "GET /svcapi/v1/students", "GET /svcapi/v1/classes".
    """
    spoiled: list[str] = []
    readings: list[Reading] = []
    for number in range(1, walks + 1):
        reading = _read(client, set_, Reading(set_.name, number), sink, progress=progress)
        proof = reading.proof()
        if proof is not None:
            return Walked(_summed(set_, [reading], proof, number, spoiled), reading.ids)
        spoiled.append(reading.spoiled)
        readings.append(reading)
        log.warning("%s: %s", set_.name, reading.spoiled)
    ids = set().union(*(r.ids for r in readings))
    return Walked(_summed(set_, readings, None, walks, spoiled), ids)


def search(
    client: Client, set_: Set, value: str, sought: int, sink: Sink, walks: int = 3
) -> Literal["found", "not found", "unclear"]:
    """Search a set by one name, for the record with the id `sought`.

    It is "found" on whatever page it shows; "not found" is only said of a result that was read whole, by the same
    rules as a set's, which is tried at most `walks` times. Raises what the client raises.
    """
    for number in range(1, walks + 1):
        reading = _read(client, set_, Reading(set_.name, number), sink, value=value, sought=sought)
        if sought in reading.ids:
            return "found"
        if reading.proof() is not None:
            return "not found"
    return "unclear"


def _read(
    client: Client,
    set_: Set,
    reading: Reading,
    sink: Sink,
    *,
    value: str | None = None,
    sought: int | None = None,
    progress: Progress | None = None,
) -> Reading:
    """Read pages 1 to the stated end, or, in a search, until the record sought has shown."""
    asked: dict[str, str | int] = {} if value is None else {"search": value}
    while not reading.over and (sought is None or sought not in reading.ids):
        page = reading.pages + 1
        try:
            answer = client.get(set_.name, {**asked, "page": page, "limit": LIMIT}, read=page_of(set_))
        except KeyRefusedError:
            raise
        except RefusedError as error:
            if page == 1 or error.status not in PAST_THE_END:
                raise
            reading.refused(error.status)
            continue
        sink.add(
            set_name=set_.name,
            kind="walk" if value is None else "search",
            page=page,
            content=answer.content,
            received_at=answer.received_at,
            records=len(answer.said.ids),
            walk=reading.number,
            sought=sought,
        )
        reading.take(answer.said)
        if progress is not None:
            progress(set_.name, page, reading.end)
    return reading


def _summed(set_: Set, counted: list[Reading], proof: Proof | None, walks: int, spoiled: list[str]) -> Walk:
    return Walk(
        set=set_.name,
        walks=walks,
        counted=tuple(r.number for r in counted),
        proof=proof,
        total_count=counted[-1].total,
        received=sum(r.received for r in counted),
        repeated=sum(r.repeated for r in counted),
        spoiled=tuple(spoiled),
    )
