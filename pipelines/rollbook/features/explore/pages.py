"""The content of each page: the rows and figures, for the template of the same name.

Each function is a page: with the open file and the query of the address, it returns the values of the template:
`title`, and `listing` if the page has a list that is sorted, turned over and downloaded as CSV. Raises ArgumentError
for an address that cannot be answered.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import date, timedelta
from functools import partial
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import QueryParams

from rollbook.errors import ArgumentError
from rollbook.features.explore import own as own_lists
from rollbook.features.explore.book import COUNTED, Book, Listing, Row, ScopedBook, number, sql, today
from rollbook.features.explore.readers import TEACHER
from rollbook.features.morning import morning
from rollbook.features.pages import progress
from rollbook.reading import access, charts
from rollbook.reading.query import disarmed
from rollbook.store.database import READ, machine_errors
from rollbook.store.statements import in_order
from rollbook.tables import TABLES
from rollbook.views import contacted, metrics
from rollbook.views.contacted import Contacted

DAYS = 62  # of a trend
RESTS = 14  # days that a student rests who was spoken to, unless chosen otherwise
LONG_AGO = "over 100 days ago"  # since when a student is to watch
FIRST = 12  # students, and classes, on a reader's first page
MAX_DRAWN = 12  # institutions with line charts

COMPLETION = ("Completion, %", lambda row: row.completion)
SCORE = ("Score", lambda row: row.score)
STUDENTS = ("Students", lambda row: row.students)
OF_RECORD = ("Students, by the class's record", lambda row: row.students)

# Where the key figures of the morning page lead to.
FIGURES = {
    "students to watch": "/watch",
    "average completion": "/students?sort=completion%2C+%25",
    "average score": "/students?sort=score",
    "active within 7 days": "/students?sort=last+active",
}
SHOWN = {"all": "To watch", "new": "Newly to watch", "gone": "No longer to watch", "spoken": "Spoken to"}
# The kinds of records, in people's words.
RECORDS = {
    "students": "student",
    "student_summaries": "student's work",
    "student_activity": "student's activity",
    "student_classes": "student in a class",
    "student_details": "student's details",
    "classes": "class",
    "class_summaries": "class's figures",
    "class_assignment_activity": "class's assignments",
    "institution": "institution",
}
COMPARISONS = {
    "contains": 'CONTAINS(LOWER(CAST("{column}" AS VARCHAR)), LOWER(${value}))',
    "is": '"{column}" = TRY_CAST(${value} AS {type})',
    "is not": 'CAST("{column}" AS VARCHAR) IS DISTINCT FROM ${value}',
    "is at least": '"{column}" >= TRY_CAST(${value} AS {type})',
    "is more than": '"{column}" > TRY_CAST(${value} AS {type})',
    "is at most": '"{column}" <= TRY_CAST(${value} AS {type})',
    "is empty": '"{column}" IS NULL',
    "is not empty": '"{column}" IS NOT NULL',
}


def charts_of(days: Sequence[Row], *values: tuple[str, Any]) -> list[charts.Chart]:
    """A line chart for each value, by heading; none before the second day."""
    return [charts.trend(days, [value]) for value in values] if len(days) > 1 else []


def school(book: Book, params: QueryParams) -> dict[str, Any]:  # noqa: ARG001 - all pages are called alike
    """The morning page's figures and lists, each with a link to the rows."""
    data = book.once("morning", lambda: morning.load_morning(book.con))
    return {
        "title": "School today",
        "morning": data,
        "verdict": morning.verdict(data),
        "trouble": morning.trouble_of(data),
        "sentence": morning.last_night(data, is_old=False),
        "figures": [(*figure, FIGURES.get(figure[0])) for figure in morning.figures(data)],
        "own": own_lists.narrowed(book, QueryParams()),
        "flags": {words: flag for flag, words in morning.REASONS},
        "charts": charts_of(data.trend, *charts.VALUES, STUDENTS),
    }


def mine(book: Book, params: QueryParams) -> dict[str, Any]:  # noqa: ARG001 - all pages are called alike
    """A reader's own morning: whom to speak to among theirs, the new ones first, and their classes."""
    assert isinstance(book, ScopedBook)  # noqa: S101 - for the type; the server asks for it of no other
    day = book.days[0]
    book.watching(day)
    resting = book.resting(day)
    (counts,) = book.rows(sql("mine"))
    first = book.rows(sql("mine_first"), most=FIRST)
    classes = book.rows(sql("mine_classes"), most=FIRST)
    book.students = counts.students
    return {
        "title": "My morning",
        "counts": counts,
        "first": first,
        "resting": resting,
        "classes": classes,
        "sees": sorted(book.sees.difference(book.scope.missing)),
        # Who has a year, and may be a teacher, is not told each morning that no class is theirs.
        "missing": [line for line in book.scope.missing if line != TEACHER or len(book.sees) == 1],
        "has_before": len(book.days) > 1,
    }


def watch(book: Book, params: QueryParams) -> dict[str, Any]:
    """The students to watch on a day: whom to speak to, the new ones of these, the former, or those who were spoken to;
    by reason, class, teacher, course, text.
    """
    day = _day(book, params, "day", book.days[0])
    show, flag = params.get("show", "all"), params.get("reason", "")
    of = ("class", "teacher", "course")
    narrowed, own = _narrowed(book, params, *of), own_lists.narrowed(book, params)
    flags = dict(morning.REASONS)
    if show not in SHOWN or (flag and flag not in flags):
        raise ArgumentError("There is no such choice on this page")
    is_download = "csv" in params
    about = sql("watch_about", students="(SELECT LIST(student_id) FROM watched)") if is_download else ""
    book.watching(day)
    resting = book.resting(day)
    listing = book.listing(
        params,
        sql("watch", flag=flag, about=about, long_ago=LONG_AGO, own_where=own.where),
        f"change <> 'new', severity DESC, {in_order('student')}, student_id",
        text=params.get("text", "").strip(),
        show=show,
        day=day,
        **{name: number(params, name) for name in of},
        **own.values,
    )
    spoken = None
    if show == "all":
        ((spoken,),) = book.read(f"SELECT COUNT(*) FROM ({listing.query})", **listing.values | {"show": "spoken"})[1]
    just = resting.get(number(params, "noted"))
    if not is_download:
        parts = (listing.rows, *listing.others)
        ids = [row[0] for part in parts for row in part]
        facts = {row[0]: row[1:] for row in book.read(sql("watch_about", students="$ids"), ids=ids, day=day)[1]}
        lately = book.read(morning.sql("lately", students="SELECT UNNEST($ids)"), ids=ids, day=day)[1]
        drawn = dict(lately)
        facts = {student: (since or LONG_AGO, classes) for student, (since, classes) in facts.items()}
        rows, *others = ([(*r, *facts.get(r[0], (None, None)), drawn.get(r[0])) for r in part] for part in parts)
        columns = (*listing.columns, "since", "classes", "last 28 days")
        if show == "spoken":  # its change is in words, and takes their place
            columns, rows, *others = (columns[:-3], *([row[:-3] for row in part] for part in (rows, *others)))
        listing = replace(listing, columns=columns, rows=rows, others=others)
    return {
        "title": ": ".join([SHOWN[show], *(str(title) for *_, title in narrowed["only"]), *_in_words(own)]),
        "own": own,
        **narrowed,
        "choices": _choices(book, day, narrowed["only"]),
        "listing": listing,
        "spoken": spoken,
        "has_contacts": "contacts" in book.relations,
        "can_note": day == book.days[0] and show != "gone" and not book.contacts_wrong,
        "resting": resting,
        "just": just,
        "just_named": just and book.rows("SELECT name FROM main.students WHERE student_id = $id", id=just.student_id),
        "back": _back(),
        "query": urlencode([(name, value) for name, value in params.multi_items() if name != "noted"]),
        "days": book.days,
        "day": day,
        "before": next((d for d in book.days if d < day), None),
        "show": show,
        "shown": SHOWN,
        "flag": flag,
        "flags": flags,
    }


def classes(book: Book, params: QueryParams) -> dict[str, Any]:
    """All classes, or those of a teacher or a course, or those that match a text."""
    book.watching(book.days[0])
    return {"title": "Classes", **_narrowed(book, params, "teacher", "course"), "listing": _classes(book, params)}


def teacher(book: Book, params: QueryParams, key: int) -> dict[str, Any]:
    """A teacher: the students to watch, and the classes."""
    return _taught(book, params, "teacher", key)


def course(book: Book, params: QueryParams, key: int) -> dict[str, Any]:
    """A course: the students to watch, and the classes."""
    return _taught(book, params, "course", key)


def teachers(book: Book, params: QueryParams) -> dict[str, Any]:
    """All teachers of listed classes, or those that match a text; last those whose classes have all closed."""
    book.watching(book.days[0])
    text, order = params.get("text", "").strip(), f'"active classes" = 0, {in_order("teacher")}, teacher_id'
    return {
        "title": "Teachers",
        "listing": book.listing(params, sql("teachers", metric=metrics.SQL), order, text=text),
    }


def search(book: Book, params: QueryParams) -> dict[str, Any]:
    """The students, classes, teachers and courses that match a text."""
    text = params.get("text", "").strip()
    book.watching(book.days[0])
    query = sql(
        "search", found_students=sql("students", own_where=""), found_classes=sql("classes", metric=metrics.SQL)
    )
    listing = book.listing(params, query, f"place, {in_order('found')}, address", text=text, teacher=None, course=None)
    kinds = [row[2] for part in (listing.rows, *listing.others) for row in part]
    book.students = kinds.count("student")
    rows, *others = ([row[:-1] for row in part] for part in (listing.rows, *listing.others))
    listing = replace(listing, columns=listing.columns[:-1], rows=rows, others=others)
    return {"title": "Search", "listing": listing if text else replace(listing, rows=[], others=[])}


def students(book: Book, params: QueryParams) -> dict[str, Any]:
    """All listed students, or those that match a text, former ones too."""
    order = f'"left on" NULLS FIRST, {in_order("student")}, student_id'
    own = own_lists.narrowed(book, params)
    query, text = sql("students", own_where=own.where), params.get("text", "").strip()
    listing = book.listing(params, query, order, text=text, **own.values)
    return {"title": ": ".join(["Students", *_in_words(own)]), "own": own, "listing": listing}


def by(book: Book, params: QueryParams) -> dict[str, Any]:
    """The students by a column of the school's own lists: how many, whom to watch, averages, and the trend of each."""
    choices = own_lists.narrowed(book, QueryParams()).choices
    column = params.get("column", next(iter(choices), ""))
    if column not in choices:
        raise ArgumentError("No list of the school's own has such a column, with sixty values at most")
    book.watching(book.days[0])
    values = [value for value, _ in choices[column]]
    trend = own_lists.days(book, column, values, str(_since(book))) if len(values) <= MAX_DRAWN else []
    lines = [(f"{value}: completion, %", partial(_completion_of, value)) for value in values]
    return {
        "title": f"By {column.replace('_', ' ')}",
        "column": column,
        "others": [each for each in choices if each != column],
        "groups": own_lists.groups(book, column),
        "charts": charts_of(trend, *lines),
    }


def _completion_of(value: str, day: Row) -> float | None:
    found: float | None = day.completion[value]
    return found


def _in_words(own: own_lists.Narrowed) -> list[str]:
    """What lists are narrowed to: year 10."""
    return [f"{column.replace('_', ' ')} {value}" for column, value in own.only]


def school_class(book: Book, params: QueryParams, key: int) -> dict[str, Any]:
    """A class: the facts, the place in the course, the trend and the students."""
    book.watching(book.days[0])
    records = book.rows(sql("class", metric=metrics.SQL), class_id=key)
    if not records:
        raise ArgumentError("This class is not listed: it may have closed. Find another one")
    trend = book.rows(
        f"""
        SELECT
            snapshot_date AS day, student_count AS students, average_completion_rate AS completion,
            average_score AS score, assignment_count AS given
        FROM main.class_daily WHERE class_id = $class_id AND snapshot_date > DATE '{_since(book)}' ORDER BY day
        """,
        class_id=key,
    )
    order = f'"completion in all classes, %" NULLS LAST, {in_order("student")}, student_id'
    own, text = own_lists.narrowed(book, params), params.get("text", "").strip()
    query = sql("roster", own_where=own.where)
    return {
        "title": records[0].class_title,
        "found": records[0],
        "key": key,
        "compared": _compared(book, trend),
        "charts": charts_of(trend, COMPLETION, SCORE, OF_RECORD),
        "own": own,
        "listing": book.listing(params, query, order, class_id=key, text=text, **own.values),
    }


def student(book: Book, params: QueryParams, key: int) -> dict[str, Any]:  # noqa: ARG001 - all pages are called alike
    """A student: whether to watch and why, the facts, the trend, the classes, and what changed last."""
    records = book.rows(sql("student"), student_id=key)
    if not records:
        raise ArgumentError("This student is not known. Find another one")
    trend = book.rows(
        f"""
        SELECT
            snapshot_date AS day, CASE WHEN total_assignments > 0 THEN completion_rate END AS completion,
            average_score AS score, assignment_missing_count AS missing, total_assignments AS given
        FROM main.student_daily WHERE student_id = $id AND snapshot_date > DATE '{_since(book)}' ORDER BY day
        """,
        id=key,
    )
    watched = book.rows(
        "SELECT snapshot_date AS day, change, severity, reason, reason_before FROM watch_daily_of([$id])"
        " ORDER BY day DESC",
        id=key,
    )
    spans = book.rows(
        f"""
        SELECT
            class_id, class_title, course_name, joined_on, is_from_before, left_on, end_reason,
            class_id IN (SELECT class_id FROM main.classes) AS is_listed
        FROM main.enrollment_spans WHERE student_id = $id
        ORDER BY left_on DESC NULLS FIRST, {in_order("class_title")}, class_id
        """,
        id=key,
    )
    timeline = book.rows(
        "SELECT snapshot_date AS day, LIST(description ORDER BY what, description) AS changes"
        " FROM main.student_timeline WHERE student_id = $id GROUP BY 1 ORDER BY 1 DESC LIMIT 12",
        id=key,
    )
    reused = book.rows(
        "SELECT MAX(snapshot_date) AS since FROM main.student_timeline WHERE student_id = $id AND what = 'identity'",
        id=key,
    )
    book.students = 1
    return {
        "resting": book.resting(book.days[0]).get(key),
        "noted": [each for each in reversed(book.noted) if each.student_id == key],
        "has_contacts": "contacts" in book.relations,
        "today": today(),
        "back": _back(),
        "title": records[0].name,
        "found": records[0],
        "reused_since": reused[0].since,
        "key": key,
        "compared": _compared(book, trend),
        "charts": _term(book, trend, spans, {each.on for each in book.noted if each.student_id == key}),
        "watched": watched[0] if watched and watched[0].severity and watched[0].day == book.days[0] else None,
        "since": next((w for w in watched if w.change in (None, "newly to watch")), None),
        "was_until": next((w for w in watched if w.change == "no longer to watch"), None),
        "spans": spans,
        "timeline": timeline,
    }


def note_contact(book: Book, params: QueryParams, key: int) -> str:
    """Note that a student was spoken to today, and rests `until` a day; or `undo` such a note. Returns the address of
    the page whose form it was: the student's, or the `list` of whom to watch.
    """
    if not book.rows("SELECT 1 FROM main.students WHERE student_id = $id", id=key):
        raise ArgumentError("This student is not listed. Find another one")
    if "until" not in params and "undo" not in params:
        raise ArgumentError("The form did not arrive whole. Narrow the list less, and send it again")
    until = _until(params["until"]) if "undo" not in params else None
    page, shown = (f"/watch?{params['list']}", f"&noted={key}") if "list" in params else (f"/student/{key}", "")
    book.note("explore", "contacted", 1)
    with machine_errors(book.warehouse):
        if until is None:
            for each in (c for c in book.noted if c.student_id == key and as_sent(c) == params["undo"]):
                contacted.undo(book.warehouse, each)
            return page
        contacted.add(book.warehouse, key, today(), until, str(disarmed(book.login)))
    return page + shown


def as_sent(noted: Contacted) -> str:
    """What a form says of a note that it undoes."""
    return f"{noted.on}/{noted.until}/{noted.by}"


def _until(text: str) -> date:
    try:
        until = date.fromisoformat(text)
    except ValueError:
        raise ArgumentError("The day must be written as 2026-11-20") from None
    if not today() < until <= today() + timedelta(days=366):
        raise ArgumentError("Choose a day from tomorrow on, within a year")
    return until


def compare(book: Book, params: QueryParams) -> dict[str, Any]:
    """Two dates, by default the newest and a week before: whose work differs, the school, what changed."""
    week = next((day for day in book.days if day <= book.days[0] - timedelta(days=7)), book.days[-1])
    before, day = sorted((_day(book, params, "from", week), _day(book, params, "to", book.days[0])))
    values: dict[str, Any] = {"day": day, "before": before}
    measures = book.once(
        "measures",
        lambda: book.rows(
            """
            SELECT
                snapshot_date AS day, students, average_completion_rate, average_score, active_percent,
                low_completion_students, never_logged_in_students, ROUND(total_time_minutes / 60, 1) AS learning_hours
            FROM main.progress_daily WHERE snapshot_date IN (CAST($day AS DATE), CAST($before AS DATE)) ORDER BY day
            """,
            **values,
        ),
        *values.values(),
    )
    order = '"missing after" - "missing before" DESC NULLS LAST, "score after" - "score before"'
    text = params.get("text", "").strip()
    return {
        "title": "Two dates",
        "days": book.days,
        "day": day,
        "before": before,
        "measures": (measures[0], measures[-1]) if measures else None,
        "changes": book.once(
            "changes", lambda: book.rows(sql("compared_changes"), file=READ, **values), *values.values()
        ),
        "records": RECORDS,
        "listing": book.listing(
            params, sql("compared_students"), f"{order}, {in_order('student')}, student_id", text=text, **values
        ),
    }


def institutions(book: Book, params: QueryParams) -> dict[str, Any]:
    """The trend of all institutions together, or of each chosen institution; then a table with a row for each."""
    chosen = params.getlist("institution")
    measures = "snapshot_date AS day, students, average_completion_rate AS completion, average_score AS score"
    last = f"ORDER BY snapshot_date DESC LIMIT {DAYS}"
    one = f"SELECT {measures} FROM main.institutions_daily WHERE institution = $name {last}"
    trends = {name: book.rows(one, name=name) for name in chosen[:MAX_DRAWN]}
    if not chosen:
        trends = {"": book.rows(f"SELECT {measures} FROM main.district_daily {last}")}
    return {
        "title": "All institutions",
        "chosen": chosen,
        "names": [row.institution for row in book.rows("SELECT institution FROM main.institutions ORDER BY 1")],
        "more": len(chosen) - MAX_DRAWN,
        "trends": {name: charts_of(days[::-1], STUDENTS, COMPLETION, SCORE) for name, days in trends.items()},
        "listing": book.listing(params, sql("institutions"), "stands = 'up to date', institution", chosen=chosen),
    }


def tables(book: Book, params: QueryParams) -> dict[str, Any]:  # noqa: ARG001 - all pages are called alike
    """The tables and views."""
    return {"title": "Any table", "relations": book.relations}


def table(book: Book, params: QueryParams, name: str) -> dict[str, Any]:
    """The rows of a table or view that match all filters; without a filter, the newest day's rows of a table
    with days.
    """
    relation = book.relations.get(name)
    if relation is None:
        raise ArgumentError("There is no such table or view")
    types = {column: kind for column, kind, _ in relation.columns}
    filters = [
        each
        for each in zip(params.getlist("column"), params.getlist("comparison"), params.getlist("value"), strict=False)
        if each[0]
    ]
    if not params.getlist("column") and "snapshot_date" in types:
        filters = [("snapshot_date", "is", str(book.days[0]))]
    if not {column for column, *_ in filters} <= types.keys() or not {c for _, c, _ in filters} <= COMPARISONS.keys():
        raise ArgumentError("This table has no such column or comparison")
    source = f"FROM {relation.title}"
    values: dict[str, Any] = {}
    for n, (column, comparison, value) in enumerate(filters):
        condition = COMPARISONS[comparison]
        source += f" {'AND' if n else 'WHERE'} {condition.format(column=column, type=types[column], value=f'value{n}')}"
        values |= {f"value{n}": value} if "{value}" in condition else {}
    total = f"(SELECT COUNT(*) FROM (SELECT 1 {source} LIMIT {COUNTED}))"
    listing = book.listing(params, f"SELECT * {source}", total=total, **values)
    if "student_id" not in types:
        book.students = None
    return {
        "title": relation.title,
        "relation": relation,
        "filters_shown": [*filters, ("", "contains", "")],
        "comparisons": list(COMPARISONS),
        "listing": listing,
        "what": access.without_values(listing.query),
    }


def why(book: Book, params: QueryParams) -> dict[str, Any]:
    """Where a row, or a value of the row, comes from, on a day; with `show` names and the record as received."""
    name, key, show = params.get("table", ""), params.get("key", ""), "show" in params
    day = _day(book, params, "day", book.days[0])
    record = book.trace(name, key, params.get("column", ""), day, show=show)
    of, query = TABLES[name], "SELECT 1 FROM history.{0.name} WHERE {0.parent_key} = $id LIMIT 1"
    return {
        "title": f"Where does this come from? {RECORDS[name].capitalize()} {key}",
        "found": record,
        "table": of,
        "key": key,
        "alike": [
            t.name for t in TABLES.values() if t.key == of.key and book.rows(query.format(t), id=key.split(",")[0])
        ],
        "records": RECORDS,
        "days": book.days,
        "day": day,
        "show": show,
        "what": f"why {'--show ' if show else ''}{name}",
    }


def _classes(book: Book, params: QueryParams, **only: Any) -> Listing:
    """A list of the classes of a teacher or a course, or that match a text: as the address says, or as told."""
    values = {name: number(params, name) for name in ("teacher", "course")} | only
    text, order = params.get("text", "").strip(), f"status, {in_order('class')}, class_id"
    return book.listing(params, sql("classes", metric=metrics.SQL), order, text=text, **values)


def _taught(book: Book, params: QueryParams, of: str, key: int) -> dict[str, Any]:
    """The page of a teacher or a course."""
    book.watching(book.days[0])
    only = {"teacher": None, "course": None} | {of: key}
    found = book.rows(sql("taught", metric=metrics.SQL), **only)[0]
    if not found.classes:
        raise ArgumentError(f"This {of} has no listed class. Find another one")
    return {
        "template": "taught",
        "title": (found.teacher_name if of == "teacher" else found.course_name) or f"{of.capitalize()} {key}",
        "of": of,
        "key": key,
        "found": found,
        "listing": _classes(book, params, **only),
    }


def _narrowed(book: Book, params: QueryParams, *names: str) -> dict[str, Any]:
    """The parts of a list that the address asks for: `only`, with the name, id and title of each. Raises ArgumentError
    for a value that cannot be an id: the whole list would be another answer.
    """
    only = []
    for name in names:
        key = number(params, name)
        if key is None and params.get(name):
            raise ArgumentError(f"This {name} is not known. Find another one")
        if key is not None:
            title = "class_title" if name == "class" else f"{name}_name"
            (of,) = book.rows(f"SELECT ANY_VALUE({title}) AS title FROM main.classes WHERE {name}_id = $key", key=key)
            only.append((name, key, of.title or key))
    return {"only": only}


def _choices(book: Book, day: date, only: Sequence[tuple[str, int, Any]]) -> dict[str, list[tuple[int, Any, bool]]]:
    """The classes, teachers and courses of those to watch, each with the id, the title and whether it is chosen.

    What is chosen is there also if nobody of it is to watch.
    """
    found = book.rows(sql("watch_choices"), day=day)
    choices: dict[str, list[tuple[int, Any, bool]]] = {"class": [], "teacher": [], "course": []}
    chosen = {name: key for name, key, _ in only}
    for row in found:
        choices[row.kind].append((row.key, row.title, chosen.get(row.kind) == row.key))
    for name, key, title in only:
        if not any(is_chosen for *_, is_chosen in choices[name]):
            choices[name].append((key, title, True))
    return choices


def _day(book: Book, params: QueryParams, name: str, default: date) -> date:
    """A landed day from the address."""
    text = params.get(name)
    day = next((day for day in book.days if str(day) == text), default)
    if text and str(day) != text:
        raise ArgumentError(f"Nothing was landed on this day: choose one from {book.days[-1]} to {book.days[0]}")
    return day


def _back() -> date:
    """The day on which a student is back on the list who is spoken to today."""
    return today() + timedelta(days=RESTS)


def _since(book: Book) -> date:
    """The day before the first of a trend."""
    return book.days[0] - timedelta(days=DAYS)


def _term(book: Book, trend: Sequence[Row], spans: Sequence[Row], spoken: Collection[date]) -> list[charts.Chart]:
    """A student's charts: a day on which the student was not there is a gap. A contact after the newest landed day
    is at the end, with its day.
    """
    landed = [day for day in reversed(book.days) if day > _since(book)]
    said = [(day, "spoken to") for day in sorted(spoken) if landed[0] <= day <= landed[-1]]
    said += [(landed[-1], f"spoken to on {charts.short_date(day)}") for day in sorted(spoken) if day > landed[-1]][-1:]
    events = [*progress.events_of(spans, landed[0]), *said]
    drawn = []
    for name, figure in (("Missing assignments", "missing"), ("Completion, %", "completion"), ("Score", "score")):
        known = {row.day: value for row in trend if (value := getattr(row, figure)) is not None}
        drawn.append(progress.term_chart(name, known, landed, events, from_zero=figure == "missing"))
    return [*filter(None, drawn)]


def _compared(book: Book, trend: Sequence[Row]) -> dict[str, str]:
    """How completion and score of the newest day differ from a week before, in words."""
    now = trend[-1] if trend else Row(day=book.days[0], completion=None, score=None, given=None)
    then = morning.week_before(trend, book.days[0])
    again = then is not None and None not in (now.given, then.given) and now.given < then.given
    return {measure: morning.since(now, then, measure, again=again) for measure in ("completion", "score")}
