"""The morning page: what it says, what it keeps to itself, and that it is never in the way of the data."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any

import duckdb
import pytest

from rollbook.errors import HeldError, KeyRefusedError, SettingError
from rollbook.features.morning import morning
from rollbook.features.morning import page as report
from rollbook.landing.manifest import Hold, TableCounts
from rollbook.night.discard import discard
from rollbook.night.past import always
from rollbook.settings import load
from tests.support.nights import approve_held, new_house, night
from tests.support.reading import text, writable
from tests.support.records import MISSING, classes, entry, school_class, student, students, within
from tests.support.warehouses.school import DAYS, LAST, School, small_school
from tests.support.wire import faults

pytestmark = pytest.mark.nights

COUNTED = "SELECT (SELECT COUNT(*) FROM students), SUM(active_class_count) FROM course_overview"
AT = datetime(2026, 10, 7, 2, 16, tzinfo=UTC)


def made(school: School, **how: Any) -> str:
    with duckdb.connect(str(school.published), read_only=True) as con:
        return report.make(con, at=AT, **how)


def names(school: School) -> set[str]:
    """Everybody's names, numbers and addresses."""
    students = school.rows("SELECT UNNEST([name, email, reference_id]) FROM students")
    teachers = school.rows("SELECT UNNEST([teacher_name, teacher_email]) FROM classes")
    return {name for (name,) in (*students, *teachers) if name}


@pytest.fixture(scope="module")
def two_nights(small_synced: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The small school with a second night. To be copied, not changed."""
    with small_school(small_synced, tmp_path_factory.mktemp("report") / "w") as school:
        school.sync(DAYS[1])
        yield school.warehouse


@pytest.fixture
def small(two_nights: Path, tmp_path: Path) -> Iterator[School]:
    with small_school(two_nights, tmp_path / "w") as school:
        yield school


def test_it_leads_to_the_address_that_it_gave_for_the_names(two_nights: Path, tmp_path: Path) -> None:
    with small_school(two_nights, tmp_path / "w") as school:
        assert "rollbook explore</code>, typed on the machine" in made(school)
        school.sync(DAYS[2], explore_url="https://Rollbook.School.example/")
        page = (school.warehouse / "report.html").read_text()
    assert '<a href="https://rollbook.school.example/watch">rollbook.school.example</a>' in page
    assert "typed on the machine" not in page


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://rollbook.school.example", "must begin with https:// (plain http would show names to the network)"),
        ("https://rollbook.school.example/x", "must be an address such as https://rollbook.example.org, which ends after the host"),
        ("https://a:b@rollbook.school.example", "must be an address such as https://rollbook.example.org, which ends after the host"),
        ("rollbook.school.example", "must be an address such as https://rollbook.example.org, which ends after the host"),
        ("https://a:99999", "has an invalid host or port"),
    ],
)  # fmt: skip
def test_an_address_that_nobody_can_open_is_refused(url: str, problem: str) -> None:
    with pytest.raises(SettingError, match=re.escape(f"ROLLBOOK_EXPLORE_URL {problem}")):
        load(fetches=False, explore_url=url)


def test_each_publish_writes_it_and_it_is_of_the_newest_night(fortnight: School) -> None:
    html = (fortnight.warehouse / "report.html").read_text()
    assert "<h1>Wednesday, 7 Oct 2026</h1>" in html
    students, classes = fortnight.rows(COUNTED)[0]
    assert f"Last night's sync is complete: {students} students and {classes} active classes." in text(html)


def test_its_figures_are_those_of_the_views(fortnight: School) -> None:
    shown = text(made(fortnight))
    watch, several = fortnight.rows("SELECT COUNT(*), COUNT(*) FILTER (reason_count > 1) FROM students_to_watch")[0]
    assert f"students to watch {watch} " in shown
    assert f"{several} for several reasons" in shown
    now = fortnight.rows("SELECT * FROM progress_daily ORDER BY snapshot_date DESC LIMIT 1")[0]
    assert f"average completion {now[4]:.1f} %" in shown
    assert f"average score {now[6]:.1f}" in shown
    assert f"active within 7 days {now[9]:.1f} %" in shown
    then = fortnight.rows("SELECT average_completion_rate FROM progress_daily WHERE snapshot_date = DATE '2026-09-30'")
    moved = now[4] - then[0][0]
    moved_by = f"{'↑' if moved > 0 else '↓'} {abs(moved):.1f} points since 30 Sep"
    assert f"average completion {now[4]:.1f} % {moved_by if abs(moved) >= 0.05 else 'unchanged since 30 Sep'}" in shown
    assert shown.count("since 30 Sep") == 3  # one date for all that went up or down


def test_a_classs_students_to_watch_are_its_rosters(fortnight: School) -> None:
    with duckdb.connect(str(fortnight.published), read_only=True) as con:
        data = morning.load_morning(con)
    roster = fortnight.frame("SELECT class_id, class_title, student_id FROM roster")
    query = f"SELECT student_id, change FROM watch_daily WHERE snapshot_date = '{LAST}' AND severity IS NOT NULL"
    roster["change"] = roster.student_id.map(fortnight.frame(query).set_index("student_id").change)
    by_class = roster.groupby("class_id")
    for w in data.watched:
        mine = by_class.get_group(w.class_id)
        assert (w.class_title, w.students) == (mine.class_title.iloc[0], len(mine))
        assert (w.watched, w.new) == (mine.change.notna().sum(), (mine.change == "newly to watch").sum())
    assert data.watched_classes == (by_class.change.count() > 0).sum()
    assert [w.watched for w in data.watched] == sorted((w.watched for w in data.watched), reverse=True)


def test_the_pages_verdict_is_the_newest_day_of_watch_daily(fortnight: School) -> None:
    shown = text(made(fortnight))
    counts = dict(
        fortnight.rows(f"SELECT change, COUNT(*) FROM watch_daily WHERE snapshot_date = '{LAST}' GROUP BY change")
    )
    new, still, former = (counts.get(f"{change} to watch", 0) for change in ("newly", "still", "no longer"))
    assert f"{new} students are newly to watch, of {new + still} in all." in shown
    assert f"New since Tuesday, 6 Oct 2026 {new} newly to watch : " in shown
    assert f"{former} no longer to watch" in shown
    bands = fortnight.rows("SELECT severity >= 4, COUNT(*) FROM students_to_watch GROUP BY 1 ORDER BY 1")
    assert f"high {bands[1][1]} " in shown


def test_report_counts_of_changes_match_the_views(fortnight: School) -> None:
    shown = text(made(fortnight))
    new, former = fortnight.rows(
        f"SELECT students_added, students_removed FROM progress_daily WHERE snapshot_date = '{LAST}'"
    )[0]
    assert (new, former) != (0, 0)
    assert f"{new} student{' is' if new == 1 else 's are'} new or back" in shown
    assert f"{former} student{' is' if former == 1 else 's are'} no longer listed" in shown
    last = f"change = 'joined' AND snapshot_date = '{LAST}'"
    (joined,) = fortnight.rows(f"SELECT COUNT(DISTINCT student_id) FROM enrollment_changes WHERE {last}")[0]
    assert f"{joined} students joined a class" in shown


def test_it_names_nobody_unless_told_to(fortnight: School) -> None:
    html = made(fortnight)
    assert [name for name in names(fortnight) if name in html] == []
    named = made(fortnight, names=True)
    assert "This page names pupils" in named
    assert not any(mail in named for (mail,) in fortnight.rows("SELECT email FROM students"))


def test_the_students_to_watch_are_named_by_severity_with_reasons(fortnight: School) -> None:
    listed = made(fortnight, names=True).partition("<!-- names -->")[2].partition("<!-- end of names -->")[0]
    matches = re.findall(r"<li>.*?<strong>(.*?)</strong>.*?title=.([\d.]+).>(\w+)</span>; .*?<br>(.*?)</li>", listed)
    assert listed.count("<polyline") > len(matches) / 2
    new = f"SELECT student_id FROM watch_daily WHERE snapshot_date = '{LAST}' AND change = 'newly to watch'"
    to_watch = fortnight.rows(
        "SELECT name, reference_id, severity, reason FROM students_to_watch"
        f" ORDER BY student_id NOT IN ({new}), severity DESC, student_id"
    )
    names = Counter(name for (name,) in fortnight.rows("SELECT name FROM students"))
    assert [tuple(map(unescape, row)) for row in matches] == [
        (
            name if names[name] == 1 else f"{name} ({reference})",
            f"{severity:.1f}",
            "high" if severity >= 4 else "medium" if severity >= 2 else "low",
            why,
        )
        for name, reference, severity, why in to_watch
    ]


def test_without_names_it_says_how_to_open_them_and_leads_nowhere(fortnight: School) -> None:
    """Of explore it knows no address that holds for its reader, and so has no link."""
    page = made(fortnight)
    assert "<code>rollbook explore</code>, typed on the machine that Rollbook runs on, opens them" in page
    assert "with <code>ROLLBOOK_REPORT_NAMES=1</code> among the settings, this page names them" in page
    assert "<a " not in page


def test_leaving_the_school_is_not_leaving_a_class(fortnight: School) -> None:
    shown = text(made(fortnight))
    left = f"""SELECT COUNT(DISTINCT student_id) FILTER (is_student_listed), COUNT(DISTINCT student_id)
               FROM enrollment_changes WHERE change = 'left' AND snapshot_date = '{LAST}'"""
    ((listed, everybody),) = fortnight.rows(left)
    assert listed < everybody
    assert (f"{listed} student left a class" in shown or f"{listed} students left a class" in shown) is bool(listed)
    submitted, missing = (
        fortnight.rows(
            f"""SELECT COUNT(*) FROM changes WHERE snapshot_date = '{LAST}' AND column_name = '{column}'
                AND CAST(new_value AS INT) > CAST(old_value AS INT)"""
        )[0][0]
        for column in ("assignment_submission_count", "assignment_missing_count")
    )
    assert f"{submitted} students submitted assignments" in shown
    assert f"{missing} students are missing more assignments" in shown


def test_a_failed_sync_dates_the_figures_and_folds_the_advice(small: School) -> None:
    with pytest.raises(KeyRefusedError) as refused:
        small.sync(DAYS[2], api_key="another")
    html = (small.warehouse / "report.html").read_text()
    said, _, folded = html.partition("<details><summary>For IT</summary>")
    assert (
        "These are Friday\N{RIGHT SINGLE QUOTATION MARK}s figures. Last night's sync did not work, so nothing newer is known yet."
        in text(said)
    )
    assert text(folded).startswith(refused.value.message)


def test_who_was_spoken_to_is_named_last_until_the_day(fortnight: School) -> None:
    new = f"SELECT student_id FROM watch_daily WHERE snapshot_date = '{LAST}' AND change = 'newly to watch'"
    ((key, name), *_) = fortnight.rows(f"SELECT student_id, name FROM students_to_watch WHERE student_id IN ({new})")
    with duckdb.connect(str(fortnight.published), read_only=True) as con:
        html = report.make(con, at=AT, names=True, resting={key: LAST + timedelta(days=14)})
    named = re.findall(r"<li>.*?<strong>(.*?)</strong>(.*?)<br>", html)
    assert unescape(named[-1][0]).startswith(name), "with the reference id where two have the name"
    assert f"(spoken to; back on {LAST + timedelta(days=14)})" in named[-1][1]
    assert 'class="new"' not in named[-1][1]


def test_a_malformed_list_of_contacted_students_is_remarked_and_hides_nobody(small: School) -> None:
    (small.warehouse / "contacted.csv").write_text("student_id,on,until\nAda,,\n")
    small.sync(DAYS[2], report_names=True)
    shown = (small.warehouse / "report.html").read_text()
    assert "This page names pupils" in shown
    assert "contacted.csv, line 2: student_id is" in shown


def test_the_setting_is_what_makes_it_name_them(small: School) -> None:
    small.sync(DAYS[2], report_names=True)
    assert "This page names pupils" in (small.warehouse / "report.html").read_text()
    small.sync(DAYS[3])
    assert "This page names pupils" not in (small.warehouse / "report.html").read_text()


def test_a_title_is_text_even_if_it_looks_like_markup(fortnight: School, tmp_path: Path) -> None:
    school = fortnight.copy(tmp_path / "w")
    title = "<script>alert(1)</script> $5 & $6"
    with duckdb.connect(writable(school.published)) as con:
        con.execute("UPDATE classes SET class_title = ?", [title])
        con.execute("UPDATE institution SET school_name = '<b>School</b>'")
    html = made(school)
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt; $5 &amp; $6" in html
    assert "<b>School" not in html


def test_the_first_night_has_a_page_too(small_synced: Path) -> None:
    school = School(small_synced)
    shown = text((school.warehouse / "report.html").read_text())
    (count,) = school.rows("SELECT COUNT(*) FROM students_to_watch")[0]
    assert f"{count} students are to watch on this first night." in shown
    assert "There is no night before to compare with" in shown
    assert "The nightly syncs: 1 of 1 night synced." in shown
    assert "A trend needs a second night" in shown
    assert "nothing from a week ago to compare with" in shown


def test_a_new_terms_count_of_assignments_is_not_a_fall() -> None:
    with new_house() as house:
        house.night(1, students(20), classes(2))
        new = within("summary", total_assignments=2, completed_assignments=1, completion_rate=50.0, average_score=60.0)
        house.night(8, [student(i, **new) for i in range(1, 12)] + students(9, first=12))
        shown = text((house.warehouse / "report.html").read_text())
        assert shown.count("assignments are counted again since 20 Nov") == 2
        assert "scores fell" not in shown
        house.night(15)
        shown = text((house.warehouse / "report.html").read_text())
        assert "unchanged since 27 Nov" in shown
        assert "counted again" not in shown


def test_a_service_that_states_no_activity_has_a_page_that_says_so(caplog: pytest.LogCaptureFixture) -> None:
    with new_house() as house:
        listed = [student(i, activity_tracking=None, **within("summary", last_activity_date=None)) for i in range(1, 9)]
        for number in (1, 8):
            house.night(number, listed, [school_class(501), school_class(502)])
        shown = text((house.warehouse / "report.html").read_text())
    assert re.search(r"active within 7 days . no activity is known", shown)
    assert "No class is ahead of its course, or behind." in shown
    assert "could not be brought up to date" not in caplog.text


def test_students_of_unstated_classes_are_not_said_to_be_in_none() -> None:
    low = within("summary", completion_rate=15.0)
    with new_house(report_names=True) as house:
        house.night(1, [student(i, classes=MISSING, **low) for i in range(1, 9)], classes(2))
        shown = text((house.warehouse / "report.html").read_text())
    assert "in no class" not in shown
    assert shown.count("no class known") == 8
    assert "No class of those to watch is known." in shown


def test_classes_without_a_count_of_their_students_are_compared_by_their_rosters(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """No value is stated that a class may lack, but for the completion."""
    rates = {501: 90.0, 502: 60.0, 503: 75.0}
    without = dict.fromkeys(("class_code", "class_room", "class_dateadded", "teacher", "student_count"))
    taught = [school_class(c, **without, summary={"average_completion_rate": rate}) for c, rate in rates.items()]
    listed = [student(i, classes=[entry(class_id=c) for c in rates]) for i in range(1, 8)]
    with new_house() as house:
        house.night(1, listed, taught)
        page = unescape((house.warehouse / "report.html").read_text())
    assert 'Class 501</td><td class="n">7</td><td class="n">90.0 %</td>' in page
    assert "could not be brought up to date" not in caplog.text


@pytest.mark.slow
def test_a_held_night_is_on_the_page_until_it_is_approved(small: School) -> None:
    for day in DAYS[2:4]:  # a weekend, on which nothing changes
        small.sync(day)
    assert small.sandbox
    renamed = faults.records(lambda records: [r | {"name": f"{r['name']} II"} for r in records])
    small.sandbox.on(renamed, path="students", times=None)
    with pytest.raises(HeldError):
        small.sync(DAYS[4])
    html = (small.warehouse / "report.html").read_text()
    said, _, advice = text(html).partition("For IT")
    assert (
        "These are Sunday\N{RIGHT SINGLE QUOTATION MARK}s figures. More would change than on a normal night, so a person must"
        in said
    )
    assert re.search(r"the records of \d+ students( and \d+ classes)? would change\.", said)
    assert "complete" not in said
    assert not re.search("student_|class_|rows of", said)
    assert "would change" in advice
    assert f"{DAYS[3].day} Sep 2026</h1>" in html
    approve_held(small.rollbook(DAYS[4]), DAYS[4])
    html = (small.warehouse / "report.html").read_text()
    assert "figures. " not in text(html)
    assert f"{DAYS[4].day} Sep 2026</h1>" in html


def test_a_page_that_cannot_be_made_keeps_no_data_from_readers(
    small: School, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    before = (small.warehouse / "report.html").read_text()

    def broken(data: object) -> None:
        raise ValueError("Maria Example's record is odd")

    monkeypatch.setattr(morning, "draw", broken)
    with caplog.at_level(logging.WARNING):
        small.sync(DAYS[2])
    assert small.rows("SELECT MAX(snapshot_date) FROM spans.days") == [(DAYS[2],)]
    assert (small.warehouse / "report.html").read_text() == before
    assert "report.html could not be brought up to date: ValueError" in caplog.text
    assert "Maria" not in caplog.text


def test_a_held_night_says_how_many_lose_their_figures() -> None:
    lost = TableCounts(
        table="student_summaries", before=60, added=0, changed=60, removed=0, vanished={"average_score": (58, 57)}
    )
    says = report.on_page(HeldError("Held", Hold(reason="57 of 58 rows", counts=(lost,))))
    assert says.endswith("a person must approve it first: figures of 57 students would vanish.")


def test_it_goes_with_the_only_landing() -> None:
    with new_house(students(3), classes(1)) as house:
        house.night(1)
        page = house.warehouse / "report.html"
        assert page.is_file()
        discard(house.rollbook().writer(), night(1), reason="the wrong school", confirm=always)
        assert not page.exists()
