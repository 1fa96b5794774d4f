"""One reading of a record's id: the walk, which proves a set by ids, and flattening, which files rows under ids."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.json import encode

from rollbook.landing.manifest import LandedBody
from rollbook.landing.records import replace_lone_surrogates
from rollbook.source.envelope import page_of
from rollbook.tables import SETS
from tests.support.flattening import flatten
from tests.support.nights import Expected, House, night
from tests.support.records import classes, school_class, student, students
from tests.support.tiers import daily
from tests.support.wire.service import Asked, Reply

pytestmark = pytest.mark.nights

GOOD = {"students": student, "classes": school_class}


def landed_as(set_name: str, body: bytes) -> LandedBody:
    """The page as flattening receives it: as out of raw/."""
    return LandedBody(set=set_name, kind="walk", page=1, content=replace_lone_surrogates(body))


def by_the_walk(set_name: str, body: bytes) -> list[int | None]:
    """The id of each record, in order."""
    return page_of(SETS[set_name])(body).ids


def by_flattening(set_name: str, body: bytes) -> list[int | None]:
    """The id of each record, stated or refused; records without an id last."""
    (batch,) = flatten(set_name, [landed_as(set_name, body)])
    observed = batch.tables["observed"].to_pylist()
    placed = {row["seq"]: row["id"] for row in observed if row["table_name"] is None}
    rejected = [r.id for r in batch.rejects if r.id is not None]
    assert sorted(rejected) == sorted(r["id"] for r in observed if r["state"] == "rejected")
    ids = [placed[seq] for seq in sorted(placed)]
    return [*ids, *[None] * (batch.records - len(ids))]


def in_order(ids: list[int | None]) -> list[int]:
    return sorted(i for i in ids if i is not None)


def page(*records: bytes) -> bytes:
    pagination = b'"pagination": {"page": 1, "limit": 100, "total_count": %d, "total_pages": 1}' % len(records)
    return b'{"success": true, "data": [%s], %s}' % (b", ".join(records), pagination)


# --- the property ----------------------------------------------------------------------------------------------------

# Values in writing: texts with escapes good and bad, whole and half surrogate pairs, bytes that are not UTF-8; numbers
# at and beyond every bound; nesting without end.
TEXTS = [
    b"a",
    "\u00e9\U0001f44d".encode(),
    rb"\u0069",
    rb"\"",
    rb"\\ud83d",
    rb"\ud83d\udc4d",
    rb"\ud83d",
    b"\xff",
    b"\xc3",
]
NUMBERS = [
    *(b"0", b"-0", b"1", b"5", b"-7", b"5.0", b"5.5", b"5e0", b"50e-1", b"-5.0", b"0.99999999999999999999"),
    *(b"9007199254740991.0", b"9007199254740992.0", b"9007199254740993", b"9223372036854775807"),
    *(b"9223372036854775808", b"18446744073709551616", b"1e16", b"1e308", b"1e400", b"9" * 5000),
]
DEEP = [b"[" * n + b"]" * n for n in (10, 62, 63, 64, 65, 66, 200, 900, 1100, 5000)]
texts = st.lists(st.sampled_from(TEXTS), max_size=3).map(lambda pieces: b'"%s"' % b"".join(pieces))
scalars = st.sampled_from([b"null", b"true", *NUMBERS, *DEEP]) | texts
keys = st.sampled_from([b"id", b"class_id", rb"\u0069d", rb"i\ud83d", b"\xff", b"name", b"ID", b""])


def objects(values: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """JSON objects with such values, in any order, any field twice."""
    fields = st.lists(st.tuples(keys, values).map(lambda field: b'"%s": %s' % field), max_size=6)
    return fields.map(lambda written: b"{%s}" % b",".join(written))


values = st.recursive(scalars, lambda v: objects(v) | v.map(lambda one: b"[%s]" % one), max_leaves=6)


@st.composite
def pages(draw: st.DrawFn) -> tuple[str, list[bytes]]:
    """Any JSON, or good records with some of their fields doubled or added, the id above all."""
    set_name = draw(st.sampled_from(sorted(GOOD)))
    odd = st.lists(st.tuples(keys | st.just(SETS[set_name].id_field.encode()), values), max_size=3)
    spoilt = odd.map(
        lambda fields: b"{%s}" % b",".join([encode(GOOD[set_name](7))[1:-1], *(b'"%s":%s' % f for f in fields)])
    )
    return set_name, draw(st.lists(values | spoilt, max_size=5))


@pytest.mark.slow
@settings(max_examples=600)
@given(pages())
@example(
    (
        "students",
        [encode(student(1)), encode(student(2)).replace(b'"id":2', b'"id":5.0').replace(b"Pupil N", rb"\ud83d")],
    )
)
@example(("students", [encode(student(1)), b'{"id":7,"deep":%s}' % (b"[" * 3000 + b"]" * 3000)]))
@example(("students", [b'{"id":7,"deep":%s}' % (b"[" * n + b"]" * n) for n in (62, 63, 64, 65, 900, 985)]))
@example(("classes", [encode(school_class(1)), b'{"class_id":"x","class_id":6.0,"name":"\xff"}']))
def test_the_walk_and_flattening_read_the_same_ids(made: tuple[str, list[bytes]]) -> None:
    set_name, listed = made
    body = page(encode(GOOD[set_name](99)), *listed)
    walked = by_the_walk(set_name, body)
    assert walked[0] == 99
    assert len(walked) == 1 + len(listed)
    flattened = by_flattening(set_name, body)
    assert (in_order(flattened), len(flattened)) == (in_order(walked), len(walked))


# --- three nights ----------------------------------------------------------------------------------------------------


def as_a_float_with_half_an_emoji(request: Asked, reply: Reply) -> Reply:
    body, matches = re.subn(
        rb'"id":5,(.*?)"name":"Pupil Number5"', rb'"id":5.0,\1"name":"Pupil \\ud83d"', reply.content()
    )
    assert matches == 1
    return Reply(body=body)


def test_half_an_emoji_costs_one_record_whose_id_stays_known(one_class: House) -> None:
    """A name that was cut in the middle of a surrogate pair is JSON, but not text; and a record must have a name."""
    one_class.night(1, students(9))
    expected = Expected().night(1, students(9), classes(1))
    for number in (2, 3):
        one_class.service.on(as_a_float_with_half_an_emoji, path="students")
        one_class.at(number).sync()
        expected.night(number, students(9), classes(1), refused=[5])
        assert one_class.tables() == expected.tables()
    one_class.at(4).sync()
    assert one_class.tables() == expected.night(4, students(9), classes(1)).tables()
    assert one_class.query("SELECT DISTINCT change FROM changes") == [("added",)]
    rejects = one_class.query(
        "SELECT snapshot_date, id, reason = 'name: expected str, got null' FROM ops.rejects ORDER BY 1"
    )
    assert rejects == [(night(2), 5, True), (night(3), 5, True)]
    assert one_class.query("SELECT outcome, proven FROM ops.syncs") == [("synced", True)] * 4


@pytest.mark.parametrize("depth", daily([100, 980, 5000], 980))
def test_a_record_nested_without_end_costs_one_record_and_no_night(one_class: House, depth: int) -> None:
    one_class.night(1, students(9))
    deep = b'"id":5,"deep":%s,' % (b"[" * depth + b"]" * depth)
    one_class.service.on(
        lambda request, reply: Reply(body=reply.content().replace(b'"id":5,', deep).replace(b"Number5", b"Renamed")),
        path="students",
    )
    one_class.at(2).sync()
    expected = Expected().night(1, students(9), classes(1)).night(2, students(9), classes(1), refused=[5])
    assert one_class.tables() == expected.tables()
    assert one_class.query("SELECT id, reason FROM ops.rejects") == [(5, "it is nested more than 64 levels deep")]
