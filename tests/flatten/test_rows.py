"""Flattening: landed bodies in, whole rows, rejects and drift out."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, date, datetime
from typing import Any

import pytest

from pipelines.flatten import Batch, flatten, schema
from pipelines.landing.manifest import Landed, Reject
from pipelines.tables import SETS, TABLES, of_set
from tests.support.records import MISSING, school_class, student


def page(*records: Any, number: int = 1, set_name: str = "students", **more: Any) -> Landed:
    body = json.dumps({"success": True, "data": list(records)}).encode()
    return Landed(set=set_name, kind=more.pop("kind", "walk"), page=number, content=body, **more)


def one(*bodies: Landed) -> Batch:
    (batch,) = flatten(bodies[0].set, bodies)
    return batch


def rows(batch: Batch, table: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in batch.tables[table].drop_columns("seq").to_pylist()]


def refused(record: Any) -> Reject:
    batch = one(page(student(1), record, student(3)))
    assert [r[0] for r in rows(batch, "students")] == [1, 3], "one bad record costs one record"
    (reject,) = batch.rejects
    return reject


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
    data = {
        "authenticated": True,
        "school": {"id": 41, "name": "Made-up School", "key": "mus"},
        "api_key_name": "nightly",
        "timestamp": "2026-11-20 02:15:00",
    }
    batch = one(Landed("auth", "auth", 1, json.dumps({"success": True, "data": data, "message": "ok"}).encode()))
    assert rows(batch, "institution") == [(41, "Made-up School", "mus", "nightly")]
    assert batch.drift == []


def test_a_detail_keeps_its_payload_whole() -> None:
    content = b'{"success": true, "data": {"id": 7, "courses": [{"a": 1.0}]}}'
    at = datetime(2026, 11, 20, 2, 15, tzinfo=UTC)
    batch = one(Landed("details", "detail", 1, content, sought=7, received_at=at))
    assert rows(batch, "student_details") == [
        (7, '{"id": 7, "courses": [{"a": 1.0}]}', datetime(2026, 11, 20, 2, 15))  # noqa: DTZ001 - stored as UTC
    ]


@pytest.mark.parametrize("field", ["first_name", "last_name", "reference_id", "profile_image"])
@pytest.mark.parametrize("value", [MISSING, None])
def test_a_missing_or_null_optional_value_is_null(field: str, value: Any) -> None:
    batch = one(page(student(1, **{field: value})))
    assert batch.tables["students"].to_pylist()[0][field] is None


@pytest.mark.parametrize("field", ["course", "teacher"])
@pytest.mark.parametrize("value", [MISSING, None, {}])
def test_a_class_without_course_or_teacher_has_nulls_there(field: str, value: Any) -> None:
    row = one(page(school_class(501, **{field: value}), set_name="classes")).tables["classes"].to_pylist()[0]
    theirs = {"course": ("course_id", "course_name"), "teacher": ("teacher_id", "teacher_name", "teacher_email")}
    assert [row[name] for name in theirs[field]] == [None] * len(theirs[field])


@pytest.mark.parametrize("value", [MISSING, None])
@pytest.mark.parametrize(
    ("field", "table"), [("classes", "student_classes"), ("activity_tracking", "student_activity")]
)
def test_silence_is_told_apart_from_none(field: str, table: str, value: Any) -> None:
    batch = one(page(student(1, **{field: value}), student(2)))
    assert rows(batch, "observed") == [
        ("students", 1, "stated", None),
        ("students", 2, "stated", None),
        ("students", 1, "silent", table),
    ]
    assert [r[0] for r in rows(batch, table)] == [2]


def test_an_empty_list_of_classes_is_a_statement() -> None:
    batch = one(page(student(1, classes=[])))
    assert rows(batch, "observed") == [("students", 1, "stated", None)]
    assert rows(batch, "student_classes") == []


@pytest.mark.parametrize("value", [12.0, 12])
def test_an_integral_float_is_an_integer_and_an_integer_a_float(value: float) -> None:
    record = student(1)
    record["summary"] |= {"total_assignments": value, "completion_rate": 100}
    batch = one(page(record, student(2.0)))
    assert [r[:4] for r in rows(batch, "student_summaries")] == [(1, 12, 15, 100.0), (2, 20, 15, 75.0)]


@pytest.mark.parametrize(
    ("over", "reason"),
    [
        ({"email": None}, "email: expected str, got null"),
        ({"email": MISSING}, "object missing required field email"),
        ({"name": 7}, "name: expected str, got int"),
        ({"registration_date": "2026-02-30"}, "registration_date: not a date (YYYY-MM-DD)"),
        ({"registration_date": "20 November"}, "registration_date: not a date (YYYY-MM-DD)"),
        ({"is_registered": True}, "is_registered: expected int, got bool"),
        ({"summary": None}, "summary: expected object, got null"),
        ({"summary": MISSING}, "object missing required field summary"),
        ({"activity_tracking": []}, "activity_tracking: expected object | null, got array"),
        ({"classes": {}}, "classes: expected array | null, got object"),
        ({"classes": [{"class_id": 0}]}, "classes[0].class_id: expected int >= 1"),
        ({"classes": [{"class_id": 5}, {"class_id": 5}]}, "classes: the same class_id twice"),
    ],
)
def test_a_record_that_breaks_a_rule_is_refused_with_the_reason_in_words(over: dict[str, Any], reason: str) -> None:
    record = student(2, **over)
    reject = refused(record)
    assert (reject.set, reject.page, reject.position, reject.id, reject.reason) == ("students", 1, 2, 2, reason)
    assert json.loads(reject.record) == record


@pytest.mark.parametrize("value", [-0.1, 100.5, "75"])
def test_a_percentage_outside_0_to_100_is_refused(value: Any) -> None:
    record = student(2)
    record["summary"]["completion_rate"] = value
    assert refused(record).reason.startswith("summary.completion_rate: expected float")


@pytest.mark.parametrize("ident", [0, -1, 2**63, "2", 2.5, None, True])
def test_an_id_that_is_no_positive_64_bit_integer_is_refused_and_not_known(ident: Any) -> None:
    reject = refused(student(ident))
    assert reject.id is None


def test_the_largest_id_passes() -> None:
    assert rows(one(page(student(2**63 - 1))), "observed") == [("students", 2**63 - 1, "stated", None)]


@pytest.mark.parametrize("record", [None, [], "student", 7])
def test_what_is_no_object_is_refused(record: Any) -> None:
    assert refused(record).id is None


def test_a_refused_record_is_observed_as_such() -> None:
    batch = one(page(student(1, email=None), student(2)))
    assert sorted(rows(batch, "observed")) == [("students", 1, "rejected", None), ("students", 2, "stated", None)]


def test_unknown_fields_are_counted_by_place_and_type_and_kept_out() -> None:
    strange = student(1, nickname="x", summary={**student(1)["summary"], "streak": 3})
    (batch,) = flatten("students", [page(strange, student(2)), page(student(3, nickname="y"), number=2)])
    assert [(d.set, d.field, d.type, d.count) for d in batch.drift] == [
        ("students", "nickname", "string", 2),
        ("students", "summary.streak", "integer", 1),
    ]
    assert [r[0] for r in rows(batch, "students")] == [1, 2, 3]
    assert batch.tables["students"].column_names == [*TABLES["students"].names, "seq"]


def test_a_page_read_slowly_and_one_read_fast_make_the_same_rows() -> None:
    """A page with anything undeclared is read by another type than one as declared; a batch holds both."""
    pupils = [student(1), student(2, activity_tracking=None), student(3, classes=[])]
    plain = one(page(*pupils), page(*pupils, number=2))
    mixed = one(page(*pupils), page(*({**p, "nickname": "x"} for p in pupils), number=2))
    assert mixed.tables == plain.tables
    assert [d.count for d in mixed.drift] == [3]


def test_of_a_search_result_only_the_sought_record_is_taken() -> None:
    found = page(student(1), student(2), student(3, email=None), kind="search", sought=2)
    batch = one(found)
    assert [r[0] for r in rows(batch, "students")] == [2]
    assert batch.rejects == []


def test_later_records_come_later_in_sequence_also_across_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.flatten.rows.BATCH", 2)
    batches = list(flatten("students", [page(student(1), student(2)), page(student(1), number=2)]))
    seqs = [s for b in batches for s in b.tables["students"]["seq"].to_pylist()]
    assert seqs == [1, 2, 3]


@pytest.mark.parametrize("name", SETS)
def test_every_batch_has_every_table_of_its_set_in_the_declared_schema(name: str) -> None:
    (batch,) = flatten(name, [])
    assert set(batch.tables) == {"observed", *(t.name for t in of_set(name))}
    for table in of_set(name):
        assert batch.tables[table.name].schema == schema(table)


def test_bytes_that_are_no_text_cost_one_record_and_its_id_is_still_known() -> None:
    good = page(student(1), student(2, name="N@MED"), student(3)).content
    body = Landed("students", "walk", 1, good.replace(b"N@MED", b"N\xffMED"))
    (batch,) = flatten("students", [body])
    assert [r[0] for r in rows(batch, "students")] == [1, 3]
    (reject,) = batch.rejects
    assert (reject.id, reject.position) == (2, 2)
    assert reject.reason.startswith("it cannot be read")
    assert ("students", 2, "rejected", None) in rows(batch, "observed")


def test_all_that_flattening_needs_is_loaded_before_the_first_record_comes_and_pandas_never() -> None:
    asked = (
        "import sys; from pipelines.flatten import flatten, load; from pipelines.landing.manifest import Landed;"
        "body = Landed('students', 'walk', 1, b'{\"success\": true, \"data\": []}');"
        "load(); before = set(sys.modules); list(flatten('students', [body]));"
        "import pyarrow as pa; made = pa.table({'a': [1]});"
        "print('pandas' in sys.modules, sorted(set(sys.modules) - before));"
        "print(type(made.to_pandas()).__name__)"
    )
    done = subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == ["False []", "DataFrame"]


def test_a_batch_holds_no_more_bytes_than_memory_should(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.flatten.rows.BATCH_BYTES", 10_000)
    bodies = [page(*(student(100 * n + i) for i in range(8)), number=n) for n in range(1, 6)]
    batches = list(flatten("students", bodies))
    assert [b.records for b in batches] == [16, 16, 8]
    assert all(5_000 < len(b.content) < 10_000 for b in bodies)
