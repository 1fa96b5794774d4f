"""Random requests of each kind of reader: no answer has a word of a student, or a figure of a class, outside the scope."""

from __future__ import annotations

import random
import re
from collections import Counter
from datetime import date, timedelta
from itertools import product
from pathlib import Path
from urllib.parse import quote, urlencode

import duckdb
import pytest

from rollbook.features.explore import pages
from rollbook.features.explore.login import Door
from rollbook.features.explore.scope import rules
from rollbook.features.morning.morning import REASONS
from rollbook.tables import TABLES
from rollbook.views import catalog
from tests.support.nights import night as day_of
from tests.support.processes.asgi import Answer, ask
from tests.support.reading import writable
from tests.support.tiers import daily, weekly
from tests.support.warehouses.staff import CLASSES, NIGHTS, SCOPED, STUDENTS, Staff, as_reader, door, staff_room, word

pytestmark = [pytest.mark.nights, pytest.mark.timeout(900)]

TITLES = [name if of == "main" else f"{of}.{name}" for of, name in rules()] + [
    "students_own",
    "main.own_x",
    "contacts",
    "history.contacts",
    "nothing",
]
COLUMNS = sorted(
    {c.name for t in TABLES.values() for c in t.columns}
    | {name for view in catalog.views() for name, _ in view.columns}
    | {
        "snapshot_date",
        "valid_from",
        "old_value",
        "new_value",
        "year",
        "tutor_group",
        "student",
        "completion, %",
        "nope",
    }
)
WORDS = re.compile(r"zq(\d{3})", re.IGNORECASE)
# A class's minutes and assignments say which class, and on which night.
FIGURES = re.compile(r"\b(?:90|70)[1-3],?(5\d\d)\b")


@pytest.fixture(scope="module")
def staff(tmp_path_factory: pytest.TempPathFactory) -> Staff:
    """The school with readers; what the requests write is in a copy of it."""
    return staff_room(tmp_path_factory.mktemp("staff") / "w")


@pytest.fixture(scope="module")
def room(staff: Staff) -> Door:
    """Its app, behind the door."""
    return door(staff)


def any_path(draw: random.Random) -> str:
    """Any page, with parameters as they may be, and as nobody would write them."""
    student, school_class = draw.choice([*STUDENTS, 0, 99]), draw.choice([*CLASSES, 1])
    few = {
        "day": str(day_of(draw.randint(0, NIGHTS + 1))),
        "from": str(day_of(draw.randint(1, NIGHTS))),
        "to": str(day_of(draw.randint(1, NIGHTS))),
        # A name that is searched for is in the form again: the word by which an answer is judged is another one.
        "text": draw.choice(
            [f"Anna{student}", "anna", "R-", "Course", str(student), "school.example", "'", "teacher", ""]
        ),
        "class": str(school_class),
        "teacher": str(draw.randint(1, 5)),
        "course": str(draw.randint(0, 3)),
        "show": draw.choice([*pages.SHOWN, "on", "x"]),
        "reason": draw.choice([flag for flag, _ in REASONS]),
        "sort": draw.choice(COLUMNS),
        "desc": "1",
        "page": str(draw.choice([1, 2, 3, 10**6])),
        "csv": "1",
        "list": "x",
    }
    asked = [(name, few[name]) for name in draw.sample([*few], draw.randint(0, 4))]
    table = draw.choice(TITLES)
    for _ in range(draw.choice([0, 1, 1, 2])):
        value = draw.choice([str(student), f"Anna{student}", str(school_class), str(day_of(2)), "zq", "9", "", "x'"])
        asked += [("column", draw.choice(COLUMNS)), ("comparison", draw.choice([*pages.COMPARISONS])), ("value", value)]
    key = draw.choice([str(student), str(school_class), f"{student},{school_class}", "41", "x"])
    why = [("table", draw.choice([*TABLES])), ("key", key), ("column", draw.choice([*COLUMNS, ""]))]
    path = draw.choice(
        [
            *("/", "/watch", "/watch", "/classes", "/teachers", "/search", "/students", "/compare", "/tables", "/why"),
            *(f"/student/{student}", f"/student/{student}", f"/class/{school_class}", f"/class/{school_class}"),
            *(f"/teacher/{draw.randint(1, 5)}", f"/course/{draw.randint(0, 3)}", *[f"/table/{quote(table)}"] * 4),
        ]
    )
    return f"{path}?{urlencode([*asked, *(why if path == '/why' else ())])}"


def known_table(draw: random.Random, staff: Staff) -> str:
    """Rows of one table by one of its own columns, so that most answers are lists."""
    view = draw.choice(catalog.views())
    column = draw.choice(view.columns)[0]
    pairs = [
        ("column", column),
        ("comparison", draw.choice([*pages.COMPARISONS])),
        ("value", draw.choice(["A", "9", "zq", "true", str(day_of(2))])),
    ]
    return f"/table/{view.name}?{urlencode([*pairs, ('sort', column), *[('csv', '1')] * draw.randint(0, 1)])}"


def outside(staff: Staff, login: str, answer: Answer) -> set[str]:
    """What an answer says of students and classes whom the reader does not see."""
    students, averaged = staff.students(login), staff.averaged(login)
    told = {f"student {n}" for n in map(int, WORDS.findall(answer.text)) if n not in students}
    return told | {f"class {n}" for n in map(int, FIGURES.findall(answer.text)) if n not in averaged}


@pytest.mark.parametrize("login", [*SCOPED, "nobody@school.example", "stranger@school.example"])
@pytest.mark.parametrize("count", [40, weekly(1_000)])
def test_random_requests_show_nobody_outside_the_scope(staff: Staff, room: Door, login: str, count: int) -> None:
    draw, statuses, told = random.Random(f"{login} {count}"), Counter[int](), 0
    for number in range(count):
        path = any_path(draw) if number % 3 else known_table(draw, staff)
        is_form = draw.random() < 0.05
        if is_form:
            path = f"/student/{draw.choice(STUDENTS)}/contacted"
        form = {"Content-Type": "application/x-www-form-urlencoded"} if is_form else {}
        answer = ask(
            room,
            path,
            as_reader(login, **form),
            method="POST" if is_form else "GET",
            sent=urlencode({draw.choice(["until", "undo"]): "", "list": "show=all"}) if is_form else "",
        )
        assert outside(staff, login, answer) == set(), path
        assert answer.status in (200, 303, 403, 404), (path, answer.text)
        statuses[answer.status] += 1
        told += bool(WORDS.search(answer.text))
    if login in SCOPED:
        assert statuses[200] > count / 3
        assert told >= count / 20
    else:
        assert told == 0
        assert (statuses[403] == count) is (login == "stranger@school.example")


@pytest.mark.parametrize("login", SCOPED)
def test_each_page_shows_a_reader_theirs_whatever_was_shown_before(staff: Staff, room: Door, login: str) -> None:
    """Values that are remembered for the whole school, or for another reader, are not shown to this one."""
    mine = staff.students(login)
    paths = [
        "/",
        "/students",
        "/watch",
        "/classes",
        "/compare",
        "/search?text=anna",
        "/table/roster",
        "/table/changes?column=",
    ]
    for path in paths:
        whole = ask(room, path, as_reader("head@school.example"))
        assert whole.status == 200
        answer = ask(room, path, as_reader(login))
        assert (answer.status, outside(staff, login, answer)) == (200, set())
    found = {int(n) for n in WORDS.findall(ask(room, "/students?csv=1", as_reader(login)).text)}
    assert found == mine
    everybody = {int(n) for n in WORDS.findall(ask(room, "/students?csv=1", as_reader("head@school.example")).text)}
    assert everybody == {*STUDENTS} - {21, 22}


def test_the_scan_itself_finds_a_foreign_name_and_figure(staff: Staff, room: Door) -> None:
    login = "tutor@school.example"
    for path in ("/students?csv=1", "/table/class_summaries?csv=1"):
        assert outside(staff, login, ask(room, path, as_reader("head@school.example")))


@pytest.mark.parametrize("login", SCOPED)
def test_a_roster_shows_a_readers_students_alone(staff: Staff, room: Door, login: str) -> None:
    mine, classes = staff.students(login), staff.classes(login)
    for each in CLASSES:
        answer = ask(room, f"/class/{each}", as_reader(login))
        assert answer.status == (200 if each in classes else 404)
        if each in classes:
            assert {int(n) for n in WORDS.findall(answer.text)} <= mine
    for number in STUDENTS:
        answer = ask(room, f"/student/{number}", as_reader(login))
        assert answer.status == (200 if number in mine else 404)


def test_why_asks_the_readers_own_history_first(staff: Staff, room: Door) -> None:
    login = "tutor@school.example"
    mine, classes, averaged = staff.students(login), staff.classes(login), staff.averaged(login)

    def status(table: str, key: object, more: str = "") -> int:
        return ask(room, f"/why?table={table}&key={key}{more}", as_reader(login)).status

    inside, beyond, small = min(mine), min({*STUDENTS} - mine - {21, 22}), min(classes - averaged)
    assert [status("students", n, "&show=on") for n in (inside, beyond)] == [200, 404]
    assert [status("student_classes", f"{n},{501 + n * 5 % 14}") for n in (inside, beyond)] == [200, 404]
    assert [status("classes", small, more) for more in ("", "&show=on")] == [200, 404]
    assert [status("class_summaries", n, "&show=on") for n in (small, min(averaged))] == [404, 200]
    assert status("institution", 41, "&show=on") == 404
    login = "teacher2@school.example"
    assert [status("classes", n) for n in (502, 503)] == [200, 404]
    login = "tutor@school.example"
    answer = ask(room, f"/why?table=students&key={inside}&show=on", as_reader(login))
    assert {int(n) for n in WORDS.findall(answer.text)} == {inside}


def test_only_ones_own_students_can_be_noted_as_spoken_to(tmp_path: Path) -> None:
    staff = staff_room(tmp_path / "w")
    login, room, day = "tutor@school.example", door(staff), date.today()  # noqa: DTZ011 - as a person writes it
    inside, beyond = min(staff.students(login)), min({*STUDENTS} - staff.students(login))
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    contacted, until = staff.warehouse / "contacted.csv", day + timedelta(days=14)

    def send(student: int, headers: list[tuple[str, str]] | None = None, **sent: object) -> int:
        of = headers or as_reader(login, **form)
        return ask(room, f"/student/{student}/contacted", of, method="POST", sent=urlencode(sent)).status

    assert send(beyond, until=until) == 404
    assert send(inside, as_reader(login, **form, Origin="https://evil.example"), until=until) == 403
    assert not contacted.exists()
    assert send(inside, until=until) == 303
    line = f"{inside},{day},{until},{login}\n"
    assert contacted.read_text() == f"student_id,on,until,by\n{line}"
    foreign = f"{beyond},{day},{until},head@school.example\n"
    contacted.write_text(contacted.read_text() + foreign)
    assert send(beyond, undo=f"{day}/{until}/head@school.example") == 404
    assert send(inside, undo=f"{day}/{until}/head@school.example") == 303, "another student's note"
    assert foreign in contacted.read_text()
    assert send(inside, undo=f"{day}/{until}/{login}") == 303
    assert contacted.read_text() == f"student_id,on,until,by\n{foreign}"


def test_a_formula_as_login_is_written_as_text(tmp_path: Path) -> None:
    staff, login = staff_room(tmp_path / "w"), "=hyperlink(x)@school.example"
    (staff.warehouse / "readers.csv").write_text(f"login,sees\n{login},all\n")
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    sent = urlencode({"until": date.today() + timedelta(days=3)})  # noqa: DTZ011 - as a person writes it
    assert ask(door(staff), "/student/7/contacted", as_reader(login, **form), method="POST", sent=sent).status == 303
    assert (staff.warehouse / "contacted.csv").read_text().splitlines()[1].endswith(f",'{login}")


@pytest.mark.parametrize("login", SCOPED)
def test_who_was_spoken_to_is_shown_of_ones_own_alone(tmp_path: Path, login: str) -> None:
    """Each student's note has the student's word, so that a foreign one would be seen on any page."""
    staff = staff_room(tmp_path / "w")
    room, mine, day = door(staff), staff.students(login), date.today()  # noqa: DTZ011 - as a person writes it
    lines = [f"{n},{day},{day + timedelta(days=9)},{word(n)}" for n in STUDENTS]
    (staff.warehouse / "contacted.csv").write_text("\n".join(["student_id,on,until,by", *lines]))
    told = set[int]()
    paths = ["/", *(f"/watch?show={show}" for show in pages.SHOWN), "/watch?show=spoken&csv=1"]
    paths += [f"/watch?noted={n}" for n in (*STUDENTS[:9], max({*STUDENTS} - mine))]
    paths += [f"/student/{n}" for n in STUDENTS[::7]]
    for path in paths:
        answer = ask(room, path, as_reader(login))
        assert outside(staff, login, answer) == set(), path
        told |= {int(n) for n in WORDS.findall(answer.text)}
    assert told & mine
    ((watched, spoken),) = re.findall(
        r"<strong>(\d+) to speak to</strong>, and <a [^>]+>(\d+) spoken to", ask(room, "/watch", as_reader(login)).text
    )
    assert (int(watched), int(spoken) > 0) == (0, True)


@pytest.mark.parametrize("login", SCOPED)
def test_a_malformed_list_of_contacts_stops_no_page(tmp_path: Path, login: str) -> None:
    staff = staff_room(tmp_path / "w")
    room, mine = door(staff), min(staff.students(login))
    text = f"student_id,on,until,by\n{mine},11/30/2026,12/14/2026,head\nzq001,,,\n"
    (staff.warehouse / "contacted.csv").write_text(text)
    for path in ("/", "/watch", f"/student/{mine}"):
        answer = ask(room, path, as_reader(login))
        assert answer.status == 200, path
        said = (
            "until contacted.csv can be read: contacted.csv, line 2. Tell the person who runs Rollbook at your school."
        )
        assert said in answer.text, path
        assert "11/30" not in answer.text
        assert str(staff.warehouse) not in answer.text
        assert ">Spoken to</button>" not in answer.text
        assert 'name="until"' not in answer.text
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    sent = urlencode({"until": date.today() + timedelta(days=3)})  # noqa: DTZ011 - as a person writes it
    assert ask(room, f"/student/{mine}/contacted", as_reader(login, **form), method="POST", sent=sent).status == 503
    assert (staff.warehouse / "contacted.csv").read_text() == text


@pytest.mark.parametrize("login", daily(SCOPED, "tutor@school.example", "both@school.example"))
def test_the_table_of_contacts_has_ones_own_students_alone(tmp_path: Path, login: str) -> None:
    """Whatever is asked of it, also where a condition would fail on the row of another reader's student."""
    staff, day = staff_room(tmp_path / "w"), day_of(2)
    with duckdb.connect(str(writable(staff.published))) as con:
        for number in STUDENTS:
            con.execute("INSERT INTO main.contacts VALUES ($1, $2, $2, $3)", [number, day, word(number)])
        con.execute("INSERT INTO history.contacts SELECT *, spoken_on, NULL FROM main.contacts")
    room, mine, told = door(staff), staff.students(login), set[int]()
    values, draw = ("zq", str(day), "1e999", str(min({*STUDENTS} - mine))), random.Random(login)
    for name, column, comparison in product(
        ("contacts", "history.contacts"), ("", "noted_by", "student_id", "spoken_on"), pages.COMPARISONS
    ):
        pairs = [("column", column), ("comparison", comparison), ("value", draw.choice(values)), ("csv", "1")]
        answer = ask(room, f"/table/{name}?{urlencode(pairs)}", as_reader(login))
        assert (answer.status in (200, 404), outside(staff, login, answer)) == (True, set()), pairs
        told |= {int(n) for n in WORDS.findall(answer.text)}
    assert told == mine
    assert ask(room, "/table/contacts", as_reader("nobody@school.example")).text.count("zq") == 0
