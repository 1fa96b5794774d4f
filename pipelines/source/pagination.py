"""The walk: reads a set page by page, in order, and proves that it is complete (G1).

Every page goes to the sink as it arrives; only the records' ids stay in memory. `WalkCheck` holds the rules, `walk`
repeats a spoiled walk, `search` reads one search's result by the same rules. `absence` decides what an absence means.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal, Protocol

from pipelines.errors import KeyRefusedError, RefusedError
from pipelines.landing.manifest import Proof, Received, Walk
from pipelines.source.client import LIMIT, Client
from pipelines.source.envelope import Page, page_of
from pipelines.tables import Set

log = logging.getLogger(__name__)

Progress = Callable[[str, int, int], None]

# A set may grow while it is read, but not forever: a walk ends after twice the pages first stated plus these.
GROWTH_PAGES = 100
# A walk ends after this many pages in a row without a new id: the service states pages that it does not have.
BARREN_PAGES = 50
# How many of the ids that every walk repeated are kept: enough for the service's operator to find the cause.
REPEATED_KEPT = 5
# How services answer a page past the end; the contract does not say. After page 1 it means that the set shrank during
# the walk, which spoils the walk. On page 1, or with another status, it is a refusal.
PAST_THE_END = frozenset({400, 404, 410, 416, 422})


class Sink(Protocol):
    """Takes bodies as they arrive."""

    def add(self, received: Received, content: bytes) -> None:
        """Take one body."""


@dataclass(frozen=True)
class Walked:
    """How a set was read, and the ids on the counted walks' pages."""

    walk: Walk
    ids: AbstractSet[int]


class WalkCheck:
    """Checks one walk: what its pages stated so far, and whether it can still prove the set.

    `end` is the last page stated so far, by the page count or by the total, whichever is later, so that every stated
    page is read. `over` becomes true there, or at a limit. `spoiled` is the first problem; it is empty while the walk
    may still be complete.
    """

    def __init__(self, set_name: str, number: int = 1) -> None:
        self.set_name = set_name
        self.number = number
        self.ids: set[int] = set()
        self.repeated_ids: set[int] = set()
        self.received = 0
        self.repeated = 0
        self.unreadable = 0
        self.pages = 0
        self.limit = 0
        self.total = 0
        self.end = 1
        self.spoiled = ""
        self.over = False
        self._max_pages = 0
        self._barren = 0

    def add(self, page: Page) -> None:
        """Check the next page and add its ids."""
        self.pages += 1
        first = self.pages == 1
        if first:
            self.limit, self.total = page.limit, page.total_count
        self._check_pagination(page)
        self.limit, self.total = page.limit, page.total_count
        needed = -(-page.total_count // page.limit)
        self.end = max(page.total_pages, needed, self.end)
        if first:
            self._max_pages = 2 * self.end + GROWTH_PAGES
        self._check_size(page)
        self._add_ids(page.ids)
        self.over = self.pages >= self.end
        if not self.over and (self.pages >= self._max_pages or self._barren >= BARREN_PAGES):
            self._spoil(f"page {self.pages}: the stated end, page {self.end}, does not come nearer")
            self.over = True

    def add_refused(self, status: int) -> None:
        """Record that the next page was refused as if it were past the end."""
        self._spoil(f"page {self.pages + 1} of {self.end} was refused ({status})")
        self.over = True

    def proof(self) -> Proof | None:
        """Return the proof if this walk showed the whole set; else None, with the reason in `spoiled`."""
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

    def _check_pagination(self, page: Page) -> None:
        """Check what a page states about itself and the set."""
        at = f"page {self.pages}"
        if page.number != self.pages:
            self._spoil(f"{at}: the service calls it page {page.number}")
        if page.total_count != self.total:
            self._spoil(f"{at}: total_count moved from {self.total} to {page.total_count}")
        if page.limit != self.limit:
            self._spoil(f"{at}: limit moved from {self.limit} to {page.limit}")
        needed = -(-page.total_count // page.limit)
        if page.total_pages != needed and not (needed == 0 and page.total_pages == 1):
            self._spoil(f"{at}: {page.total_pages} pages cannot hold {page.total_count} records by {page.limit}")

    def _check_size(self, page: Page) -> None:
        """Check how many records a page holds: only the last may be short, none too long."""
        count, last = len(page.ids), self.pages >= self.end
        if count > page.limit:
            self._spoil(f"page {self.pages}: {count} records, more than the limit of {page.limit}")
        elif count < page.limit and not last:
            self._spoil(f"page {self.pages} of {self.end}: {count} records, though the limit is {page.limit}")

    def _add_ids(self, ids: list[int | None]) -> None:
        before = len(self.ids)
        readable = Counter(i for i in ids if i is not None)
        unreadable = ids.count(None)
        self.repeated_ids |= {i for i, count in readable.items() if count > 1 or i in self.ids}
        if repeated := len(readable.keys() & self.ids):
            self._spoil(f"page {self.pages}: {repeated} ids had come on earlier pages")
        self.ids |= readable.keys()
        new = len(self.ids) - before
        self.received += len(ids)
        self.unreadable += unreadable
        self.repeated += len(ids) - unreadable - new
        self._barren = 0 if new or unreadable else self._barren + 1

    def _spoil(self, why: str) -> None:
        self.spoiled = self.spoiled or f"walk {self.number}, {why}"


def walk(client: Client, set_: Set, sink: Sink, walks: int = 3, progress: Progress | None = None) -> Walked:
    """Walk a whole set until it is proven, at most `walks` times.

    A spoiled walk is still read to its stated end: an unproven set adds and updates records, from all pages of all
    walks. Raises the client's errors. Contract: "GET /svcapi/v1/students", "GET /svcapi/v1/classes".
    """
    spoiled: list[str] = []
    checks: list[WalkCheck] = []
    for number in range(1, walks + 1):
        check = _read(client, set_, WalkCheck(set_.name, number), sink, progress=progress)
        proof = check.proof()
        if proof is not None:
            return Walked(_sum_up(set_, [check], proof, number, spoiled, check.ids), check.ids)
        spoiled.append(check.spoiled)
        checks.append(check)
        log.warning("%s: %s", set_.name, check.spoiled)
    ids = set().union(*(c.ids for c in checks))
    return Walked(_sum_up(set_, checks, None, walks, spoiled, ids), ids)


def search(
    client: Client, set_: Set, value: str, sought: int, sink: Sink, walks: int = 3
) -> Literal["found", "not found", "unclear"]:
    """Search a set by one name, for the record with the id `sought`.

    Returns "found" as soon as a page shows it; "not found" only when the whole result was read and proven by the rules
    of a walk; else, after `walks` tries, "unclear". Raises the client's errors.
    """
    for number in range(1, walks + 1):
        check = _read(client, set_, WalkCheck(set_.name, number), sink, value=value, sought=sought)
        if sought in check.ids:
            return "found"
        if check.proof() is not None:
            return "not found"
    return "unclear"


def _read(
    client: Client,
    set_: Set,
    check: WalkCheck,
    sink: Sink,
    *,
    value: str | None = None,
    sought: int | None = None,
    progress: Progress | None = None,
) -> WalkCheck:
    """Read pages 1 to the stated end; in a search, stop once the sought record is found."""
    query: dict[str, str | int] = {} if value is None else {"search": value}
    while not check.over and (sought is None or sought not in check.ids):
        page = check.pages + 1
        try:
            answer = client.get(set_.endpoint, {**query, "page": page, "limit": LIMIT}, read=page_of(set_))
        except KeyRefusedError:
            raise
        except RefusedError as error:
            if page == 1 or error.status not in PAST_THE_END:
                raise
            check.add_refused(error.status)
            continue
        received = Received(
            set=set_.name,
            kind="walk" if value is None else "search",
            page=page,
            walk=check.number,
            sought=sought,
            received_at=answer.received_at,
            records=len(answer.said.ids),
        )
        sink.add(received, answer.content)
        check.add(answer.said)
        if progress is not None:
            progress(set_.name, page, check.end)
    return check


def _sum_up(
    set_: Set,
    counted: list[WalkCheck],
    proof: Proof | None,
    walks: int,
    spoiled: list[str],
    ids: AbstractSet[int],
) -> Walk:
    return Walk(
        set=set_.name,
        walks=walks,
        counted=tuple(r.number for r in counted),
        proof=proof,
        total_count=counted[-1].total,
        received=sum(r.received for r in counted),
        # Each walk shows the records without a readable id again, and they cannot be distinguished.
        distinct=len(ids) + max(r.unreadable for r in counted),
        repeated=sum(r.repeated for r in counted),
        repeated_ids=tuple(sorted(set.intersection(*(r.repeated_ids for r in counted)))[:REPEATED_KEPT]),
        spoiled=tuple(spoiled),
    )
