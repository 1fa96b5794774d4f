"""The contract's JSON around the records, read as far as the walk needs it: pages, the auth check, refusals.

Everything raises `msgspec.DecodeError` for a body that is not the contract's. The records themselves stay bytes:
only their ids are read here, and checking them against the declarations is flattening's business.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Annotated, Any

import msgspec

from pipelines.landing import MAX_ID
from pipelines.tables import Set

# Integers and floats agree exactly up to here, so an integral float below it is an integer without loss.
EXACT_FLOAT = 2**53
TIMESTAMP = "%Y-%m-%d %H:%M:%S"
# What takes the place of half a surrogate pair: bytes that no text holds, or the character for "not readable".
NO_TEXT = b"\xed\xa0\x80"
REPLACEMENT = rb"\ufffd"

# What msgspec raises for a body it cannot read. Bytes that are no UTF-8 are noticed only where text is made of them.
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_Id = Annotated[int, msgspec.Meta(ge=1, le=MAX_ID)]
_SURROGATE_HINT = re.compile(rb"\\u[dD][89a-fA-F]")
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a whole pair
    rb"|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})"
    rb"|.)",
    re.DOTALL,
)


class Pagination(msgspec.Struct):
    """The contract's pagination object, as far as it is believed: `has_next` and `has_prev` are not even read."""

    page: int | float
    limit: int | float
    total_count: int | float
    total_pages: int | float

    def __post_init__(self) -> None:
        """Make integral floats integers, and refuse what counts nothing."""
        for name, least in (("page", 1), ("limit", 1), ("total_count", 0), ("total_pages", 0)):
            value = _integer(getattr(self, name))
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
    id_only = msgspec.defstruct("IdOnly", [(field, _Id)], gc=False)
    any_id = msgspec.json.Decoder(msgspec.defstruct("AnyId", [(field, Any, None)], gc=False))
    fast = msgspec.json.Decoder(_envelope(list[id_only]))  # type: ignore[valid-type]
    slow = msgspec.json.Decoder(_envelope(list[msgspec.Raw]))

    def one(raw: msgspec.Raw) -> int | None:
        try:
            found = _integer(getattr(any_id.decode(raw), field))
        except UNREADABLE:
            return None
        return found if found is not None and 1 <= found <= MAX_ID else None

    def read(content: bytes) -> Page:
        try:
            said = fast.decode(content)
            ids = [getattr(record, field) for record in said.data]
        except UNREADABLE:
            said = _decode(slow, mended(content))
            ids = [one(raw) for raw in said.data]
        if not said.success:
            raise msgspec.ValidationError("success is not true")
        p = said.pagination
        return Page(p.page, p.limit, p.total_count, p.total_pages, ids)

    return read


def institution(content: bytes) -> Institution:
    """Read the auth check's answer. Contract: "Institution (auth check result)"."""
    said = _decode(_auth, content)
    school_id = _integer(said.data.school.id)
    if not said.success or said.data.authenticated is not True:
        raise msgspec.ValidationError("success and authenticated are not both true")
    if school_id is None or not 1 <= school_id <= MAX_ID:
        raise msgspec.ValidationError("school.id is no id")
    try:
        timestamp = datetime.strptime(said.data.timestamp, TIMESTAMP)  # noqa: DTZ007 - the contract gives no zone
    except ValueError:
        raise msgspec.ValidationError("timestamp is no time") from None
    name = said.data.school.name
    return Institution(school_id, name if isinstance(name, str) else None, timestamp)


def detail(content: bytes) -> None:
    """Check the single-student answer, whose shape the contract does not show: a JSON object in UTF-8, not a "no"."""
    try:
        content.decode()
    except UnicodeDecodeError:
        raise msgspec.DecodeError("not UTF-8") from None
    said = _decode(_detail, mended(content, REPLACEMENT))
    if not said.success or said.error is True:
        raise msgspec.ValidationError("success is not true")


def refusal(content: bytes) -> Refusal | None:
    """The service's no, when the body is one. Contract: "Errors"."""
    try:
        said = _decode(_refusal, mended(content))
    except msgspec.DecodeError:
        return None
    if said.success is not False and said.error is not True:
        return None
    status = said.status_code if type(said.status_code) is int else None
    return Refusal(status, said.error_code if isinstance(said.error_code, str) else "")


def mended(content: bytes, mark: bytes = NO_TEXT) -> bytes:
    r"""The body with each lone surrogate escape replaced: by bytes that are no UTF-8, or by another `mark`.

    A service that cuts a name in the middle of an emoji writes ``"\ud83d"``, which is JSON's grammar but no text.
    msgspec gives up on the whole body there; after this, only on the record that holds it (promise 9).
    """
    if _SURROGATE_HINT.search(content) is None:
        return content
    return _ESCAPE.sub(lambda found: mark if found["lone"] else found[0], content)


_auth = msgspec.json.Decoder(_AuthEnvelope)
_detail = msgspec.json.Decoder(_Detail)
_refusal = msgspec.json.Decoder(_Refusal)


def _envelope(data: Any) -> Any:
    return msgspec.defstruct("Envelope", [("success", bool), ("data", data), ("pagination", Pagination)], gc=False)


def _decode(decoder: msgspec.json.Decoder[Any], content: bytes) -> Any:
    """Decode; what is no text, or nested beyond reason, is no more the contract's than what is no JSON."""
    try:
        return decoder.decode(content)
    except UNREADABLE:
        raise msgspec.DecodeError("not the contract's") from None


def _integer(value: object) -> int | None:
    """An integer, or a float that is one without loss (the contract's numbers come from many hands)."""
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer() and abs(value) < EXACT_FLOAT:
        return int(value)
    return None
