"""Progress reports: a page for each student, class and teacher, to print, to hand out or to keep.

Each page is a file of its own that loads nothing else; `index.html` leads to all. A student's page compares the student
with averages of classes and names nobody else; a teacher's page has the teacher's own classes only. The averages of
of small classes are left out, since they would say much about single students. A family's edition has students' pages
only, without whether a student is to watch and without ids.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from itertools import count, groupby
from math import ceil
from pathlib import Path
from statistics import fmean

import duckdb

from rollbook.errors import ArgumentError
from rollbook.features.pages import printing
from rollbook.features.pages.paper import A4, Edition
from rollbook.reading.charts import (
    SEVERITIES,
    Chart,
    Label,
    Row,
    all_rows,
    day_on,
    ends,
    readable,
    scale,
    severity_word,
    short_date,
)
from rollbook.reading.own import students_where
from rollbook.source.pagination import Progress
from rollbook.store.database import connect
from rollbook.store.schema import check_format
from rollbook.store.statements import in_order, statements
from rollbook.util import files, pages
from rollbook.util.text import figure

INDEX, PRINTED = "index.html", "pages.pdf"
FOLDERS = {"teacher": "teachers", "class": "classes", "student": "students"}
# Without --since and without terms.csv, a page shows so many days.
DAYS = 92
TOP, TALL, BELOW = 26, 112, 24  # of a student's chart, in pixels: what is above the scale, the scale, the days below
LEFT, RIGHT = 6, 97  # the ends of its line, in percent of the width
LETTER, LINE = 2.5, 16  # a letter, at most, in percent of a phone's width; a line of events, in pixels
MAX_TICKS, STEPS = 4, (1, 2, 5, 10, 20, 50, 100, 10**3, 10**6, 10**9, 10**12)  # of its scale

_UNSAFE = re.compile(r"[^\w-]+")  # in the name of a folder
# What ended a time in a class, by its `end_reason`.
LEFT_BY = {"left the institution": "left the school", "class closed": "{} closed", "left the class": "left {}"}

sql = statements("rollbook.features.pages")


@dataclass(frozen=True)
class Chosen:
    """Whose pages to make: a student's, a class's with its students, a teacher's with the classes and students, those
    of the students `where` a list of the school's own says so (`year=10`), or all without any.
    """

    student: int | None = None
    class_id: int | None = None
    teacher: int | None = None
    where: str | None = None

    @property
    def words(self) -> str:
        """As in the name of a folder: `class-501`; empty for all."""
        return "-".join(f"{name}-{_UNSAFE.sub('-', str(of))}" for name, of in self._named.items() if of is not None)

    @property
    def kind(self) -> str:
        """Whether it is a student, a class, a teacher or a list, without the id; empty for all."""
        return "-".join(name for name, of in self._named.items() if of is not None)

    @property
    def _named(self) -> dict[str, int | str | None]:
        return {"student": self.student, "class": self.class_id, "teacher": self.teacher, "where": self.where}

    def select(self, con: duckdb.DuckDBPyConnection) -> None:
        """Make the relations `chosen_students`, `chosen_classes` and `chosen_teachers`. Raises ArgumentError."""
        if sum(each is not None for each in self._named.values()) > 1:
            raise ArgumentError("Choose one: a student, a class, a teacher or --where")
        only = "TRUE" if self.class_id is None else f"class_id = {self.class_id:d}"
        only += "" if self.teacher is None else f" AND teacher_id = {self.teacher:d}"
        classes = only if self.student is None and self.where is None else "FALSE"
        compared = "SELECT class_id, teacher_id FROM main.class_comparison"
        con.execute(f"CREATE TEMP TABLE chosen_classes AS {compared} WHERE {classes}")
        con.execute(
            "CREATE TEMP TABLE chosen_teachers AS SELECT DISTINCT teacher_id FROM chosen_classes"
            f" WHERE teacher_id IS NOT NULL AND {self.class_id is None}"
        )
        of_class = "SELECT student_id FROM main.roster SEMI JOIN chosen_classes USING (class_id)"
        of = of_class if self.words else "SELECT student_id FROM main.students"
        if self.student is not None:
            of = f"SELECT student_id FROM main.students WHERE student_id = {self.student:d}"
        if self.where is not None:
            of = students_where(con, self.where)
        con.execute(f"CREATE TEMP TABLE chosen_students AS SELECT DISTINCT student_id FROM ({of})")
        ((found,),) = con.execute(
            "SELECT COUNT(*) FROM (FROM chosen_students UNION ALL FROM chosen_teachers)"
        ).fetchall()
        if not found and not self.words:
            raise ArgumentError(
                "Nobody is listed on the newest day, so no page was made. `rollbook status` says how the last sync went"
            )
        if not found and self.where is not None:
            raise ArgumentError(
                f'Nobody is in {self.where!r}: `rollbook sql "FROM students_own"` shows who is in which'
            )
        if not found:
            raise ArgumentError(
                f'Nobody is listed for {self.words.replace("-", " ")}: `rollbook sql "FROM roster"` shows the ids of'
                " classes, teachers and students"
            )


@dataclass(frozen=True)
class Made:
    """The result: how many pages of each kind, and the ids of the students on them."""

    students: frozenset[int]
    classes: int
    teachers: int


def make(
    published: Path,
    folder: Path,
    chosen: Chosen,
    *,
    scratch: Path,
    since: date | None = None,
    edition: Edition = Edition.STAFF,
    pdf: bool = False,
    paper: str = A4,
    progress: Progress = lambda *_: None,
) -> Made:
    """Write the pages into an empty folder, and with `pdf` all of them as one PDF.

    `since` is the first day of the charts: by default the first of the present term or, without terms, of the last
    quarter. Raises ArgumentError if nobody is chosen, and for a PDF without a browser.
    """
    with connect(published, scratch=scratch, read_only=True) as con:
        check_format(con, published.name)
        chosen.select(con)
        day, term, school = con.execute("""
            SELECT
                (SELECT MAX(snapshot_date) FROM spans.days),
                (SELECT MAX(first_day) FROM main.terms WHERE first_day <= (SELECT MAX(snapshot_date) FROM spans.days)),
                (SELECT ANY_VALUE(school_name) FROM main.institution)
        """).fetchall()[0]
        since = since or term or day - timedelta(days=DAYS - 1)
        if since > day:
            raise ArgumentError(f"The newest day is {day}: --since must not be later")
        report = _load(con, since, edition)
    common = {"school": school or "", "day": day, "since": since, "edition": edition, "paper": paper}
    short = partial(_short, of=day)
    words = partial(readable, short=short)
    template = pages.environment("rollbook.features.pages", short=short, figure=figure, words=words).get_template
    sheets = [*_sheets(report)]
    if not sheets:  # classes and teachers alone, of which a family gets no page
        raise ArgumentError("No student is listed there, so a family has nothing to read: choose a class with students")
    subject = f"{sheets[0][2].title}: progress report" if sheets[0][0] == chosen.kind else "Progress reports"
    title = f"{subject}, {school}, {short_date(day)} {day.year}"
    browser = printing.browser(len(sheets)) if pdf else None
    for done, (kind, name, sheet) in enumerate(sheets, 1):
        path = files.folder(folder / FOLDERS[kind]) / f"{name}.html"
        files.write(path, template("sheet.html").render(common, title=sheet.title, sheets=[(kind, sheet)]).encode())
        progress("reports", done, len(sheets))
    files.write(
        folder / INDEX, template("index.html").render(common, title=title, sheets=sheets, folders=FOLDERS).encode()
    )
    if browser is not None:
        parts = []
        for n in range(0, len(sheets), printing.PART):
            some = [(kind, sheet) for kind, _, sheet in sheets[n : n + printing.PART]]
            part = scratch / f"{n}.html"
            files.write(part, template("sheet.html").render(common, title=title, sheets=some).encode())
            parts.append(part.with_suffix(".pdf"))
            printing.print_page(browser, part, parts[-1], scratch)
            progress("reports printed", n + len(some), len(sheets))
        printing.join(parts, (FOLDERS[kind].capitalize() for kind, *_ in sheets), title, folder / PRINTED)
    return Made(frozenset(report.students), len(report.classes), len(report.teachers))


def _load(con: duckdb.DuckDBPyConnection, since: date, edition: Edition) -> Row:
    """All that the pages show: students, classes and teachers by id."""
    students = {row.student_id: row for row in all_rows(con, sql("of_students"))}
    place = {student: n for n, student in enumerate(students)}
    classes = {row.class_id: row for row in all_rows(con, sql("of_classes"))}
    of_range = "SELECT snapshot_date AS day FROM spans.days WHERE snapshot_date >= $since ORDER BY 1"
    landed = [row.day for row in all_rows(con, of_range, since=since)]
    enrolled = _by(all_rows(con, sql("of_enrollments"), since=since, least=edition.least), "student_id")
    days = _by(all_rows(con, sql("of_days"), since=since), "student_id")
    for student in students.values():
        student.title = student.name if edition is Edition.STAFF else student.own_name
        student.severity = severity_word(student.severity) if edition is Edition.STAFF else ""
        spans = enrolled.get(student.student_id, [])
        student.spans = [span for span in spans if span.left_on is None]
        student.left = [span for span in spans if span.left_on is not None]
        for measure in ("completion", "score"):
            averages = [value for span in student.spans if (value := getattr(span, measure)) is not None]
            setattr(student, f"class_{measure}", fmean(averages) if averages else None)
        known = {row.day: row.missing for row in days.get(student.student_id, []) if row.missing is not None}
        student.chart = term_chart("Missing assignments", known, landed, events_of(spans, since), from_zero=True)
    if edition is Edition.FAMILY:
        return Row(students=students, classes={}, teachers={})
    of_class = defaultdict(list)
    for class_id, student in con.execute(
        "SELECT class_id, student_id FROM main.roster SEMI JOIN chosen_classes USING (class_id)"
    ).fetchall():
        of_class[class_id].append(students[student])
    teachers: dict[int, Row] = {}
    by_name = f"{in_order('ANY_VALUE(teacher_name)')}, teacher_id"
    of_teacher = "SELECT teacher_id FROM main.classes SEMI JOIN chosen_teachers USING (teacher_id) GROUP BY teacher_id"
    taught = [row[0] for row in con.execute(f"{of_teacher} ORDER BY {by_name}").fetchall()]
    for each in classes.values():
        each.title = each.class_title
        each.students = sorted(of_class[each.class_id], key=lambda s: place[s.student_id])
        each.watched = [student for student in each.students if student.severity]
        if each.teacher_id in taught:
            teacher = teachers.setdefault(
                each.teacher_id,
                Row(teacher_id=each.teacher_id, title=each.teacher_name or str(each.teacher_id), classes=[]),
            )
            teacher.classes.append(each)
    for teacher in teachers.values():
        watched = {s.student_id: s for each in teacher.classes for s in each.watched}
        ranks = [words for _, words in SEVERITIES]
        teacher.watched = sorted(watched.values(), key=lambda s: (ranks.index(s.severity), place[s.student_id]))
    return Row(students=students, classes=classes, teachers={key: teachers[key] for key in taught})


def _short(shown: date, of: date) -> str:
    """A day on a page of another day, marked if it cannot be right."""
    return f"{day_on(shown, of)}{' (in the future)' if shown > of else ''}"


def _by(rows: Iterable[Row], column: str) -> Mapping[int, Sequence[Row]]:
    """Rows that are in the order of a column, by its values."""
    return {key: [*of] for key, of in groupby(rows, key=lambda row: getattr(row, column))}


def _sheets(report: Row) -> Iterator[tuple[str, int, Row]]:
    """The kind, id and content of each page: teachers first, as they are handed out."""
    for kind, of in (("teacher", report.teachers), ("class", report.classes), ("student", report.students)):
        yield from ((kind, key, sheet) for key, sheet in of.items())


def term_chart(
    name: str,
    known: Mapping[date, float],
    landed: Sequence[date],
    events: Iterable[tuple[date, str]] = (),
    *,
    from_zero: bool = False,
) -> Chart | None:
    """A student's figure on the `landed` days, with a scale, the peak and what happened; None below two values.

    A landed day without a value is a gap: the student was not there, or the service did not state it.
    """
    if len(known) < 2:
        return None
    first, last, newest = landed[0], landed[-1], max(known)
    peak = max(known, key=lambda day: (known[day], day))
    low, most = (0.0, known[peak]) if from_zero else ends(min(known.values()), known[peak])
    step = next(each for each in STEPS if most - low <= MAX_TICKS * each)
    lowest = int(low // step)
    ticks = [n * step for n in range(lowest, max(ceil(most / step), lowest + 1) + 1)]
    across = scale(first.toordinal(), last.toordinal(), LEFT, RIGHT)
    marks = _rows((across(day.toordinal()), day, words) for day, words in sorted(events))
    top = TOP + LINE * max((row for row, *_ in marks), default=0)
    bottom = top + TALL
    up = scale(ticks[0], ticks[-1], bottom, top)
    chart = Chart(
        name,
        f"{name} since {short_date(first)}",
        f"A line from {figure(known[min(known)])} to {figure(known[newest])}; the most were {figure(known[peak])}, on"
        f" {short_date(peak)}.",
        bottom + BELOW,
    )
    for tick in ticks:
        chart.lines.append((((LEFT, up(tick)), (RIGHT, up(tick))), "grid", 1))
        chart.labels.append(Label(f"{tick}", LEFT - 1, up(tick) + 4.5, anchor="end"))
    every = max((last - first).days // 5, 1)
    for day in (last - timedelta(days=n) for n in range(0, (last - first).days + 1, every)):
        chart.labels.append(Label(short_date(day), across(day.toordinal()), chart.height - 4, anchor="middle"))
    for row, x, anchor, day, words in marks:
        over = top - 12 - LINE * row
        chart.lines.append((((x, bottom), (x, over + 6)), "warn", 1))
        chart.labels.append(Label(words, x, over, anchor=anchor, dx=-4 if anchor == "end" else 4))
        chart.alt += f" {short_date(day)}: {words}."
    for is_known, run in groupby(landed, key=known.__contains__):
        points = [(across(day.toordinal()), up(known[day])) for day in run] if is_known else []
        if points:
            chart.lines.append(
                (tuple(points if len(points) > 1 else points * 2), "strong", 2 if len(points) > 1 else 5)
            )
    end, best = ((across(day.toordinal()), up(known[day])) for day in (newest, peak))
    for day, (x, y) in ((peak, best), (newest, end)):
        chart.lines.append((((x, y), (x, y)), "strong", 7 if day == newest else 5))
        text = figure(known[day])
        # Left of its point, but never over the scale, nor over the newest value.
        anchor = "start" if x - LETTER * len(text) < LEFT else "end"
        if day == newest or end[0] - x > LETTER * len(text) or abs(end[1] - y) > LINE:
            above = y - 7 if y > top + 8 else y + 17
            dx = 4 if anchor == "start" else -4
            chart.labels.append(Label(text, x, above, "ink", anchor, dx, bold=day == newest))
        if peak == newest:
            break
    return chart


def _rows(events: Iterable[tuple[float, date, str]]) -> list[tuple[int, float, str, date, str]]:
    """Where each event's words go: the line above the scale, the place, and on which side of it. No two overlap."""
    taken: dict[int, list[tuple[float, float]]] = defaultdict(list)
    placed = []
    for x, day, words in events:
        width = LETTER * len(words)
        sides = [("end", x - width, x)] if x >= width else [("start", x, x + width)]
        sides += [("start", x, x + width)] if x + width <= 100 else []
        row, (anchor, left, right) = next(
            (row, side)
            for row in count()
            for side in sides
            if all(side[2] <= begin or end <= side[1] for begin, end in taken[row])
        )
        taken[row].append((left, right))
        placed.append((row, x, anchor, day, words))
    return placed


def events_of(spans: Iterable[Row], since: date) -> list[tuple[date, str]]:
    """When a student joined and left classes or the school, from rows of enrollment_spans, by day."""
    of_day: Counter[tuple[date, str]] = Counter()
    for span in spans:
        if not span.is_from_before and span.joined_on > since:
            of_day[span.joined_on, "joined {}"] += 1
        if span.left_on and span.left_on > since:
            of_day[span.left_on, LEFT_BY[span.end_reason]] += 1
    return sorted(
        (day, words.format("a class" if times == 1 else f"{times} classes")) for (day, words), times in of_day.items()
    )
