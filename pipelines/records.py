"""Reading records as JSON, as far as the walk and flattening must agree: which record is which, and what is readable.

The walk proves a set by its records' ids, and flattening files rows under them. Were there two readings of an id, a
record that only one of them can read would count as shown and yet be nowhere: the next night that both can read it
would tell of a return, and the one before of a removal. So there is one, here, where both may import it. What a page or
a record must look like otherwise is for `source.envelope` and `flatten.shapes`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated, Any

import msgspec

MAX_ID = 2**63 - 1
# Integers and floats agree exactly up to here, so an integral float below it is an integer without loss.
EXACT_FLOAT = 2**53
# The contract's records are four levels deep. A parser's own limit depends on how deep its caller stands, so that one
# night could read what another cannot; this one is far below it.
NESTED_MOST = 64
# Characters. Names have a hundred, URLs a few thousand. One of fifty million is more than the warehouse can hold in
# memory to compare, and would fail every night: it costs its record instead.
TEXT_MOST = 2**16
# What takes the place of what cannot be read: bytes that no text holds, or the character for "not readable".
NO_TEXT = b"\xed\xa0\x80"
REPLACEMENT = rb"\ufffd"

# What reading JSON may raise. Bytes that are no UTF-8 are noticed only where text is made of them.
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

Id = Annotated[int, msgspec.Meta(ge=1, le=MAX_ID)]

_SURROGATE_HINT = re.compile(rb"\\u[dD][89a-fA-F]")
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a whole pair
    rb"|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})"
    rb"|.)",
    re.DOTALL,
)
# A string, which may hold brackets, or a bracket. A string that never ends goes to the end of the body.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[{\]}]', re.DOTALL)


def whole(value: object) -> int | None:
    """An integer, or a float that is one without loss (the contract's numbers come from many hands)."""
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer() and abs(value) < EXACT_FLOAT:
        return int(value)
    return None


def as_id(value: object) -> int | None:
    """A positive 64-bit integer, which an id is; None for anything else."""
    found = whole(value)
    return found if found is not None and 1 <= found <= MAX_ID else None


@cache
def id_reader(path: Sequence[str]) -> Callable[[bytes], int | None]:
    """The reading of the id at `path` in a record's JSON, whatever else is wrong with the record.

    Of a field that comes twice the last counts, as in all of JSON here.
    """
    kind: Any = Any
    for step in reversed(path):
        kind = msgspec.defstruct("Only", [(step, kind, None)], gc=False)
    decoder = msgspec.json.Decoder(kind)

    def read(record: bytes) -> int | None:
        try:
            found = decoder.decode(shallow(record))
        except UNREADABLE:
            return None
        for step in path:
            found = getattr(found, step, None)
        return as_id(found)

    return read


def split(decoder: msgspec.json.Decoder[Any], content: bytes) -> Any:
    """Decode a page by a type that leaves its records as JSON. What is nested without end costs its record alone.

    Raises one of UNREADABLE.
    """
    try:
        return decoder.decode(content)
    except RecursionError:
        return decoder.decode(shallow(content, 2 * NESTED_MOST))  # deep enough still for the record to be refused


def is_nested(record: bytes) -> bool:
    """Whether a record is nested deeper than any may be."""
    return shallow(record) is not record


def shallow(content: bytes, most: int = NESTED_MOST) -> bytes:
    """The JSON with whatever lies deeper than so many levels replaced by what no text is; itself where nothing does."""
    if content.count(b"[") + content.count(b"{") <= most:
        return content
    depth, kept, pieces = 0, 0, []
    for token in _TOKEN.finditer(content):
        if token[0] in (b"[", b"{"):
            depth += 1
            if depth == most + 1:
                pieces.append(content[kept : token.start()])
                kept = len(content)
        elif token[0] in (b"]", b"}"):
            if depth == most + 1:
                pieces.append(b'"%s"' % NO_TEXT)
                kept = token.end()
            depth -= 1
    return b"".join((*pieces, content[kept:])) if pieces else content


def replace_lone_surrogates(content: bytes, mark: bytes = NO_TEXT) -> bytes:
    r"""The body with each lone surrogate escape replaced: by bytes that are no UTF-8, or by another `mark`.

    A service that cuts a name in the middle of an emoji writes ``"\ud83d"``, which is JSON's grammar but no text.
    msgspec gives up on the whole body there; after this, only on the record that holds it (G9).
    """
    if _SURROGATE_HINT.search(content) is None:
        return content
    return _ESCAPE.sub(lambda found: mark if found["lone"] else found[0], content)


def make_readable(content: bytes) -> bytes:
    """The auth check's body with whatever in it is no text replaced: it has one record, and no night may hang on it."""
    return replace_lone_surrogates(shallow(content).decode(errors="replace").encode(), REPLACEMENT)
