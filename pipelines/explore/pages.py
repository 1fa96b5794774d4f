"""The contents and texts of the pages, as fragments of HTML, and their queries. The notebook has the controls.

Queries longer than a few lines are in `sql/`. A list's last column is the number of all its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import wraps
from typing import Any, Concatenate, ParamSpec

from pipelines.explore import show
from pipelines.explore.questions import DOWNLOADED, ROWS, Book, Listing, Row, Selection, sql

SCHOOL, CLASS, STUDENT, WATCH, COMPARE, TABLES = (
    "School today", "A class", "A student", "Newly to watch", "Two dates", "Any table",
)  # fmt: skip
DAYS = 62  # of a trend
MOST_CHANGES = 62  # kinds of changes between two dates
INSTITUTIONS = "All institutions"
DRAWN_MOST = 12  # institutions with line charts
PAGES = {"school": SCHOOL, "class": CLASS, "student": STUDENT, "watch": WATCH, "compare": COMPARE, "tables": TABLES}
REASONS = ("falling fast", "never logged in", "inactive", "low completion", "low score")

ONE_DAY = "Only one day has been landed so far: from the second one on, this page compares it with the day before."
VERDICTS = {
    "synced": "Last night is complete.",
    "unproven": "Last night could not be proven complete, so nobody was removed from the lists.",
    "held": "Last night is held for approval: these figures are those of the night before.",
    "failed": "Last night failed: these figures are those of the last good night.",
    "missing": "There was no sync last night: these figures are those of the last good night.",
    "discarded": "Last night was discarded: these figures are those of the last good night.",
}


P = ParamSpec("P")


def _one_reading(page: Callable[Concatenate[Book, P], list[str]]) -> Callable[Concatenate[Book, P], list[str]]:
    """Run all queries of a page on one connection: faster, and all from one night."""

    @wraps(page)
    def read(book: Book, /, *args: P.args, **kwargs: P.kwargs) -> list[str]:
        with book.reading():
            return page(book, *args, **kwargs)

    return read


def pages_of(book: Book) -> dict[str, str]:
    """The titles of the pages by their names in an address; a fleet has other pages than a single school."""
    return {"institutions": INSTITUTIONS, "tables": TABLES} if book.of_all else PAGES


def page_asked(address: Mapping[str, Any], book: Book) -> str:
    """The page that the address asks for; the first one if it asks for none."""
    there = pages_of(book)
    return there.get(str(address.get("page")), next(iter(there.values())))


def _days(book: Book, what: str, query: str, **values: Any) -> list[Row]:
    """The rows of a query on the last landed days, oldest first. The day is its first column."""
    return sorted(book.rows(what, f"{query} ORDER BY snapshot_date DESC LIMIT {DAYS}", **values))


def heading(book: Book) -> str:
    """The institution's name, and the newest day, which most pages show."""
    return show.heading(book.school, f"as of {book.days[0]:%A}, {book.days[0].day} {book.days[0]:%B %Y}")


@_one_reading
def school(book: Book) -> list[str]:
    """The verdict on the newest night, the key figures and their trend."""
    day = book.days[0]
    night = book.rows(
        "night",
        """
        SELECT CASE WHEN outcome = 'synced' AND NOT proven THEN 'unproven' ELSE outcome END, said
        FROM main.sync_log ORDER BY snapshot_date DESC LIMIT 1
        """,
    )
    trend = _days(
        book,
        "trend",
        """
        SELECT
            snapshot_date, students, students_added, students_removed, average_completion_rate, average_score,
            active_percent
        FROM main.progress_daily
        """,
    )
    now, then = trend[-1], trend[-2] if len(trend) > 1 else (None,) * 7
    watched = book.rows("watch_counts", sql("watch_counts"), day=day, before=book.before(day))
    earlier = watched[1][1] if len(watched) > 1 else None
    _, students, added, removed, completion, score, active = now
    moved = f"{added:,} new or back, {removed:,} gone" if added is not None else "the first landed day"
    ((active_classes,),) = book.rows("active_classes", "SELECT COUNT(*) FROM main.classes WHERE class_status = 1")
    figures = [
        ("students", students, moved),
        ("active classes", active_classes, ""),
        ("students to watch", watched[0][1], show.since(watched[0][1], earlier, then[0], "students")),
        ("average completion, %", completion, show.since(completion, then[4], then[0])),
        ("average score", score, show.since(score, then[5], then[0])),
        ("active within 7 days, %", active, show.since(active, then[6], then[0])),
    ]
    return [
        *(show.verdict(VERDICTS.get(outcome, ""), said, outcome == "synced") for outcome, said in night),
        show.figures(figures),
        show.lines(
            show.line("Average completion, %", [(row[0], row[4]) for row in trend]),
            show.line("Average score", [(row[0], row[5]) for row in trend]),
            show.line("Active within 7 days, %", [(row[0], row[6]) for row in trend]),
            show.line("Students", [(row[0], row[1]) for row in trend]),
        ),
        show.subtitle("Why students are to be watched"),
        show.table(("reason", "students"), list(zip(REASONS, watched[0][2:], strict=True))),
        show.note("A student may be counted under several reasons."),
    ]


@_one_reading
def institutions(book: Book, chosen: Sequence[str] = ()) -> list[str]:
    """The trend of all institutions together, or of each chosen one; then a table with a row for each."""
    drawn = chosen[:DRAWN_MOST]
    figures = "SELECT snapshot_date, students, average_completion_rate, average_score FROM main"
    of_one = f"{figures}.institutions_daily WHERE institution = $institution"
    trends = [(name, _days(book, "", of_one, institution=name)) for name in drawn]
    if not chosen:
        trends = [("", _days(book, "fleet_trend", f"{figures}.fleet_daily"))]
    headings = (
        "institution", "school", "records up to", "stands", "students", "active classes", "completion, %",
        "against all", "score",
    )  # fmt: skip
    parts = []
    for name, trend in trends:
        parts += [
            show.subtitle(name) if name else "",
            show.lines(
                show.line("Students", [(row[0], row[1]) for row in trend]),
                show.line("Average completion, %", [(row[0], row[2]) for row in trend]),
                show.line("Average score", [(row[0], row[3]) for row in trend]),
            ),
        ]
    rows = show.linked(book.rows("", sql("institutions"), chosen=list(chosen)), "institutions", "institution")
    more = len(chosen) - len(drawn)
    return [
        *parts,
        show.note(f"{more:,} more of the chosen institutions are in the table only.") if more else "",
        show.table(headings, rows),
        show.note("To explore one institution: rollbook --institution NAME explore"),
    ]


@_one_reading
def one_class(book: Book, class_id: int) -> list[str]:
    """A class: its facts, its trend."""
    found = book.rows(
        "class",
        """
        SELECT
            c.class_title, c.class_code, c.course_name, c.teacher_name, c.class_room,
            CASE c.class_status WHEN 1 THEN 'active' WHEN 0 THEN 'inactive' END,
            c.student_count, s.average_completion_rate, s.average_score,
            a.assignment_count, a.students_with_submissions
        FROM main.classes AS c
        LEFT JOIN main.class_summaries AS s USING (class_id)
        LEFT JOIN main.class_assignment_activity AS a USING (class_id)
        WHERE class_id = $class_id
        """,
        class_id=class_id,
    )
    if not found:
        return [show.note("This class is not listed.")]
    ((title, code, course, teacher, room, status, students, completion, score, assignments, submitted),) = found
    trend = _days(
        book,
        "class_trend",
        """
        SELECT snapshot_date, student_count, average_completion_rate, average_score
        FROM main.class_daily WHERE class_id = $class_id
        """,
        class_id=class_id,
    )
    facts = (code, course, teacher and f"taught by {teacher}", room and f"room {room}", status)
    return [
        show.heading(title, ", ".join(fact for fact in facts if fact)),
        show.figures(
            [
                ("students", students, "according to the class's record"),
                ("average completion, %", completion, ""),
                ("average score", score, ""),
                ("assignments", assignments, f"{show.cell(submitted)} students have submitted"),
            ]
        ),
        show.lines(
            show.line("Average completion, %", [(row[0], row[2]) for row in trend]),
            show.line("Average score", [(row[0], row[3]) for row in trend]),
            show.line("Students", [(row[0], row[1]) for row in trend]),
        ),
        show.subtitle("Students of the class"),
    ]


@_one_reading
def student(book: Book, student_id: int) -> list[str]:
    """A student: the facts, the trend, the classes."""
    found = book.rows("student", sql("student"), student_id=student_id)
    if not found:
        return [show.note("This student is not known.")]
    ((name, email, reference, registered, gone, completion, done, given, score, minutes, active, logged_in),) = found
    trend = _days(
        book,
        "student_trend",
        """
        SELECT snapshot_date, CASE WHEN total_assignments > 0 THEN completion_rate END, average_score
        FROM main.student_daily WHERE student_id = $student_id
        """,
        student_id=student_id,
    )
    classes = book.rows(
        "student_classes",
        """
        SELECT
            class_id, class_title, course_name,
            CASE WHEN is_from_before THEN joined_on || ' or before' ELSE CAST(joined_on AS VARCHAR) END,
            left_on
        FROM main.enrollment_spans
        WHERE student_id = $student_id
        ORDER BY left_on DESC NULLS FIRST, class_title, class_id
        """,
        student_id=student_id,
    )
    facts = (
        reference, email, registered and f"registered {registered}", gone and f"no longer listed since {gone}",
    )  # fmt: skip
    return [
        show.heading(name, ", ".join(fact for fact in facts if fact)),
        show.figures(
            [
                ("completion, %", completion, f"{show.cell(done)} of {show.cell(given)} assignments"),
                ("average score", score, ""),
                ("last active", active, "never logged in" if logged_in is False else ""),
                ("learning time, minutes", minutes, ""),
            ]
        ),
        show.lines(
            show.line("Completion, %", [(row[0], row[1]) for row in trend]),
            show.line("Average score", [(row[0], row[2]) for row in trend]),
        ),
        show.subtitle("Classes"),
        show.table(("class", "course", "joined", "left"), show.linked(classes, "class", "class_id"))
        if classes
        else show.note("In no class."),
        show.subtitle("What changed, day by day"),
    ]


@_one_reading
def compared(book: Book, before: date, day: date) -> list[str]:
    """The institution on two dates, and what changed between them."""
    days = book.rows(
        "compared_days",
        """
        SELECT
            snapshot_date, students, average_completion_rate, average_score, active_percent, low_completion_students,
            never_logged_in_students, total_time_minutes
        FROM main.progress_daily WHERE snapshot_date IN (CAST($day AS DATE), CAST($before AS DATE))
        """,
        day=day,
        before=before,
    )
    found = {row[0]: row[1:] for row in days}
    names = (
        "students", "average completion, %", "average score", "active within 7 days, %", "students with low completion",
        "students who never logged in", "learning time, minutes",
    )  # fmt: skip
    rows = [
        (name, then, now, None if then is None or now is None else round(now - then, 2))
        for name, then, now in zip(names, found[before], found[day], strict=True)
    ]
    changes = book.rows(
        "compared_changes",
        """
        SELECT
            REPLACE(table_name, '_', ' ') AS what,
            COALESCE(REPLACE(column_name, '_', ' '), 'the whole record') AS detail, change, COUNT(*) AS how_often
        FROM changes_between($before, $day)
        GROUP BY ALL ORDER BY how_often DESC, what, detail, change LIMIT $most
        """,
        day=day,
        before=before,
        most=MOST_CHANGES,
    )
    return [
        show.table(("the institution", str(before), str(day), "difference"), rows),
        show.subtitle("What changed in between"),
        show.table(("records", "field", "change", "how often"), changes) if changes else show.note("Nothing changed."),
        show.subtitle("Students whose completion or score differs, the largest fall first"),
    ]


def roster(book: Book, class_id: int, text: str) -> Listing:
    """The students of a class, those with the lowest completion first."""
    return Listing(book, "class_roster", sql("class_roster"), class_id=class_id, text=text.strip())


def timeline(book: Book, student_id: int) -> Listing:
    """What changed for a student after the first landed day, in words, the newest first."""
    return Listing(
        book,
        "student_timeline",
        """
        SELECT snapshot_date AS day, said AS "what changed", COUNT(*) OVER () AS total
        FROM main.student_timeline WHERE student_id = $student_id ORDER BY snapshot_date DESC, what, said
        """,
        student_id=student_id,
    )


def history(book: Book, student_id: int) -> Listing:
    """The versions of a student's summary, the newest first."""
    return Listing(
        book,
        "student_history",
        """
        SELECT
            valid_from AS "from", valid_to AS until, total_assignments AS assignments,
            completed_assignments AS completed,
            CASE WHEN total_assignments > 0 THEN completion_rate END AS "completion, %",
            average_score AS score, total_time_minutes AS minutes, COUNT(*) OVER () AS total
        FROM history.student_summaries WHERE student_id = $student_id ORDER BY valid_from DESC
        """,
        student_id=student_id,
    )


def watch(book: Book, day: date, text: str, *, newly: bool) -> Listing:
    """The students who are newly to watch on a day, or no longer, with the reasons, the most severe first."""
    return Listing(
        book,
        "watch_turns",
        """
        SELECT
            student_id, name AS student, CASE WHEN $newly THEN reason ELSE reason_before END AS why,
            COUNT(*) OVER () AS total
        FROM main.watch_daily
        WHERE snapshot_date = CAST($day AS DATE)
            AND change = CASE WHEN $newly THEN 'newly to watch' ELSE 'no longer to watch' END
            AND ($text = '' OR CONTAINS(LOWER(name), LOWER($text)) OR CONTAINS(LOWER(why), LOWER($text)))
        ORDER BY COALESCE(severity, severity_before) DESC, name, student_id
        """,
        day=day,
        newly=newly,
        text=text.strip(),
    )


def compared_students(book: Book, before: date, day: date, text: str) -> Listing:
    """The students whose completion or score differs between two dates, the largest fall first."""
    return Listing(book, "compared_students", sql("compared_students"), day=day, before=before, text=text.strip())


def listed(listing: Listing, page: int, noun: str) -> list[str]:
    """One page of a list. Where its first column is a student's id, the second one leads to the student's page."""
    rows, first = listing.rows(page), (page - 1) * ROWS + 1
    if not rows:
        return [show.note(f"No {noun}.")]
    which = show.note(f"{first:,} to {first + len(rows) - 1:,} of {listing.total:,} {noun}")
    if listing.columns[0] == "student_id" and noun == "students":
        return [which, show.table(listing.columns[1:], show.linked(rows, "student", "student_id"))]
    ids = [n for n, name in enumerate(listing.columns) if name.endswith("_id")]
    return [which, show.table(listing.columns, rows, ids)]


def meanings(selection: Selection) -> str:
    """What the columns of a table or view mean."""
    return show.table(("column", "type", "meaning"), selection.relation.columns)


def too_many(selection: Selection) -> str:
    """What to do instead of a download that is too large for the browser."""
    name = selection.relation.title
    return (
        f"More than {DOWNLOADED:,} rows are too many to download here: filter them, or run"
        f" `rollbook export {name} --out {name}.csv`."
    )
