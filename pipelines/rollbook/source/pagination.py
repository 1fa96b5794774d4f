"""The walk: reads a set page by page, in order, and proves that it is complete (G1).

Every page goes to the sink at once; only the records' ids stay in memory. `RULES` has what every page keeps to,
`WalkCheck` applies it to a walk, `walk` repeats a spoiled walk, `search` reads one search's result by the same rules,
and `verify_absence` alone decides whether a record that a proven walk no longer shows was removed (G2).
"""

from __future__ import annotations

import logging
import re
import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from heapq import nsmallest
from typing import Literal, Protocol

from msgspec import structs

from rollbook.errors import KeyRefusedError, RefusedError, ServiceError
from rollbook.landing.manifest import Absence, Proof, Received, Walk
from rollbook.source.client import LIMIT, Client
from rollbook.source.envelope import Page, page_of
from rollbook.tables import Set

log = logging.getLogger(__name__)

Progress = Callable[[str, int, int], None]

# A set may grow during a walk, but not forever: a walk ends after twice the pages first stated plus a few.
GROWTH_PAGES = 100
# A walk without a stated end ends here: a million records.
OPEN_PAGES = 10_000
# A walk ends after so many pages in a row without a new id: the service states pages that it does not have.
BARREN_PAGES = 50
# How many of the ids that every walk repeated are kept: enough for the service's operator to find the cause.
REPEATED_KEPT = 5
# Some services search more than they list. So many records of a night may stay current because only a search finds the
# record; more mean that the list is short.
MAX_HIDDEN = 3
# After so many vanished records in a row without a clear answer, the service's search counts as down.
MAX_UNCLEAR = 3
# So many of the listed records with the lowest ids are looked at for a record that was published before, to see whether
# searches find it: new records were not published, and erased ones are not.
PROBED = 50
# How services answer a page past the end; the contract does not say. After page 1, 404 means that the set shrank during
# the walk, which spoils it. On page 1, or with another status, the answer is a refusal.
PAST_THE_END = frozenset({400, 404, 410, 416, 422})
# No content: a success without a page.
NO_CONTENT = 204
# So services answer that have no such set, or none yet: an empty set, unless there were records of it before.
NO_SET = frozenset({NO_CONTENT, 404})
# Some services refuse a search that nothing matches, with 404 or with `success: false` under a 200, as others answer
# with NO_CONTENT; the contract does not say. Believed only where the next search, by the same name, finds a record that
# was listed: else the searches may be broken, or too many.
NO_MATCH = frozenset({200, 404})


class Sink(Protocol):
    """Takes bodies, each at once."""

    def add(self, received: Received, content: bytes) -> None:
        """Take a body."""


@dataclass(frozen=True)
class Walked:
    """How a set was read, and the ids on the counted walks' pages. `checks` are the counted walks."""

    walk: Walk
    ids: AbstractSet[int]
    checks: tuple[WalkCheck, ...]


@dataclass(frozen=True)
class Step:
    """One page of a walk, as the rules see it.

    `before` is the page before (of the first page, itself), `stated` the last page by what was stated so far, `end` the
    page that the walk reads up to: one more than `stated` where there may be more. `limit` is how many records a full
    page has. `ids` has the page's ids, each with how often it came; `earlier` are those of earlier pages.
    """

    page: Page
    before: Page
    number: int
    stated: int
    end: int
    limit: int
    ids: Counter[int]
    earlier: set[int]

    @property
    def at(self) -> str:
        """The page in a message."""
        return f"page {self.number}"


def _everything_is_stated(step: Step) -> str:
    return f": {' and '.join(step.page.not_stated)} not stated" if step.page.not_stated else ""


def _number_is_as_asked(step: Step) -> str:
    number = step.page.number
    return f": the service calls it page {number}" if number not in (step.number, None) else ""


def _has_next_until_the_end(step: Step) -> str:
    has_next = step.number < step.stated
    if step.page.has_next in (has_next, None):
        return ""
    return f": has_next is {str(not has_next).lower()}, though page {step.stated} is stated as the last"


def _has_prev_after_the_first(step: Step) -> str:
    has_prev = step.number > 1
    return "" if step.page.has_prev in (has_prev, None) else f": has_prev is {str(not has_prev).lower()}"


def _total_is_steady(step: Step) -> str:
    was, now = step.before.total_count, step.page.total_count
    return f": total_count moved from {was} to {now}" if now != was else ""


def _limit_is_steady(step: Step) -> str:
    was, now = step.before.limit, step.page.limit
    return f": limit moved from {was} to {now}" if now != was else ""


def _total_fits_the_pages(step: Step) -> str:
    page = step.page
    is_none_on_one_page = (page.needed, page.total_pages) == (0, 1)
    if None in (page.needed, page.total_pages) or page.needed == page.total_pages or is_none_on_one_page:
        return ""
    return f": {page.total_pages} pages cannot hold {page.total_count} records by {page.limit}"


def _page_is_within_the_limit(step: Step) -> str:
    count = len(step.page.ids)
    return f": {count} records, more than the limit of {step.limit}" if count > step.limit else ""


def _only_the_last_is_short(step: Step) -> str:
    count = len(step.page.ids)
    is_short = count < step.limit and step.number < step.end
    return f" of {step.end}: {count} records, though the limit is {step.limit}" if is_short else ""


def _ids_are_new(step: Step) -> str:
    return f": {len(step.earlier)} ids had come on earlier pages" if step.earlier else ""


# What every page of a proven walk keeps to. Each returns what is wrong with a page, or nothing.
RULES: tuple[Callable[[Step], str], ...] = (
    _everything_is_stated,
    _number_is_as_asked,
    _has_next_until_the_end,
    _has_prev_after_the_first,
    _total_is_steady,
    _limit_is_steady,
    _total_fits_the_pages,
    _page_is_within_the_limit,
    _only_the_last_is_short,
    _ids_are_new,
)


class WalkCheck:
    """Checks a walk: what the pages stated so far, and whether the walk can still prove the set.

    `end` is the last page stated so far, by the page count or by the total, whichever is later, so that every stated
    page is read. Where neither is stated, one more page is read as long as `has_next` says so or, without that too,
    until a page is short. `over` becomes true at the end, or at a limit. `spoiled` is the first problem, and empty
    while the walk may still be complete. `missing` is the refusal of a service that has no such set.
    """

    def __init__(self, set_name: str, number: int = 1) -> None:
        self.set_name = set_name
        self.number = number
        self.pages: list[Page] = []
        self.ids: set[int] = set()
        self.repeated_ids: set[int] = set()
        self.end = 1
        self.spoiled = ""
        self.over = False
        self.missing: RefusedError | None = None
        self._barren = 0

    @property
    def unreadable(self) -> int:
        """How many of the records have no id that can be read."""
        return sum(page.ids.count(None) for page in self.pages)

    def add(self, page: Page) -> None:
        """Keep the next page and its ids. The first rule that a page breaks spoils the walk."""
        step = self._step(page)
        for broken in filter(None, (rule(step) for rule in RULES)):
            self._spoil(f"{step.at}{broken}")
        self.pages.append(page)
        self.repeated_ids |= step.earlier | {i for i, times in step.ids.items() if times > 1}
        self._barren = self._barren + 1 if step.ids.keys() == step.earlier and None not in page.ids else 0
        self.ids.update(step.ids)  # `|=` with a view of keys would copy the whole set for each page
        self.end = step.end
        self.over = step.number >= step.end
        if not self.over and (step.number >= self._most_pages() or self._barren >= BARREN_PAGES):
            self.add_end(f"{step.at}: the stated end, page {self.end}, does not come nearer")

    def _step(self, page: Page) -> Step:
        """The next page, with what the pages so far say of it."""
        first, before = (self.pages[0], self.pages[-1]) if self.pages else (page, page)
        number, ids = len(self.pages) + 1, Counter(i for i in page.ids if i is not None)
        ends = [end for end in (page.total_pages, page.needed) if end is not None]
        stated = max([*ends, self.end])
        # Without a stated limit, only a page that is shorter than the first one is short.
        limit = page.limit or max(len(first.ids), 1)
        is_more = page.has_next is True and bool(page.ids)
        is_open = page.has_next is None and not ends and len(page.ids) >= limit and not ids.keys() <= self.ids
        goes_on = number >= stated and (is_more or is_open)  # a further request finds out
        return Step(page, before, number, stated, number + 1 if goes_on else stated, limit, ids, ids.keys() & self.ids)

    def _most_pages(self) -> int:
        """After so many pages, a walk ends in any case."""
        first_stated = max(self.pages[0].total_pages or 0, self.pages[0].needed or 0)
        return 2 * first_stated + GROWTH_PAGES if first_stated else OPEN_PAGES

    def add_end(self, why: str) -> None:
        """Record that the walk ends before the stated end."""
        self._spoil(why)
        self.over = True

    def proof(self) -> Proof | None:
        """Return the proof if the walk showed the whole set; else None, with the reason in `spoiled`."""
        if not self.pages:
            return None
        last = self.pages[-1]
        if self.unreadable:
            self._spoil(f"{self.unreadable} records have no id that can be read")
        if len(self.ids) != last.total_count:
            self._spoil(f"{len(self.ids)} ids came, {last.total_count} were stated")
        if self.spoiled or last.total_count is None or last.limit is None:
            return None
        return Proof(
            set=self.set_name,
            walk=self.number,
            total_count=last.total_count,
            unique_ids=len(self.ids),
            pages=len(self.pages),
            limit=last.limit,
        )

    def _spoil(self, why: str) -> None:
        self.spoiled = self.spoiled or f"walk {self.number}, {why}"


def walk(
    client: Client,
    set_: Set,
    sink: Sink,
    walks: int = 3,
    progress: Progress = lambda *_: None,
    *,
    before: Walked | None = None,
    has_none: Callable[[], bool] = lambda: False,
) -> Walked:
    """Walk a whole set until it is proven, at most `walks` times, or as many times again after the walks `before`.

    `has_none` says whether no record of the set is current: then an answer of NO_SET proves that the set is empty.
    A spoiled walk is still read to its stated end: an unproven set adds and updates records, from all pages of all
    walks. Raises the client's errors. Contract: "GET /svcapi/v1/students", "GET /svcapi/v1/classes".
    """
    checks = list(before.checks) if before else []
    spoiled = before.walk.spoiled if before else ()
    first = before.walk.walks if before else 0
    for number in range(first + 1, first + walks + 1):
        check = _read(client, set_, WalkCheck(set_.name, number), sink, progress=progress)
        proof = check.proof()
        if check.missing and has_none():
            proof = Proof(set=set_.name, walk=number, total_count=0, unique_ids=0, pages=0, limit=LIMIT)
        if proof is not None:
            return _sum_up([check], proof, spoiled)
        checks.append(check)
        spoiled = (*spoiled, check.spoiled)
        log.warning("%s: %s", set_.name, check.spoiled)
    return _sum_up(checks, None, spoiled)


def search(
    client: Client, set_: Set, value: str, sought: int, sink: Sink, walks: int = 3
) -> Literal["found", "not found", "no match", "unclear"]:
    """Search a set by one name, for the record with the id `sought`.

    Returns "found" as soon as a page shows it; "not found" only when the whole result was read and proven by the rules
    of a walk; "no match" for NO_MATCH or NO_CONTENT; else, after `walks` tries, "unclear". Raises the client's errors.
    """
    for number in range(1, walks + 1):
        try:
            check = _read(client, set_, WalkCheck(set_.name, number), sink, value=value, sought=sought)
        except RefusedError as error:
            if error.status not in NO_MATCH:
                raise
            return "no match"
        if not check.pages:
            return "no match"
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
    progress: Progress = lambda *_: None,
) -> WalkCheck:
    """Read pages 1 to the stated end; in a search, stop once the sought record is found."""
    query: dict[str, str | int] = {} if value is None else {"search": value}
    while not check.over and (sought is None or sought not in check.ids):
        page = len(check.pages) + 1
        try:
            answer = client.get(set_.endpoint, {**query, "page": page, "limit": LIMIT}, read=page_of(set_))
        except KeyRefusedError:
            raise
        except RefusedError as error:
            is_missing = page == 1 and value is None and error.status in NO_SET
            if not is_missing and error.status != NO_CONTENT and (page == 1 or error.status not in PAST_THE_END):
                raise
            check.missing = error if is_missing else None
            check.add_end(f"page {page} of {check.end} was refused ({error.status})")
            continue
        received = Received(
            set=set_.name,
            kind="walk" if value is None else "search",
            page=page,
            walk=check.number,
            sought=sought,
            received_at=answer.received_at,
            records=len(answer.parsed.ids),
        )
        sink.add(received, answer.content)
        check.add(answer.parsed)
        progress(set_.name, page, check.end)
    return check


def _sum_up(counted: list[WalkCheck], proof: Proof | None, spoiled: tuple[str, ...]) -> Walked:
    last, ids = counted[-1], set[int]().union(*(c.ids for c in counted))
    received = sum(len(page.ids) for c in counted for page in c.pages)
    unreadable = [c.unreadable for c in counted]
    walk = Walk(
        set=last.set_name,
        walks=last.number,
        counted=tuple(c.number for c in counted),
        proof=proof,
        total_count=last.pages[-1].total_count or 0 if last.pages else 0,
        received=received,
        # Each walk shows the records without a readable id again, and nothing tells them apart.
        distinct=len(ids) + max(unreadable),
        repeated=received - sum(unreadable) - sum(len(c.ids) for c in counted),
        repeated_ids=tuple(sorted(set.intersection(*(c.repeated_ids for c in counted)))[:REPEATED_KEPT]),
        spoiled=spoiled,
    )
    return Walked(walk, ids, tuple(counted))


Names = tuple[tuple[str, str], ...]

# Characters that HTML never writes as a reference. A shorter part would list half a school.
_PLAIN = re.compile(r"[!#-%(-;=?-~][ !#-%(-;=?-~]{2,}[!#-%(-;=?-~]")


class Published(Protocol):
    """The current records and their names: a proven walk may lack some of them."""

    def vanished(self, set_name: str, received: AbstractSet[int]) -> Mapping[int, Names]:
        """Return the current records of a set that were not received; none before the first publish.

        Maps each id to its (field, value) pairs to search by, in the order of `Set.names` and `Set.last_names`.
        """


@dataclass(frozen=True)
class Verified:
    """A set whose vanished records were searched for: how it was read in the end, and the answers.

    The records in `not_asked` vanished, too, but were too many to search for.
    """

    walked: Walked
    absences: tuple[Absence, ...] = ()
    not_asked: tuple[int, ...] = ()


class Searches:
    """Searches for records that a set's walk did not list, until the service's search counts as down.

    That is after MAX_UNCLEAR unclear answers in a row, or once searches without a clear answer have taken `seconds`:
    further records are then unclear without being asked for.
    """

    def __init__(
        self, client: Client, set_: Set, published: Published, sink: Sink, *, walks: int, seconds: float
    ) -> None:
        self.client = client
        self.set = set_
        self.published = published
        self.sink = sink
        self.walks = walks
        self._seconds = seconds
        self._unclear = 0

    def are_down(self) -> bool:
        """Whether the service's search counts as down."""
        return self._unclear >= MAX_UNCLEAR or self._seconds < 0

    def ask(self, sought: int, names: Names, received: AbstractSet[int]) -> Absence:
        """Search for one record by its names. `received` are the listed records. Raises KeyRefusedError."""
        if self.are_down():
            return Absence(set=self.set.name, id=sought, answer="unclear")
        began = time.monotonic()
        absence = search_by_names(
            self.client,
            self.set,
            sought,
            names,
            self.sink,
            walks=self.walks,
            finds_listed=partial(self._finds_listed, received),
        )
        if absence.answer == "unclear":
            self._unclear += 1
            self._seconds -= time.monotonic() - began
            log.warning("%s %d: no clear answer to the search, so the record stays as it was", self.set.name, sought)
            if self.are_down():
                log.warning("%s: the service's search counts as down for this night", self.set.name)
        else:
            self._unclear = 0
        return absence

    def _finds_listed(self, received: AbstractSet[int], field: str) -> bool:
        """Whether a search by this name finds a record that is listed, and published already. Asked again for each
        record, since a service may refuse searches after so many.
        """
        for listed, names in self._published_before(received):
            if name := names.get(field, "").strip():
                return search(self.client, self.set, name, listed, self.sink, self.walks) == "found"
        return False

    def _published_before(self, received: AbstractSet[int]) -> list[tuple[int, dict[str, str]]]:
        lowest = {*nsmallest(PROBED, received)}
        known = self.published.vanished(self.set.name, received - lowest)
        return [(listed, dict(known[listed])) for listed in sorted(lowest & known.keys())]


def verify_absence(
    searches: Searches,
    walked: Walked,
    *,
    most: int,
    day: date,
    hidden: Mapping[int, date] | None = None,
    progress: Progress = lambda *_: None,
) -> Verified:
    """Search for each published record that a set's proven walk did not list; if there are over `most`, for none (G2).

    A walk that did not list what a search finds may have slipped: the set is walked again, once. At most MAX_HIDDEN
    records may then be newly hidden, that is found by search and listed by neither walk; more disprove the walk. The
    records in `hidden` were hidden on earlier nights, since the days given; they cause no further walk.

    Every result page goes to the sink, even of a search that found nothing: the empty page is the evidence. A record
    without a clean answer stays as it was, and only that record. Raises KeyRefusedError. Any other refusal of a search,
    or no answer, counts as an unclean answer.
    """
    set_, hidden = searches.set, hidden or {}
    searched: dict[int, Absence] = {}
    not_asked = _ask(searches, walked.ids, searched, most)
    if _found(searched) - hidden.keys():
        log.warning("%s: searches find records that the walk did not list; walking again", set_.name)
        walked = walk(searches.client, set_, searches.sink, searches.walks, progress, before=walked)
        if walked.walk.proof is not None:
            not_asked = _ask(searches, walked.ids, searched, most)
    newly = _found(searched) - walked.ids - hidden.keys()
    if len(newly) > MAX_HIDDEN and walked.walk.proof is not None:
        why = f"{len(newly)} records are found by search and listed by no walk"
        walked = replace(walked, walk=structs.replace(walked.walk, proof=None, spoiled=(*walked.walk.spoiled, why)))
        log.warning("%s: %s", set_.name, why)
    # Of a walk that was disproved, nothing is known to be hidden: the next night must not take hidden records for
    # known. A hidden record without a clear answer stays hidden.
    since = hidden if walked.walk.proof is None else {**dict.fromkeys(newly, day), **hidden}
    absences = [
        structs.replace(a, answer="listed_again")
        if id_ in walked.ids
        else structs.replace(a, hidden_since=None if a.answer == "removed" else since.get(id_))
        for id_, a in sorted(searched.items())
    ]
    return Verified(walked, tuple(absences), not_asked)


def _ask(searches: Searches, received: AbstractSet[int], absences: dict[int, Absence], most: int) -> tuple[int, ...]:
    """Search for the vanished records that have no answer yet. If they are too many, return them without searching."""
    vanished = searches.published.vanished(searches.set.name, received)
    if len(vanished) > most:
        log.warning("%s: %d records vanished, too many to search for", searches.set.name, len(vanished))
        return tuple(sorted(vanished))
    for sought, names in sorted(vanished.items()):
        if sought not in absences:
            absences[sought] = searches.ask(sought, names, received)
    return ()


def search_uncounted(
    searches: Searches, stated: Mapping[int, Names], received: AbstractSet[int], most: int
) -> list[Absence]:
    """Search for at most `most` records that are neither listed nor current, but `stated` by a landing that is held or
    discarded: if it counts one day, the records must not stay for lack of a question (G2).

    Nothing here holds a night, or leaves a set unproven: a record that is found, or without a clear answer, is not
    stated. Raises KeyRefusedError.
    """
    absences = []
    for sought, names in sorted(stated.items())[: max(most, 0)]:
        if (absence := searches.ask(sought, names, received)).answer == "unclear":
            break
        is_found = absence.answer == "found_by_search"
        absences.append(structs.replace(absence, answer="still_known") if is_found else absence)
    return absences


def _found(absences: Mapping[int, Absence]) -> set[int]:
    return {id_ for id_, absence in absences.items() if absence.answer == "found_by_search"}


def search_by_names(
    client: Client,
    set_: Set,
    sought: int,
    names: Names,
    sink: Sink,
    *,
    walks: int,
    finds_listed: Callable[[str], bool] = lambda _: False,
) -> Absence:
    """Search for one record by each name until it is found; by a name that several records may share
    (`Set.last_names`) only if no other name gave a clean answer.

    The answer is `removed` if all searches by at least one name ended cleanly without finding the record, else
    `unclear`. "No match" is clean where the search by that name `finds_listed` records.
    """
    searched: list[str] = []
    is_clean = False
    for field, value in names:
        if not value or not value.strip() or (is_clean and field in set_.last_names):
            continue  # an empty search does not filter, but lists every record
        searched.append(field)
        answers = set[str]()
        try:
            for form in _forms(value):
                answers.add(search(client, set_, form, sought, sink, walks))
                if "found" in answers:
                    return Absence(set=set_.name, id=sought, answer="found_by_search", asked_by=tuple(searched))
            is_clean |= "unclear" not in answers and ("no match" not in answers or finds_listed(field))
        except KeyRefusedError:
            raise
        except ServiceError as error:
            log.warning("%s %d: the search by %s failed (%s)", set_.name, sought, field, type(error).__name__)
    return Absence(set=set_.name, id=sought, answer="removed" if is_clean else "unclear", asked_by=tuple(searched))


def _forms(value: str) -> Iterable[str]:
    """A name in the forms in which the service may hold it, where it compares bytes: as stored here, which is composed
    (NFC); decomposed; and the longest part that HTML never writes otherwise (o&#039;brien@school.example).
    """
    mailbox, _, _ = value.partition("@")  # the whole school has the domain
    plain = max(_PLAIN.findall(mailbox), key=len, default=mailbox)
    return dict.fromkeys((value, unicodedata.normalize("NFD", value), value if plain == mailbox else plain))
