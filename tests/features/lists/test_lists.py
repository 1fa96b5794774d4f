"""The school's own lists: landed with the night, kept with their history, used without Python."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from random import Random
from typing import Any

import pytest
from openpyxl import load_workbook

import rollbook
from rollbook.errors import ArgumentError, HeldError
from rollbook.features.pages import progress as pages
from rollbook.features.pages.progress import Chosen
from rollbook.night import past
from rollbook.night.discard import discard
from rollbook.night.past import always
from rollbook.reading import query
from rollbook.reading.formats import Format
from rollbook.util.files import empty
from tests.support.nights import House, approve_held, line_of, new_house, night, status_of
from tests.support.reading import rows as rows_in
from tests.support.records import classes, student, students
from tests.support.tiers import weekly

Rows = dict[Any, dict[str, str]]


@pytest.fixture
def school_of_six() -> Iterator[House]:
    """A school with six students and three classes, before its first night."""
    with new_house(students(6), classes(3)) as house:
        yield house


def put(house: House, name: str, text: str | bytes) -> Path:
    """Save a file in `own/`."""
    path = house.warehouse / "own" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def findings(house: House) -> list[tuple[Any, ...]]:
    """What is wrong with lists, by data_quality."""
    return house.query(
        "SELECT kind, about, how_many, description FROM data_quality WHERE about LIKE 'own_%' ORDER BY 1, 2"
    )


def test_a_list_becomes_a_table_with_history(school_of_six: House) -> None:
    put(school_of_six, "year_groups.csv", "Student ID,Year,Tutor group\n1,10,10B\n2,11,11A\n")
    school_of_six.night(1)
    assert school_of_six.query("FROM own_year_groups ORDER BY ALL") == [(1, "10", "10B"), (2, "11", "11A")]
    put(school_of_six, "year_groups.csv", "student_id,tutor_group,year\n2,11A,11\n1,10C,10\n3,,9\n")
    school_of_six.night(2)
    assert school_of_six.query("FROM history.own_year_groups ORDER BY ALL") == [
        (1, "10B", "10", night(1), night(2)),
        (1, "10C", "10", night(2), None),
        (2, "11A", "11", night(1), None),
        (3, None, "9", night(2), None),
    ]
    assert school_of_six.query(f"FROM own_year_groups_as_of('{night(1)}') ORDER BY ALL") == [
        (1, "10B", "10"),
        (2, "11A", "11"),
    ]
    assert school_of_six.query("SELECT student_id, year FROM students_own ORDER BY ALL")[2:4] == [(3, "9"), (4, None)]
    assert school_of_six.query("SELECT COUNT(*), COUNT(DISTINCT student_id) FROM students_own") == [(6, 6)]


def test_lists_are_about_references_emails_classes_and_teachers(school_of_six: House) -> None:
    put(school_of_six, "tutors.csv", "reference_id;tutor\nr-1;Ms A\nR-9;nobody\n")
    put(school_of_six, "support.csv", "email,support\nPUPIL.2@school.example,reads with a ruler\n")
    put(school_of_six, "rooms.csv", "class_code,wing\nC-501,North\n")
    put(school_of_six, "staff.csv", "teacher_email,phone\nTerry@School.example,12\n")
    school_of_six.night(1)
    assert school_of_six.query("FROM own_tutors") == [(1, "Ms A")]
    assert school_of_six.query("FROM own_support") == [(2, "reads with a ruler")]
    assert school_of_six.query("FROM own_rooms") == [(501, "North")]
    assert school_of_six.query("FROM own_staff") == [("terry@school.example", "12")]
    assert findings(school_of_six) == [
        ("unknown line", "own_tutors", 1, "lines whose reference_id nobody has of own/tutors.csv: 3")
    ]


def test_the_last_of_two_lines_counts_and_is_found(school_of_six: House) -> None:
    put(school_of_six, "years.csv", "student_id,year\n1,9\n2,9\n1,10\n")
    school_of_six.night(1)
    assert school_of_six.query("FROM own_years ORDER BY ALL") == [(1, "10"), (2, "9")]
    ((kind, about, how_many, says),) = findings(school_of_six)
    assert (kind, about, how_many) == ("two lines", "own_years", 1)
    assert says.endswith("own/years.csv: 2")


def test_a_shared_email_counts_for_neither(school_of_six: House) -> None:
    put(school_of_six, "support.csv", "email,support\nhome@school.example,reader\n")
    both = [student(1, email="home@school.example"), student(2, email="home@school.example"), *students(4, first=3)]
    school_of_six.night(1, students=both)
    assert school_of_six.query("FROM own_support") == []
    assert [kind for kind, *_ in findings(school_of_six)] == ["shared email"]
    school_of_six.night(2, students=students(6)[1:2] + both[:1] + both[2:])
    assert school_of_six.query("FROM history.own_support") == [(1, "reader", night(2), None)]


def test_an_unreadable_file_keeps_last_nights_list(school_of_six: House, caplog: pytest.LogCaptureFixture) -> None:
    put(school_of_six, "years.csv", "student_id,year\n1,9\n")
    school_of_six.night(1)
    put(school_of_six, "years.csv", b"PK\x03\x04 a workbook")
    school_of_six.night(2)
    assert school_of_six.query("FROM history.own_years") == [(1, "9", night(1), None)]
    assert "own/years.csv: line 1: it is an Excel file, not CSV" in caplog.text
    assert [kind for kind, *_ in findings(school_of_six)] == ["unread list"]
    assert "save it as CSV UTF-8" in (line_of(school_of_six.rollbook(), "lists") or "")


def test_only_a_file_missing_from_a_readable_folder_ends_its_rows(school_of_six: House) -> None:
    path = put(school_of_six, "years.csv", "student_id,year\n1,9\n")
    put(school_of_six, "tutors.csv", "student_id,tutor\n1,A\n")
    school_of_six.night(1)
    path.parent.rename(path.parent.with_name("elsewhere"))
    school_of_six.night(2)
    assert school_of_six.query("FROM own_years") == [(1, "9")]
    path.parent.with_name("elsewhere").rename(path.parent)
    path.unlink()
    assert "own/years.csv was removed" in (line_of(school_of_six.rollbook(), "lists") or "")
    school_of_six.night(3)
    assert school_of_six.query("FROM own_years") == []
    assert school_of_six.query("FROM history.own_years") == [(1, "9", night(1), night(3))]
    assert school_of_six.query("SELECT * FROM students_own LIMIT 1") == [(1, "A")]
    assert "its rows ended on 2026-11-22" in (line_of(school_of_six.rollbook(), "lists") or "")


def test_a_list_waits_with_its_held_landing(school_of_six: House) -> None:
    put(school_of_six, "years.csv", "student_id,year\n1,9\n7,9\n")
    school_of_six.night(1, students=students(60))
    put(school_of_six, "years.csv", "student_id,year\n1,10\n")
    with pytest.raises(HeldError):
        school_of_six.night(2, students=students(20))
    assert school_of_six.query("FROM own_years ORDER BY ALL") == [(1, "9"), (7, "9")]
    approve_held(school_of_six.rollbook())
    assert school_of_six.query("FROM history.own_years ORDER BY ALL") == [
        (1, "10", night(2), None),
        (1, "9", night(1), night(2)),
        (7, "9", night(1), night(2)),
    ]


def test_a_landing_is_used_again_only_with_the_same_lists(school_of_six: House) -> None:
    put(school_of_six, "years.csv", "student_id,year\n1,9\n")
    school_of_six.night(1, over={"cache_minutes": 60})
    school_of_six.sync(over={"cache_minutes": 60})
    assert len(school_of_six.landings(night(1))) == 1
    put(school_of_six, "years.csv", "student_id,year\n1,10\n")
    school_of_six.sync(over={"cache_minutes": 60})
    assert len(school_of_six.landings(night(1))) == 2
    assert school_of_six.query("FROM history.own_years") == [(1, "10", night(1), None)]


def test_oneroster_users_are_taken_as_they_are(school_of_six: House) -> None:
    users = [
        ["sourcedId", "status", "enabledUser", "username", "identifier", "email", "grades", "password"],
        ["a", "active", "true", "one", "R-1", "", "10", "secret"],
        ["b", "active", "true", "two", "R-none", "pupil.2@school.example", "11", ""],
        ["c", "active", "true", "teacher", "", "terry@school.example", "", ""],
        ["d", "tobedeleted", "true", "three", "R-3", "", "9", ""],
    ]
    text = io.StringIO()
    csv.writer(text).writerows(users)
    put(school_of_six, "users.csv", text.getvalue())
    school_of_six.night(1)
    assert school_of_six.query("FROM own_users ORDER BY ALL") == [(1, "10"), (2, "11")]
    assert findings(school_of_six) == []


def test_only_public_columns_are_in_the_pseudonymous_file(school_of_six: House) -> None:
    school_of_six.over["pseudonymous"] = True
    put(school_of_six, "years.csv", "student_id,year,support\n1,10,sees badly\n2,11,\n")
    school_of_six.night(1)
    coded = school_of_six.warehouse / "rollbook-pseudonymous.duckdb"
    assert rows_in(coded, "SELECT * FROM students_own") == []
    (school_of_six.warehouse / "own-public.csv").write_text("list,column\nyears,Year\n")
    school_of_six.night(2)
    assert sorted(rows_in(coded, "SELECT * EXCLUDE (student_id) FROM students_own"), key=str)[:2] == [("10",), ("11",)]
    assert rows_in(coded, "SELECT COUNT(*) FROM students_own SEMI JOIN students USING (student_id)") == [(6,)]
    assert b"sees badly" not in coded.read_bytes()
    (school_of_six.warehouse / "own-public.csv").write_text("list,column\nyears\n")
    school_of_six.night(3)
    assert rows_in(coded, "SELECT * FROM students_own") == []
    assert "own-public.csv: line 2: write a list" in str(lines_of(school_of_six))


def lines_of(house: House) -> list[str]:
    """What status says of lists."""
    return [line.says for line in status_of(house.rollbook()).lines if line.what == "lists"]


def test_a_later_landing_keeps_what_it_cannot_read(school_of_six: House) -> None:
    put(school_of_six, "years.csv", "student_id,year\n1,9\n")
    put(school_of_six, "tutors.csv", "student_id,tutor\n1,A\n")
    school_of_six.night(1)
    put(school_of_six, "years.csv", "student_id,year\n1,'9\n\"")
    put(school_of_six, "tutors.csv", "student_id,tutor\n1,B\n")
    school_of_six.sync()
    assert school_of_six.query("SELECT * FROM own_years, own_tutors") == [(1, "9", 1, "B")]
    past.rebuild(school_of_six.rollbook().writer(), confirm=always)
    assert school_of_six.query("SELECT year, tutor FROM students_own WHERE student_id = 1") == [("9", "B")]


def test_history_of_lists_stays_when_days_expire(school_of_six: House) -> None:
    school_of_six.over["keep_days"] = 3
    for number in range(1, 8):
        put(school_of_six, "years.csv", f"student_id,year\n1,{number}\n")
        school_of_six.night(number)
    assert len(school_of_six.rollbook().raw.days()) < 5
    assert [row[1] for row in school_of_six.query("FROM history.own_years ORDER BY valid_from")] == list("1234567")
    assert school_of_six.query(f"FROM own_years_as_of('{night(2)}')") == [(1, "2")]


def test_a_published_file_that_is_lost_gets_its_lists_back(school_of_six: House) -> None:
    put(school_of_six, "years.csv", "student_id,year\n1,9\n")
    school_of_six.night(1)
    put(school_of_six, "years.csv", "student_id,year\n1,10\n")
    school_of_six.night(2)
    was = school_of_six.query("FROM history.own_years ORDER BY ALL")
    school_of_six.lose_kept()
    school_of_six.lose_published()
    school_of_six.night(3)
    assert school_of_six.query("FROM history.own_years ORDER BY ALL") == was


def test_a_discarded_night_takes_its_lists_along(school_of_six: House) -> None:
    put(school_of_six, "years.csv", "student_id,year\n1,9\n")
    school_of_six.night(1)
    put(school_of_six, "years.csv", "student_id,wrong\n2,x\n")
    school_of_six.night(2)
    discard(school_of_six.rollbook().writer(), night(2), reason="the wrong list")
    assert school_of_six.query("FROM own_years") == [(1, "9")]
    assert school_of_six.query("FROM history.own_years") == [(1, "9", night(1), None)]


def test_lists_choose_pages_sheets_and_notebook_rows(school_of_six: House) -> None:
    put(school_of_six, "years.csv", "student_id,year\n1,10\n2,10\n3,11\n")
    school_of_six.night(1)
    root = school_of_six.warehouse
    made = pages.make(school_of_six.published, empty(root / "p"), Chosen(where="Year=10"), scratch=empty(root / "s"))
    assert made.students == {1, 2}
    assert Chosen(where="year=10 / a").words == "where-year-10-a"
    with pytest.raises(ArgumentError, match="has a column 'house'. The lists have year"):
        pages.make(school_of_six.published, empty(root / "q"), Chosen(where="house=red"), scratch=root / "s")
    target = root / "roster.xlsx"
    query.export(school_of_six.published, "students", Format.XLSX, target, scratch=root / "s", sheet_by="year")
    assert load_workbook(target).sheetnames == ["10", "11", "(none)"]
    book = rollbook.open(root)
    assert list(book.own("years").year) == ["10", "10", "11"]
    assert len(book.own("years", on=night(1))) == 3
    with pytest.raises(ArgumentError, match="no list 'houses' of the school's own: choose from years"):
        book.own("houses")


# --- a term, by a plain model ----------------------------------------------------------------------------------------

NAMES = ("years", "tutors", "support")


class Term:
    """A school's term with three lists, and what each says on every day, in plain Python."""

    def __init__(self, seed: int, nights: int) -> None:
        self.random = Random(seed)
        self.nights = range(1, nights + 1)
        self.pupils = list(range(1, 31))
        self.says: dict[str, Rows] = {"years": {i: {"year": str(7 + i % 5)} for i in self.pupils}, "tutors": {}}
        self.days: dict[date, dict[str, Rows]] = {}
        self.last: dict[str, Rows] = {}

    def change(self) -> None:
        """What the office does in a day: pupils move between groups, a list comes late."""
        for name, rows in self.says.items():
            for pupil in self.random.sample(self.pupils, self.random.randrange(4)):
                column = {"years": "year", "tutors": "group", "support": "note"}[name]
                if self.random.random() < 0.2:
                    rows.pop(pupil, None)
                else:
                    rows[pupil] = {column: f"{column} {self.random.randrange(6)}"}

    def play(self, house: House) -> None:
        """The nights."""
        for number in self.nights:
            if number == 4:
                self.says["support"] = {}
            self.change()
            unread = self.random.choice(NAMES) if self.random.random() < 0.2 else ""
            missing = self.random.choice(NAMES) if self.random.random() < 0.15 else ""
            listed = [student(i) for i in self.pupils if self.random.random() > 0.05]
            self._write(house, unread, missing)
            house.night(number, students=listed)
            here = {s["id"] for s in listed}
            for name in NAMES:
                if name in self.says and name == missing:
                    self.last.pop(name, None)
                elif name in self.says and name != unread:
                    self.last[name] = {pupil: dict(row) for pupil, row in self.says[name].items()}
            said = {name: {p: row for p, row in rows.items() if p in here} for name, rows in self.last.items()}
            self.days[night(number)] = said

    def _write(self, house: House, unread: str, missing: str) -> None:
        for name, rows in self.says.items():
            first = {"years": "student_id", "tutors": "reference_id", "support": "email"}[name]
            ident = {"years": "{}", "tutors": "R-{}", "support": "pupil.{}@school.example"}[name]
            column = {"years": "year", "tutors": "group", "support": "note"}[name]
            lines = [f"{ident.format(p)},{row[column]}" for p, row in rows.items()]
            self.random.shuffle(lines)
            lines.insert(0, "R-mistyped,nothing" if name == "tutors" else f"{ident.format(999)},nothing")
            path = put(house, f"{name}.csv", "\n".join([f"{first},{column}", *lines]))
            if name == unread:
                path.write_text("nobody,knows\n1,2\n")
            if name == missing:
                path.unlink()

    def check(self, house: House) -> None:
        """Every list of every day is as the model says."""
        for day, said in self.days.items():
            for name in NAMES:
                column = {"years": "year", "tutors": "group", "support": "note"}[name]
                rows = house.query(f"FROM own_{name}_as_of('{day}')")
                assert {p: {column: value} for p, value in rows} == said.get(name, {}), (day, name)


@pytest.mark.parametrize(("seed", "nights"), [(0, 7), weekly(1, 14), weekly(2, 40)])
def test_a_terms_lists_are_as_a_plain_model_says(seed: int, nights: int) -> None:
    term = Term(seed, nights)
    with new_house(students(30), classes(3)) as house:
        house.over |= {"hold_removed_percent": 100, "hold_changed_percent": 100}
        term.play(house)
        term.check(house)
        was = {name: house.query(f"FROM history.own_{name} ORDER BY ALL") for name in NAMES}
        for number in term.random.sample(term.nights, 4):
            past.backfill(house.rollbook().writer(), night(number), night(number), confirm=always)
        term.check(house)
        past.rebuild(house.rollbook().writer(), confirm=always)
        assert {name: house.query(f"FROM history.own_{name} ORDER BY ALL") for name in NAMES} == was
