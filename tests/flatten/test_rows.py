"""Flattening: landed bodies in, whole rows, rejects and drift out.

The refusals of each rule are in `test_records_refused.py` and `test_records_accepted.py`.
"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any

import pytest

from rollbook.flatten.rows import Batch, schema
from rollbook.landing.manifest import LandedBody, Reject
from rollbook.tables import SETS, of_set
from tests.support.flattening import flatten, page
from tests.support.records import MISSING, school_class, student


def one(*bodies: LandedBody) -> Batch:
    (batch,) = flatten(bodies[0].set, bodies)
    return batch


def rows(batch: Batch, table: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in batch.tables[table].drop_columns("seq").to_pylist()]


def test_a_student_becomes_one_row_in_each_of_its_tables() -> None:
    batch = one(page(student(7)))
    assert rows(batch, "students") == [
        (
            *(7, "pupil.7@school.example", "Pupil Number7", "Pupil", "Number7", "R-7"),
            *("https://img.school.example/7.png", date(2025, 9, 1), 1),
        )
    ]
    assert rows(batch, "student_summaries") == [(7, 20, 15, 75.0, 81.5, 4, 3, 1210.5, date(2026, 11, 19))]
    assert rows(batch, "student_activity") == [(7, date(2025, 9, 2), date(2026, 11, 19), 1, 15, 5, True)]
    assert rows(batch, "student_classes") == [(7, 501, "Algebra 1", "Algebra")]
    assert rows(batch, "observed") == [("students", 7, "stated", None)]
    assert (batch.rejects, batch.drift, batch.records) == ([], [], 1)


def test_a_class_becomes_one_row_in_each_of_its_tables() -> None:
    batch = one(page(school_class(501), set_name="classes"))
    assert rows(batch, "classes") == [
        (
            *(501, "Class 501", "C-501", 1, "B 12", date(2025, 8, 15), 70, "Algebra"),
            *(9, "Terry Teacher", "terry@school.example", 3),
        )
    ]
    assert rows(batch, "class_summaries") == [(501, 74.5, 80.0, 3600.0)]
    assert rows(batch, "class_assignment_activity") == [(501, True, 20, date(2025, 9, 5), date(2026, 11, 15), 3, 2, 1)]


def test_the_institution_is_taken_from_the_auth_check() -> None:
    school = {"id": 41, "name": "Made-up School", "key": "mus"}
    data = {"authenticated": True, "school": school, "api_key_name": "nightly", "timestamp": "2026-11-20 02:15:00"}
    batch = one(LandedBody("auth", "auth", 1, json.dumps({"success": True, "data": data, "message": "ok"}).encode()))
    assert rows(batch, "institution") == [(41, "Made-up School", "mus", "nightly")]
    assert batch.drift == []


def test_a_detail_keeps_its_payload_whole() -> None:
    content = b'{"success": true, "data": {"id": 7, "courses": [{"a": 1.0}]}}'
    at = datetime(2026, 11, 20, 2, 15, tzinfo=UTC)
    batch = one(LandedBody("details", "detail", 1, content, sought=7, received_at=at))
    assert rows(batch, "student_details") == [
        (7, '{"id": 7, "courses": [{"a": 1.0}]}', datetime(2026, 11, 20, 2, 15))  # noqa: DTZ001 - stored as UTC
    ]


@pytest.mark.parametrize("value", [MISSING, None])
@pytest.mark.parametrize(
    ("field", "table"),
    [("classes", "student_classes"), ("activity_tracking", "student_activity"), ("summary", "student_summaries")],
)
def test_silence_is_told_apart_from_none(field: str, table: str, value: Any) -> None:
    batch = one(page(student(1, **{field: value}), student(2)))
    assert rows(batch, "observed") == [
        ("students", 1, "stated", None),
        ("students", 2, "stated", None),
        ("students", 1, "not_stated", table),
    ]
    assert [r[0] for r in rows(batch, table)] == [2]


def test_a_refused_record_is_observed_as_such() -> None:
    batch = one(page(student(1, name=None), student(2)))
    assert sorted(rows(batch, "observed")) == [("students", 1, "rejected", None), ("students", 2, "stated", None)]


def test_a_page_read_slowly_and_one_read_fast_make_the_same_rows() -> None:
    """A page with anything undeclared is read by another type than one as declared; a batch holds both."""
    pupils = [student(1), student(2, activity_tracking=None), student(3, classes=[])]
    plain = one(page(*pupils), page(*pupils, number=2))
    mixed = one(page(*pupils), page(*({**p, "nickname": "x"} for p in pupils), number=2))
    assert mixed.tables == plain.tables
    assert [d.count for d in mixed.drift] == [3]


def test_of_a_search_result_only_the_sought_record_is_taken() -> None:
    batch = one(page(student(1), student(2), student(3, name=None), kind="search", sought=2))
    assert [r[0] for r in rows(batch, "students")] == [2]
    assert batch.rejects == []


def test_later_records_come_later_in_sequence_also_across_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rollbook.flatten.rows.BATCH", 2)
    batches = list(flatten("students", [page(student(1), student(2)), page(student(1), number=2)]))
    seqs = [s for b in batches for s in b.tables["students"]["seq"].to_pylist()]
    assert seqs == [1, 2, 3]


@pytest.mark.parametrize("name", SETS)
def test_every_batch_has_every_table_of_its_set_in_the_declared_schema(name: str) -> None:
    (batch,) = flatten(name, [])
    refused = {"refused"} if name != "details" else set()
    assert set(batch.tables) == {"observed", *refused, *(t.name for t in of_set(name))}
    for table in of_set(name):
        assert batch.tables[table.name].schema == schema(table)


def test_bytes_that_are_not_text_cost_one_value() -> None:
    good = page(student(1), student(2, first_name="N@MED"), student(3)).content
    batch = one(LandedBody("students", "walk", 1, good.replace(b"N@MED", b"N\xffMED")))
    assert [r[3] for r in rows(batch, "students")] == ["Pupil", None, "Pupil"]
    assert batch.rejects == [
        Reject("students", 1, 2, "not a text", id=2, table="students", column="first_name"),
    ]
    assert batch.oddities == {"a page that JSON does not allow": 1}


@pytest.mark.parametrize(("record", "kind"), [("pupil", "string"), (None, "null"), ([], "array"), (7, "integer")])
def test_answers_that_are_not_objects_are_refused(record: Any, kind: str) -> None:
    (reject,) = one(page(student(1), record)).rejects
    assert (reject.position, reject.id, reject.reason) == (2, None, f"expected an object, got {kind}")
