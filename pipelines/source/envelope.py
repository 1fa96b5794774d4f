"""The contract's JSON around the records, read as far as the walk needs it: pages, the auth check, refusals.

Everything raises `msgspec.DecodeError` for a body that is not the contract's. The records themselves stay bytes:
only their ids are read here, as `records` reads them, and checking them against the declarations is flattening's
business.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from typing import Any

import msgspec

from pipelines.records import (
    MAX_ID,
    REPLACEMENT,
    TEXT_MOST,
    UNREADABLE,
    Id,
    as_id,
    id_reader,
    is_nested,
    make_readable,
    replace_lone_surrogates,
    split,
    whole,
)
from pipelines.tables import Set

TIMESTAMP = "%Y-%m-%d %H:%M:%S"


class Pagination(msgspec.Struct):
    """The contract's pagination object, as far as it is believed: `has_next` and `has_prev` are not even read."""

    page: int | float
    limit: int | float
    total_count: int | float
    total_pages: int | float

    def __post_init__(self) -> None:
        """Make integral floats integers, and refuse what counts nothing."""
        for name, least in (("page", 1), ("limit", 1), ("total_count", 0), ("total_pages", 0)):
            value = whole(getattr(self, name))
            if value is None or not least <= value <= MAX_ID:
                raise ValueError(f"{name} counts nothing")
            setattr(self, name, value)


@dataclass(frozen=True)
class Page:
    """One page of a set: what its pagination states, and the id of each record (None where it cannot be read)."""

    number: int
    limit: int
    total_count: int
    total_pages: int
    ids: list[int | None]


@dataclass(frozen=True)
class Institution:
    """What the auth check says that the walk needs: whose key it is, and the service's own time (no zone)."""

    school_id: int
    school_name: str | None
    timestamp: datetime


@dataclass(frozen=True)
class Refusal:
    """The service's no: `success: false`, or the contract's error body; its message, which may name anybody, is left.

    A code that is missing is empty.
    """

    status: int | None
    error_code: str


class _School(msgspec.Struct):
    id: int | float
    name: Any = None


class _Auth(msgspec.Struct):
    school: _School
    timestamp: str
    authenticated: Any = True


class _AuthEnvelope(msgspec.Struct):
    success: bool
    data: _Auth


class _Detail(msgspec.Struct):
    success: bool = True
    error: Any = None


class _Refusal(msgspec.Struct):
    success: Any = None
    error: Any = None
    status_code: Any = None
    error_code: Any = None


@cache
def page_of(set_: Set) -> Callable[[bytes], Page]:
    """The reader of one set's pages. Contract: "Response envelope (success)", "Pagination object"."""
    field = set_.id_field
    id_of = id_reader((field,))
    fast = msgspec.json.Decoder(_envelope(list[msgspec.defstruct("IdOnly", [(field, Id)], gc=False)]))  # type: ignore[misc]
    slow = msgspec.json.Decoder(_envelope(list[msgspec.Raw]))

    def read(content: bytes) -> Page:
        try:
            said = fast.decode(content)
            ids = [getattr(record, field) for record in said.data]
        except UNREADABLE:
            said = _decode(partial(split, slow), replace_lone_surrogates(content))
            ids = [id_of(bytes(raw)) for raw in said.data]
        if not said.success:
            raise msgspec.ValidationError("success is not true")
        p = said.pagination
        return Page(p.page, p.limit, p.total_count, p.total_pages, ids)

    return read


def institution(content: bytes) -> Institution:
    """Read the auth check's answer: the id and the time, and a name if there is one that can be told.

    The contract has `authenticated` always true on success, so that only a plain no is one. Contract: "Institution
    (auth check result)".
    """
    said = _decode(_auth.decode, make_readable(content))
    school_id = as_id(said.data.school.id)
    if not said.success or said.data.authenticated is False:
        raise msgspec.ValidationError("success or authenticated is false")
    if school_id is None:
        raise msgspec.ValidationError("school.id is no id")
    try:
        timestamp = datetime.strptime(said.data.timestamp, TIMESTAMP)  # noqa: DTZ007 - the contract gives no zone
    except ValueError:
        raise msgspec.ValidationError("timestamp is no time") from None
    name = said.data.school.name
    return Institution(school_id, name if isinstance(name, str) and len(name) <= TEXT_MOST else None, timestamp)


def detail(content: bytes) -> None:
    """Check the single-student answer, whose shape the contract does not show: a JSON object in UTF-8, not a "no"."""
    try:
        content.decode()
    except UnicodeDecodeError:
        raise msgspec.DecodeError("not UTF-8") from None
    if is_nested(content):
        raise msgspec.DecodeError("nested beyond reason")
    said = _decode(_detail.decode, replace_lone_surrogates(content, REPLACEMENT))
    if not said.success or said.error is True:
        raise msgspec.ValidationError("success is not true")


def refusal(content: bytes) -> Refusal | None:
    """The service's no, when the body is one. Contract: "Errors"."""
    try:
        said = _decode(_refusal.decode, replace_lone_surrogates(content))
    except msgspec.DecodeError:
        return None
    if said.success is not False and said.error is not True:
        return None
    status = said.status_code if type(said.status_code) is int else None
    return Refusal(status, said.error_code if isinstance(said.error_code, str) else "")


_auth = msgspec.json.Decoder(_AuthEnvelope)
_detail = msgspec.json.Decoder(_Detail)
_refusal = msgspec.json.Decoder(_Refusal)


def _envelope(data: Any) -> Any:
    return msgspec.defstruct("Envelope", [("success", bool), ("data", data), ("pagination", Pagination)], gc=False)


def _decode(decode: Callable[[bytes], Any], content: bytes) -> Any:
    """Decode; undecodable or over-nested bodies are malformed."""
    try:
        return decode(content)
    except UNREADABLE:
        raise msgspec.DecodeError("not the contract's") from None
