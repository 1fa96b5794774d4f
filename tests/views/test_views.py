"""The analysts' views, each against a plain computation of the same thing in pandas from the base tables."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pipelines.views import catalog, metrics
from tests.support.models import findings, states
from tests.support.models.frames import Base, plain, text
from tests.support.models.states import States
from tests.support.models.watch import REASONS, judged
from tests.support.warehouses.school import DAYS, LAST, School

NEWEST = pd.Timestamp(LAST)


def roster(base: Base) -> pd.DataFrame:
    listed = base("student_classes").rename(columns={"class_title": "own_title", "course_name": "own_course"})
    joined = listed.merge(base("classes"), on="class_id", how="left").merge(base("students"), on="student_id")
    joined["class_title"] = joined.class_title.where(joined.class_title.notna(), joined.own_title)
    joined["course_name"] = joined.course_name.where(joined.course_name.notna(), joined.own_course)
    return joined


def titles(base: Base) -> pd.DataFrame:
    ordered = base("student_classes").sort_values(["class_title", "class_id"])
    made = ordered.groupby("student_id").class_title.agg(["size", "; ".join]).reset_index()
    return made.rename(columns={"size": "class_count", "join": "class_titles"})


def spoken_of_classes(base: Base) -> set[int]:
    """The students whose record has listed their classes, or none, since they were last new or back."""
    versions = base("history.students").sort_values(["student_id", "valid_from"])
    began = versions[versions.valid_from != versions.groupby("student_id").valid_to.shift()]
    since = began.groupby("student_id").valid_from.max()
    observed = base("snapshots.observed").query("set_name == 'students' and id == id")
    silent = observed[(observed.state == "silent") & (observed.table_name == "student_classes")]
    said = observed[observed.state == "stated"].merge(silent, on=["snapshot_date", "id"], how="left", indicator=True)
    said = said[said._merge == "left_only"]
    return set(said[said.snapshot_date >= said.id.map(since)].id)


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
    frame["unchanged_since"] = frame.valid_from
    never = frame.has_ever_logged_in.map({False: False})
    frame["is_active"] = (frame.days_inactive <= 7).where(frame.days_inactive.notna(), never)
    return frame


def students_to_watch(base: Base, day: pd.Timestamp = NEWEST) -> pd.DataFrame:
    t = base.thresholds()
    frame = base.as_of("students", day)
    before = base.as_of("student_summaries", day - pd.Timedelta(days=t["falling_days"]))
    listed = base.as_of("student_classes", day).sort_values(["class_title", "class_id"])
    for other, suffix in (
        *((base.as_of("student_summaries", day), "_s"), (base.as_of("student_activity", day), "_a")),
        *((before, "_was"), (listed.groupby("student_id").class_title.agg("; ".join).rename("class_titles"), "_c")),
    ):
        frame = frame.merge(other, on="student_id", how="left", suffixes=("", suffix))
    found = [row | judged(row, t, day) for row in frame.to_dict("records")]
    return pd.DataFrame([row for row in found if row["reason_count"]])


def watch_daily(base: Base) -> pd.DataFrame:
    found: list[dict[str, Any]] = []
    before: dict[Any, dict[Any, Any]] | None = None
    for day in base.days():
        now = {row["student_id"]: row for row in students_to_watch(base, day).to_dict("records")}
        names: dict[Any, str] = base.as_of("students", day).set_index("student_id").name.to_dict()
        for student in now.keys() | (before or {}).keys():
            row, was = now.get(student, {}), (before or {}).get(student, {})
            change = "still to watch" if row and was else "newly to watch" if row else "no longer to watch"
            found.append(
                {"snapshot_date": day, "student_id": student, "name": names.get(student, was.get("name"))}
                | {"change": None if before is None else change, "is_listed": student in names}
                | {column: row.get(column) for column in ("severity", "reason")}
                | {f"{column}_before": was.get(column) for column in ("severity", "reason")}
                | {"reason_count": row.get("reason_count", 0)}
                | {reason: row.get(reason, False) for reason in REASONS}
            )
        before = now
    return pd.DataFrame(found)


def class_comparison(base: Base) -> pd.DataFrame:
    frame = base("classes").query("class_status == 1").merge(base("class_summaries"), on="class_id", how="left")
    by_course = frame.groupby("course_id", dropna=True)
    for measure, short in (("average_completion_rate", "completion"), ("average_score", "score")):
        suffix = "_completion_rate" if short == "completion" else "_score"
        of_course, of_all = by_course[measure].transform("mean"), frame[measure].mean()
        frame[f"course{suffix}"] = of_course.round(2)
        frame[f"institution{suffix}"] = round(of_all, 2)
        frame[f"{short}_vs_course"] = (frame[measure] - of_course).round(2)
        frame[f"{short}_vs_institution"] = (frame[measure] - of_all).round(2)
        frame[f"{short}_rank"] = frame[measure].rank(method="min", ascending=False)
        frame[f"{short}_rank_in_course"] = by_course[measure].rank(method="min", ascending=False)
    frame["minutes_per_student"] = (frame.total_engagement_minutes / frame.student_count.replace(0, np.nan)).round(2)
    frame["classes_in_course"] = by_course.class_id.transform("size")
    frame["classes_in_institution"] = len(frame)
    return frame


def progress_daily(base: Base) -> pd.DataFrame:
    limits = base.thresholds()
    low, least = limits["completion_below"], limits["least_assignments"]
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
    found = []
    for day in base.days():
        frame = base.as_of("classes", day)
        for other in ("class_summaries", "class_assignment_activity"):
            theirs = base.as_of(other, day).drop(columns=["valid_from", "valid_to"])
            frame = frame.merge(theirs, on="class_id", how="left")
        found.append(frame.assign(snapshot_date=day))
    return pd.concat(found)


def enrollment_changes(base: Base) -> pd.DataFrame:
    history = base("history.student_classes")
    versions = base("history.students").sort_values("valid_from")
    found, before = [], None
    for day in base.days():
        rows = history[(history.valid_from <= day) & ~(history.valid_to <= day)]
        names = versions[versions.valid_from <= day].groupby("student_id").name.last()
        listed, classes = set(base.as_of("students", day).student_id), set(base.as_of("classes", day).class_id)
        now: dict[tuple[Any, Any], Any] = {(r.student_id, r.class_id): r for r in rows.itertuples()}
        for change, pairs, entries in (
            ("joined", now.keys() - (before or now).keys(), now),
            ("left", (before or now).keys() - now.keys(), before or now),
        ):
            for student, cls in pairs:
                r = entries[student, cls]
                found.append(
                    {"snapshot_date": day, "change": change, "class_id": cls, "student_id": student}
                    | {"class_title": r.class_title, "course_name": r.course_name, "name": names[student]}
                    | {"is_student_listed": student in listed, "is_class_listed": cls in classes}
                )
        before = now
    return pd.DataFrame(found)


def latest(versions: list[dict[Any, Any]], day: pd.Timestamp) -> dict[Any, Any]:
    """The last of a record's versions that had begun by a day."""
    return next((version for version in reversed(versions) if version["valid_from"] <= day), {})


def enrollment_spans(base: Base) -> pd.DataFrame:
    history = base("history.student_classes").sort_values("valid_from")
    students, classes = base.versions("students", "student_id"), base.versions("classes", "class_id")
    found = []
    for (student, cls), rows in history.groupby(["student_id", "class_id"]):
        unbroken: list[list[Any]] = []
        for row in rows.itertuples():
            if unbroken and unbroken[-1][-1].valid_to == row.valid_from:
                unbroken[-1].append(row)
            else:
                unbroken.append([row])
        for versions in unbroken:
            first, last = versions[0], versions[-1]
            left_on, until = text(last.valid_to), pd.Timestamp(LAST) + pd.Timedelta(days=1)
            at = last.valid_to if left_on else pd.Timestamp(LAST)
            person, group = latest(students[student], at), latest(classes.get(cls, []), at)
            reason = None
            if left_on:
                closed = group and (group["valid_to"] <= at or group["class_status"] == 0)
                reason = "class closed" if closed else "left the class"
                reason = "left the institution" if person["valid_to"] <= at else reason
            found.append(
                {"student_id": student, "name": person["name"], "class_id": cls, "end_reason": reason}
                | {"class_title": last.class_title, "course_name": last.course_name}
                | {"joined_on": first.valid_from, "is_from_before": first.valid_from == pd.Timestamp(DAYS[0])}
                | {"left_on": left_on, "membership_days": ((at if left_on else until) - first.valid_from).days}
            )
    return pd.DataFrame(found)


def calendar(base: Base) -> pd.DataFrame:
    proven = base("spans.proven").groupby("day").set_name.agg(set)
    found = []
    for day in pd.date_range(DAYS[0], DAYS[-1]):
        week, landed = day.isocalendar(), day.date() in DAYS
        found.append(
            {"day": day, "iso_year": week.year, "iso_week": week.week, "weekday": week.weekday}
            | {"week_begins": day - pd.Timedelta(days=week.weekday - 1), "weekday_name": day.day_name()}
            | {"is_weekend": week.weekday > 5, "term": None, "term_week": None, "is_landed": landed}
            | {"is_proven": proven.get(day) == {"students", "classes"} if landed else None}
        )
    return pd.DataFrame(found)


def courses(base: Base) -> pd.DataFrame:
    return _grouped(base, "course_id", ["course_name"])


def teachers(base: Base) -> pd.DataFrame:
    return _grouped(base, "teacher_id", ["teacher_name", "teacher_email"])


def _grouped(base: Base, key: str, named: list[str]) -> pd.DataFrame:
    groups = base("classes").groupby(key)
    frame = groups[named].max()
    frame["class_count"] = groups.size()
    frame["active_class_count"] = groups.class_status.agg(lambda s: int((s == 1).sum()))
    frame["teacher_count"] = groups.teacher_id.nunique()
    frame["student_places"] = groups.student_count.sum()
    listed = base("student_classes").merge(base("classes")[["class_id", key]], on="class_id")
    frame["student_count"] = listed.groupby(key).student_id.nunique().reindex(frame.index, fill_value=0)
    return frame.reset_index()


def sync_log(base: Base) -> pd.DataFrame:
    syncs, received = base("ops.syncs"), base("ops.sync_sets")
    found = []
    for day, mine in syncs.groupby("snapshot_date"):
        s = mine.sort_values("landing").iloc[-1]
        moved = (s.rows_added, s.rows_changed, s.rows_removed)
        rows = "nothing changed."
        if any(moved):
            rows = f"{moved[0]:,} rows added, {moved[1]:,} changed, {moved[2]:,} removed."
        of_sync = received[(received.snapshot_date == day) & (received.landing == s.landing)]
        came = of_sync.set_index("set_name").records
        words = f"Synced {came.students:,} students and {came.classes:,} classes: {rows}"
        if s.slipped:
            words += f" {s.slipped:,} seemed gone and were found."
        seconds = round((s.finished_at - s.started_at).total_seconds(), 1)
        night = {"snapshot_date": day, "said": words, "syncs": len(mine), "seconds": seconds}
        found.append({**s, **night, "students": came.students, "classes": came.classes})
    return pd.DataFrame(found)


def metrics_view(_: Base) -> pd.DataFrame:
    columns = ["name", "definition", "expression", "grain", "source", "shown_in"]
    return pd.DataFrame(
        [[m.name, m.definition, m.sql, ", ".join(m.grain), m.source, m.shown_in or None] for m in metrics.METRICS],
        columns=columns,
    )


def by_day(view: Callable[[States], list[states.Row]]) -> Callable[[Base], pd.DataFrame]:
    """A computation that goes from one day's state to the next."""
    return lambda base: pd.DataFrame(view(_states(base)))


@cache
def silent(school: School) -> list[tuple[str, int, date]]:
    """Each table that a student's record said nothing of, the student and the day."""
    observed = "SELECT table_name, id, snapshot_date FROM snapshots.observed WHERE state = 'silent'"
    return [(table, student, day) for table, student, day in school.rows(observed)]


@cache
def _states(base: Base) -> States:
    def rows(table: str, day: date) -> list[states.Row]:
        found = base.as_of(table, pd.Timestamp(day)).to_dict("records")
        return [{str(k): text(v) for k, v in row.items()} for row in found]

    of_classes = {(day, student) for table, student, day in silent(base.school) if table == "student_classes"}
    return states.of_history(rows, of_classes, DAYS)


def data_quality(base: Base) -> pd.DataFrame:
    return pd.DataFrame(findings.data_quality(_states(base), silent(base.school)))


COMPUTED: dict[str, Callable[[Base], pd.DataFrame]] = {
    f.__name__: f
    for f in (
        *(roster, student_progress, students_to_watch, watch_daily, class_comparison, progress_daily),
        *(class_daily, enrollment_changes, enrollment_spans, courses, teachers, sync_log, calendar, data_quality),
    )
}
COMPUTED |= {
    f.__name__: by_day(f)
    for f in (
        *(states.student_daily, states.student_weekly, states.student_timeline),
        *(states.class_weekly, states.progress_weekly),
    )
}
COMPUTED["metrics"] = metrics_view


@pytest.fixture(scope="module")
def base(fortnight: School) -> Base:
    return Base(fortnight)


def test_every_question_is_computed_here_too() -> None:
    assert set(COMPUTED) == set(catalog.VIEWS)


@pytest.mark.parametrize("name", catalog.VIEWS)
def test_a_view_says_what_pandas_says(name: str, fortnight: School, base: Base) -> None:
    columns = [c for c, _ in catalog.view(name).columns]
    found = fortnight.frame(f"SELECT * FROM {name}")
    assert list(found.columns) == columns
    computed = plain(COMPUTED[name](base), columns)
    assert computed
    # Rounded to two places here and there: a half may go either way.
    assert plain(found, columns) == [pytest.approx(row, abs=0.0101) for row in computed]


def test_the_fortnight_has_something_of_each_kind(fortnight: School) -> None:
    """Else the comparison above would prove less than it seems to."""
    for kind in REASONS:
        assert fortnight.rows(f"SELECT COUNT(*) FROM students_to_watch WHERE {kind}")[0][0], kind
    assert {r[0] for r in fortnight.rows("SELECT change FROM watch_daily")} == {
        *(None, "newly to watch", "still to watch", "no longer to watch"),
    }
    assert {r[0] for r in fortnight.rows("SELECT change FROM enrollment_changes")} == {"joined", "left"}
    assert fortnight.rows("SELECT COUNT(*) FROM enrollment_changes WHERE NOT is_student_listed")[0][0]
    assert fortnight.rows("SELECT COUNT(DISTINCT class_status) FROM class_daily")[0][0] == 2
    moved = "SELECT SUM(students_added) > 0, SUM(students_removed) > 0 FROM progress_daily"
    assert fortnight.rows(moved) == [(True, True)]
    returned = "SELECT COUNT(*) FROM changes WHERE table_name = 'students' AND change = 'returned'"
    assert fortnight.rows(returned)[0][0]


def test_worst_first(fortnight: School) -> None:
    severities = [r[0] for r in fortnight.rows("SELECT severity FROM students_to_watch")]
    assert severities == sorted(severities, reverse=True)
    assert severities[0] > 2
    assert severities[-1] >= 1


def test_each_landed_day_of_watch_daily_is_students_to_watch_as_of_that_day(fortnight: School) -> None:
    columns = ", ".join(("student_id", "name", "severity", "reason", "reason_count", *REASONS))
    told = f"SELECT {columns} FROM watch_daily WHERE change IS DISTINCT FROM 'no longer to watch' AND snapshot_date"
    for day in (DAYS[0], DAYS[7], LAST):
        as_of = fortnight.rows(f"SELECT {columns} FROM students_to_watch_as_of(DATE '{day}') ORDER BY student_id")
        assert fortnight.rows(f"{told} = DATE '{day}' ORDER BY student_id") == as_of
    newest = fortnight.rows(f"SELECT {columns} FROM students_to_watch ORDER BY student_id")
    assert fortnight.rows(f"{told} = DATE '{LAST}' ORDER BY student_id") == newest
    whole = "SELECT * FROM students_to_watch"
    assert fortnight.rows(whole) == fortnight.rows(f"{whole}_as_of(DATE '2100-01-01')")
    assert fortnight.rows(f"{whole}_as_of(DATE '{DAYS[0] - timedelta(days=1)}')") == []


def test_watch_daily_of_a_class_is_that_of_its_students(fortnight: School) -> None:
    ((largest,),) = fortnight.rows("SELECT class_id FROM roster GROUP BY class_id ORDER BY COUNT(*) DESC, 1 LIMIT 1")
    listed = f"SELECT student_id FROM student_classes WHERE class_id = {largest}"
    found = fortnight.rows(f"FROM watch_daily_of_class({largest})")
    assert len(found) > len(DAYS)
    assert found == fortnight.rows(f"FROM watch_daily WHERE student_id IN ({listed})")
    assert fortnight.rows("FROM watch_daily_of_class(-1)") == []
