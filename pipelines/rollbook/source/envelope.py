"""The contract's JSON around the records, as far as the walk needs it: pages, the auth check, error bodies.

All readers except `refused_status` raise `UnreadableError` for a body that is not the contract's. Records stay bytes:
only their ids are read here, with `records.id_reader`. `flatten` checks them against the declarations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from operator import attrgetter
from typing import Any

import msgspec

from rollbook.landing.records import (
    MAX_ID,
    MAX_TEXT,
    UNREADABLE,
    Id,
    Records,
    as_id,
    as_integer,
    as_truth,
    decode_page,
    id_reader,
    is_too_deep,
    make_readable,
    readable,
    readable_detail,
    records_of,
)
from rollbook.tables import Set

# The parts of msgspec's messages that are shown: the position, and the place by the names of the contract's fields.
_POSITION, _PLACE = re.compile(r"\(byte (\d+)\)"), re.compile(r"`\$\.([\w.]+)`$|required field `(\w+)`")
# The most records on a page, of which the contract has a hundred, and the most elements of a list or object in a
# record. Read, an empty list takes thirty times its two bytes.
MAX_RECORDS, MAX_ELEMENTS = 1_000, 10_000
# A shorter page is read within a second, whatever it holds; of a hundred records, one has some 80 kB.
BOUNDED_FROM = 2**19
_TOO_MANY_RECORDS = f"it has more than {MAX_RECORDS:,} records on a page"
_TOO_MANY_ELEMENTS = f"a record has a list of more than {MAX_ELEMENTS:,} elements"
# The counts of the contract's pagination object, each with the least value.
COUNTS = {"page": 1, "limit": 1, "total_count": 0, "total_pages": 0}
# An error body is shorter. What is longer is not even looked at, since it may be anything.
REFUSAL_BYTES = 2**16
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_NO_BRACKETS = bytes({*range(256)} - {*b"[]{},"})


class UnreadableError(msgspec.DecodeError):
    """A body that is not the contract's. The message says why, without any of the body's own words."""


@dataclass(frozen=True)
class Page:
    """One page of a set: its pagination, and the id of each record (None if unreadable). What the service does not
    state is None.
    """

    number: int | None
    limit: int | None
    total_count: int | None
    total_pages: int | None
    ids: list[int | None]
    has_next: bool | None = None
    has_prev: bool | None = None

    @property
    def needed(self) -> int | None:
        """How many pages the total needs, by the limit; None where either is not stated."""
        return None if self.total_count is None or self.limit is None else -(-self.total_count // self.limit)

    @property
    def not_stated(self) -> list[str]:
        """The names of the counts that the service does not state, without which no set is proven."""
        counts = (self.number, self.limit, self.total_count, self.total_pages)
        return [name for name, count in zip(COUNTS, counts, strict=True) if count is None]


@dataclass(frozen=True)
class KeyOwner:
    """The auth check's answer, as far as needed: the key's institution, and the service's own time (no zone)."""

    school_id: int
    school_name: str | None
    timestamp: datetime


class _School(msgspec.Struct):
    id: int | float | str
    name: Any = None


class _Auth(msgspec.Struct):
    school: _School
    timestamp: str
    authenticated: Any = True


class _AuthEnvelope(msgspec.Struct):
    success: Any
    data: _Auth


# How services and the gateways in front of them say, under any status, that they were asked too often.
_TOO_OFTEN = re.compile(r"rate[ _-]?limit|too[ _-]?many[ _-]?requests|throttl", re.IGNORECASE)


class _Refusal(msgspec.Struct):
    success: Any = None
    error: Any = None
    message: Any = None
    status_code: Any = None
    error_code: Any = None

    @property
    def is_error(self) -> bool:
        """Whether this is an error body."""
        return as_truth(self.success) is False or as_truth(self.error) is True

    @property
    def is_too_often(self) -> bool:
        """Whether this asks for fewer requests."""
        said = (self.message, self.error, self.error_code)
        return any(isinstance(text, str) and _TOO_OFTEN.search(text[:MAX_TEXT]) for text in said)


@cache
def page_of(set_: Set) -> Callable[[bytes], Page]:
    """Return the reader of one set's pages. Contract: "Response envelope (success)", "Pagination object"."""
    id_of, id_in = id_reader(set_.id_path), attrgetter(set_.id_field)
    fast = msgspec.json.Decoder(_envelope(list[_only_id(set_.id_path)]))  # type: ignore[misc]
    slow = msgspec.json.Decoder(_envelope(Records, None))

    def read(content: bytes) -> Page:
        _check_size(content)
        try:
            page = fast.decode(content)
            ids = list(map(id_in, page.data))
        except UNREADABLE:
            try:
                page = decode_page(slow, readable(content))
            except UNREADABLE:
                page = _decode(partial(decode_page, slow), readable(content, in_place=True))  # to say where
            records = records_of(page.data)
            # An empty set may come without a list; only its total says that the set is empty.
            if records is None or (page.data in (None, {}) and _counts_in(page.pagination)["total_count"] != 0):
                raise UnreadableError("its data is not a list") from None
            ids = [id_of(bytes(raw)) for raw in records[: MAX_RECORDS + 1]]
        if len(ids) > MAX_RECORDS:
            raise UnreadableError(_TOO_MANY_RECORDS)
        if not as_truth(page.success):
            raise UnreadableError("its success is not true")
        counts = _counts_in(page.pagination)
        has_next, has_prev = (as_truth(_in(page.pagination, name)) for name in ("has_next", "has_prev"))
        return Page(counts.pop("page"), ids=ids, has_next=has_next, has_prev=has_prev, **counts)

    return read


def _counts_in(pagination: Any) -> dict[str, int | None]:
    """Return the counts that a pagination states, also as integral floats or in quotes; None for any other value."""
    counts = {name: as_integer(_in(pagination, name)) for name in COUNTS}
    return {n: c if c is not None and COUNTS[n] <= c <= MAX_ID else None for n, c in counts.items()}


def _in(pagination: Any, name: str) -> Any:
    return pagination.get(name) if isinstance(pagination, dict) else None


def _check_size(content: bytes) -> None:
    """Raise UnreadableError for a page with too many records, or with too many elements in one list or object."""
    if len(content) < BOUNDED_FROM:
        return
    begin = content.find(b'{"')  # behind what PHP tells, which may hold single quotation marks
    most, open_ = {1: MAX_RECORDS, 2: MAX_RECORDS}, [0]
    for sign in _STRING.sub(b"", content[max(begin, 0) :]).translate(None, _NO_BRACKETS):
        if sign == ord(","):
            open_[-1] += 1
            if open_[-1] >= most.get(len(open_) - 1, MAX_ELEMENTS):
                raise UnreadableError(_TOO_MANY_RECORDS if len(open_) - 1 in most else _TOO_MANY_ELEMENTS)
        elif sign in b"[{":
            open_.append(0)
        elif len(open_) > 1:
            open_.pop()


def institution(content: bytes) -> KeyOwner:
    """Read the auth check's answer: the id, the time (also as ISO 8601), and the name if there is a usable one.

    By the contract `authenticated` is always true on success, so only an explicit false counts as a refusal. Contract:
    "Institution (auth check result)".
    """
    auth = _decode(_auth.decode, make_readable(content))
    school_id = as_id(auth.data.school.id)
    if not as_truth(auth.success) or as_truth(auth.data.authenticated) is False:
        raise UnreadableError("its success or authenticated is not true")
    if school_id is None:
        raise UnreadableError("its school.id is not an id")
    try:
        timestamp = datetime.fromisoformat(auth.data.timestamp).replace(tzinfo=None)  # the contract gives no zone
    except ValueError:
        raise UnreadableError("its timestamp is not a time") from None
    name = auth.data.school.name
    return KeyOwner(school_id, name if isinstance(name, str) and len(name) <= MAX_TEXT else None, timestamp)


def detail(content: bytes) -> None:
    """Check the single-student answer: a JSON object in UTF-8, no error body. The contract does not show its shape."""
    _decode(bytes.decode, content)
    if is_too_deep(content):
        raise UnreadableError("it is nested too deeply")
    if _decode(_refusal.decode, readable_detail(content)).is_error:
        raise UnreadableError("its success is not true")


def refused_status(content: bytes) -> int | None:
    """Read an error body: the status that it states, 401 if its code says so, 429 if its words do, 0 if none; None for
    another body.

    An error body is the contract's, or any with `success: false`. Contract: "Errors".
    """
    if len(content) > REFUSAL_BYTES:
        return None
    try:
        body = _decode(_refusal.decode, readable(content))
    except UnreadableError:
        return None
    if not body.is_error:
        return None
    if body.error_code == "AUTH_REQUIRED":
        return 401
    return 429 if body.is_too_often else as_integer(body.status_code) or 0


_auth = msgspec.json.Decoder(_AuthEnvelope)
_refusal = msgspec.json.Decoder(_Refusal)


def _only_id(path: Sequence[str]) -> Any:
    """Return a type that decodes only the id of a record."""
    kind: Any = Id
    for step in reversed(path):
        kind = msgspec.defstruct("IdOnly", [(step, kind)], gc=False)
    return kind


def _envelope(data: Any, *default: None) -> Any:
    return msgspec.defstruct(
        "Envelope", [("success", Any), ("data", data, *default), ("pagination", Any, None)], gc=False
    )


def _decode(decode: Callable[[bytes], Any], content: bytes) -> Any:
    """Decode a body. Raises UnreadableError if it is undecodable or nested too deeply."""
    try:
        return decode(content)
    except UNREADABLE as error:
        why = str(error)
    if at := _POSITION.search(why):
        raise UnreadableError(f"unreadable at byte {at[1]}")
    place = _PLACE.search(why)
    raise UnreadableError(f"its {place[1] or place[2]} is missing or not as it should be" if place else "unreadable")
