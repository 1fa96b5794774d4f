"""One bad record costs one record, and too many the sync (G9), through whole syncs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rollbook.errors import ContractChangedError, HeldError
from rollbook.landing.manifest import Verdict
from rollbook.night import past
from rollbook.night.past import always
from tests.support.nights import Expected, House, night
from tests.support.records import MISSING, Record, classes, entry, school_class, student, students, within
from tests.support.warehouses.begun import begin
from tests.support.warehouses.erasures import erase
from tests.support.wire import faults

pytestmark = pytest.mark.nights

# --- the rules -------------------------------------------------------------------------------------------------------

REQUIRED = "object missing required field"
# Faults of a record, and the reason in words. Any other value costs itself alone: see `test_hostile_values.py`.
STUDENTS: list[tuple[Record, str]] = [
    ({"name": MISSING}, f"{REQUIRED} name"),
    ({"name": None}, "name: expected str, got null"),
    ({"name": " "}, "name: expected str, got null"),
    ({"name": ["Pupil"]}, "name: expected str, got null"),
]
CLASSES: list[tuple[Record, str]] = [
    ({"class_title": MISSING}, f"{REQUIRED} class_title"),
    ({"class_title": None}, "class_title: expected str, got null"),
    ({"class_title": ""}, "class_title: expected str, got null"),
]


def test_each_rule_refuses_its_record_and_what_was_known_of_it_stays(one_class: House) -> None:
    """All rules at once: every fifth record breaks a rule. Nothing else is lost, and a leaver is still removed."""
    good_students = students(5 * len(STUDENTS) + 1)
    good_classes = classes(5 * len(CLASSES), first=1001)
    begin(one_class, good_students, good_classes)
    # Everybody has a new name tonight; a refused record's is not taken over.
    tonight = [student(s["id"], name="Pupil Renamed") if s["id"] % 2 else s for s in good_students]
    tonight = [student(s["id"], **(s | STUDENTS[i // 5][0])) if i % 5 == 0 else s for i, s in enumerate(tonight[:-1])]
    there = [school_class(c["class_id"], **CLASSES[i // 5][0]) if i % 5 == 0 else c for i, c in enumerate(good_classes)]
    one_class.night(2, tonight, there)

    refused = [s["id"] for s in tonight[::5]] + [c["class_id"] for c in there[::5]]
    expected = Expected().night(1, good_students, good_classes).night(2, tonight, there, refused=refused)
    assert one_class.tables() == expected.tables()
    assert len(one_class.tables()["main.students"]) == 5 * len(STUDENTS)
    listed = one_class.query(
        'SELECT snapshot_date, landing, set_name, page, "position", id, reason, record FROM ops.rejects'
        " ORDER BY set_name DESC, page, 5"
    )
    rejected = [
        (night(2), 1, name, 1 + i // 100, 1 + i % 100, records[i][key], rules[i // 5][1], text(records[i]))
        for name, key, rules, records in (
            ("students", "id", STUDENTS, tonight),
            ("classes", "class_id", CLASSES, there),
        )
        for i in range(0, len(records), 5)
    ]
    assert listed == rejected
    counts = "outcome, proven, rejected, verified, removed"
    assert one_class.query(f"SELECT {counts} FROM ops.syncs WHERE snapshot_date = DATE '{night(2)}'") == [
        ("synced", True, len(rejected), 1, 1)
    ]


def text(record: Record) -> str:
    return msgspec.json.encode(record).decode()


BAD_IDS: list[tuple[Any, str]] = [
    (MISSING, f"{REQUIRED} id"),
    (None, "id: expected int, got null"),
    (0, "id: expected int, got null"),
    (-7, "id: expected int, got null"),
    (2**63, "id: expected int, got null"),
    ("seven", "id: expected int, got null"),
    (7.5, "id: expected int, got null"),
    (True, "id: expected int, got null"),
]


def test_an_unreadable_id_refuses_the_record_and_unproves_the_set(one_class: House) -> None:
    """Nobody can tell whose record that is, so nobody is removed tonight; student 1 is, tomorrow."""
    one_class.over = {"walks": 1}
    begin(one_class, students(60))
    odd = [student(900, id=value) for value, _ in BAD_IDS]
    one_class.night(2, [*students(60)[1:], *odd])
    expected = (
        Expected().night(1, students(60), classes(1)).night(2, students(60)[1:], classes(1), unproven=["students"])
    )
    assert one_class.tables() == expected.tables()
    listed = one_class.query('SELECT set_name, page, "position", id, reason, record FROM ops.rejects ORDER BY 3')
    assert listed == [
        ("students", 1, 60 + i, None, reason, text(record))
        for i, (record, (_, reason)) in enumerate(zip(odd, BAD_IDS, strict=True))
    ]
    one_class.night(3, students(60)[1:])
    assert one_class.tables() == expected.night(3, students(60)[1:], classes(1)).tables()


def test_records_count_once_however_often_they_are_walked_or_listed(one_class: House) -> None:
    """A set that stays unproven is walked three times, and some services list a record several times."""
    begin(one_class, students(9), classes(9))
    there = [*classes(9)[:7], *(school_class(None, class_title=title) for title in ("One", "Two"))]
    bad = [student(i, registration_date="soon" if i <= 2 else "2025-09-01", **no_name(i == 9)) for i in range(1, 10)]
    one_class.service.on(faults.records(lambda data: data * 2), path="students", times=None)
    one_class.service.on(faults.stated(total_count=18), path="students", times=None)
    done = one_class.night(2, bad, there).manifest
    assert [(w.set, w.walks, w.proof) for w in done.walks] == [("students", 3, None), ("classes", 3, None)]
    assert done.rejected == {"students": 1, "classes": 2}
    assert one_class.query("SELECT set_name, received, rejected FROM ops.sync_sets ORDER BY snapshot_date, 1 DESC")[
        2:
    ] == [
        ("students", 54, 1),
        ("classes", 27, 2),
    ]
    assert one_class.query("SELECT set_name, id FROM ops.rejects ORDER BY 1, 2") == [
        *[("classes", None)] * 2,
        ("students", 9),
    ]
    assert one_class.query("SELECT id, column_name FROM ops.refused_values ORDER BY 1") == [
        (1, "registration_date"),
        (2, "registration_date"),
    ]
    tables = one_class.tables()
    past.rebuild(one_class.rollbook().writer())
    assert (one_class.tables(), one_class.query("SELECT COUNT(*) FROM ops.rejects")) == (tables, [(3,)])


def no_name(is_so: bool) -> Record:
    return {"name": None} if is_so else {}


@pytest.mark.story
@pytest.mark.parametrize("bad", [5, 6])
def test_a_set_walked_three_times_counts_each_bad_value_once(one_class: House, bad: int) -> None:
    begin(one_class, students(9), classes(1))
    one_class.service.on(faults.stated(total_count=10), path="students", times=None)
    tonight = [student(i, registration_date="soon" if i <= bad else "2025-09-01") for i in range(1, 10)]
    if bad == 5:
        assert one_class.night(2, tonight).manifest.verdict is Verdict.UNPROVEN
        return
    with pytest.raises(ContractChangedError, match=r"6 of 9 values of students.registration_date were refused"):
        one_class.night(2, tonight)


def test_a_refused_record_found_by_search_is_not_a_removal(one_class: House) -> None:
    """The walk missed the student, and the record that the search found is refused: what was known stays."""
    begin(one_class, students(8))
    broken = student(5, name=None)
    one_class.service.on(faults.records(lambda data: [s for s in data if s["id"] != 5]), path="students", times=None)
    one_class.service.on(faults.stated(total_count=7), path="students", times=None)
    one_class.night(2, [broken if s["id"] == 5 else s for s in students(8)])
    expected = Expected().night(1, students(8), classes(1)).night(2, students(8), classes(1), refused=[5])
    assert one_class.tables() == expected.tables()
    assert one_class.query("SELECT found_by_search, removed, rejected FROM ops.syncs ORDER BY snapshot_date") == [
        (0, 0, 0),
        (1, 0, 1),
    ]


# --- one value -------------------------------------------------------------------------------------------------------


@pytest.mark.story
def test_one_bad_value_costs_one_value_alone(one_class: House) -> None:
    begin(one_class, students(8))
    odd = student(
        5,
        name="Pupil Renamed",
        registration_date="01/09/2025",
        classes=[entry(class_id=502)],
        **within("summary", average_score=-1, completion_rate=104.5),
    )
    one_class.night(2, [odd if s["id"] == 5 else s for s in students(8)])
    assert one_class.query(
        "SELECT name, registration_date, class_id, average_score, completion_rate FROM students"
        " JOIN student_classes USING (student_id) JOIN student_summaries USING (student_id) WHERE student_id = 5"
    ) == [("Pupil Renamed", None, 502, None, 104.5)]
    assert one_class.query("SELECT * FROM ops.refused_values ORDER BY column_name") == [
        (night(2), 1, "students", 1, 5, 5, "student_summaries", "average_score", "negative"),
        (night(2), 1, "students", 1, 5, 5, "students", "registration_date", "not a date"),
    ]
    assert one_class.query("FROM ops.rejects") == []
    findings = (
        "SELECT kind, about, how_many, description FROM data_quality WHERE kind IN ('refused value', 'above 100')"
    )
    assert one_class.query(f"{findings} ORDER BY ALL") == [
        ("above 100", "student_summaries", 1, "completion_rate is above 100, as with extra credit: 5"),
        ("refused value", "student_summaries", 1, "average_score: negative"),
        ("refused value", "students", 1, "registration_date: not a date"),
    ]
    tables = one_class.tables()
    past.rebuild(one_class.rollbook().writer())
    assert one_class.tables() == tables


def test_an_entry_that_cannot_be_read_ends_no_membership(one_class: House) -> None:
    begin(one_class, students(8))
    one_class.night(2, [student(5, classes=[{"class_title": "?"}]) if s["id"] == 5 else s for s in students(8)])
    assert one_class.query("SELECT COUNT(*) FROM student_classes") == [(8,)]
    assert one_class.query("SELECT reason FROM ops.refused_values") == [
        ("an entry that cannot be read, so the list is not stated",)
    ]


def test_an_erased_student_is_in_no_refused_value(one_class: House) -> None:
    one_class.night(
        1, [student(i, registration_date="soon") if i == 5 else student(i) for i in range(1, 9)], classes(1)
    )
    erase(one_class, 5)
    assert one_class.query("FROM ops.refused_values") == []
    assert one_class.rollbook().raw.open(one_class.landings(night(1))[-1]).rejects() == []


def test_a_column_refused_in_a_fifth_means_a_changed_contract(one_class: House) -> None:
    """A new date format must not pass as NULLs, also where only some students have the date."""
    begin(one_class, students(40), classes(1))
    before = one_class.state()
    with pytest.raises(ContractChangedError) as caught:
        one_class.night(
            2, [student(i, registration_date=f"0{i}/09/2025" if i <= 9 else "2025-09-01") for i in range(1, 41)]
        )
    assert "9 of 40 values of students.registration_date were refused, the first because it is not a date" in str(
        caught.value.message
    )
    rare = [
        student(i, **within("activity_tracking", first_login_date="soon" if i <= 6 else None)) for i in range(1, 41)
    ]
    with pytest.raises(ContractChangedError, match=r"6 of 6 values of student_activity.first_login_date"):
        one_class.night(3, rare)
    assert one_class.state() == before


def test_a_term_without_scores_is_published_also_where_a_word_says_so(one_class: House) -> None:
    begin(one_class, [student(i, **within("summary", average_score=None)) for i in range(1, 41)], classes(1))
    one_class.night(2, [student(i, **within("summary", average_score="N/A" if i < 40 else 55)) for i in range(1, 41)])
    assert one_class.query("SELECT COUNT(*), COUNT(average_score) FROM student_summaries") == [(40, 1)]
    assert one_class.query("SELECT DISTINCT valid_from FROM history.student_summaries WHERE student_id < 40") == [
        (night(1),)
    ]


def test_objects_that_cannot_be_read_are_counted_against_the_records(one_class: House) -> None:
    begin(one_class, students(40), classes(1))
    before = one_class.state()
    with pytest.raises(ContractChangedError, match=r"9 of 40 values of student_summaries.summary were refused"):
        one_class.night(2, [student(i, summary="none" if i <= 9 else None) for i in range(1, 41)])
    with pytest.raises(ContractChangedError, match=r"9 of 40 values of student_classes.class_id were refused"):
        one_class.night(3, [student(i, **({"classes": ["none"]} if i <= 9 else {})) for i in range(1, 41)])
    assert one_class.state() == before
    one_class.night(4, [student(i, summary="none" if i <= 8 else None) for i in range(1, 41)])


@pytest.mark.story
def test_up_to_five_refused_values_of_a_column_are_just_bad_values(one_class: House) -> None:
    begin(one_class, students(8), classes(1))
    one_class.night(2, [student(i, registration_date="soon" if i <= 5 else "2025-09-01") for i in range(1, 9)])
    assert one_class.query("SELECT COUNT(*), COUNT(registration_date) FROM students") == [(8, 3)]


# --- when there are too many
# ---------------------------------------------------------------------------------------------


def test_more_than_five_and_a_fifth_refused_means_the_contract_has_changed(one_class: House) -> None:
    begin(one_class, students(10), classes(1))
    before = one_class.state()
    with pytest.raises(ContractChangedError) as caught:
        one_class.night(2, [student(i, name=None) if i <= 6 else student(i) for i in range(1, 11)])
    assert caught.value.exit_code == 1
    assert "6 of 10 students were refused" in caught.value.message
    assert one_class.state() == before
    (manifest,) = one_class.landings(night(2))
    assert (manifest.verdict, manifest.reason) == (Verdict.FAILED, caught.value.message)
    one_class.night(3, students(10))  # the failed night is recorded with the next publish, and counts for nothing
    expected = Expected().night(1, students(10), classes(1)).night(3, students(10), classes(1))
    assert one_class.tables() == expected.tables()
    assert one_class.query("SELECT id FROM ops.rejects ORDER BY 1") == [(i,) for i in range(1, 7)]


def test_a_day_at_the_limit_of_refused_survives_an_erasure(one_class: House) -> None:
    """The night leaves fewer records, of which the refused ones are more than a fifth."""
    one_class.night(1, [student(i, name=None) if i <= 8 else student(i) for i in range(1, 41)], classes(1))
    erase(one_class, 40)
    before = one_class.tables()
    past.rebuild(one_class.rollbook().writer(), confirm=always)
    assert one_class.tables() == before


def test_a_held_landing_at_the_limit_can_be_approved_after_an_erasure(one_class: House) -> None:
    begin(one_class, students(60), classes(1))
    with pytest.raises(HeldError):
        one_class.night(2, [student(i, name=None) if i <= 8 else student(i) for i in range(1, 41)])
    erase(one_class, 40)
    assert one_class.approve().manifest.rejected == {"students": 8}
    assert one_class.query("SELECT COUNT(*) FROM students") == [(39,)]
