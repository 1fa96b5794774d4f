"""Views of the state and of days against pandas, over the base tables; the rest are checked by hand and by script."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta

import duckdb
import pandas as pd
import pytest

from rollbook.views import catalog
from tests.support.models.frames import Base, plain
from tests.support.warehouses.school import DAYS, LAST, School

pytestmark = pytest.mark.nights


def titles(base: Base) -> pd.DataFrame:
    ordered = base("student_classes").sort_values(["class_title", "class_id"])
    titles_of = ordered.groupby("student_id").class_title.agg(["size", "; ".join]).reset_index()
    return titles_of.rename(columns={"size": "class_count", "join": "class_titles"})


def spoken_of_classes(base: Base) -> set[int]:
    """The students whose record has listed their classes, or none, since the student was last new or back."""
    versions = base("history.students").sort_values(["student_id", "valid_from"])
    began = versions[versions.valid_from != versions.groupby("student_id").valid_to.shift()]
    since = began.groupby("student_id").valid_from.max()
    observed = base("snapshots.observed").query("set_name == 'students' and id == id")
    unstated = observed[(observed.state == "not_stated") & (observed.table_name == "student_classes")]
    spoken = observed[observed.state == "stated"].merge(
        unstated, on=["snapshot_date", "id"], how="left", indicator=True
    )
    spoken = spoken[spoken._merge == "left_only"]
    return set(spoken[spoken.snapshot_date >= spoken.id.map(since)].id)


def student_progress(base: Base) -> pd.DataFrame:
    summaries = base("student_summaries").rename(columns={"last_activity_date": "in_summary"})
    open_versions = base("history.student_summaries").query("valid_to.isna()")[["student_id", "valid_from"]]
    frame = base("students")
    for other in (summaries, base("student_activity"), titles(base), open_versions):
        frame = frame.merge(other, on="student_id", how="left")
    none = frame.class_count.isna() & frame.student_id.isin(spoken_of_classes(base))
    frame["class_count"] = frame.class_count.mask(none, 0)
    frame["last_activity_date"] = frame[["in_summary", "last_activity_date"]].max(axis=1)
    frame["days_inactive"] = (pd.Timestamp(LAST) - frame.last_activity_date).dt.days
    frame["completion"] = frame.completion_rate.where(frame.total_assignments > 0)
    frame["unchanged_since"] = frame.valid_from
    never = frame.has_ever_logged_in.map({False: False})
    frame["is_active"] = (frame.days_inactive <= 7).where(frame.days_inactive.notna(), never)
    frame["is_registered"] = frame.is_registered == 1
    unstated = base("snapshots.observed").query("state == 'not_stated' and table_name == 'student_summaries'")
    rows = base("snapshots.student_summaries").merge(
        unstated, left_on=["snapshot_date", "student_id"], right_on=["snapshot_date", "id"], how="left", indicator=True
    )
    stated = rows[rows._merge == "left_only"].groupby("student_id").snapshot_date.max()
    frame["stated_on"] = frame.student_id.map(stated)
    return frame


def progress_daily(base: Base) -> pd.DataFrame:
    limits = base.thresholds()
    low, least = limits["completion_below"], limits["low_completion_assignments"]
    rows, before = [], None
    for day in base.days():
        students = set(base.as_of("students", day).student_id)
        summaries, activity = base.as_of("student_summaries", day), base.as_of("student_activity", day)
        seen = pd.concat([summaries, activity]).groupby("student_id").last_activity_date.max()
        active = int((day - seen <= pd.Timedelta(days=7)).sum())
        assigned = summaries[summaries.total_assignments > 0]
        rows.append(
            {
                "snapshot_date": day,
                "students": len(students),
                "students_added": None if before is None else len(students - before),
                "students_removed": None if before is None else len(before - students),
                "average_completion_rate": round(assigned.completion_rate.mean(), 2),
                "low_completion_students": int(
                    ((assigned.completion_rate < low) & (assigned.total_assignments >= least)).sum()
                ),
                "average_score": round(summaries.average_score.mean(), 2),
                "scored_students": int(summaries.average_score.count()),
                "active_students": active,
                "active_percent": round(100 * active / len(students), 2),
                "never_logged_in_students": int((activity.has_ever_logged_in == False).sum()),  # noqa: E712 - a column
                "total_time_minutes": summaries.total_time_minutes.sum(),
            }
        )
        before = students
    return pd.DataFrame(rows)


def class_daily(base: Base) -> pd.DataFrame:
    rows = []
    for day in base.days():
        frame = base.as_of("classes", day)
        for other in ("class_summaries", "class_assignment_activity"):
            theirs = base.as_of(other, day).drop(columns=["valid_from", "valid_to"])
            frame = frame.merge(theirs, on="class_id", how="left")
        is_empty = (frame.assignment_count == 0) | (frame.student_count == 0)
        for column, is_nothing in (
            ("average_completion_rate", is_empty),
            ("average_score", is_empty | (frame.students_with_submissions == 0)),
        ):
            frame[column] = frame[column].mask(is_nothing & (frame[column] == 0))
        rows.append(frame.assign(snapshot_date=day, is_active=frame.class_status == 1))
    return pd.concat(rows)


def calendar(base: Base) -> pd.DataFrame:
    proven = base("spans.proven").groupby("day").set_name.agg(set)
    rows = []
    for day in pd.date_range(DAYS[0], DAYS[-1]):
        week, landed = day.isocalendar(), day.date() in DAYS
        rows.append(
            {"day": day, "iso_year": week.year, "iso_week": week.week, "weekday": week.weekday}
            | {"week_begins": day - pd.Timedelta(days=week.weekday - 1), "weekday_name": day.day_name()}
            | {"is_weekend": week.weekday > 5, "is_landed": landed}
            # The demo's autumn of 2026 begins with week 35.
            | {"term": "Autumn 2026", "term_week": week.week - 34}
            | {"is_proven": proven.get(day) == {"students", "classes"} if landed else None}
        )
    return pd.DataFrame(rows)


def course_overview(base: Base) -> pd.DataFrame:
    return _grouped(base, "course_id", ["course_name"])


def teacher_overview(base: Base) -> pd.DataFrame:
    frame = _grouped(base, "teacher_id", ["teacher_name", "teacher_email"]).set_index("teacher_id")
    taught = base("student_classes").merge(base("classes")[["class_id", "teacher_id"]], on="class_id")
    taught = taught[["teacher_id", "student_id"]].drop_duplicates().merge(base("student_summaries"), how="left")
    taught["completion"] = taught.completion_rate.where(taught.total_assignments > 0)
    taught["watched"] = taught.student_id.isin(base("students_to_watch").student_id)
    groups = taught.groupby("teacher_id")
    frame["to_watch"] = groups.watched.sum().reindex(frame.index, fill_value=0)
    frame["average_completion"] = groups.completion.mean().round(2)
    frame["average_score"] = groups.average_score.mean().round(2)
    return frame.reset_index()


def possible_duplicates(base: Base) -> pd.DataFrame:
    """Groups in the order of their lowest id."""
    students = base("students").sort_values("student_id")
    name, began = students.name.str.lower(), students.registration_date.astype(str)
    marks = {
        "reference id": students.reference_id.str.lower(),
        "name and registration": (name + began).where(students.registration_date.notna()),
        "email": students.email.str.lower(),
    }
    found = []
    for shares, mark in marks.items():
        marked = students.assign(shares=shares, mark=mark)
        marked["students"] = marked.groupby("mark").student_id.transform("size")
        found.append(marked[marked.students > 1])
        found[-1]["group_number"] = pd.factorize(found[-1]["mark"])[0] + 1
    return pd.concat(found)


def data_quality_rows(base: Base) -> pd.DataFrame:
    """Those of the newest day, from the tables themselves."""
    classes, listed = base("classes"), base("student_classes")
    counts = listed.groupby("class_id").size()
    active = classes[(classes.class_status == 1) & classes.student_count.notna()]
    differing = active[active.student_count != active.class_id.map(counts).fillna(0)].class_id
    submitted = base("class_assignment_activity").merge(classes.query("class_status == 1")[["class_id"]])
    both = submitted.students_with_submissions + submitted.students_without_submissions
    odd = submitted[both.notna() & submitted.students_enrolled.notna() & (both != submitted.students_enrolled)].class_id
    unlisted = sorted(set(listed.class_id) - set(classes.class_id))
    of: dict[str, Iterable[int]] = {"count mismatch": differing, "submissions": odd, "unlisted class": unlisted}
    return pd.DataFrame([{"kind": kind, "class_id": each} for kind, ids in of.items() for each in ids])


def _grouped(base: Base, key: str, named: list[str]) -> pd.DataFrame:
    groups = base("classes").groupby(key)
    frame = groups[named].max()
    frame["class_count"] = groups.size()
    frame["active_class_count"] = groups.class_status.agg(lambda s: int((s == 1).sum()))
    frame["teacher_count"] = groups.teacher_id.nunique()
    active = base("classes").query("class_status == 1").groupby(key)
    frame["student_places"] = active.student_count.sum().reindex(frame.index, fill_value=0)
    listed = base("student_classes").merge(base("classes")[["class_id", key]], on="class_id")
    frame["student_count"] = listed.groupby(key).student_id.nunique().reindex(frame.index, fill_value=0)
    return frame.reset_index()


COMPUTED: dict[str, Callable[[Base], pd.DataFrame]] = {
    f.__name__: f
    for f in (
        *(student_progress, progress_daily, class_daily, course_overview, teacher_overview, calendar),
        possible_duplicates,
    )
}


@pytest.fixture(scope="module")
def base(fortnight: School) -> Base:
    return Base(fortnight)


@pytest.mark.parametrize("name", COMPUTED)
def test_a_view_says_what_pandas_says(name: str, fortnight: School, base: Base) -> None:
    columns = [c for c, _ in catalog.view(name).columns]
    computed = plain(COMPUTED[name](base), columns)
    assert computed
    # Rounded to two places here and there: a half may go either way.
    shown = plain(fortnight.frame(f"SELECT * FROM {name}"), columns)
    assert shown == [pytest.approx(row, abs=0.0101) for row in computed]


def test_the_rows_behind_a_finding_are_those_that_it_counts(fortnight: School, base: Base) -> None:
    kinds = ("count mismatch", "submissions", "unlisted class")
    shown = fortnight.frame(f"SELECT kind, class_id FROM data_quality_rows WHERE kind IN {kinds}")
    assert plain(shown, ["kind", "class_id"]) == plain(data_quality_rows(base), ["kind", "class_id"]) != []
    grouped = """
        SELECT kind, about, COUNT(*), MIN(since), MAX(last_seen) FROM data_quality_rows
        WHERE kind <> 'same_person' GROUP BY kind, about, description
    """
    found = f"SELECT kind, about, how_many, since, last_seen FROM data_quality SEMI JOIN ({grouped}) USING (kind)"
    assert sorted(fortnight.rows(grouped)) == sorted(fortnight.rows(found))


def test_a_student_s_changes_are_the_difference_of_two_days(fortnight: School, base: Base) -> None:
    columns = ["student_id", "score_then", "score_now", "difference", "missing_now", "missing", "is_new", "is_gone"]
    then, now = (base.as_of("student_summaries", pd.Timestamp(day)) for day in (DAYS[1], LAST))
    columns_of = ["student_id", "average_score", "total_assignments"]
    both = then[columns_of].merge(
        now[columns_of], on="student_id", how="outer", indicator=True, suffixes=("_then", "_now")
    )
    counted_again = both.total_assignments_now < both.total_assignments_then
    both["difference"] = (both.average_score_now - both.average_score_then).round(2).mask(counted_again)
    missing = [base.as_of("student_activity", pd.Timestamp(day)).set_index("student_id") for day in (DAYS[1], LAST)]
    missing_then, both["missing_now"] = (both.student_id.map(of.assignment_missing_count) for of in missing)
    both["missing"] = (both.missing_now - missing_then).mask(counted_again)
    computed = both.assign(
        score_then=both.average_score_then, score_now=both.average_score_now,
        is_new=both._merge == "right_only", is_gone=both._merge == "left_only",
    )  # fmt: skip
    shown = fortnight.frame(f"""
        SELECT student_id, average_score_then AS score_then, average_score_now AS score_now,
            average_score_difference AS difference, assignment_missing_count_now AS missing_now,
            assignment_missing_count_difference AS missing, is_new, is_gone
        FROM student_changes(DATE '{DAYS[1]}', DATE '{LAST}')
    """)
    assert computed.is_new.any()
    assert (computed.missing > 0).any()
    assert plain(shown, columns) == [pytest.approx(row, abs=0.0101) for row in plain(computed, columns)]


@pytest.mark.parametrize(
    "macro", ["students_as_of({})", "students_to_watch_as_of({})", "student_changes({}, '2100-01-01')"]
)
def test_a_day_before_the_first_says_so(fortnight: School, macro: str) -> None:
    asked = macro.format(f"'{DAYS[0] - timedelta(days=1)}'")
    with pytest.raises(duckdb.Error, match=f"Nothing is known as of .*: the first landed day is {DAYS[0]}"):
        fortnight.rows(f"FROM {asked}")


def test_each_day_of_watch_daily_equals_students_to_watch_as_of(fortnight: School) -> None:
    columns = "student_id, name, severity, reason, reason_count"
    query = f"SELECT {columns} FROM watch_daily WHERE change IS DISTINCT FROM 'no longer to watch' AND snapshot_date"
    for day in (DAYS[0], DAYS[7], LAST):
        as_of = fortnight.rows(f"SELECT {columns} FROM students_to_watch_as_of(DATE '{day}') ORDER BY student_id")
        assert fortnight.rows(f"{query} = DATE '{day}' ORDER BY student_id") == as_of
    newest = fortnight.rows(f"SELECT {columns} FROM students_to_watch ORDER BY student_id")
    assert fortnight.rows(f"{query} = DATE '{LAST}' ORDER BY student_id") == newest
    whole = "SELECT * FROM students_to_watch"
    assert fortnight.rows(whole) == fortnight.rows(f"{whole}_as_of(DATE '2100-01-01')")


def test_watch_daily_of_a_class_is_that_of_its_students(fortnight: School) -> None:
    ((largest,),) = fortnight.rows("SELECT class_id FROM roster GROUP BY class_id ORDER BY COUNT(*) DESC, 1 LIMIT 1")
    listed = f"SELECT student_id FROM student_classes WHERE class_id = {largest}"
    rows = fortnight.rows(f"FROM watch_daily_of((SELECT LIST(student_id) FROM ({listed})))")
    assert len(rows) > len(DAYS)
    assert rows == fortnight.rows(f"FROM watch_daily WHERE student_id IN ({listed})")
    assert fortnight.rows("FROM watch_daily_of([-1])") == []
