"""Progress reports: what is on each page, whose names, and who finds out that they were made."""

from __future__ import annotations

import re
import stat
import sys
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pypdf import PdfReader
from pypdf.generic import Destination
from typer.testing import CliRunner

from rollbook.cli import app
from rollbook.errors import ArgumentError
from rollbook.features.pages import printing, progress
from rollbook.features.pages.paper import Edition
from rollbook.features.pages.progress import Chosen, Made, events_of, term_chart
from rollbook.landing.records import MAX_ID, MAX_NUMBER
from rollbook.reading import access
from rollbook.reading.charts import Label, readable
from rollbook.reading.charts import short_date as short
from rollbook.util.text import figure
from tests.support.nights import House, new_house
from tests.support.records import classes, entry, school_class, student, students, within
from tests.support.warehouses.erasures import erase
from tests.support.warehouses.school import DAYS, School

pytestmark = pytest.mark.nights

ALL = Chosen()
BEHIND = {"total_assignments": 20, "completed_assignments": 2, "completion_rate": 10.0, "average_score": 12.0}


def made(school: School, into: Path, chosen: Chosen = ALL, since: date | None = None, **options: Any) -> Made:
    scratch = into.parent / f"{into.name}-scratch"
    scratch.mkdir()
    return progress.make(school.published, into, chosen, since=since, scratch=scratch, **options)


@pytest.fixture(scope="module")
def folder(fortnight: School, tmp_path_factory: pytest.TempPathFactory) -> Path:
    into = tmp_path_factory.mktemp("pages") / "all"
    made(fortnight, into)
    return into


def test_the_index_leads_to_pages_of_students_classes_and_teachers(folder: Path, fortnight: School) -> None:
    of = {
        "students": "students",
        "classes": "class_comparison",
        "teachers": "teacher_overview WHERE active_class_count > 0",
    }
    for kind, view in of.items():
        key = {"students": "student_id", "classes": "class_id", "teachers": "teacher_id"}[kind]
        ids = {f"{i}.html" for (i,) in fortnight.rows(f"SELECT {key} FROM {view}")}
        assert {path.name for path in (folder / kind).iterdir()} == ids != set()
    index = (folder / progress.INDEX).read_text(encoding="utf-8")
    linked = re.findall(r'href="(\w+/\d+\.html)"', index)
    assert sorted(linked) == sorted(str(path.relative_to(folder)) for path in folder.glob("*/*.html"))
    for path in folder.rglob("*.html"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert not re.findall(r'(?:src|href)="(?!data:|\w+/\d+\.html)[^"]*"', path.read_text(encoding="utf-8"))


def test_a_students_page_has_the_figures_and_no_other_students_name(folder: Path, fortnight: School) -> None:
    teachers = "SELECT teacher_name FROM classes WHERE teacher_name IS NOT NULL"
    names = dict(fortnight.rows("SELECT student_id, name FROM students"))
    pupils = set(names.values()) - {name for (name,) in fortnight.rows(teachers)}
    rows = fortnight.rows("""
        SELECT p.student_id, p.completed_assignments, p.total_assignments, p.assignment_missing_count, w.reason
        FROM student_progress AS p INNER JOIN students_to_watch AS w USING (student_id) ORDER BY severity DESC LIMIT 20
    """)
    for student_id, completed, total, missing, reason in rows:
        text = plain(folder / "students" / f"{student_id}.html")
        assert names[student_id] in text
        assert f"{completed} of {total} assignments" in text
        assert f"missing assignments {figure(missing)}" in text
        assert f"{reason.split()[0]} " in text.partition("To watch (")[2]
        assert not [name for name in pupils - {names[student_id]} if f" {name} " in f" {text} "]


def test_a_family_s_page_has_no_verdict_and_no_id(fortnight: School, tmp_path: Path) -> None:
    made(fortnight, tmp_path / "pages", edition=Edition.FAMILY)
    assert {path.name for path in (tmp_path / "pages").iterdir()} == {"students", progress.INDEX}
    ((school,),) = fortnight.rows("SELECT school_name FROM institution")
    rows = fortnight.rows("""
        SELECT s.student_id, s.name, s.reference_id, w.severity, w.reason
        FROM students AS s LEFT JOIN students_to_watch AS w USING (student_id)
    """)
    assert {severity is None for *_, severity, _ in rows} == {True, False}
    for student_id, name, reference, _, reason in rows:
        text = plain(tmp_path / "pages" / "students" / f"{student_id}.html")
        assert text.startswith(f"{school} {short(DAYS[-1])} {DAYS[-1].year} Progress report {name} completion")
        said = ("to watch", "To watch", reason, str(student_id), reference)
        assert not [words for words in said if words and words in text]
    index = plain(tmp_path / "pages" / progress.INDEX)
    assert "to watch" not in index


def test_no_page_says_that_there_is_nothing_to_watch(folder: Path) -> None:
    assert not [path.name for path in folder.rglob("*.html") if "Nothing to watch" in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize(("edition", "least"), [(Edition.STAFF, 5), (Edition.FAMILY, 10)])
def test_an_edition_leaves_out_averages_of_smaller_classes(edition: Edition, least: int, tmp_path: Path) -> None:
    taught = [
        school_class(501, class_title="Small", student_count=least - 1),
        school_class(502, class_title="Full", student_count=least),
    ]
    lists = [entry(class_id=501, class_title="Small"), entry(class_id=502, class_title="Full")]
    with new_house() as house:
        house.night(1, [student(i, classes=lists) for i in range(1, 13)], taught)
        progress.make(house.published, tmp_path, ALL, edition=edition, scratch=house.warehouse / "build")
        page = (tmp_path / "students" / "1.html").read_text(encoding="utf-8")
    shown = dict(re.findall(r'<td dir="auto">(Small|Full)</td>.*?<td class="n">(.*?)</td></tr>', page))
    assert shown["Small"].endswith("\u2013")
    assert not shown["Full"].endswith("\u2013")
    assert f"Averages of classes with fewer than {least} students" in page


def test_a_teacher_s_page_has_the_own_classes_alone(folder: Path, fortnight: School) -> None:
    titles = fortnight.rows("SELECT teacher_id, class_title FROM class_comparison")
    for path in (folder / "teachers").iterdir():
        own = {title for teacher, title in titles if teacher == int(path.stem)}
        text = plain(path)
        assert own == {title for _, title in titles if f" {title} " in text}


def test_a_choice_makes_its_own_pages_alone(fortnight: School, tmp_path: Path) -> None:
    ((class_id, teacher_id),) = fortnight.rows(
        "SELECT class_id, teacher_id FROM class_comparison WHERE NOT is_small LIMIT 1"
    )
    roster = {i for (i,) in fortnight.rows(f"SELECT student_id FROM roster WHERE class_id = {class_id}")}
    assert made(fortnight, tmp_path / "class", Chosen(class_id=class_id)) == Made(frozenset(roster), 1, 0)
    taught = fortnight.rows(f"SELECT class_id FROM class_comparison WHERE teacher_id = {teacher_id}")
    of_teacher = made(fortnight, tmp_path / "teacher", Chosen(teacher=teacher_id))
    assert (of_teacher.classes, of_teacher.teachers) == (len(taught), 1)
    assert of_teacher.students >= roster
    one = min(roster)
    assert made(fortnight, tmp_path / "student", Chosen(student=one)) == Made(frozenset({one}), 0, 0)
    assert [path.name for path in (tmp_path / "student").glob("*/*")] == [f"{one}.html"]


def test_names_and_titles_are_in_the_order_that_people_expect() -> None:
    named = ["\u00c9mile", "emma", "Emil", "Zoe", "\u00c5sa"]
    listed = [student(i, name=name) for i, name in enumerate(named, 1)]
    titles = ["Year 10", "Year 9", "year 9b"]
    with new_house() as house:
        taught = [
            within("teacher", teacher_id=n, name=f"{name} Teacher")
            for n, name in enumerate(("\u00c9va", "Zoe", "Eve"), 1)
        ]
        house.night(
            1, listed, [school_class(501 + n, class_title=title, **taught[n]) for n, title in enumerate(titles)]
        )
        folder = house.warehouse / "made"
        progress.make(house.published, folder, Chosen(), since=None, pdf=False, scratch=house.warehouse / "build")
        index, of_class = plain(folder / progress.INDEX), plain(folder / "classes" / "501.html")
    names = ["\u00c5sa", "Emil", "\u00c9mile", "emma", "Zoe"]
    assert re.findall(r"(\w+) Teacher\b", index) == ["\u00c9va", "Eve", "Zoe"]
    index, of_class = (re.sub(r"\w+ Teacher\b", "", page) for page in (index, of_class))
    assert re.findall("|".join(named), index) == re.findall("|".join(named), of_class) == names
    assert re.findall("year 9b|Year 9|Year 10", index) == ["Year 9", "year 9b", "Year 10"]


def test_a_day_of_another_year_has_its_year() -> None:
    last = dict.fromkeys(("first_login_date", "last_activity_date"), "2025-11-19")
    away = student(1, **within("summary", last_activity_date=None), **within("activity_tracking", **last))
    with new_house() as house:
        house.night(1, [away, student(2)], classes(1))
        folder = house.warehouse / "made"
        progress.make(house.published, folder, ALL, since=None, pdf=False, scratch=house.warehouse / "build")
        assert "last active 19 Nov 2025" in plain(folder / "students" / "1.html")
        assert "last active 19 Nov Classes" in plain(folder / "students" / "2.html")


def test_a_day_in_the_future_is_marked() -> None:
    ahead = dict.fromkeys(("first_login_date", "last_activity_date"), "2027-03-04")
    with new_house() as house:
        house.night(1, [student(1, **within("summary", **ahead), **within("activity_tracking", **ahead))], classes(1))
        folder = house.warehouse / "made"
        progress.make(house.published, folder, ALL, scratch=house.warehouse / "build")
        for page in ("students/1.html", "classes/501.html"):
            assert "4 Mar 2027 (in the future)" in plain(folder / page)


def test_reasons_have_the_page_s_form_of_dates_and_decimals(fortnight: School, folder: Path) -> None:
    reasons = [reason for (reason,) in fortnight.rows("SELECT reason FROM students_to_watch")]
    assert [reason for reason in reasons if re.search(r"\d{4}-\d\d-\d\d", reason)]
    assert [reason for reason in reasons if re.search(r"\d\.\d\d", reason)]
    for path in folder.glob("*/*.html"):
        text = plain(path)
        assert not re.findall(r"\d{4}-\d\d-\d\d|\d\.\d\d|\(\d+ %|\(\d+, |from \d+ to", text)
        assert not re.findall(r"\w+day, ", text)


def test_a_reason_in_words_keeps_its_counts() -> None:
    reason = "completion fell from 80 to 72.73 % in 10 days: 48 of 66 assignments, was 48 of 60; 5 more missing"
    assert readable(reason, str) == (
        "completion fell from 80.0 to 72.7 % in 10 days: 48 of 66 assignments, was 48 of 60; 5 more missing"
    )
    reason = "never logged in, registered 2026-10-29; low completion (0 %, under 30); low score (49.96, under 50)"
    assert readable(reason, lambda day: f"{day:%d.%m.}") == (
        "never logged in, registered 29.10.; low completion (0.0 %, under 30); low score (50.0, under 50)"
    )


def test_those_of_the_same_name_are_told_apart() -> None:
    low = within("summary", **BEHIND)
    listed = [
        student(1, name="Ada", **low),
        student(2, name="Ada", reference_id=None, **low),
        student(3, name="Ben", **low),
    ]
    taught = [school_class(501, class_title="Maths"), school_class(502, class_title="Maths", class_code=None)]
    taught += [school_class(503, class_title="Art"), school_class(401, class_title="Art", class_status=0)]
    with new_house(report_names=True) as house:
        house.night(1, [student(9, classes=[entry(class_id=503, class_title="Art")], **low), *listed], taught)
        folder = house.warehouse / "made"
        progress.make(house.published, folder, ALL, since=None, pdf=False, scratch=house.warehouse / "build")
        index, of_class = plain(folder / progress.INDEX), plain(folder / "classes" / "501.html")
        morning = plain(house.warehouse / "report.html")
    for page in (index, of_class, morning):
        assert set(re.findall(r"(?:Ada|Ben)(?: \(.*?\))?", page)) == {"Ada (R-1)", "Ada (2)", "Ben"}
    assert set(re.findall(r"Maths(?: \(.*?\))?", index)) == {"Maths (C-501)", "Maths (502)"}
    # Last year's class called Art is closed: services keep such classes for good.
    assert "Classes Art Maths" in index
    assert "Maths (C-501) Art 3 of 3 1 of 1" in morning


def test_a_school_in_which_nobody_is_listed_has_no_pages() -> None:
    with new_house() as house:
        house.night(1, [], [])
        with pytest.raises(ArgumentError, match="Nobody is listed on the newest day"):
            progress.make(house.published, house.warehouse / "a", ALL, since=None, pdf=False, scratch=house.warehouse)
        shown = plain(house.warehouse / "report.html")
        assert "0 % of 0; 0 for several reasons" in shown


def test_what_cannot_be_made_says_why(fortnight: School, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ArgumentError, match="Nobody is listed for class 1:"):
        made(fortnight, tmp_path / "a", Chosen(class_id=1))
    with pytest.raises(ArgumentError, match="Choose one"):
        made(fortnight, tmp_path / "b", Chosen(student=1, teacher=2))
    with pytest.raises(ArgumentError, match="--since must not be later"):
        made(fortnight, tmp_path / "c", since=DAYS[-1] + timedelta(days=1))
    (tmp_path / "chromium").touch(0o700)
    with monkeypatch.context() as without:
        without.setenv("PATH", str(tmp_path))
        without.setitem(sys.modules, "pypdf", None)
        with pytest.raises(ArgumentError, match=r"A PDF of more than 100 reports needs the extra `pdf`"):
            made(fortnight, tmp_path / "e", pdf=True)
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    with pytest.raises(ArgumentError, match="install it"):
        made(fortnight, tmp_path / "d", pdf=True)


@pytest.fixture(scope="module")
def classes_of_26_to_45(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with new_house() as house:
        sizes = range(26, 46)
        listed = [
            student(
                n,
                name=f"Pupil {n:02}",
                classes=[entry(class_id=500 + s, class_title=f"Of {s}") for s in sizes if s >= n],
            )
            for n in range(1, 46)
        ]
        house.night(1, listed, [school_class(500 + s, class_title=f"Of {s}", student_count=s) for s in sizes])
        yield house


def test_a_pdf_has_a_title_an_outline_and_no_lonely_rows(
    classes_of_26_to_45: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chromium: str
) -> None:
    assert chromium
    monkeypatch.setattr(printing, "PART", 50)
    shown: list[tuple[str, int, int]] = []
    house, scratch = classes_of_26_to_45, tmp_path / "scratch"
    scratch.mkdir()
    progress.make(house.published, tmp_path, ALL, scratch=scratch, pdf=True, progress=lambda *bar: shown.append(bar))
    pdf = PdfReader(tmp_path / progress.PRINTED)
    assert stat.S_IMODE((tmp_path / progress.PRINTED).stat().st_mode) == 0o600
    assert pdf.metadata is not None
    assert pdf.metadata.title == "Progress reports, Made-up School, 20 Nov 2026"
    chapters = [each.title for each in pdf.outline if not isinstance(each, list)]
    assert chapters == ["Teachers", "Classes", "Students"]
    reports = [
        each for below in pdf.outline if isinstance(below, list) for each in below if isinstance(each, Destination)
    ]
    named = [f"Of {s}" for s in range(26, 46)], [f"Pupil {n:02}" for n in range(1, 46)]
    assert [each.title for each in reports] == ["Terry Teacher", *named[0], *named[1]]
    assert {(round(page.mediabox.width), round(page.mediabox.height)) for page in pdf.pages} == {(595, 842)}
    begin = {pdf.get_destination_page_number(each) for each in reports}
    rows = {n: page.extract_text().count("Pupil ") for n, page in enumerate(pdf.pages) if n not in begin}
    assert 0 < len(rows) < 20
    assert min(rows.values()) >= 4
    assert [bar for bar in shown if bar[0] == "reports printed"] == [
        ("reports printed", 50, 66),
        ("reports printed", 66, 66),
    ]


def test_one_student_s_pdf_is_on_the_paper_that_is_set(
    classes_of_26_to_45: House, monkeypatch: pytest.MonkeyPatch, chromium: str
) -> None:
    assert chromium
    for name, value in (classes_of_26_to_45.environment() | {"ROLLBOOK_PAPER": "letter"}).items():
        monkeypatch.setenv(name, value)
    ran = CliRunner().invoke(app, ["pages", "--pdf", "--for", "family", "--student", "7"])
    assert ran.exit_code == 0, ran.output
    folder = classes_of_26_to_45.warehouse / "exports" / "pages" / "family-student-7"
    pdf = PdfReader(folder / progress.PRINTED)
    assert [(round(page.mediabox.width), round(page.mediabox.height)) for page in pdf.pages] == [(612, 792)]
    assert pdf.metadata is not None
    assert pdf.metadata.title == "Pupil 07: progress report, Made-up School, 20 Nov 2026"
    assert [each.title for each in pdf.outline if not isinstance(each, list)] == ["Pupil 07"]
    monkeypatch.setenv("ROLLBOOK_PAPER", "A3")
    ran = CliRunner().invoke(app, ["pages", "--pdf"])
    assert str(ran.exception) == "ROLLBOOK_PAPER must be A4 or Letter"


def test_students_pages_hide_a_small_classs_average_and_escape_names() -> None:
    everybody = [student(1, name="<b>Ada</b>"), *students(7, first=2)]
    with new_house() as house:
        house.night(1, everybody, [school_class(501, class_title="Tiny", student_count=1), *classes(1, first=502)])
        pages = house.warehouse / "made"
        progress.make(house.published, pages, Chosen(), since=None, pdf=False, scratch=house.warehouse / "build")
        page = (pages / "students" / "1.html").read_text(encoding="utf-8")
        assert "&lt;b&gt;Ada&lt;/b&gt;" in page
        assert "<b>Ada" not in page
        assert '<td class="n">\u2013</td><td class="n">\u2013</td></tr>' in page


def test_a_day_on_which_a_student_was_not_there_is_a_gap() -> None:
    landed = [date(2026, 9, 1) + timedelta(days=n) for n in range(6)]
    known = {day: n for n, day in enumerate(landed) if n not in (2, 5)}
    events = [(landed[3], "joined a class"), (landed[4], "left the school")]
    chart = term_chart("Missing assignments", known, landed, events, from_zero=True)
    assert chart is not None
    lines = [points for points, colour, width in chart.lines if (colour, width) == ("strong", 2)]
    assert [len(points) for points in lines] == [2, 2]
    assert [label.text for label in chart.labels][:5] == ["0", "1", "2", "3", "4"]
    assert "the most were 4, on 5 Sep. 4 Sep: joined a class. 5 Sep: left the school." in chart.alt
    assert [label.text for label in chart.labels if label.colour == "ink"] == ["4"]
    shown_events = [label.text for label in chart.labels if label.y <= 30]
    assert shown_events == ["joined a class", "left the school"]
    assert term_chart("Missing assignments", {landed[0]: 1}, landed) is None
    assert term_chart("Missing assignments", {landed[0]: 0, landed[1]: MAX_NUMBER}, landed) is not None


def test_every_event_is_named_in_full_and_no_labels_overlap() -> None:
    landed = [date(2026, 9, 1) + timedelta(days=n) for n in range(90)]
    known = {day: float(n % 40) for n, day in enumerate(landed)}
    events = [(landed[n], words) for n in (1, 40, 41, 42, 89) for words in ("joined 3 classes", "left a class")]
    chart = term_chart("Missing assignments", known, landed, events, from_zero=True)
    assert chart is not None
    labels = [label for label in chart.labels if label.text in ("joined 3 classes", "left a class")]
    assert len(labels) == len(events)
    boxes = [(label.y, *sorted((label.x, label.x + extent(label)))) for label in labels]
    assert not [
        (one, other)
        for n, one in enumerate(boxes)
        for other in boxes[:n]
        if one[0] == other[0] and one[1] < other[2] and other[1] < one[2]
    ]
    assert all(left >= 0 and right <= 100 for _, left, right in boxes)
    drawn = [y for points, colour, _ in chart.lines if colour == "strong" for _, y in points]
    assert min(drawn) > max(label.y for label in labels)


def test_no_value_is_written_over_the_scale() -> None:
    landed = [date(2026, 9, 1) + timedelta(days=n) for n in range(30)]
    known = {day: 31.0 - n for n, day in enumerate(landed)}
    chart = term_chart("Missing assignments", known, landed, from_zero=True)
    assert chart is not None
    (peak,) = [label for label in chart.labels if label.text == "31.0"]
    assert (peak.anchor, peak.x) == ("start", 6)


@pytest.mark.parametrize(
    ("values", "scale"),
    [((80.0, 81.2), (75, 90)), ((98.5, 100.0), (90, 100)), ((0.0, 1.0), (0, 10)), ((104.0, 106.0), (100, 110))],
)
def test_an_axis_of_percent_spans_ten_points(values: tuple[float, float], scale: tuple[int, int]) -> None:
    landed = [date(2026, 9, 1), date(2026, 9, 2)]
    chart = term_chart("Score", dict(zip(landed, values, strict=True)), landed)
    assert chart is not None
    ticks = [int(label.text) for label in chart.labels if label.x == 5]
    assert (min(ticks), max(ticks)) == scale


def test_a_day_of_joining_or_leaving_is_an_event_in_words() -> None:
    first, moved, after = (date(2026, 9, day) for day in (1, 8, 15))
    spans = [
        SimpleNamespace(joined_on=first, is_from_before=True, left_on=moved, end_reason="left the class"),
        SimpleNamespace(joined_on=moved, is_from_before=False, left_on=after, end_reason="left the institution"),
        SimpleNamespace(joined_on=moved, is_from_before=False, left_on=after, end_reason="left the institution"),
        SimpleNamespace(joined_on=first, is_from_before=True, left_on=after, end_reason="class closed"),
        SimpleNamespace(joined_on=after, is_from_before=True, left_on=None, end_reason=None),
    ]
    assert events_of(spans, first) == [
        (moved, "joined 2 classes"),
        (moved, "left a class"),
        (after, "a class closed"),
        (after, "left the school"),
    ]
    assert events_of(spans, moved) == [(after, "a class closed"), (after, "left the school")]


@pytest.fixture
def empty_school(monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    with new_house() as house:
        for name, value in house.environment().items():
            monkeypatch.setenv(name, value)
        yield house


def test_a_family_s_pages_have_a_folder_of_their_own(empty_school: House) -> None:
    empty_school.night(1, students(2), classes(1))
    for options in ([], ["--for", "family"], ["--for", "family", "--teacher", "9"]):
        ran = CliRunner().invoke(app, ["pages", *options])
        assert ran.exit_code == 0, ran.output
    made = empty_school.warehouse / "exports" / "pages"
    assert {path.name for path in made.iterdir()} == {"all", "family", "family-teacher-9"}
    assert (made / "all" / "teachers").is_dir()
    assert {path.name for path in (made / "family-teacher-9").iterdir()} == {"students", "index.html"}


@pytest.mark.parametrize("option", ["--student", "--class", "--teacher"])
def test_a_number_that_no_id_can_be_is_a_wrong_argument(empty_school: House, option: str) -> None:
    ran = CliRunner().invoke(app, ["pages", option, f"{MAX_ID + 1}"])
    assert (ran.exit_code, ran.exception.__class__) == (2, SystemExit), ran.output


def test_new_pages_replace_the_old_and_an_erasure_deletes_them(empty_school: House) -> None:
    empty_school.night(1, [*students(6), student(7, **within("summary", **BEHIND))], classes(3))
    ran = CliRunner().invoke(app, ["pages"])
    assert ran.exit_code == 0, ran.output
    assert "Wrote 1 teacher, 3 classes, 7 students." in ran.output
    folder = empty_school.warehouse / "exports" / "pages" / "all"
    assert (folder / "students" / "7.html").is_file()
    empty_school.night(2, students(6))
    assert CliRunner().invoke(app, ["pages"]).exit_code == 0
    assert not (folder / "students" / "7.html").exists()
    CliRunner().invoke(app, ["pages", "--class", "501"])
    noted = [(e.kind, e.students, e.what) for e in access.entries(empty_school.warehouse)[0]]
    assert noted == [("pages", 7, ""), ("pages", 6, ""), ("pages", 6, "class")]
    erase(empty_school, 1)
    assert not list((empty_school.warehouse / "exports").rglob("*.html"))


def extent(label: Label) -> float:
    """How far a label goes from its place, in percent of a phone's width."""
    return 2.2 * len(label.text) * (-1 if label.anchor == "end" else 1)


def plain(path: Path) -> str:
    """The words of a page, without its marks."""
    body = path.read_text(encoding="utf-8").split("<body>")[1]
    return " ".join(
        re.sub(r"<[^>]+>", " ", body).replace("&rsquo;", "'").replace("&#39;", "'").replace("&amp;", "&").split()
    )
