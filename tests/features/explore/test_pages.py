"""The content of the pages, compared with the published views and with what the views said a night before."""

from __future__ import annotations

import csv
import unicodedata
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest
from starlette.datastructures import QueryParams

from rollbook.errors import ArgumentError, NothingLandedError
from rollbook.features.explore import pages
from rollbook.features.explore.book import ROWS, Book, Listing, sql
from rollbook.features.explore.server import hours, known_by
from rollbook.features.morning.morning import REASONS
from rollbook.night import sync
from rollbook.reading.charts import short_date
from rollbook.reading.formats import Format
from rollbook.reading.query import export
from rollbook.store.statements import environment
from tests.support.warehouses.school import DAYS, FIRST, LAST, School

pytestmark = pytest.mark.nights

WATCHED = "SELECT student_id FROM students_to_watch"
SECOND = FIRST + timedelta(days=1)


def shown(school: School, page: Any, query: str = "", **key: Any) -> dict[str, Any]:
    """The values of a page's template, for the query of an address."""
    book = Book(school.warehouse)
    with book.open():
        values: dict[str, Any] = page(book, QueryParams(query), **key)
    return values


def listed(school: School, page: Any, query: str = "", **key: Any) -> list[tuple[Any, ...]]:
    """All rows of a page's list, page after page."""
    rows: list[tuple[Any, ...]] = []
    while True:
        listing: Listing = shown(school, page, f"{query}&page={len(rows) // ROWS + 1}", **key)["listing"]
        rows += listing.rows
        if len(rows) >= listing.total:
            return rows


def test_newly_watched_students_were_not_listed_the_night_before(small: School) -> None:
    before = {key for (key,) in small.rows(WATCHED)}
    assert shown(small, pages.school)["morning"].to_watch == len(before)
    assert small.sandbox
    small.sandbox.day = FIRST + timedelta(days=9)
    fell = next(each for each in small.sandbox.students if each["id"] not in before)
    fell["summary"]["average_score"] = 12.5
    # After nine days most pupils have worked: without this, the night would be held.
    sync(small.rollbook(small.sandbox.day, hold_changed_percent=100).writer(), small.sandbox.day)
    now = {key for (key,) in small.rows(WATCHED)}
    assert now - before
    assert {row[0] for row in listed(small, pages.watch, "show=new")} == now - before
    there = {key for (key,) in small.rows("SELECT student_id FROM students")}
    assert {row[0] for row in listed(small, pages.watch, "show=gone")} & there == (before - now) & there
    assert shown(small, pages.school)["morning"].to_watch == len(now)  # computed again for the new night


def test_a_contact_is_a_mark_on_the_students_charts(fortnight: School, tmp_path: Path) -> None:
    (tmp_path / "rollbook.duckdb").symlink_to(fortnight.published.resolve())
    ((key, other), *_) = fortnight.rows(
        "SELECT ANY_VALUE(student_id), MAX(student_id) FROM students_to_watch WHERE completion_rate > 0"
    )
    days = [FIRST - timedelta(days=1), FIRST + timedelta(days=4), LAST + timedelta(days=3)]
    lines = [f"{key},{day},{LAST + timedelta(days=30)},head\n" for day in days]
    (tmp_path / "contacted.csv").write_text("student_id,on,until,by\n" + "".join(lines))
    book = Book(tmp_path)
    with book.open():
        values, others = (pages.student(book, QueryParams(), key=each) for each in (key, other))
    assert values["charts"]
    for chart in values["charts"]:
        later = f"spoken to on {short_date(days[2])}"
        assert [label.text for label in chart.labels if "spoken" in label.text] == ["spoken to", later]
        assert f"{short_date(days[1])}: spoken to." in chart.alt
        assert f"{short_date(LAST)}: {later}." in chart.alt, "after the newest landed day, at the end"
    assert [each.on for each in values["noted"]] == days[::-1]
    assert all("spoken to" not in chart.alt for chart in others["charts"])


def test_a_malformed_list_of_contacts_hides_nobody_and_is_told(fortnight: School, tmp_path: Path) -> None:
    (tmp_path / "rollbook.duckdb").symlink_to(fortnight.published.resolve())
    ((key, number),) = fortnight.rows("SELECT MAX(student_id), COUNT(*) FROM students_to_watch")
    (tmp_path / "contacted.csv").write_text(f"student_id,on,until\n{key},11/30/2026,12/14/2026\n")
    for page, of in ((pages.watch, {}), (pages.student, {"key": key})):
        book = Book(tmp_path)
        with book.open():
            values = page(book, QueryParams(), **of)
        assert book.contacts_wrong == (
            "contacted.csv, line 2: on is '11/30/2026'; write a date such as 2026-09-01. Correct the line, or remove it"
        )
        assert values.get("can_note", False) is False
        assert page is pages.student or values["listing"].total == number


def test_to_watch_has_severity_reason_classes_and_since_when(fortnight: School) -> None:
    began: dict[int, Any] = {}
    for key, day, change in fortnight.rows("SELECT student_id, snapshot_date, change FROM watch_daily ORDER BY 2"):
        began[key] = day if change in (None, "newly to watch") else began[key]
    change = "CASE change WHEN 'newly to watch' THEN 'new' ELSE 'as before' END"
    expected = fortnight.rows(
        f"SELECT student_id, name, w.severity, w.reason, {change}, class_titles FROM students_to_watch AS w"
        f" JOIN (FROM watch_daily WHERE snapshot_date = DATE '{LAST}') AS d USING (student_id, name)"
        " ORDER BY change = 'newly to watch' DESC NULLS LAST, w.severity DESC, STRIP_ACCENTS(LOWER(name)), student_id"
    )
    rows = listed(fortnight, pages.watch)
    assert [row[:-1] for row in rows] == [(*row[:5], began[row[0]], row[5]) for row in expected]
    daily = {
        (key, day): completion
        for key, day, completion in fortnight.rows(
            "SELECT student_id, snapshot_date, completion_rate FROM student_daily WHERE total_assignments > 0"
        )
    }
    for key, *_, steps in rows:
        held = {LAST - timedelta(days=ago): value for ago, value in steps or ()}
        assert all(daily[key, day] == value for day, value in held.items() if day >= FIRST)
        assert (list(held.values())[-1] if held else None) == daily.get((key, LAST))
    assert len({*began.values()}) > 2
    for flag, _ in REASONS:
        flagged = {key for (key,) in fortnight.rows(f"{WATCHED} WHERE {flag}")}
        assert {row[0] for row in listed(fortnight, pages.watch, f"reason={flag}")} == flagged
    ((class_id, number),) = fortnight.rows(
        "SELECT class_id, COUNT(*) FROM student_classes SEMI JOIN students_to_watch USING (student_id)"
        " GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 1"
    )
    assert len(listed(fortnight, pages.watch, f"class={class_id}")) == number
    choices = shown(fortnight, pages.watch, f"class={class_id}")["choices"]
    for of, some_of in choices.items():
        ids = fortnight.rows(
            f"SELECT DISTINCT {of}_id FROM student_classes LEFT JOIN classes USING (class_id)"
            f" SEMI JOIN (FROM watch_daily WHERE snapshot_date = DATE '{LAST}') USING (student_id) WHERE {of}_id IS NOT NULL"
        )
        assert {key for key, *_ in some_of} == {key for (key,) in ids}
        titles = dict(
            fortnight.rows(f"SELECT DISTINCT {of}_id, {of}_{'title' if of == 'class' else 'name'} FROM classes")
        )
        assert {title.partition(" (")[0] for key, title, _ in some_of if key in titles} <= {*titles.values()}
        assert len({title for _, title, _ in some_of}) == len(some_of)
        assert [key for key, _, is_chosen in some_of if is_chosen] == ([class_id] if of == "class" else [])
    assert shown(fortnight, pages.watch, "class=1")["choices"]["class"][-1] == (1, 1, True)  # nobody of it is to watch
    some = f"text={expected[0][1].upper()}&day={LAST}"
    assert [row[0] for row in listed(fortnight, pages.watch, some)] == [expected[0][0]]


def test_a_class_has_its_own_completion_and_that_of_its_students(fortnight: School) -> None:
    ((key, own, against, students, all_classes, watched),) = fortnight.rows(
        f"""
        SELECT class_id, ANY_VALUE(c.average_completion_rate), ANY_VALUE(completion_vs_course), COUNT(*),
            ROUND(AVG(p.completion_rate) FILTER (total_assignments > 0), 2),
            COUNT(*) FILTER (student_id IN ({WATCHED}))
        FROM class_comparison AS c JOIN student_classes USING (class_id) JOIN student_progress AS p USING (student_id)
        GROUP BY class_id ORDER BY COUNT(*) DESC, class_id LIMIT 1
        """
    )
    values = shown(fortnight, pages.school_class, key=key)["found"]
    assert (values.average_completion_rate, values.completion_vs_course) == (own, against)
    assert (values.students, values.students_completion, values.watched) == (students, all_classes, watched)
    reasons = dict(fortnight.rows("SELECT student_id, reason FROM students_to_watch"))
    rows = listed(fortnight, pages.school_class, key=key)
    assert [row[-1] for row in rows] == [reasons.get(row[0]) for row in rows]
    (counted,) = (row for row in listed(fortnight, pages.classes, f"text={key}") if row[0] == key)
    assert (counted[7], counted[8], counted[10]) == (own, against, watched)


def test_learning_time_is_in_hours_and_a_future_day_is_marked(small: School) -> None:
    assert [hours(2806.76), hours(0.0), hours(None)] == [
        "46.8\N{NO-BREAK SPACE}hours",
        "0.0\N{NO-BREAK SPACE}hours",
        "\N{EN DASH}",
    ]
    assert [known_by(LAST, LAST), known_by(LAST + timedelta(days=1), LAST)] == [
        short_date(LAST),
        f"{short_date(LAST + timedelta(days=1))} (in the future)",
    ]
    assert known_by(None, LAST) == "\N{EN DASH}"
    compared = shown(small, pages.compare)["measures"][1]
    ((minutes,),) = small.rows("SELECT total_time_minutes FROM progress_daily ORDER BY snapshot_date DESC LIMIT 1")
    assert compared.learning_hours == pytest.approx(minutes / 60, abs=0.05)


def test_a_class_without_assignments_has_nothing_to_average(fortnight: School) -> None:
    ((key,),) = fortnight.rows(
        "SELECT MIN(class_id) FROM class_assignment_activity JOIN class_summaries USING (class_id)"
        " WHERE assignment_count = 0 AND average_completion_rate = 0"
    )
    values = shown(fortnight, pages.school_class, key=key)
    found = values["found"]
    assert (found.average_completion_rate, found.average_score, found.completion_vs_course) == (None, None, None)
    assert values["compared"] == dict.fromkeys(("completion", "score"), "nothing to average")
    (row,) = (row for row in listed(fortnight, pages.classes, f"text={key}") if row[0] == key)
    assert row[7:10] == (None, None, None)


def test_a_student_whose_assignments_are_counted_again_has_not_fallen(small: School) -> None:
    assert small.sandbox
    small.sandbox.day = FIRST + timedelta(days=7)
    scored = [each for each in small.sandbox.students if each["summary"]["average_score"]]
    scored[0]["summary"] |= {"total_assignments": 2, "completed_assignments": 1, "completion_rate": 50.0}
    sync(small.rollbook(small.sandbox.day).writer(), small.sandbox.day)
    for record, again in ((scored[0], True), (scored[-1], False)):
        compared = shown(small, pages.student, key=record["id"])["compared"]
        assert {words.startswith("assignments are counted again since") for words in compared.values()} == {again}


@pytest.mark.parametrize("of", ["teacher", "course"])
def test_a_teacher_and_a_course_have_their_classes_and_whom_to_watch(fortnight: School, of: str) -> None:
    ((key, name, students, watched),) = fortnight.rows(
        f"""
        SELECT c.{of}_id, ANY_VALUE(c.{of}_name), COUNT(DISTINCT student_id),
            COUNT(DISTINCT student_id) FILTER (student_id IN ({WATCHED}))
        FROM classes AS c JOIN student_classes USING (class_id) GROUP BY 1 ORDER BY 4 DESC, 1 LIMIT 1
        """
    )
    classes = {key for (key,) in fortnight.rows(f"SELECT class_id FROM classes WHERE {of}_id = {key}")}
    values = shown(fortnight, getattr(pages, of), key=key)
    found = values["found"]
    assert (values["title"], found.students, found.watched) == (name, students, watched)
    assert found.classes == len(classes) > 1
    assert {row[0] for row in values["listing"].rows} == classes
    assert {row[0] for row in listed(fortnight, pages.classes, f"{of}={key}")} == classes
    assert shown(fortnight, pages.classes, f"{of}={key}")["only"] == [(of, key, name)]
    assert len(listed(fortnight, pages.watch, f"{of}={key}")) == watched > 0
    of_classes = dict(fortnight.rows("SELECT class_id, COUNT(*) FROM roster GROUP BY 1"))
    assert {row[0]: row[6] for row in values["listing"].rows} == {key: of_classes.get(key, 0) for key in classes}
    if of == "teacher":
        overview = fortnight.rows(
            f"SELECT average_completion, average_score FROM teacher_overview WHERE {of}_id = {key}"
        )
        assert [(round(found.completion, 2), round(found.score, 2))] == overview
        (row,) = listed(fortnight, pages.teachers, f"text={key}")
        ((active,),) = fortnight.rows(f"SELECT active_class_count FROM teacher_overview WHERE teacher_id = {key}")
        assert row[0::3] == (key, active)
        assert row[4:] == (students, watched)
    # The class, the teacher and the course narrow a list together.
    ((one, other),) = fortnight.rows(
        f"SELECT {min(classes)}, COUNT(*) FROM students_to_watch JOIN student_classes USING (student_id)"
        f" WHERE class_id = {min(classes)}"
    )
    assert len(listed(fortnight, pages.watch, f"{of}={key}&class={one}")) == other
    with pytest.raises(ArgumentError, match=f"This {of} has no listed class"):
        shown(fortnight, getattr(pages, of), key=1)


def test_a_search_leads_to_students_classes_teachers_and_courses(fortnight: School) -> None:
    ((title, teacher, course, class_id, teacher_id, course_id),) = fortnight.rows(
        "SELECT class_title, teacher_name, course_name, class_id, teacher_id, course_id FROM classes ORDER BY ALL LIMIT 1"
    )
    ((leaver, name),) = fortnight.rows(
        "SELECT student_id, ANY_VALUE(name) FROM history.students"
        " WHERE student_id NOT IN (SELECT student_id FROM students) GROUP BY 1 ORDER BY 1 LIMIT 1"
    )
    for text, address in (
        (title, f"/class/{class_id}"),
        (teacher.lower().replace("ä", "A"), f"/teacher/{teacher_id}"),
        (course, f"/course/{course_id}"),
        (name, f"/student/{leaver}"),
        (str(leaver), f"/student/{leaver}"),
    ):
        assert address in {row[0] for row in listed(fortnight, pages.search, f"text={text}")}
    # Of two classes of a title, the closed one comes last, and is told so.
    ((title, active, closed),) = fortnight.rows(
        "SELECT class_title, MAX(class_id) FILTER (class_status = 1), MAX(class_id) FILTER (class_status = 0) FROM classes"
        " GROUP BY 1 HAVING COUNT(DISTINCT class_status) = 2 ORDER BY 1 LIMIT 1"
    )
    first, *_, last = listed(fortnight, pages.search, f"text={title}")
    assert (first[0], last[0]) == (f"/class/{active}", f"/class/{closed}")
    assert [row[3].endswith(", inactive") for row in (first, last)] == [False, True]
    assert listed(fortnight, pages.search, "text=nobody has this name") == []
    assert shown(fortnight, pages.search)["listing"].rows == []
    book = Book(fortnight.warehouse)
    with book.open():
        found = pages.search(book, QueryParams(f"text={leaver}"))["listing"].rows
    assert book.students == [row[2] for row in found].count("student") >= 1


def test_a_day_without_a_student_is_a_gap_of_the_chart(fortnight: School) -> None:
    ((back, left, joined),) = fortnight.rows(
        "SELECT student_id, MIN(left_on), MAX(joined_on) FROM enrollment_spans"
        f" WHERE student_id IN (SELECT student_id FROM students) GROUP BY 1 HAVING MIN(left_on) > DATE '{FIRST}' + 2"
        " AND MAX(joined_on) > MIN(left_on) AND COUNT(DISTINCT left_on) = 1 ORDER BY 1 LIMIT 1"
    )
    chart = shown(fortnight, pages.student, key=back)["charts"][0]
    assert chart.title == f"Missing assignments since {short_date(FIRST)}"
    assert f"{short_date(left)}: left" in chart.alt
    assert f"{short_date(joined)}: joined" in chart.alt


def test_a_student_is_to_watch_since_a_day_or_not(fortnight: School) -> None:
    ((key, reason),) = fortnight.rows("SELECT student_id, reason FROM students_to_watch ORDER BY severity DESC LIMIT 1")
    values = shown(fortnight, pages.student, key=key)
    assert (values["watched"].reason, values["since"].day) == (
        reason,
        next(r[5] for r in listed(fortnight, pages.watch) if r[0] == key),
    )
    ((other,),) = fortnight.rows(f"SELECT MIN(student_id) FROM students WHERE student_id NOT IN ({WATCHED})")
    assert shown(fortnight, pages.student, key=other)["watched"] is None


def test_students_are_found_by_any_text_former_students_too(fortnight: School) -> None:
    ((key, name, reference),) = fortnight.rows("SELECT student_id, name, reference_id FROM students ORDER BY 1 LIMIT 1")
    for text in (str(key), name.upper(), reference, f"  {name} "):
        assert key in {row[0] for row in listed(fortnight, pages.students, f"text={text}")}
    for text in ("' OR 1=1 --", "%25", "$text", "nobody has this name"):
        assert listed(fortnight, pages.students, f"text={text}") == []
    ((leaver, since),) = fortnight.rows(
        "SELECT student_id, MAX(valid_to) FROM history.students WHERE student_id NOT IN (SELECT student_id FROM students)"
        " GROUP BY 1 ORDER BY 1 LIMIT 1"
    )
    assert [(row[0], row[-1]) for row in listed(fortnight, pages.students, f"text={leaver}")] == [(leaver, since)]
    everyone = fortnight.rows("SELECT student_id FROM students ORDER BY STRIP_ACCENTS(LOWER(name)), student_id")
    for order in ("", "sort=student"):
        assert [row[:1] for row in listed(fortnight, pages.students, order)] == everyone


@pytest.mark.parametrize(
    ("name", "typed"),
    [
        ("Anna Berg", "berg,anna"),
        ("Anna\u00a0Berg", "Anna  Berg"),
        ("Siobhan O'Brien", "o\u2019brien"),
        ("Siobhan O\u2019Brien", "obrien"),
        ("Anna Lena M\u00fcller", "Muller, Anna-Lena"),
        ("Anna\u2011Lena", "anna lena"),
        ("\u0141ukasz S\u00f8rensen", "sorensen lukasz"),
        ("Jo Strau\u00df", "STRAUSS"),
        ("\u00c6gir", "aegir"),
        ("\u0130pek", "ipek"),
        ("\u0391\u03bb\u03ad\u03be\u03b7\u03c2", "\u0391\u039b\u0395\u039e\u0397\u03a3"),
        ("\u590f\u660e", "\u660e"),
    ],
)
def test_a_name_is_found_as_people_type_it(name: str, typed: str) -> None:
    held = environment("rollbook.features.explore", "sql").from_string(
        '{% import "_words.sql" as words %}{{ words.held("name") }}'
    )
    query = f"SELECT {held.render()} FROM (SELECT $name AS name)"
    for text, found in ((typed, True), (f"{typed} x", False)):
        assert duckdb.execute(query, {"name": name, "text": text}).fetchall() == [(found,)], text


def test_every_list_finds_a_name_by_its_words(fortnight: School) -> None:
    """In any order, whatever the accents, the case and the blanks."""
    ((key, name, class_id),) = fortnight.rows(
        f"SELECT student_id, name, class_id FROM roster WHERE student_id IN ({WATCHED}) AND name <> STRIP_ACCENTS(name)"
        " ORDER BY ALL LIMIT 1"
    )
    words = "".join(c for c in unicodedata.normalize("NFD", name) if not unicodedata.combining(c)).upper().split()
    of_class = partial(pages.school_class, key=class_id)
    for text in (",\u00a0 ".join(reversed(words)), ", ".join(reversed(name.split()))):
        assert f"/student/{key}" in {row[0] for row in listed(fortnight, pages.search, f"text={text}")}
        for page in (pages.students, pages.watch, of_class):
            assert key in {row[0] for row in listed(fortnight, page, f"text={text}")}
            assert listed(fortnight, page, f"text={text} nobody") == []


def test_two_dates_are_a_week_apart_unless_chosen(fortnight: School) -> None:
    values = shown(fortnight, pages.compare)
    assert (values["before"], values["day"]) == (LAST - timedelta(days=7), LAST)
    chosen = shown(fortnight, pages.compare, f"from={LAST}&to={DAYS[3]}")
    assert (chosen["before"], chosen["day"]) == (DAYS[3], LAST)
    students = fortnight.rows(
        f"SELECT students FROM progress_daily WHERE snapshot_date IN ('{DAYS[3]}', '{LAST}') ORDER BY snapshot_date"
    )
    assert [(m.students,) for m in chosen["measures"]] == students
    first = chosen["changes"][0]
    where = f"table_name = '{first.table_name}' AND column_name = '{first.column_name}' AND change = '{first.change}'"
    between = f"FROM changes_between(DATE '{DAYS[3]}', DATE '{LAST}')"
    assert fortnight.rows(f"SELECT COUNT(*) {between} WHERE {where}") == [(first.how_often,)]
    missing = [row[3] - row[2] for row in listed(fortnight, pages.compare) if None not in row[2:4]]
    assert missing == sorted(missing, reverse=True)
    assert missing[0] > 0


@pytest.mark.parametrize(
    ("column", "comparison", "value", "condition"),
    [
        ("name", "contains", "AN", "name ILIKE '%an%'"),
        ("student_id", "is", "none", "FALSE"),
        ("class_count", "is", "3", "class_count = 3"),
        ("class_count", "is not", "3", "class_count IS DISTINCT FROM 3"),
        ("completion_rate", "is at least", "50", "completion_rate >= 50"),
        ("completion_rate", "is more than", "50", "completion_rate > 50"),
        ("completion_rate", "is at most", "9.5", "completion_rate <= 9.5"),
        ("registration_date", "is at most", "2026-01-31", "registration_date <= '2026-01-31'"),
        ("completion_rate", "is at least", "half", "FALSE"),
        ("average_score", "is empty", "", "average_score IS NULL"),
        ("average_score", "is not empty", "", "average_score IS NOT NULL"),
        ("name", "contains", "", "TRUE"),
        ("", "contains", "x", "TRUE"),
    ],
)
def test_a_filter_is_that_condition(
    fortnight: School, column: str, comparison: str, value: str, condition: str
) -> None:
    query = f"column={column}&comparison={comparison}&value={value}"
    both = f"{query}&column=is_registered&comparison=is&value=1&sort=student_id&desc=1"
    values = shown(fortnight, pages.table, both, name="student_progress")["listing"]
    assert values.rows == fortnight.rows(
        f"FROM student_progress WHERE {condition} ORDER BY student_id DESC LIMIT {ROWS}"
    )
    assert len(values.rows) in (values.total, ROWS)


def test_a_table_of_days_begins_with_the_newest(fortnight: School) -> None:
    newest = shown(fortnight, pages.table, name="student_daily")["listing"]
    assert newest.total == fortnight.rows(f"SELECT COUNT(*) FROM student_daily WHERE snapshot_date = '{LAST}'")[0][0]
    everything = shown(fortnight, pages.table, "column=", name="student_daily")["listing"]
    assert everything.total == fortnight.rows("SELECT COUNT(*) FROM student_daily")[0][0]


def test_a_download_is_what_rollbook_export_writes_of_the_list(fortnight: School, tmp_path: Path) -> None:
    """So it holds all of its rows, and text that a spreadsheet program would run as a formula is disarmed."""
    book = Book(fortnight.warehouse)
    with book.open():
        values = pages.table(
            book, QueryParams("column=name&comparison=contains&value=a&sort=student_id"), name="students"
        )
        text = book.csv(values["listing"], "students").read()
        watched = book.csv(pages.watch(book, QueryParams("csv=1"))["listing"], "watch").read()
    query = "FROM students WHERE name ILIKE '%a%' ORDER BY student_id"
    rows = export(fortnight.published, query, Format.CSV, tmp_path / "students.csv", scratch=tmp_path)
    assert text == (tmp_path / "students.csv").read_bytes()
    assert rows == values["listing"].total > ROWS
    heading, *lines = watched.decode("utf-8-sig").splitlines()
    assert heading == "student_id,student,severity,reason,change,since,classes"
    assert [int(line.split('"')[1]) for line in lines] == [row[0] for row in listed(fortnight, pages.watch)]


def test_a_download_says_since_when_as_the_page_does(fortnight: School, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "sql", lambda name, **of: sql(name, **of).replace("- 100)", "- 3)"))
    book = Book(fortnight.warehouse)
    with book.open():
        text = book.csv(pages.watch(book, QueryParams("csv=1"))["listing"], "watch").read().decode("utf-8-sig")
    since = {int(row["student_id"]): row["since"] for row in csv.DictReader(text.splitlines())}
    assert {str(row[5]) for row in listed(fortnight, pages.watch)} >= {"over 100 days ago", str(LAST)}
    assert since == {row[0]: str(row[5]) for row in listed(fortnight, pages.watch)}


@pytest.mark.parametrize(
    "page", [pages.watch, pages.classes, pages.teachers, pages.students, pages.search, pages.compare]
)
def test_every_list_is_downloaded_in_the_order_shown(fortnight: School, page: Any) -> None:
    book = Book(fortnight.warehouse)
    with book.open():
        content = book.csv(page(book, QueryParams("csv=1&text=an"))["listing"], "a list").read().decode("utf-8-sig")
    shown_first = [str(row[0]) for row in listed(fortnight, page, "text=an")]
    assert [line[0] for line in csv.reader(content.splitlines()[1:])] == shown_first
    assert shown_first


@pytest.mark.parametrize("of", ["class", "teacher", "course"])
def test_the_lists_of_a_class_a_teacher_and_a_course_are_downloaded(fortnight: School, of: str) -> None:
    ((key,),) = fortnight.rows(f"SELECT MIN({of}_id) FROM classes WHERE class_status = 1")
    page = pages.school_class if of == "class" else getattr(pages, of)
    book = Book(fortnight.warehouse)
    with book.open():
        listing = page(book, QueryParams("csv=1"), key=key)["listing"]
        assert len(book.csv(listing, of).read().decode().splitlines()) == listing.total + 1 > 1


@pytest.mark.parametrize(
    ("page", "asked", "key", "message"),
    [
        (pages.watch, "day=2020-01-01", {}, "Nothing was landed on this day: choose one from 2026-09-24 to 2026-10-07"),
        (pages.watch, "reason=name", {}, "There is no such choice on this page"),
        (pages.watch, "class=English", {}, "This class is not known"),
        (pages.classes, "teacher=99999999999999999999", {}, "This teacher is not known"),
        (pages.students, "sort=secret%22", {}, 'This list cannot be sorted by secret": choose one of its columns'),
        (pages.school_class, "", {"key": 1}, "This class is not listed"),
        (pages.student, "", {"key": 1}, "This student is not known"),
        (pages.table, "", {"name": "duckdb_settings()"}, "There is no such table or view"),
        (pages.table, "column=name%22&comparison=is&value=", {"name": "students"}, "no such column or comparison"),
    ],
)
def test_an_address_that_cannot_be_answered_says_why(
    fortnight: School, page: Any, asked: str, key: dict[str, Any], message: str
) -> None:
    with pytest.raises(ArgumentError, match=message):
        shown(fortnight, page, asked, **key)
    assert shown(fortnight, pages.students, "page=99999999999999999999")["listing"].page == 1
    for far in ("page=999999999999999999", "class=999999999999999999"):  # as long as an id may be
        assert shown(fortnight, pages.watch, far)["listing"].rows == []


def test_a_view_opened_later_sees_the_newer_night(small: School) -> None:
    early, late = Book(small.warehouse), Book(small.warehouse)
    with early.open():
        with pytest.raises(duckdb.Error, match="read-only"):
            early.con.execute("DELETE FROM students")
        small.sync(SECOND)
        with late.open():
            assert late.days == [SECOND, FIRST]
        assert early.rows("SELECT MAX(snapshot_date) AS day FROM spans.days")[0].day == FIRST


def test_without_a_published_file_there_is_a_sentence(small: School) -> None:
    small.published.unlink()
    with pytest.raises(NothingLandedError, match="does not exist yet: run `rollbook sync` first$"):
        shown(small, pages.school)
