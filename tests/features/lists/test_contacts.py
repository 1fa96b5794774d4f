"""contacted.csv becomes the table contacts with each night: kept with its history, erased with the person."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, timedelta
from importlib import resources
from random import Random
from typing import Any

import pytest

from rollbook.features.lists import contacts
from rollbook.night import past
from rollbook.night.discard import discard
from rollbook.night.past import always
from rollbook.rights import erasure
from rollbook.rights.subject import gather
from rollbook.views import contacted
from rollbook.views.contacted import Contacted
from tests.support.nights import House, line_of, new_house, night, status_of
from tests.support.reading import rows as rows_in
from tests.support.records import classes, student, students
from tests.support.tiers import weekly

pytestmark = pytest.mark.nights

HEADING = "student_id,on,until,by\n"
NOW = "FROM contacts ORDER BY ALL"
EVER = "FROM history.contacts ORDER BY ALL"


@pytest.fixture
def school_of_six() -> Iterator[House]:
    """A school with six students and three classes, before its first night."""
    with new_house(students(6), classes(3)) as house:
        yield house


def write(house: House, text: str) -> None:
    """Save contacted.csv."""
    house.warehouse.mkdir(parents=True, exist_ok=True)
    (house.warehouse / "contacted.csv").write_text(text)


def test_contacts_are_a_table_from_the_next_night_on(school_of_six: House) -> None:
    school_of_six.night(1)
    assert school_of_six.query(NOW) == []
    contacted.add(school_of_six.warehouse, 1, night(1), night(15), "head@school.example")
    assert school_of_six.query(NOW) == []
    school_of_six.night(2)
    first = (1, night(1), night(15), "head@school.example")
    assert school_of_six.query(NOW) == [first]
    contacted.add(school_of_six.warehouse, 1, night(2), night(9))
    contacted.add(school_of_six.warehouse, 2, night(2) + timedelta(days=40), night(99))  # of another month
    school_of_six.night(3)
    contacted.undo(school_of_six.warehouse, Contacted(*first))
    school_of_six.night(4)
    others = [(1, night(2), night(9), None), (2, night(2) + timedelta(days=40), night(99), None)]
    assert school_of_six.query(NOW) == others
    assert school_of_six.query(EVER) == [(*first, night(2), night(4)), *((*row, night(3), None) for row in others)]
    assert school_of_six.query(f"FROM contacts_as_of('{night(3)}') ORDER BY ALL") == [first, *others]
    was = school_of_six.query(EVER)
    past.rebuild(school_of_six.rollbook().writer(), confirm=always)
    assert school_of_six.query(EVER) == was
    discard(school_of_six.rollbook().writer(), night(4), reason="not undone")
    assert school_of_six.query(NOW) == [first, *others]


def test_a_night_writes_back_what_a_save_lacks(school_of_six: House) -> None:
    school_of_six.night(1)
    write(school_of_six, HEADING)
    today = date.today()  # noqa: DTZ011 - as a person writes it
    contacted.add(school_of_six.warehouse, 1, today, today + timedelta(days=14), "head")
    write(school_of_six, HEADING)  # saved by a program that had the file open
    school_of_six.night(2)
    line = f"1,{today},{today + timedelta(days=14)},head\n"
    assert (school_of_six.warehouse / "contacted.csv").read_text() == HEADING + line
    assert school_of_six.query("SELECT student_id, noted_by FROM contacts") == [(1, "head")]
    write(school_of_six, HEADING + "Ada,,\n")
    school_of_six.night(3)
    assert (school_of_six.warehouse / "contacted.csv").read_text() == HEADING + "Ada,,\n"


def test_the_documented_query_has_each_student_once_with_the_last_contact(school_of_six: House) -> None:
    write(
        school_of_six, HEADING + "".join(f"1,{night(n)},{night(30)},{by}\n" for n, by in ((1, "a"), (3, ""), (2, "b")))
    )
    school_of_six.night(1)
    chapter = resources.files("rollbook.features.lists").joinpath("dictionary.md").read_text("utf-8")
    (query,) = (block for block in re.findall(r"```sql\n(.*?)```", chapter, re.DOTALL) if "JOIN contacts" in block)
    query = query.replace("students_to_watch", "students").replace("SELECT w.*", "SELECT w.student_id").replace(";", "")
    found = school_of_six.query(f"FROM ({query}) ORDER BY ALL")
    assert found == [(1, night(3), None), *((each, None, None) for each in range(2, 7))]


def test_what_people_added_does_not_land(school_of_six: House) -> None:
    write(school_of_six, "student_id;on;until;note;by\n1;20.11.2026;4.12.2026;his secret;Ms A\n")
    school_of_six.night(1)
    assert school_of_six.query(NOW) == [(1, date(2026, 11, 20), date(2026, 12, 4), "Ms A")]
    landed = b"".join(path.read_bytes() for path in (school_of_six.warehouse / "published").iterdir())
    assert b"secret" not in landed
    (manifest,) = school_of_six.landings(night(1))
    landing = school_of_six.rollbook().raw.open(manifest)
    bodies = [content for _, content in landing.contents(landing.pages())]
    assert not any(b"secret" in content for content in bodies)
    assert sum(b"Ms A" in content for content in bodies) == 1


def test_an_unreadable_or_missing_file_keeps_last_nights_contacts(school_of_six: House) -> None:
    write(school_of_six, HEADING + f"1,{night(1)},{night(9)},\n")
    school_of_six.night(1)
    write(school_of_six, HEADING + "Ada,,\n")
    assert "contacted.csv, line 2: student_id is 'Ada'" in (line_of(school_of_six.rollbook(), "lists") or "")
    school_of_six.night(2)
    row = (1, night(1), night(9), None)
    assert school_of_six.query(NOW) == [row]
    found = school_of_six.query("SELECT kind, about, description FROM data_quality WHERE about = 'contacts'")
    assert found == [
        ("unread list", "contacts", "contacted.csv could not be read: the rows of the last night that could stand")
    ]
    (school_of_six.warehouse / "contacted.csv").unlink()
    assert "contacted.csv is missing" in (line_of(school_of_six.rollbook(), "lists") or "")
    (school_of_six.warehouse / "own").mkdir()
    school_of_six.night(3)
    assert school_of_six.query(NOW) == [row]
    assert "contacted.csv is missing" in (line_of(school_of_six.rollbook(), "lists") or "")
    write(school_of_six, HEADING)
    school_of_six.night(4)
    assert school_of_six.query(NOW) == []
    assert school_of_six.query(EVER) == [(*row, night(1), night(4))]


def test_lists_and_contacts_are_seen_each_by_itself(school_of_six: House) -> None:
    own = school_of_six.warehouse / "own"
    own.mkdir(parents=True)
    (own / "contacted.csv").write_text("student_id,year\n1,10\n")  # a list's name like any other
    write(school_of_six, HEADING + f"1,{night(1)},{night(9)},\n")
    school_of_six.night(1)
    own.rename(own.with_name("elsewhere"))
    write(school_of_six, HEADING)
    school_of_six.night(2)
    assert school_of_six.query("FROM own_contacted") == [(1, "10")]
    assert school_of_six.query(NOW) == []
    own.with_name("elsewhere").rename(own)
    (school_of_six.warehouse / "contacted.csv").unlink()
    school_of_six.night(3)
    assert school_of_six.query("FROM history.own_contacted") == [(1, "10", night(1), None)]
    assert [line.says for line in status_of(school_of_six.rollbook()).lines if line.what == "lists"] == [
        "contacted.csv is missing: the table contacts stays as it was. Put it back, or save its heading alone",
        "1 list of the school's own in own/",
    ]


def test_an_id_that_nobody_has_is_found_and_left_out(school_of_six: House) -> None:
    write(school_of_six, HEADING + f"1,{night(1)},{night(9)},\n99,{night(1)},{night(9)},\n")
    school_of_six.night(1)
    assert [row[0] for row in school_of_six.query(NOW)] == [1]
    found = school_of_six.query("SELECT kind, how_many, description FROM data_quality WHERE about = 'contacts'")
    assert found == [("unknown line", 1, "lines of contacted.csv whose student_id nobody has: 99")]


def test_at_most_five_ids_that_nobody_has_are_named(school_of_six: House) -> None:
    write(
        school_of_six,
        HEADING
        + "".join(f"{n},{night(n % 5 + 1)},{night(9)},\n" for n in (1, *range(101, 107)))
        + f"105,{night(8)},{night(9)},\n",
    )
    school_of_six.night(1)
    found = school_of_six.query("SELECT how_many, description FROM data_quality WHERE about = 'contacts'")
    says = "lines of contacted.csv whose student_id nobody has: 101, 102, 103, 104, 105 and 1 more"
    assert found == [(7, says)]


def test_an_id_given_to_another_person_does_not_take_the_contacts_along(school_of_six: House) -> None:
    write(school_of_six, HEADING + "".join(f"{n},{night(1)},{night(30)},a\n" for n in (1, 2)))
    school_of_six.night(1)
    other = {"name": "Someone Else", "email": "someone.else@school.example", "reference_id": "Z-9"}
    school_of_six.night(2, [student(1, **other), *students(6)[1:]])
    stays, late = (2, night(1), night(30), "a"), (1, night(2), night(30), "b")
    contacted.add(school_of_six.warehouse, *late)
    contacted.add(school_of_six.warehouse, 1, night(1) - timedelta(days=9), night(30), "of who had the id before")
    school_of_six.night(3, [student(1, **other), *students(6)[1:]])
    assert school_of_six.query(NOW) == [late, stays]
    before = (1, night(1), night(30), "a")
    assert school_of_six.query(EVER) == [
        (*before, night(1), night(2)),
        (*late, night(3), None),
        (*stays, night(1), None),
    ]
    assert school_of_six.query(f"FROM contacts_as_of('{night(1)}') ORDER BY ALL") == [before, stays]
    assert school_of_six.query(f"FROM contacts_as_of('{night(2)}') ORDER BY ALL") == [stays]
    found = school_of_six.query("SELECT kind FROM data_quality WHERE about = 'contacts'")
    assert found == []


def test_the_pseudonymous_file_has_no_contacts(school_of_six: House) -> None:
    school_of_six.over["pseudonymous"] = True
    write(school_of_six, HEADING + f"1,{night(1)},{night(9)},head\n")
    (school_of_six.warehouse / "own-public.csv").write_text("list,column\ncontacts,noted_by\ncontacted,by\n")
    school_of_six.night(1)
    coded = school_of_six.warehouse / "rollbook-pseudonymous.duckdb"
    assert [rows_in(coded, f"FROM {table}") for table in ("contacts", "history.contacts")] == [[], []]


def test_an_erased_students_contacts_go_and_nothing_brings_them_back(school_of_six: House) -> None:
    text = HEADING + f"5,{night(1)},{night(9)},head\n2,{night(1)},{night(9)},mother of Pupil Number5\n"
    write(school_of_six, text)
    school_of_six.night(1)
    rows = {s.name: s.rows for s in gather(school_of_six.warehouse, 5).sections}
    assert rows["main.contacts"] == [(5, night(1), night(9), "head")]
    assert rows["private.contacted"] == [(night(1), night(9), "head", "")]
    erasure.erase(school_of_six.rollbook().writer(), 5, reason="request 12", confirm=lambda found: True)
    left = (2, night(1), night(9), "mother of (erased)")
    assert school_of_six.query(EVER) == [(*left, night(1), None)]
    write(school_of_six, text)  # saved again from somebody's own copy
    school_of_six.night(2)
    assert school_of_six.query(EVER) == [(*left, night(1), None)]
    past.rebuild(school_of_six.rollbook().writer(), confirm=always)
    assert school_of_six.query(EVER) == [(*left, night(1), None)]
    assert school_of_six.query("SELECT who, cells->>'by' FROM spans.own_lines") == [("2", "mother of (erased)")]
    for day in (1, 2):
        (manifest,) = school_of_six.landings(night(day))
        landing = school_of_six.rollbook().raw.open(manifest)
        for body, content in landing.contents(landing.pages()):
            assert body.kind != "own" or b"Number5" not in content
            assert body.kind != "own" or b"\n5," not in content


def test_a_month_that_does_not_change_is_kept_once(school_of_six: House) -> None:
    """A line is stored again only on the nights on which its month changes, or a file of years would grow for good."""
    lines = [f"{1 + n % 6},{date(2026, 1 + n % 10, 3)},{date(2026, 12, 1)},n{n}\n" for n in range(60)]
    write(school_of_six, HEADING + "".join(lines))
    school_of_six.night(1)
    contacted.add(school_of_six.warehouse, 1, night(1), night(9))
    school_of_six.night(2)
    contacted.add(school_of_six.warehouse, 2, night(2), night(9))
    school_of_six.night(3)
    assert school_of_six.query("SELECT COUNT(*) FROM contacts") == [(62,)]
    assert school_of_six.query("SELECT COUNT(*) FROM spans.own_lines") == [(60 + 1 + 2,)]


def test_more_lines_than_a_list_has_are_told_and_stop_no_night(
    school_of_six: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rollbook.landing.own.MOST_LINES", 3)
    write(school_of_six, HEADING + "".join(f"1,{night(n)},{night(40)},\n" for n in range(1, 6)))
    school_of_six.night(1)
    assert school_of_six.query(NOW) == []
    assert contacts.FILE in (line_of(school_of_six.rollbook(), "lists") or "")


@pytest.mark.parametrize(("seed", "nights"), [(0, 6), weekly(1, 20)])
def test_a_terms_contacts_are_as_a_plain_model_says(seed: int, nights: int) -> None:
    draw, days, said = Random(seed), dict[date, set[tuple[Any, ...]]](), set[tuple[Any, ...]]()
    with new_house(students(12), classes(3)) as house:
        house.over |= {"hold_removed_percent": 100, "hold_changed_percent": 100, "keep_days": 4}
        for number in range(1, nights + 1):
            for _ in range(draw.randrange(4)):
                row = (
                    draw.randint(1, 12),
                    night(number - draw.choice([0, 1, 40])),
                    night(number + 9),
                    draw.choice("ab"),
                )
                contacted.add(house.warehouse, *row)
                said.add(row)
            for row in draw.sample(sorted(said), min(len(said), draw.randrange(2))):
                contacted.undo(house.warehouse, Contacted(*row))
                said.discard(row)
            house.night(number)
            days[night(number)] = {*said}
        for day, rows in days.items():
            assert {*house.query(f"FROM contacts_as_of('{day}')")} == rows, day
