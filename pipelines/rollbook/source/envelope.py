"""The contract's JSON around the records, as far as the walk needs it: pages, the auth check, error bodies.

All readers except `refused_status` raise `msgspec.DecodeError` for a body that is not the contract's. Records stay
bytes: only their ids are read here, with `records.id_reader`. `flatten` checks them against the declarations.
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
from msgspec import structs

from rollbook.landing.records import (
    MAX_ID,
    MAX_TEXT,
    REPLACEMENT,
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
    records_of,
    replace_lone_surrogates,
)
from rollbook.tables import Set

# The position in msgspec's messages, the only part of them that is kept.
_POSITION = re.compile(r" \(byte \d+\)")


class Pagination(msgspec.Struct):
    """The contract's pagination object. `has_next` and `has_prev` are None where the service does not state them."""

    page: int | float | str
    limit: int | float | str
    total_count: int | float | str
    total_pages: int | float | str
    has_next: Any = None
    has_prev: Any = None

    def __post_init__(self) -> None:
        """Turn integral floats and numbers in quotes into integers. Raises ValueError for what is not a count."""
        for name in ("has_next", "has_prev"):
            setattr(self, name, as_truth(getattr(self, name)))
        for name, least in (("page", 1), ("limit", 1), ("total_count", 0), ("total_pages", 0)):
            value = as_integer(getattr(self, name))
            if value is None or not least <= value <= MAX_ID:
                raise ValueError(f"{name} is not a count")
            setattr(self, name, value)


@dataclass(frozen=True)
class Page:
    """One page of a set: its pagination, and the id of each record (None if unreadable). `has_next` and `has_prev` are
    None where the service does not state them.
    """

    number: int
    limit: int
    total_count: int
    total_pages: int
    ids: list[int | None]
    has_next: bool | None = None
    has_prev: bool | None = None

    @property
    def needed(self) -> int:
        """How many pages the total needs, by the limit."""
        return -(-self.total_count // self.limit)


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


class _Refusal(msgspec.Struct):
    success: Any = None
    error: Any = None
    status_code: Any = None
    error_code: Any = None

    @property
    def is_error(self) -> bool:
        """Whether this is an error body."""
        return as_truth(self.success) is False or as_truth(self.error) is True


@cache
def page_of(set_: Set) -> Callable[[bytes], Page]:
    """Return the reader of one set's pages. Contract: "Response envelope (success)", "Pagination object"."""
    id_of, id_in = id_reader(set_.id_path), attrgetter(set_.id_field)
    fast = msgspec.json.Decoder(_envelope(list[_only_id(set_.id_path)]))  # type: ignore[misc]
    slow = msgspec.json.Decoder(_envelope(Records, None))

    def read(content: bytes) -> Page:
        try:
            page = fast.decode(content)
            ids = list(map(id_in, page.data))
        except UNREADABLE:
            page = _decode(partial(decode_page, slow), readable(content))
            records = records_of(page.data)
            # An empty set may come without a list; only its total says that the set is empty.
            if records is None or (page.data in (None, {}) and page.pagination.total_count > 0):
                raise msgspec.ValidationError("data is not a list") from None
            ids = [id_of(bytes(raw)) for raw in records]
        if not as_truth(page.success):
            raise msgspec.ValidationError("success is not true")
        stated = structs.asdict(page.pagination)
        return Page(number=stated.pop("page"), ids=ids, **stated)

    return read


def institution(content: bytes) -> KeyOwner:
    """Read the auth check's answer: the id, the time (also as ISO 8601), and the name if there is a usable one.

    By the contract `authenticated` is always true on success, so only an explicit false counts as a refusal. Contract:
    "Institution (auth check result)".
    """
    auth = _decode(_auth.decode, make_readable(content))
    school_id = as_id(auth.data.school.id)
    if not as_truth(auth.success) or as_truth(auth.data.authenticated) is False:
        raise msgspec.ValidationError("success or authenticated is false")
    if school_id is None:
        raise msgspec.ValidationError("school.id is not an id")
    try:
        timestamp = datetime.fromisoformat(auth.data.timestamp).replace(tzinfo=None)  # the contract gives no zone
    except ValueError:
        raise msgspec.ValidationError("timestamp is not a time") from None
    name = auth.data.school.name
    return KeyOwner(school_id, name if isinstance(name, str) and len(name) <= MAX_TEXT else None, timestamp)


def detail(content: bytes) -> None:
    """Check the single-student answer: a JSON object in UTF-8, no error body. The contract does not show its shape."""
    _decode(bytes.decode, content)
    if is_too_deep(content):
        raise msgspec.DecodeError("nested too deeply")
    if _decode(_refusal.decode, replace_lone_surrogates(content, REPLACEMENT)).is_error:
        raise msgspec.ValidationError("success is not true")


def refused_status(content: bytes) -> int | None:
    """Read an error body: the status that it states, 401 if its code says so, 0 if none; None for another body.

    An error body is the contract's, or any with `success: false`. Contract: "Errors".
    """
    try:
        body = _decode(_refusal.decode, readable(content))
    except msgspec.DecodeError:
        return None
    if not body.is_error:
        return None
    if body.error_code == "AUTH_REQUIRED":
        return 401
    return as_integer(body.status_code) or 0


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
        "Envelope", [("success", Any), ("pagination", Pagination), ("data", data, *default)], gc=False
    )


def _decode(decode: Callable[[bytes], Any], content: bytes) -> Any:
    """Decode a body. Raises msgspec.DecodeError if it is undecodable or nested too deeply."""
    try:
        return decode(content)
    except UNREADABLE as error:
        at = "".join(_POSITION.findall(str(error))[:1])
    raise msgspec.DecodeError(f"not the contract's{at}")
