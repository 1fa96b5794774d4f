"""The contents and texts of the pages, as fragments of HTML. The notebook has the controls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import wraps
from typing import Any, Concatenate, ParamSpec

from pipelines.explore import show
from pipelines.explore.questions import DAYS, DOWNLOADED, Book, Listing, Selection

SCHOOL, CLASS, STUDENT, WATCH, COMPARE, TABLES = (
    "School today", "A class", "A student", "Newly to watch", "Two dates", "Any table",
)  # fmt: skip
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


def heading(book: Book) -> str:
    """The institution's name, and the newest day, which most pages show."""
    return show.heading(book.school, f"as of {book.days[0]:%A}, {book.days[0].day} {book.days[0]:%B %Y}")


@_one_reading
def school(book: Book) -> list[str]:
    """The verdict on the newest night, the key figures and their trend."""
    day = book.days[0]
    night = book.row("night")
    trend = book.rows("trend", most=DAYS)
    now, then = trend[-1], trend[-2] if len(trend) > 1 else (None,) * 7
    watched = book.rows("watch_counts", day=day, before=book.before(day))
    earlier = watched[1][1] if len(watched) > 1 else None
    _, students, added, removed, completion, score, active = now
    moved = f"{added:,} new or back, {removed:,} gone" if added is not None else "the first landed day"
    ((active_classes,),) = book.rows("active_classes")
    figures = [
        ("students", students, moved),
        ("active classes", active_classes, ""),
        ("students to watch", watched[0][1], show.since(watched[0][1], earlier, then[0], "students")),
        ("average completion, %", completion, show.since(completion, then[4], then[0])),
        ("average score", score, show.since(score, then[5], then[0])),
        ("active within 7 days, %", active, show.since(active, then[6], then[0])),
    ]
    return [
        show.verdict(VERDICTS.get(night[1], ""), night[2], night[1] == "synced") if night else "",
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
    trends = [(name, book.rows("institution_trend", institution=name, most=DAYS)) for name in drawn]
    if not chosen:
        together = book.rows("fleet_trend", most=DAYS)
        trends = [("", [(row[0], *row[2:]) for row in together])]
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
    rows = show.linked(book.rows("institutions", chosen=list(chosen)), "institutions", "institution")
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
    found = book.row("class", class_id=class_id)
    if found is None:
        return [show.note("This class is not listed.")]
    title, code, course, teacher, room, status, students, completion, score, assignments, submitted = found
    trend = book.rows("class_trend", class_id=class_id, most=DAYS)
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


def roster(listing: Listing, page: int) -> list[str]:
    """The students of a class."""
    headings = ("student", "completion, %", "score", "last active")
    return _listed(headings, show.linked(listing.rows, "student", "student_id"), listing, page, "students")


@_one_reading
def student(book: Book, student_id: int) -> list[str]:
    """A student: the facts, the trend, the classes."""
    found = book.row("student", student_id=student_id)
    if found is None:
        return [show.note("This student is not known.")]
    name, email, reference, registered, gone, completion, done, given, score, minutes, active, logged_in = found
    trend = book.rows("student_trend", student_id=student_id, most=DAYS)
    classes = book.rows("student_classes", student_id=student_id)
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


def timeline(listing: Listing, page: int) -> list[str]:
    """What changed for a student."""
    return _listed(("day", "what changed"), listing.rows, listing, page, "changes")


def history(listing: Listing, page: int) -> list[str]:
    """The versions of a student's summary."""
    headings = ("from", "until", "assignments", "completed", "completion, %", "score", "minutes")
    return _listed(headings, listing.rows, listing, page, "versions")


def watch(listing: Listing, page: int) -> list[str]:
    """The students who are newly to watch, or no longer, with the reasons."""
    return _listed(("student", "why"), show.linked(listing.rows, "student", "student_id"), listing, page, "students")


@_one_reading
def compared(book: Book, before: date, day: date) -> list[str]:
    """The institution on two dates, and what changed between them."""
    found = {row[0]: row[1:] for row in book.rows("compared_days", day=day, before=before)}
    names = (
        "students", "average completion, %", "average score", "active within 7 days, %", "students with low completion",
        "students who never logged in", "learning time, minutes",
    )  # fmt: skip
    rows = [
        (name, then, now, None if then is None or now is None else round(now - then, 2))
        for name, then, now in zip(names, found[before], found[day], strict=True)
    ]
    changes = book.rows("compared_changes", day=day, before=before, most=DAYS)
    return [
        show.table(("the institution", str(before), str(day), "difference"), rows),
        show.subtitle("What changed in between"),
        show.table(("records", "field", "change", "how often"), changes) if changes else show.note("Nothing changed."),
        show.subtitle("Students whose completion or score differs, the largest fall first"),
    ]


def compared_students(listing: Listing, page: int) -> list[str]:
    """The students who differ between two dates."""
    headings = ("student", "completion before, %", "after, %", "score before", "after")
    return _listed(headings, show.linked(listing.rows, "student", "student_id"), listing, page, "students")


def rows(listing: Listing, page: int) -> list[str]:
    """The rows of a table or view, unchanged."""
    ids = [n for n, name in enumerate(listing.columns) if name.endswith("_id")]
    return [
        show.note(show.said_of(listing, page, "rows")),
        show.table(listing.columns, listing.rows, ids) if listing.rows else "",
    ]


def meanings(selection: Selection) -> str:
    """What the columns of a table or view mean."""
    return show.table(("column", "type", "meaning"), selection.columns)


def too_many(selection: Selection) -> str:
    """What to do instead of a download that is too large for the browser."""
    name = selection.relation.title
    return (
        f"More than {DOWNLOADED:,} rows are too many to download here: filter them, or run"
        f" `rollbook export {name} --out {name}.csv`."
    )


def _listed(headings: tuple[str, ...], shown: list[Any], listing: Listing, page: int, noun: str) -> list[str]:
    return [show.note(show.said_of(listing, page, noun)), show.table(headings, shown) if shown else ""]
