"""The identities of students: an id that was given to another person, and one person with several ids."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from zipfile import ZipFile

import pytest
from starlette.datastructures import QueryParams

from rollbook.features.explore import pages
from rollbook.features.explore.book import Book
from rollbook.rights.subject import gather, write
from rollbook.views import contacted
from tests.support.nights import House, new_house, night
from tests.support.reading import opened
from tests.support.records import Record, Records, student, students, within

pytestmark = pytest.mark.nights

FINDINGS = "SELECT kind, how_many, since, description FROM data_quality WHERE kind IN ('id_reused', 'same_person')"
WHO = "SELECT person, first_day, last_day, is_reused, linked_by, ids FROM student_identities WHERE student_id IN ({})"
SAID = "name, email and reference id changed at once: the history before may be another person's"


def another(ident: int, **over: object) -> Record:
    """Somebody else with the id."""
    own = {"name": "Someone Else", "email": "someone.else@school.example", "reference_id": "Z-9"}
    return student(ident, **own | over, **within("summary", completed_assignments=1))


def without(records: Records, *ids: int) -> Records:
    return [r for r in records if r["id"] not in ids]


@pytest.fixture(scope="module")
def reused_ids() -> Iterator[House]:
    """Of 250 students, 5 becomes another person on night 2, and 6 after a night without anybody."""
    with new_house() as house:
        house.night(1, students(250))
        house.night(2, [*without(students(250), 5, 6), another(5)])
        sixth = another(6, name="The Sixth", email="sixth@school.example", reference_id="Z-6")
        house.night(3, [*without(students(250), 5, 6), another(5), sixth])
        yield house


def who(house: House, *ids: int) -> list[tuple[object, ...]]:
    return house.query(f"{WHO.format(', '.join(map(str, ids)))} ORDER BY student_id, first_day")


def test_an_id_given_to_another_person_is_found(reused_ids: House) -> None:
    assert reused_ids.query(FINDINGS) == [("id_reused", 2, night(2), f"{SAID}: 5, 6")]
    assert who(reused_ids, 5, 6, 7) == [
        ("5", night(1), night(1), False, None, 1),
        (f"5 since {night(2)}", night(2), None, True, None, 1),
        ("6", night(1), night(1), False, None, 1),
        (f"6 since {night(3)}", night(3), None, True, None, 1),
        ("7", night(1), None, False, None, 1),
    ]
    query = "SELECT snapshot_date, description FROM student_timeline WHERE what = 'identity' ORDER BY 1"
    assert reused_ids.query(query) == [(night(2), SAID), (night(3), SAID)]


def test_explore_says_so_beside_the_student(reused_ids: House) -> None:
    rollbook = Book(reused_ids.warehouse)
    with rollbook.open():
        assert pages.student(rollbook, QueryParams(""), 5)["reused_since"] == night(2)
        assert pages.student(rollbook, QueryParams(""), 7)["reused_since"] is None


def test_a_subject_is_handed_nothing_of_who_had_the_id_before(reused_ids: House, tmp_path: Path) -> None:
    def written(*, earlier_person: bool) -> str:
        write(gather(reused_ids.warehouse, 5, earlier_person=earlier_person), tmp_path / "5.zip", replace=True)
        with ZipFile(tmp_path / "5.zip") as zipped:
            return "".join(zipped.read(name).decode() for name in zipped.namelist())

    only, both = written(earlier_person=False), written(earlier_person=True)
    earlier = ("Pupil Number5", "pupil.5@school.example", "R-5")
    assert [word for word in earlier if word in only] == []
    assert [word for word in earlier if word in both] == [*earlier]
    assert "Someone Else" in only
    assert f"On {night(2)} name, email and reference id of this id changed at once." in only
    assert "--earlier-person includes it" in only


def test_a_subject_gets_what_began_earlier_and_still_holds(reused_ids: House) -> None:
    held = {section.name: section.rows for section in gather(reused_ids.warehouse, 5).sections}
    # The class is the earlier person's; the names are not.
    for name in ("history.student_classes", "spans.student_classes", "main.enrollment_spans"):
        assert len(held[name]) == 1, name
    assert [row[2] for row in held["history.students"]] == ["Someone Else"]
    assert {row[0] for row in held["main.watch_daily"]} <= {night(3)}


def test_only_the_previous_holder_of_an_id_was_spoken_to(reused_ids: House) -> None:
    until = night(9)
    for student_id, on in ((5, night(1)), (6, night(3)), (7, night(1))):
        contacted.add(reused_ids.warehouse, student_id, on, until)
    with opened(reused_ids.published) as con:
        assert {*contacted.resting(contacted.contacts(reused_ids.warehouse, con), night(3))} == {6, 7}
    rows = {
        student_id: [s.rows for s in gather(reused_ids.warehouse, student_id).sections if s.name == "private.contacted"]
        for student_id in (5, 6)
    }
    assert rows == {5: [[]], 6: [[(night(3), until, "", "")]]}


@pytest.mark.parametrize(
    ("change", "is_found"),
    [
        ({}, True),
        ({"reference_id": "R-5"}, False),  # who marries has a new name and a new email
        ({"email": "pupil.5@school.example"}, False),
        ({"name": "Pupil Number5"}, False),
        ({"name": "PUPIL NUMBER5"}, False),
        ({"reference_id": None}, False),  # unknown is not another name
        ({"email": None}, False),
    ],
)
def test_all_three_must_be_other_ones(change: Record, is_found: bool) -> None:
    with new_house() as house:
        house.night(1, students(20))
        house.night(2, [*without(students(20), 5), another(5, **change)])
        assert bool(house.query(FINDINGS)) is is_found


def test_a_school_that_changes_all_its_names_reuses_no_id() -> None:
    def moved(count: int) -> Records:
        new = [
            student(i, name=f"{i}, Pupil", email=f"{i}@new.example", reference_id=f"NEW-{i}")
            for i in range(1, count + 1)
        ]
        return [*new, *students(200, first=1)[count:]]

    with new_house() as house:
        house.night(1, students(200))
        house.night(2, moved(2))  # 1 %
        assert house.query(FINDINGS) == []


@pytest.mark.parametrize(
    ("second", "linked_by"),
    [
        (student(900, reference_id="R-7"), "reference id"),
        (student(900, reference_id="r-7"), "reference id"),
        (student(900, email="pupil.7@school.example", name="Pupil Number7"), "email and name"),
        (student(900, email="PUPIL.7@school.example", name="pupil number7"), "email and name"),
        (student(7) | {"id": 900}, "reference id, email and name"),
        (student(900, email="pupil.7@school.example"), None),  # a sibling
        (student(900, name="Pupil Number7"), None),
    ],
)
@pytest.mark.parametrize("is_at_once", [True, False])
def test_one_person_with_two_ids_is_linked(second: Record, linked_by: str | None, is_at_once: bool) -> None:
    with new_house() as house:
        house.night(1, students(20))
        house.night(2, [*(students(20) if is_at_once else without(students(20), 7)), second])
        last_day: date | None = None if is_at_once else night(1)
        ids, person = (2, "7") if linked_by else (1, "900")
        assert who(house, 7, 900) == [
            ("7", night(1), last_day, False, linked_by, ids),
            (person, night(2), None, False, linked_by, ids),
        ]
        words = "two or more ids with one reference id, or one email and name, so perhaps one person's: 7 and 900"
        assert house.query(FINDINGS) == ([("same_person", 1, night(2), words)] if linked_by else [])


def test_shared_names_make_no_identity_and_links_span_several_ids() -> None:
    with new_house() as house:
        house.night(1, [student(i, reference_id="none") for i in range(1, 6)])
        assert house.query(FINDINGS) == []
        chain = [
            student(11, reference_id="A", email="a@x", name="A"),
            student(12, reference_id="A", email="b@x", name="B"),
            student(13, reference_id="C", email="b@x", name="B"),
        ]
        house.night(2, [*(student(i, reference_id="none") for i in range(1, 6)), *chain])
        assert [row[0] for row in who(house, 11, 12, 13)] == ["11"] * 3
        assert [row[5] for row in who(house, 11, 12, 13)] == [3] * 3
