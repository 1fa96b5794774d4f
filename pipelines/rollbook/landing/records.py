"""Reads the parts of a JSON record on which the walk and flattening must agree: the id, and whether the record is
readable (G9).

The walk proves a set by the records' ids, and flattening stores rows under the same ids. If the two read ids
differently, a record that only the walk can read would be listed without rows, and be reported as removed, then as
returned. `source.envelope` checks pages, `flatten.rows` records.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from html.entities import html5
from typing import Annotated, Any, TypeVar

import msgspec

MAX_ID = 2**63 - 1
# Counts and minutes lie between the limit and the negative. A larger count, for instance a time in milliseconds, is a
# mistake at the service: the value is refused. Within the limit, no sum or difference over all records leaves the type.
MAX_NUMBER = 10**11
# Floats represent every integer up to here exactly, so a smaller integral float converts without loss.
EXACT_FLOAT = 2**53
# The contract's records are four levels deep. A parser's own limit depends on the stack at the call, so a record could
# be readable on one night only; our limit is far below the parser's.
MAX_DEPTH = 64
# Characters. Names have a hundred, URLs a few thousand. Comparing a text of fifty million takes more memory than the
# warehouse has and would fail every night: the record is refused instead.
MAX_TEXT = 2**16
# Replacements for unreadable parts: bytes that are never valid UTF-8, and Unicode's replacement character.
INVALID_UTF8 = b"\xed\xa0\x80"
REPLACEMENT = rb"\ufffd"

# The errors of decoding JSON. Invalid UTF-8 is noticed only when a value is decoded as text.
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

Id = Annotated[int, msgspec.Meta(ge=1, le=MAX_ID)]
# Reads past a value, to see whether it is JSON.
_SYNTAX = msgspec.json.Decoder(msgspec.Raw)
# The records of a page, each still as JSON: a list, or what PHP writes for a list.
Records = list[msgspec.Raw] | dict[str, msgspec.Raw] | None

T = TypeVar("T")

_SURROGATE_HINT = re.compile(rb"\\u[dD][89a-fA-F]")
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a pair
    rb"|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})"
    rb"|.)",
    re.DOTALL,
)
# A string, with the colon after a key; or a number that JSON does not allow.
_VALUE = re.compile(
    rb'(?P<text>"[^"\\]*+(?:\\.[^"\\]*+)*+")(?P<colon>\s*+:)?|(?<![\w.])-?(?:NaN|Infinity)(?!\w)', re.DOTALL
)
# A string; or what other languages allow: a comma behind the last value, other forms of a number, other words.
_FOREIGN = re.compile(
    rb"""(?P<text>"[^"\\]*+(?:\\.[^"\\]*+)*+")
    |(?P<comma>,)(?=\s*+[\]}])
    |(?<![\w.+-])(?:
        (?P<number>-?(?:0\d++(?:\.\d*+)?|\.\d++|\d++\.(?!\d))|\+(?:\d++(?:\.\d*+)?|\.\d++))(?![\w.])
        |(?P<word>undefined|None|N(?:ull|ULL)|T(?:rue|RUE)|F(?:alse|ALSE))(?!\w)
    )""",
    re.DOTALL | re.VERBOSE,
)
# Where the object of a page begins: at once, behind byte order marks, on a line of its own, behind a tag, or behind
# what PHP tells.
_OBJECT = re.compile(rb'(?:\A(?:\xef\xbb\xbf)*+|[\n>]|\bon line \d++)\s*+(?=\{\s*")')
# The last place where an object ends: at the end, before a line break or before a tag that opens.
_END = re.compile(rb".*\}(?=\s*+(?:\Z|<[^/])|[^\S\n]*+\n)", re.DOTALL)
_PLAIN = re.compile(rb'"[ !#-\[\]-~]*+"')
_CONTROL = re.compile(rb"[\x00-\x1f]")
_DIGITS = re.compile(r"\s*[+-]?\d{1,30}\s*", re.ASCII)
_NUMBER = re.compile(r"\s*[+-]?(?:\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})(?:[eE][+-]?\d{1,3})?\s*", re.ASCII)
# Marks between thousands (1,234.50 and 1.234,50, 1 234,5 and 1'234.5), and a comma that can only be the decimal one.
# 1,234 may be either: it is read as a whole number alone.
_GROUPED = re.compile(
    r"\s*[+-]?\d{1,3}(?P<mark>[,.' \u2019\u00a0\u202f])\d{3}(?:(?P=mark)\d{3})*"
    r"(?P<fraction>(?!(?P=mark))[.,]\d{1,30})?\s*",
    re.ASCII,
)
_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d{1,30},(?:\d{1,2}|\d{4,30})\s*", re.ASCII)
_TRUTH: dict[object, bool] = {
    **dict.fromkeys((0, "0", "false", "f", "no", "n"), False),
    **dict.fromkeys((1, "1", "true", "t", "yes", "y"), True),
}
# HTML's reference to a character: O&#039;Brien, Mu&ntilde;oz.
_REFERENCE = re.compile(r"&(?P<name>#\d{1,7};|#[xX][\da-fA-F]{1,6};|[A-Za-z]\w{1,31};)", re.ASCII)
# A string, which may hold brackets, or a bracket. An unterminated string extends to the end of the body.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[{\]}]', re.DOTALL)


def unescaped(text: str) -> str:
    """Return a text with HTML's references to characters replaced; an unknown name stays, such as `&notes;`."""
    for _ in range(2):  # PHP may escape a text when it is stored, and once more when it is shown
        text = _REFERENCE.sub(_character, text)
    return text


def _character(reference: re.Match[str]) -> str:
    name = reference["name"]
    return html.unescape(reference[0]) if name.startswith("#") else html5.get(name, reference[0])


def as_truth(value: object) -> bool | None:
    """Return a truth value, also as a number or a word; None for anything else."""
    if isinstance(value, str):
        return _TRUTH.get(value.strip().lower())
    return _TRUTH.get(value) if isinstance(value, int | float) else None


def as_number(value: object) -> int | float | None:
    """Return a number, also a number in quotes; None for anything else."""
    if isinstance(value, str):
        if (grouped := _GROUPED.fullmatch(value)) is not None:
            mark = grouped["mark"]
            if grouped["fraction"] or mark not in ",." or value.count(mark) > 1:
                return float(value.replace(mark, "").replace(",", "."))
        if _DECIMAL_COMMA.fullmatch(value):
            return float(value.replace(",", "."))
        if _NUMBER.fullmatch(value):
            return int(value) if _DIGITS.fullmatch(value) else float(value)
    return value if type(value) in (int, float) else None  # type: ignore[return-value]


def as_integer(value: object) -> int | None:
    """Return an integer, or an integral float converted without loss, also in quotes; None for anything else."""
    if isinstance(value, str) and (grouped := _GROUPED.fullmatch(value)) is not None and grouped["mark"] == ",":
        value = value.replace(",", "")
    value = as_number(value)
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer() and abs(value) < EXACT_FLOAT:
        return int(value)
    return None


def as_id(value: object) -> int | None:
    """Return the value as an id, a positive 64-bit integer; None for anything else."""
    number = as_integer(value)
    return number if number is not None and 1 <= number <= MAX_ID else None


@cache
def id_reader(path: Sequence[str]) -> Callable[[bytes], int | None]:
    """Return a function that reads the id at `path` in a record's JSON, even if the rest of the record is invalid.

    The function returns None for a record without a readable id. The last of repeated fields counts, as everywhere.
    """
    kind: Any = Any
    for step in reversed(path):
        kind = msgspec.defstruct("Only", [(step, kind, None)], gc=False)
    decoder = msgspec.json.Decoder(kind)

    def read(record: bytes) -> int | None:
        try:
            value = decoder.decode(cut_nesting(record))
        except UNREADABLE:
            return None
        for step in path:
            value = getattr(value, step, None)
        return as_id(value)

    return read


def values_of(gapped: Mapping[str, T]) -> list[T] | None:
    """Return the values of an object that stands for a list; None for any other object.

    PHP writes a list so once an entry was filtered out: {"0": …, "2": …}.
    """
    return list(gapped.values()) if all(map(str.isdecimal, gapped)) else None


def records_of(data: Records) -> list[msgspec.Raw] | None:
    """Return the records of a page as a list, which an empty page may lack; None for any other object."""
    return values_of(data or {}) if data is None or isinstance(data, dict) else data


def decode_page(decoder: msgspec.json.Decoder[Any], content: bytes) -> Any:
    """Decode a page with a decoder that leaves the records as raw JSON. Excessive nesting costs only the record.

    Raises one of UNREADABLE.
    """
    try:
        return decoder.decode(content)
    except RecursionError:
        return decoder.decode(cut_nesting(content, 2 * MAX_DEPTH))  # the record stays deep enough to be refused


def is_too_deep(record: bytes) -> bool:
    """Whether a record is nested more than MAX_DEPTH levels deep."""
    return cut_nesting(record) is not record


def cut_nesting(content: bytes, max_depth: int = MAX_DEPTH) -> bytes:
    """Replace everything deeper than `max_depth` levels by INVALID_UTF8; return `content` itself if nothing is."""
    if content.count(b"[") + content.count(b"{") <= max_depth:
        return content
    depth, position, pieces = 0, 0, []
    for token in _TOKEN.finditer(content):
        if token[0] in (b"[", b"{"):
            depth += 1
            if depth == max_depth + 1:
                pieces.append(content[position : token.start()])
                position = len(content)
        elif token[0] in (b"]", b"}"):
            if depth == max_depth + 1:
                pieces.append(b'"%s"' % INVALID_UTF8)
                position = token.end()
            depth -= 1
    return b"".join((*pieces, content[position:])) if pieces else content


def readable(content: bytes, *, in_place: bool = False) -> bytes:
    r"""Return a page that JSON does not allow as a page that JSON allows (G9).

    Whatever stands before the object or behind it (byte order marks, a warning of PHP) becomes blanks. A raw tab, line
    break or other control character in a text is escaped; `in_place`, the character becomes a blank, so that every
    other byte stays where it was. NaN, the mean of nothing, becomes a blank text, which stands for NULL. A value that
    cannot be read (Infinity, a text with an invalid escape, half an emoji or invalid UTF-8) becomes a list of the same
    length, which no column takes: so exactly that value is refused.
    """
    begin, end = _OBJECT.search(content), _END.match(content)
    if begin is not None and end is not None:
        first, last = begin.end(), end.end()
        if (content[:first] + content[last:]).strip():
            content = b" " * first + content[first:last] + b" " * (len(content) - last)

    def replaced(match: re.Match[bytes]) -> bytes:
        text, colon = match["text"], match["colon"] or b""
        if text is None:
            return b'""'.ljust(len(match[0])) if b"NaN" in match[0] else _impossible(len(match[0]))
        if _PLAIN.fullmatch(text):
            return match[0]
        escaped = _CONTROL.sub(lambda control: b"\\u%04x" % control[0][0], text)
        try:
            msgspec.json.decode(escaped, type=str)
        except UNREADABLE:
            return b'"%s"%s' % (b"?" * (len(text) - 2), colon) if colon else _impossible(len(text))
        return (_CONTROL.sub(b" ", text) if in_place else escaped) + colon

    content = _VALUE.sub(replaced, content)
    try:
        _SYNTAX.decode(content)
    except UNREADABLE:
        content = _FOREIGN.sub(partial(_as_json, in_place=in_place), content)
    return content


def _as_json(match: re.Match[bytes], *, in_place: bool) -> bytes:
    """Return what other languages allow as JSON has it."""
    if match["comma"]:
        return b" "
    if (word := match["word"]) is not None:
        return (b"null" if word[:1] in b"uN" else word.lower()).ljust(len(word))
    if (number := match["number"]) is not None:
        whole = b"0" if b"-" in number else number.strip(b"+").partition(b".")[0].lstrip(b"0") or b"0"
        return whole.rjust(len(number)) if in_place else b'"%s"' % number
    return match[0]


def _impossible(length: int) -> bytes:
    return b"[0%s]" % (b" " * (length - 3))


def replace_lone_surrogates(content: bytes, mark: bytes = INVALID_UTF8) -> bytes:
    r"""Replace each lone surrogate escape in a body by `mark`, by default bytes that are not UTF-8.

    A service that cuts a name in the middle of an emoji writes ``"\ud83d"``: valid JSON, but not valid text.
    """
    if _SURROGATE_HINT.search(content) is None:
        return content
    return _ESCAPE.sub(lambda match: mark if match["lone"] else match[0], content)


def readable_detail(content: bytes) -> bytes:
    """Return a student's details as JSON allows them; half an emoji becomes U+FFFD, and costs nothing."""
    return readable(replace_lone_surrogates(content, REPLACEMENT))


def make_readable(content: bytes) -> bytes:
    """Replace everything unreadable in the auth check's body: the body has one record, which must not fail a night."""
    content = readable(content.decode(errors="replace").encode())
    return replace_lone_surrogates(cut_nesting(content).decode(errors="replace").encode(), REPLACEMENT)
