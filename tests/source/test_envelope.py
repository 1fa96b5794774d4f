"""The contract's JSON around the records: what is accepted, what is refused, and what one odd record costs."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import msgspec
import pytest

from rollbook.source.envelope import (
    KeyOwner,
    Page,
    UnreadableError,
    detail,
    institution,
    page_of,
    refused_status,
)
from rollbook.tables import SETS

GOOD = {"page": 2, "limit": 100, "total_count": 103, "total_pages": 2, "has_next": False, "has_prev": True}
AUTH: dict[str, Any] = {
    "success": True,
    "data": {
        "authenticated": True,
        "school": {"id": 41, "name": "Made-up School", "key": "made-up"},
        "api_key_name": "nightly",
        "timestamp": "2026-11-20 02:15:00",
    },
    "message": "ok",
}


def page(data: str, **pagination: Any) -> bytes:
    return f'{{"success": true, "data": {data}, "pagination": {json.dumps(GOOD | pagination)}}}'.encode()


def auth(**over: Any) -> bytes:
    return json.dumps(AUTH | {"data": AUTH["data"] | over}).encode()


@pytest.mark.parametrize(
    ("record", "found"),
    [
        ('{"id": 7, "name": "A"}', 7),
        ('{"id": 12.0}', 12),
        ('{"id": 9223372036854775807}', 2**63 - 1),
        ('{"id": 9223372036854775808}', None),
        ('{"id": 12.5}', None),
        ('{"id": 1e300}', None),
        ('{"id": 0}', None),
        ('{"id": -4}', None),
        ('{"id": true}', None),
        ('{"id": "7"}', 7),
        ('{"id": null}', None),
        ('{"name": "no id"}', None),
        ("null", None),
        ("[7]", None),
        ('"7"', None),
        (r'{"id": 8, "name": "Anna \ud83d"}', 8),
        (r'{"id": 9, "name": "Anna \udc4d"}', 9),
        (r'{"id": 10, "name": "Anna \ud83d\udc4d"}', 10),
    ],
)
def test_an_id_is_read_from_a_record_with_other_faults(record: str, found: int | None) -> None:
    """There is a good record on either side: an odd record costs only itself."""
    read = page_of(SETS["students"])(page(f'[{{"id": 1}}, {record}, {{"id": 3}}]'))
    assert read == Page(
        number=2, limit=100, total_count=103, total_pages=2, ids=[1, found, 3], has_next=False, has_prev=True
    )


def test_deep_nesting_costs_a_record_or_the_page() -> None:
    deep = "[" * 100_000 + "]" * 100_000
    assert page_of(SETS["students"])(page('[{"id": 1, "deep": ' + deep + '}, {"id": 2}]')).ids == [1, 2]
    for read in (institution, detail):
        with pytest.raises(msgspec.DecodeError):
            read(f'{{"success": true, "data": {deep}}}'.encode())


def test_numbers_of_the_pagination_may_be_integral_floats() -> None:
    """A page count rounded up by PHP's ceil() arrives as 2.0."""
    envelope = page_of(SETS["students"])(page("[]", total_pages=2.0, total_count=103.0))
    assert envelope == Page(number=2, limit=100, total_count=103, total_pages=2, ids=[], has_next=False, has_prev=True)
    assert type(envelope.total_pages) is int


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html></html>",
        b"null",
        b"[]",
        b"{}",
        b'{"success": true}',
        b'{"success": true, "data": {}}',
        page("{}"),
        page("null"),
        page("{}", total_count=None),
        page('[{"id": 1},, {"id": 2}]'),
        page('[{"id": 0x1F}]'),
        page('{"x": {"id": 1}}'),
        page("[]").replace(b"true", b'"perhaps"', 1),
        page("[]").replace(b"true", b"false", 1),
        page("[]")[:-1],
        page("[]") + b"x",
        b"[" + page("[]") + b"]",
        b"<script>" + page("[]") + b"</script>",
    ],
)
def test_pages_that_break_the_contract_are_refused(body: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        page_of(SETS["students"])(body)


@pytest.mark.parametrize("name", ["page", "limit", "total_count", "total_pages"])
@pytest.mark.parametrize("value", [None, -1, "many", 2**63, 1.5, True, [], {}])
def test_a_count_that_cannot_be_read_is_not_stated(name: str, value: Any) -> None:
    read = page_of(SETS["students"])(page('[{"id": 1}]', **{name: value}))
    assert (read.not_stated, read.ids) == ([name], [1])


@pytest.mark.parametrize("pagination", ["", ', "pagination": null', ', "pagination": []', ', "pagination": {}'])
def test_a_page_without_a_pagination_states_no_count(pagination: str) -> None:
    read = page_of(SETS["students"])(b'{"success": true, "data": [{"id": 1}]%s}' % pagination.encode())
    assert (read.not_stated, read.ids) == (["page", "limit", "total_count", "total_pages"], [1])


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (page("[{]"), "unreadable at byte 28"),
        (b"Warning: on line 7\n" + page('[{"id": 007, "name": "\n\n"}, {]'), "unreadable at byte 74"),
        (page("[]").replace(b"data", b"items"), "its data is not a list"),
        (page("7"), "its data is missing or not as it should be"),
        (page("[]").replace(b"true", b"null", 1), "its success is not true"),
        (page(f"[{'1,' * 1000}1]"), "it has more than 1,000 records on a page"),
        (b"[]", "unreadable"),
    ],
)
def test_a_page_that_cannot_be_read_says_why_and_where(body: bytes, says: str) -> None:
    with pytest.raises(UnreadableError) as caught:
        page_of(SETS["students"])(body)
    assert str(caught.value) == says


@pytest.mark.parametrize(
    "body",
    [
        page("[]", total_count="103", page="2", limit="100", total_pages="2", has_next=0, has_prev="1"),
        b"\xef\xbb\xbf" + page("[]"),
        b'<br />\n<b>Warning</b>:  Undefined key "x" in <b>/srv/api.php</b> on line <b>{7}</b><br />\n' + page("[]"),
        page("[]")
        + b"\n<br />\n<b>Warning</b>:  Unknown: write failed: {closure}() in <b>Unknown</b> on line <b>0</b>",
        page("[]") + b"<!-- 0.31 s -->",
        page("[]").replace(b'"success": true', b'"success": "1"'),
        page("[]", total_count="103,0"),
        page("[]").replace(b"[]", b'[{"id": NaN, "name": "a\tb\n"}, {"id": 7, "x": [-Infinity, "\\x"]}]'),
        b"\xef\xbb\xbf\xef\xbb\xbf" + page("[]"),
        b"Notice: Undefined variable $x in /srv/api.php on line 7" + page("[]"),
        page('[{"id": None}, {"id": 007, "classes": [1, ], },]'),
        page('[{"id": undefined, "x": FALSE}, {"id": 7., "x": .5, "y": +5},]'),
    ],
)
def test_a_page_with_one_possible_reading_is_read_so(body: bytes) -> None:
    read = page_of(SETS["students"])(body)
    assert (read.number, read.limit, read.total_count, read.total_pages) == (2, 100, 103, 2)
    assert (read.has_next, read.has_prev) == (False, True)
    assert read.ids in ([], [None, 7])


def test_the_auth_check_states_the_keys_owner_and_the_time() -> None:
    there = datetime(2026, 11, 20, 2, 15)  # noqa: DTZ001 - the contract gives no zone
    assert institution(auth()) == KeyOwner(41, "Made-up School", there)
    for written in ("2026-11-20T02:15:00Z", "2026-11-20T02:15:00.000+02:00", "2026-11-20 02:15"):
        assert institution(auth(timestamp=written)) == KeyOwner(41, "Made-up School", there)


@pytest.mark.parametrize("name", [None, 7, True, [], {}, "N" * 100_000])
def test_a_name_that_is_not_a_text_is_left_out(name: Any) -> None:
    assert institution(auth(school={"id": 41.0, "name": name})).school_name is None
    assert institution(auth(school={"id": 41}, api_key_name=name, authenticated=None)).school_id == 41


@pytest.mark.parametrize(
    "body",
    [
        auth(school={"name": "no id"}),
        auth(school={"id": 0}),
        auth(school={"id": 41.5}),
        auth(school={"id": "forty-one"}),
        auth(school=None),
        auth(timestamp="20/11/2026 02:15"),
        auth(timestamp="2026-13-20 02:15:00"),
        auth(timestamp=None),
        auth(authenticated=False),
        auth(school=[41]),
        auth(authenticated=0),
        *(json.dumps(dict(AUTH, success=no)).encode() for no in (False, 0, "false", None, "no")),
        b'{"success": true}',
        b"not json",
    ],
)
def test_an_auth_answer_that_leaves_one_of_them_open_is_refused(body: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        institution(body)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"success": false, "message": "no", "error_code": "X"}', 0),
        (b'{"error": true, "message": "m", "status_code": 503, "error_code": "BUSY"}', 503),
        (b'{"error": true, "status_code": "401", "error_code": "AUTH_REQUIRED"}', 401),
        (b'{"error": true, "message": 5, "status_code": "403", "error_code": null}', 403),
        (b'{"error": true, "status_code": "none"}', 0),
        (b'{"success": 0}', 0),
        (b'{"error": "true", "status_code": 503}', 503),
        (b'{"error": "perhaps"}', None),
        (b'{"success": false, "message": "Rate limit exceeded"}', 429),
        (b'{"success": false, "error": "Too Many Requests"}', 429),
        (b'{"error": true, "status_code": 403, "error_code": "RATE_LIMITED"}', 429),
        (b'{"error": true, "message": "Request was throttled.", "error_code": "AUTH_REQUIRED"}', 401),
        (b'{"success": true, "message": "Rate limit exceeded"}', None),
        (b'{"success": true}', None),
        (b"[]", None),
        (b"<html>", None),
    ],
)
def test_a_no_is_read_in_either_form(body: bytes, expected: int | None) -> None:
    assert refused_status(body) == expected


@pytest.mark.parametrize(
    "body",
    [
        b'{"success": true, "data": {"id": 1}}',
        b'{"id": 1}',
        b'{"anything": [1]}',
        b'Notice: x on line 7\n{"id": 1,}',
    ],
)
def test_any_object_is_a_detail_since_the_contract_shows_no_shape(body: bytes) -> None:
    detail(body)


@pytest.mark.parametrize(
    "body", [b"[]", b"null", b"<html>", b'{"success": false}', b'{"error": true}', b'{"name": "\xff"}', b""]
)
def test_a_detail_that_is_no_object_or_a_refusal_is_refused(body: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        detail(body)
