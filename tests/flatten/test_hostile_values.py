"""A hundred hostile values, each with the value that must be stored, refused or kept (G6, G9).

Each line is one field of a record as a service might write it, and what becomes of it. The record holds nothing else
that is odd, and two healthy records lie on the same page.
"""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest

from rollbook.flatten.rows import Flattener
from rollbook.flatten.values import CONFLICT
from rollbook.landing.manifest import LandedBody
from rollbook.source.envelope import page_of
from rollbook.tables import SETS, TABLES
from tests.support.records import school_class, student

ENTRY = '{"class_id": 501, "class_title": "Algebra 1", "course_name": "Algebra"}'
UNREADABLE_ENTRY = "an entry that cannot be read, so the list is not stated"


class Refused(str):
    """The value is NULL, and refused for this reason; everything else in the record counts."""


class RecordRefused(str):
    """The whole record is refused, for a reason that begins so."""


NOT_STATED, NONE = object(), None

# The table and column, the field as JSON writes it, and what is stored.
VALUES: list[tuple[str, str, Any]] = [
    # --- texts: one form
    ("students.first_name", '"Ana"', "Ana"),
    ("students.first_name", '"Ana "', "Ana"),
    ("students.first_name", r'"\tAna\n"', "Ana"),
    ("students.first_name", '"\u00a0Ana\u2003"', "Ana"),
    ("students.first_name", '"Jose\u0301"', "Jos\u00e9"),
    ("students.first_name", '"Jos\u00e9"', "Jos\u00e9"),
    ("students.first_name", '"\ufb01ona"', "\ufb01ona"),  # NFC keeps a ligature, which NFKC would not
    # HTML's character references, as PHP writes them: once, or once more on the way out.
    ("students.last_name", '"O&#039;Brien"', "O'Brien"),
    ("students.last_name", '"O&amp;#39;Brien"', "O'Brien"),
    ("students.last_name", '"Mu&ntilde;oz"', "Mu\u00f1oz"),
    ("students.last_name", '"Mun&#x303;oz"', "Mu\u00f1oz"),
    ("students.last_name", '"Smith &amp; Jones"', "Smith & Jones"),
    ("students.last_name", '"Smith & Jones"', "Smith & Jones"),
    ("students.last_name", '"AT&T;"', "AT&T;"),
    ("students.last_name", '"Math&notes;"', "Math&notes;"),
    ("students.last_name", '"&nbsp;"', NONE),
    ("students.name", '"&nbsp;"', "&nbsp;"),  # a blank would cost the record
    ("students.profile_image", '"https://example.com/p?id=1&amp;copy=2"', "https://example.com/p?id=1&copy=2"),
    ("classes.class_title", '"Arts &amp; Crafts"', "Arts & Crafts"),
    ("students.first_name", '""', NONE),
    ("students.first_name", '"   "', NONE),
    ("students.first_name", "null", NONE),
    ("students.first_name", '"null"', "null"),
    ("students.first_name", '"0"', "0"),
    ("students.first_name", '"Ana  Maria"', "Ana  Maria"),
    ("students.first_name", '"A\tB"', "A\tB"),  # a raw tab, which JSON does not allow
    ("students.first_name", '"A\nB"', "A\nB"),
    ("students.first_name", '"A\x00B"', "A\x00B"),
    ("students.first_name", '"\U0001f600"', "\U0001f600"),
    ("students.first_name", r'"\ud83d\ude00"', "\U0001f600"),
    ("students.first_name", r'"A\ud83d"', Refused("not a text")),  # half an emoji
    ("students.first_name", r'"A\xB"', Refused("not a text")),  # an invalid escape
    ("students.first_name", "NaN", NONE),
    ("students.first_name", "undefined", NONE),
    ("students.first_name", '"N/A"', "N/A"),
    ("students.first_name", "true", Refused("not a text")),
    ("students.first_name", "false", NONE),
    ("students.first_name", "1.5", Refused("not a text")),
    ("students.first_name", "[]", Refused("not a text")),
    ("students.first_name", "{}", Refused("not a text")),
    ("students.first_name", json.dumps("x" * 70_000), Refused("too long")),
    ("students.reference_id", "4711", "4711"),
    ("students.reference_id", '"004711"', "004711"),
    ("students.reference_id", "004711", "004711"),
    ("students.email", '" ana@school.example"', "ana@school.example"),
    ("students.email", "null", NONE),
    ("students.email", "7.5", Refused("not a text")),
    ("classes.class_room", "12", "12"),
    ("classes.teacher_name", '"Terry\u0020"', "Terry"),
    # --- what a record must have
    ("students.name", "null", RecordRefused("name: expected str, got null")),
    ("students.name", '""', RecordRefused("name: expected str, got null")),
    ("students.name", '"\u2003"', RecordRefused("name: expected str, got null")),
    ("students.name", "NaN", RecordRefused("name: expected str, got null")),
    ("students.name", '" Ana"', "Ana"),
    ("students.name", "12", "12"),
    ("classes.class_title", "null", RecordRefused("class_title: expected str, got null")),
    ("classes.class_title", '"7b"', "7b"),
    ("students.student_id", '"7"', 7),
    ("students.student_id", "7.0", 7),
    ("students.student_id", '" 7 "', 7),
    ("students.student_id", "007", 7),
    ("students.student_id", "7.", 7),
    ("students.student_id", "+7", 7),
    ("students.student_id", "-07", RecordRefused("id: ")),
    ("students.student_id", "0", RecordRefused("id: ")),
    ("students.student_id", "-7", RecordRefused("id: ")),
    ("students.student_id", "7.5", RecordRefused("id: ")),
    ("students.student_id", '"seven"', RecordRefused("id: ")),
    ("students.student_id", "null", RecordRefused("id: ")),
    ("students.student_id", "9223372036854775808", RecordRefused("id: ")),
    ("students.student_id", "NaN", RecordRefused("id: ")),
    # --- dates
    ("students.registration_date", '"2025-09-01"', date(2025, 9, 1)),
    ("students.registration_date", '" 2025-09-01 "', date(2025, 9, 1)),
    ("students.registration_date", '"2025-09-01T00:00:00Z"', date(2025, 9, 1)),
    ("students.registration_date", '"2025-09-01 23:59:59.999"', date(2025, 9, 1)),
    ("students.registration_date", '"2025-09-01T08:00:00+02:00"', date(2025, 9, 1)),
    ("students.registration_date", '""', NONE),
    ("students.registration_date", '"0000-00-00"', NONE),
    ("students.registration_date", '"0000-00-00 00:00:00"', NONE),
    ("students.registration_date", '"-0001-11-30T00:00:00.000000Z"', NONE),
    ("students.registration_date", '{"date": "-0001-11-30 00:00:00.000000", "timezone_type": 3}', NONE),
    ("students.registration_date", '"0001-01-01"', NONE),
    ("students.registration_date", '"0001-01-01T00:00:00"', NONE),
    ("students.registration_date", '"1970-01-01"', NONE),
    ("students.registration_date", '"1970-01-01T00:00:00Z"', NONE),
    ("students.registration_date", '"1969-12-31"', NONE),
    ("students.registration_date", '"1900-01-01 00:00:00"', NONE),
    ("students.registration_date", '"1899-12-30T00:00:00"', NONE),
    ("students.registration_date", '"1753-01-01"', NONE),
    ("students.registration_date", "null", NONE),
    ("students.registration_date", "false", NONE),
    (
        "students.registration_date",
        '{"date": "2025-09-01 00:00:00.000000", "timezone_type": 3, "timezone": "UTC"}',
        date(2025, 9, 1),
    ),
    ("students.registration_date", '{"year": 2025}', Refused("not a date")),
    ("students.registration_date", '"Never"', NONE),
    ("students.registration_date", '"null"', NONE),
    ("students.registration_date", '"01.09.2025"', date(2025, 9, 1)),
    ("students.registration_date", '"1.9.2025 08:00"', date(2025, 9, 1)),
    ("students.registration_date", '"1.13.2025"', Refused("not a date")),
    ("students.registration_date", '"2025/09/01"', date(2025, 9, 1)),
    ("students.registration_date", '"09/01/2025"', Refused("not a date")),
    ("students.registration_date", '"2025-02-30"', Refused("not a date")),
    ("students.registration_date", '"2025-9-1"', date(2025, 9, 1)),
    ("students.registration_date", '"2025-09-01x"', Refused("not a date")),
    ("students.registration_date", '"20250901"', Refused("not a date")),
    ("students.registration_date", "1756684800", Refused("not a date")),
    # --- whole numbers
    ("student_summaries.total_assignments", "12", 12),
    ("student_summaries.total_assignments", '"12"', 12),
    ("student_summaries.total_assignments", "12.0", 12),
    ("student_summaries.total_assignments", '"12.0"', 12),
    ("student_summaries.total_assignments", "12.5", Refused("not a whole number")),
    ("student_summaries.total_assignments", '"12,5"', Refused("not a whole number")),
    ("student_summaries.total_assignments", '"a dozen"', Refused("not a whole number")),
    ("student_summaries.total_assignments", "true", Refused("not a whole number")),
    ("student_summaries.total_assignments", "1795649761000", Refused("out of range")),
    ("student_summaries.total_assignments", "1" * 60, Refused("out of range")),
    ("student_summaries.total_assignments", '""', NONE),
    ("student_summaries.total_assignments", "070", 70),
    ("student_summaries.total_assignments", "-012", -12),
    ("student_summaries.total_assignments", "+12", 12),
    ("student_summaries.total_assignments", "undefined", NONE),
    ("student_summaries.total_assignments", "None", NONE),
    ("student_summaries.total_assignments", "Infinity", Refused("not a whole number")),
    ("students.is_registered", "null", NONE),
    ("students.is_registered", "True", 1),
    ("students.is_registered", "true", 1),
    ("classes.class_status", "false", 0),
    ("classes.class_status", '"t"', 1),
    ("classes.class_status", '"1"', 1),
    ("classes.class_status", '"Active"', 1),
    ("classes.class_status", '"inactive"', 0),
    ("classes.class_status", '"open"', Refused("not a whole number")),
    ("student_summaries.total_assignments", "false", NONE),
    ("classes.teacher_id", '"9"', 9),
    ("classes.teacher_id", "0", NONE),
    ("classes.teacher_id", '"0"', NONE),
    ("classes.teacher_id", "false", NONE),
    ("classes.teacher_id", "-1", Refused("out of range")),
    ("classes.class_id", "0", RecordRefused("class_id: ")),
    # --- other numbers
    ("student_summaries.average_score", "81.5", 81.5),
    ("student_summaries.average_score", "104.5", 104.5),
    ("student_summaries.average_score", ".5", 0.5),
    ("student_summaries.average_score", "081.50", 81.5),
    ("student_summaries.average_score", "81.", 81.0),
    ("student_summaries.average_score", "66.67000000000002", 66.67),
    ("student_summaries.average_score", "66.67", 66.67),
    ("student_summaries.average_score", '"66.67"', 66.67),
    ("student_summaries.average_score", '"66,67"', 66.67),
    ("student_summaries.average_score", '"66,667"', Refused("not a number")),  # or sixty thousand
    ("student_summaries.total_time_minutes", '"1,234.50"', 1234.5),
    ("student_summaries.total_time_minutes", '"1,234,567"', 1234567.0),
    ("student_summaries.total_time_minutes", '"1.234,50"', 1234.5),
    ("student_summaries.total_time_minutes", '"1.234.567"', 1234567.0),
    ("student_summaries.total_time_minutes", '"1 234,567"', 1234.567),
    ("student_summaries.total_time_minutes", '"1\\u202f234"', 1234.0),
    ("student_summaries.total_time_minutes", '"1\\u00a0234,5"', 1234.5),
    ("student_summaries.total_time_minutes", '"-12\'345.60"', -12345.6),
    ("student_summaries.total_time_minutes", '"1.234"', 1.234),
    ("student_summaries.total_time_minutes", '"1,234"', Refused("not a number")),
    ("student_summaries.total_time_minutes", '"1,23,456.5"', Refused("not a number")),
    ("student_summaries.total_time_minutes", '"1 23"', Refused("not a number")),
    ("student_summaries.total_time_minutes", '"1.234 567"', Refused("not a number")),
    ("student_summaries.total_time_minutes", '"1,234,5"', Refused("not a number")),
    ("student_summaries.total_assignments", '"1,234"', 1234),
    ("student_summaries.total_assignments", '"1 234"', 1234),
    ("student_summaries.total_assignments", '"1.234.567"', 1234567),
    ("student_summaries.total_assignments", '"1.234"', Refused("not a whole number")),
    ("student_summaries.total_assignments", '"12,0"', 12),
    ("student_summaries.average_score", '"66.67 %"', 66.67),
    ("student_summaries.completion_rate", '"85%"', 85.0),
    ("student_summaries.total_time_minutes", '"85%"', Refused("not a number")),
    ("student_summaries.average_score", "-1", Refused("negative")),
    ("student_summaries.average_score", "1e999", Refused("out of range")),
    ("student_summaries.average_score", "NaN", NONE),
    ("student_summaries.average_score", "-NaN", NONE),
    ("student_summaries.average_score", '"NaN"', NONE),
    ("student_summaries.average_score", '"N/A"', NONE),
    ("student_summaries.average_score", '" - "', NONE),
    ("student_summaries.average_score", '"none yet"', Refused("not a number")),
    ("student_summaries.average_score", "-Infinity", Refused("not a number")),
    ("student_summaries.average_score", "0", 0.0),
    ("student_summaries.average_score", "-0.0", 0.0),
    ("student_summaries.completion_rate", "100.00000000000001", 100.0),
    ("student_summaries.completion_rate", "33.3333333333", 33.3333333),
    ("student_summaries.total_time_minutes", "-15", -15.0),
    ("student_summaries.total_time_minutes", "123456789.123", 123456789.0),
    ("student_summaries.total_time_minutes", "1234567891.6", 1234567890.0),
    ("student_summaries.total_time_minutes", "0.000123456789123", 0.000123456789),
    ("student_summaries.total_time_minutes", '"1e3"', 1000.0),
    # --- truth values
    ("student_activity.has_ever_logged_in", "true", True),
    ("student_activity.has_ever_logged_in", "1", True),
    ("student_activity.has_ever_logged_in", '"0"', False),
    ("student_activity.has_ever_logged_in", '"True"', True),
    ("student_activity.has_ever_logged_in", "2", Refused("not true or false")),
    ("student_activity.has_ever_logged_in", '"yes"', True),
    ("student_activity.has_ever_logged_in", '"f"', False),
    ("student_activity.has_ever_logged_in", '"inactive"', Refused("not true or false")),
    ("student_activity.has_ever_logged_in", '"maybe"', Refused("not true or false")),
    ("student_activity.has_ever_logged_in", "1.0", Refused("not true or false")),
]

# The field with an object or a list, as JSON writes it; and the rows of its table, or a refusal.
OBJECTS: list[tuple[str, str, Any]] = [
    ("student_summaries.summary", "[]", NOT_STATED),
    ("student_summaries.summary", "null", NOT_STATED),
    ("student_summaries.summary", "{}", [(7, *[None] * 8)]),
    ("student_summaries.summary", '"none"', Refused("not an object")),
    ("student_summaries.summary", "[1]", Refused("not an object")),
    ("student_summaries.summary", "NaN", Refused("not an object")),
    ("student_summaries.summary", "0", Refused("not an object")),
    ("student_activity.activity_tracking", "[]", NOT_STATED),
    ("student_activity.activity_tracking", "false", NOT_STATED),
    ("student_activity.activity_tracking", "true", Refused("not an object")),
    ("class_summaries.summary", "[]", NOT_STATED),
    ("class_assignment_activity.assignment_activity", "[]", NOT_STATED),
    ("class_assignment_activity.assignment_activity", "7", Refused("not an object")),
    ("student_classes.classes", "[]", []),
    ("student_classes.classes", "{}", []),
    ("student_classes.classes", f'{{"1": {ENTRY}}}', [(7, 501, "Algebra 1", "Algebra")]),
    ("student_classes.classes", f'{{"1": {ENTRY}, "x": {ENTRY}}}', Refused("not a list")),
    ("student_classes.classes", '{"1": null}', Refused(UNREADABLE_ENTRY)),
    ("student_classes.classes", "false", Refused("not a list")),
    ("student_classes.classes", "null", NOT_STATED),
    ("student_classes.classes", '"501"', Refused("not a list")),
    ("student_classes.classes", ENTRY, Refused("not a list")),
    ("student_classes.classes", f"[{ENTRY}, {ENTRY}]", [(7, 501, "Algebra 1", "Algebra")]),
    ("student_classes.classes", f'[{ENTRY}, {ENTRY.replace("501", chr(34) + "501" + chr(34))}]', [(7, 501, "Algebra 1", "Algebra")]),
    ("student_classes.classes", f"[{ENTRY}, null]", Refused(UNREADABLE_ENTRY)),
    ("student_classes.classes", f"[{ENTRY}, []]", Refused(UNREADABLE_ENTRY)),
    ("student_classes.classes", f'[{ENTRY}, {{"class_title": "B"}}]', Refused(UNREADABLE_ENTRY)),
    ("student_classes.classes", f'[{ENTRY}, {{"class_id": "B"}}]', Refused(UNREADABLE_ENTRY)),
    ("student_classes.classes", f"[{ENTRY}, NaN]", Refused(UNREADABLE_ENTRY)),
    ("student_classes.classes", '[{"class_id": 5}]', [(7, 5, None, None)]),
]  # fmt: skip


def read(name: str, field: str, text: str, *, odd: bool) -> tuple[Flattener, Any]:
    """Flatten a page with the record between two healthy ones; `odd` makes the page be read record by record."""
    table, column = name.split(".")
    set_name = TABLES[table].set
    make = student if set_name == "students" else school_class
    healthy = [json.dumps(make(i, **({"undeclared": 1} if odd else {}))) for i in (1, 3)]
    record, whole = make(7), TABLES[table]
    path = (
        (whole.field, *next((c.path for c in whole.columns if c.name == column), ())) if field == "value" else (column,)
    )
    inner = record
    for step in (p for p in path[:-1] if p):
        inner = inner[step]
    inner[path[-1]] = "rollbook.@"
    between = json.dumps(record).replace('"rollbook.@"', text)
    pagination = '"pagination": {"page": 1, "limit": 100, "total_count": 3, "total_pages": 1}'
    content = f'{{"success": true, "data": [{healthy[0]}, {between}, {healthy[1]}], {pagination}}}'.encode()
    flattener = Flattener(set_name)
    flattener.add(LandedBody(set_name, "walk", 1, content))
    return flattener, page_of(SETS[set_name])(content)


def rows(batch: Any, table: str) -> list[tuple[Any, ...]]:
    return [tuple(r[c.name] for c in TABLES[table].columns) for r in batch.tables[table].to_pylist()]


@pytest.mark.parametrize("odd", [False, True], ids=["fast", "slow"])
@pytest.mark.parametrize(("name", "text", "expected"), VALUES, ids=lambda v: None if isinstance(v, str) else "")
def test_a_value_is_stored_refused_or_costs_its_record(name: str, text: str, expected: Any, odd: bool) -> None:
    flattener, listed = read(name, "value", text, odd=odd)
    batch, (table, column) = flattener.last(), name.split(".")
    own = TABLES[table].columns[0].name
    records = [r for r in rows(batch, table) if r[0] not in (1, 3)]
    if isinstance(expected, RecordRefused):
        assert records == []
        (reject,) = batch.rejects
        assert (reject.column, reject.position, reject.id) == ("", 2, listed.ids[1])
        assert reject.reason.startswith(expected)
        return
    (row,) = records
    stored = dict(zip((c.name for c in TABLES[table].columns), row, strict=True))
    assert listed.ids[1] == stored[own] == 7
    assert stored[column] == (None if isinstance(expected, Refused) else expected)
    refused = [(r.id, r.position, f"{r.table}.{r.column}", r.reason, r.record) for r in batch.rejects]
    assert refused == ([(7, 2, name, str(expected), "")] if isinstance(expected, Refused) else [])


@pytest.mark.parametrize(("name", "text", "expected"), OBJECTS)
def test_an_object_that_cannot_be_read_is_not_stated(name: str, text: str, expected: Any) -> None:
    flattener, listed = read(name, "object", text, odd=False)
    batch, (table, field) = flattener.last(), name.split(".")
    assert listed.ids == [1, 7, 3]
    observed = [(r["id"], r["state"], r["table_name"]) for r in batch.tables["observed"].to_pylist()]
    is_stated = isinstance(expected, list)
    assert ((7, "not_stated", table) in observed) is not is_stated
    assert (7, "stated", None) in observed
    assert [r for r in rows(batch, table) if r[0] == 7] == (expected if is_stated else [])
    refused = [(r.id, r.table, r.column, r.reason) for r in batch.rejects]
    key = "class_id" if expected == UNREADABLE_ENTRY else field
    assert refused == ([(7, table, key, str(expected))] if isinstance(expected, Refused) else [])


def test_of_two_entries_of_a_class_the_last_counts() -> None:
    second = ENTRY.replace("Algebra 1", "Algebra 2")
    flattener, _ = read("student_classes.classes", "object", f"[{ENTRY}, {second}]", odd=False)
    batch = flattener.last()
    assert [r for r in rows(batch, "student_classes") if r[0] == 7] == [(7, 501, "Algebra 2", "Algebra")]
    assert [(r.table, r.column, r.reason) for r in batch.rejects] == [("student_classes", "class_id", CONFLICT)]


def test_there_are_a_hundred() -> None:
    assert len(VALUES) + len(OBJECTS) >= 100
