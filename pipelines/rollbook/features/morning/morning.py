"""The morning page: data, charts and text.

The data are queried from one open database through the analysts' views. Then the charts are laid out: where each bar,
line and text goes (`chart.svg` draws them). They show counts, classes and days, never a person's name. Horizontal
positions are percentages of the chart's width, so that it fits any screen while the text keeps its size; vertical
positions and heights are pixels. Colours are names of the page's CSS variables. `page.html` becomes one self-contained
file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cache
from types import MappingProxyType
from typing import Any

import duckdb
from jinja2 import Environment

from rollbook.reading.charts import (
    KEYS,
    LEGEND,
    SEVERITIES,
    SQUARE,
    Chart,
    Label,
    Row,
    all_rows,
    last_days,
    long_date,
    scale,
    severity_word,
    short_date,
    sparkline,
    trend,
)
from rollbook.store.statements import apart, statements
from rollbook.util import pages
from rollbook.util.text import count_of, figure
from rollbook.views import catalog
from rollbook.views.metrics import SMALL_CLASS

# A month of trend, and lists that fit on a page.
DAYS = 31
CLASSES_TO_WATCH = 10
CLASSES_LISTED = 25
CLASSES_COMPARED = 6
NAMED, NAMED_AT_ONCE = 400, 20  # on the first night the rest are folded, later those as before
# A common silence: of so many students or more, most are inactive and hardly any is active.
SILENT_STUDENTS, SILENT_SHARE, ACTIVE_SHARE = 10, 0.5, 0.1
# So many nights without a school day are holidays, or a school in which fewer work on a day.
DAYS_WITHOUT_SCHOOL = 21
HOW_TO_TERMS = (
    "Write the school's terms into terms.csv in the warehouse's folder, below its heading a line each, such as"
    " Autumn,2026-09-01,2026-12-18: of the days before the first night, only those of terms count then"
)
REASONS = tuple(catalog.REASONS.items())

sql = statements("rollbook.features.morning")


@dataclass(frozen=True)
class WatchedClass:
    """A class with students to watch: how many it has, how many of them are `watched`, and how many of these `new`."""

    class_id: int
    class_title: str
    students: int
    watched: int
    new: int


@dataclass(frozen=True)
class ComparedClass:
    """A class against the average class of its course, in `points` of completion."""

    class_title: str
    students: int
    completion: float
    score: float | None
    points: float


@dataclass(frozen=True)
class Night:
    """A night: synced, unproven, held, failed, missing or discarded; and how many records it brought."""

    day: date
    students: int | None
    classes: int | None
    outcome: str


@dataclass(frozen=True)
class NamedStudent:
    """A student to watch, by name. `until`: the student was spoken to, and rests until that day. `completion` is in
    steps (`sparkline`).
    """

    name: str
    is_new: bool
    until: date | None
    severity: float
    reason: str
    classes: str
    completion: list[tuple[int, float]] | None


@dataclass(frozen=True)
class WatchChanges:
    """How many students are newly and no longer to watch since a landed day, and the new students by reason."""

    since: date
    newly: int
    no_longer: int
    by_reason: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Silence:
    """Nearly everybody is `inactive`, which looks like a break: nobody is listed for that. `has_terms`: terms are
    given.
    """

    inactive: int
    has_terms: bool


@dataclass(frozen=True, kw_only=True)
class Morning:
    """The page's data. Percentages and scores are from 0 to 100, None if unknown."""

    school: str
    day: date
    students: int
    active_classes: int
    changes: tuple[str, ...]  # of the newest day, in sentences
    silence: Silence | None
    is_without_school: bool  # no school day was found for so long that it may be a mistake
    terms_ended: date | None  # the last day of the last term, if that is over
    to_watch: int
    several_reasons: int
    watch_changes: WatchChanges | None  # None on the first night
    by_reason: tuple[tuple[str, int], ...]
    by_severity: tuple[tuple[str, int, int], ...]  # each word of SEVERITIES, the students to watch, the new ones
    watched: tuple[WatchedClass, ...]  # no more than fit on the page, of the `watched_classes`
    watched_classes: int
    ahead: tuple[ComparedClass, ...]
    behind: tuple[ComparedClass, ...]
    trend: tuple[Row, ...]  # the institution on each landed day of the month
    is_counted_again: bool  # within the week, the assignments of most students began to be counted again
    nights: tuple[Night, ...]
    named: tuple[NamedStudent, ...]  # the new ones first, those who rest last; empty unless names were requested


def load_morning(
    con: duckdb.DuckDBPyConnection, *, names: bool = False, resting: Mapping[int, date] = MappingProxyType({})
) -> Morning:
    """Query the page's data; students' names only if `names`. Those `resting` until a day are listed last."""
    # A temporary table, because several queries use the rows. Reasons cost most, so only with names.
    day = _one(con, "SELECT MAX(snapshot_date) FROM spans.days")
    flags = ", ".join(flag for flag, _ in REASONS)
    with catalog.room_to_watch(con):
        con.execute(f"""
            CREATE OR REPLACE TEMP TABLE to_watch AS
            SELECT student_id, change, severity, reason_count, {"reason," if names else ""} {flags}
            FROM main.watch_daily WHERE snapshot_date = DATE '{day}'
        """)
    students = _one(con, "SELECT COUNT(*) FROM main.students")
    trend = _trend(con, day)
    silence = _common_silence(con, students, trend[-1].active_students)
    then = week_before(trend, day)
    to_watch, several, *by_reason = _counted(con, "change IS DISTINCT FROM 'no longer to watch'")
    watched, compared = _watched_classes(con), _compared_classes(con)
    return Morning(
        school=_one(con, "SELECT ANY_VALUE(school_name) FROM main.institution") or "",
        day=day,
        students=students,
        active_classes=_one(con, "SELECT COUNT(*) FROM main.classes WHERE class_status = 1"),
        changes=tuple(_changes(con, day)),
        silence=silence,
        is_without_school=_is_without_school(con),
        terms_ended=_one(con, f"SELECT MAX(last_day) FROM main.terms HAVING MAX(last_day) < DATE '{day}'"),
        to_watch=to_watch,
        several_reasons=several,
        watch_changes=_watch_changes(con, day),
        by_reason=_reasons(by_reason),
        by_severity=_by_severity(con),
        watched=tuple(watched[:CLASSES_LISTED]),
        watched_classes=len(watched),
        ahead=tuple(c for c in compared[:CLASSES_COMPARED] if c.points > 0),
        behind=tuple(c for c in reversed(compared[-CLASSES_COMPARED:]) if c.points < 0),
        trend=trend,
        is_counted_again=then is not None and 2 * _counted_again(con, then.day) > students,
        nights=_nights(con),
        named=_named(con, day, resting) if names else (),
    )


def _trend(con: duckdb.DuckDBPyConnection, day: date) -> tuple[Row, ...]:
    query = f"""
        SELECT
            snapshot_date AS day, students, average_completion_rate AS completion, average_score AS score,
            active_percent AS active, active_students
        FROM main.progress_daily WHERE snapshot_date > DATE '{day - timedelta(days=DAYS)}' ORDER BY snapshot_date
    """
    return tuple(all_rows(con, query))


def _by_severity(con: duckdb.DuckDBPyConnection) -> tuple[tuple[str, int, int], ...]:
    counted = con.execute("""
        SELECT severity, COUNT(*), COUNT(*) FILTER (change = 'newly to watch')
        FROM to_watch WHERE severity IS NOT NULL GROUP BY severity
    """).fetchall()
    groups = [(words, [row[1:] for row in counted if severity_word(row[0]) == words]) for _, words in SEVERITIES]
    return tuple((words, sum(n for n, _ in of), sum(new for _, new in of)) for words, of in groups if of)


# Services keep last year's classes, closed, under the same titles: only the active ones are told apart.
_TITLED = (
    f"(SELECT class_id, {apart('class_title', 'class_code', 'class_id')} AS class_title"
    " FROM main.classes WHERE class_status = 1)"
)


def _watched_classes(con: duckdb.DuckDBPyConnection) -> list[WatchedClass]:
    query = f"""
        SELECT
            e.class_id, ANY_VALUE(COALESCE(c.class_title, e.class_title)) AS class_title, COUNT(*) AS students,
            COUNT(w.student_id) AS watched, COUNT(*) FILTER (w.change = 'newly to watch') AS new
        FROM main.student_classes AS e
        LEFT JOIN to_watch AS w ON w.student_id = e.student_id AND w.severity IS NOT NULL
        LEFT JOIN {_TITLED} AS c USING (class_id)
        GROUP BY e.class_id
        HAVING COUNT(w.student_id) > 0
        ORDER BY watched DESC, new DESC, e.class_id
    """
    return [WatchedClass(**vars(row)) for row in all_rows(con, query)]


def _compared_classes(con: duckdb.DuckDBPyConnection) -> list[ComparedClass]:
    """The classes from the furthest ahead to the furthest behind."""
    query = f"""
        SELECT
            c.class_title, roster_students AS students, average_completion_rate AS completion,
            average_score AS score, completion_vs_course AS points
        FROM main.class_comparison INNER JOIN {_TITLED} AS c USING (class_id)
        WHERE completion_vs_course IS NOT NULL AND NOT is_small
        ORDER BY completion_vs_course DESC, class_id
    """
    return [ComparedClass(**vars(row)) for row in all_rows(con, query)]


def _nights(con: duckdb.DuckDBPyConnection) -> tuple[Night, ...]:
    """The last nights, the newest last."""
    query = f"""
        SELECT
            snapshot_date AS day, students, classes,
            CASE WHEN outcome = 'synced' AND NOT proven THEN 'unproven' ELSE outcome END AS outcome
        FROM main.sync_log ORDER BY snapshot_date DESC LIMIT {DAYS}
    """
    return tuple(Night(**vars(row)) for row in reversed(all_rows(con, query)))


def _named(con: duckdb.DuckDBPyConnection, day: date, resting: Mapping[int, date]) -> tuple[NamedStudent, ...]:
    """The students to watch by name. Those who were spoken to, and rest, come last."""
    con.execute("CREATE OR REPLACE TEMP TABLE resting (student_id BIGINT, until DATE)")
    if resting:
        con.executemany("INSERT INTO resting VALUES (?, ?)", [*resting.items()])
    lately = sql("lately", students="SELECT student_id FROM first")
    rows = all_rows(con, sql("named", most=str(NAMED), lately=lately), day=day)
    return tuple(NamedStudent(**vars(row)) for row in rows)


def _common_silence(con: duckdb.DuckDBPyConnection, students: int, active: int) -> Silence | None:
    """Take the inactive students out of `to_watch` if nearly everybody is inactive; return how many."""
    inactive = _one(con, "SELECT COUNT(*) FROM to_watch WHERE is_inactive")
    if students < SILENT_STUDENTS or inactive <= SILENT_SHARE * students or active >= ACTIVE_SHARE * students:
        return None
    con.execute("DELETE FROM to_watch WHERE is_inactive AND reason_count = 1")
    con.execute("UPDATE to_watch SET is_inactive = FALSE, reason_count = reason_count - 1 WHERE is_inactive")
    return Silence(inactive, has_terms=_one(con, "SELECT COUNT(*) FROM main.terms") > 0)


def _is_without_school(con: duckdb.DuckDBPyConnection) -> bool:
    """Whether none of the last landed days was a school day, by main.active_days."""
    query = f"""
        SELECT COUNT(*) = {DAYS_WITHOUT_SCHOOL} AND COUNT(a.day) = 0
        FROM (SELECT snapshot_date AS day FROM spans.days ORDER BY day DESC LIMIT {DAYS_WITHOUT_SCHOOL}) AS d
        LEFT JOIN (
            SELECT day FROM main.active_days
            WHERE 100 * active >= listed * (SELECT value FROM main.thresholds WHERE name = 'school_day_percent')
        ) AS a USING (day)
    """
    return bool(_one(con, query))


def _counted_again(con: duckdb.DuckDBPyConnection, since: date) -> int:
    """How many students have had a fall of their assignments given since a day, as with a new term."""
    return int(
        _one(
            con,
            f"""
            SELECT COUNT(DISTINCT student_id) FROM main.changes
            WHERE column_name = 'total_assignments' AND snapshot_date > DATE '{since}'
                AND TRY_CAST(new_value AS BIGINT) < TRY_CAST(old_value AS BIGINT)
            """,
        )
    )


def _counted(con: duckdb.DuckDBPyConnection, which: str) -> tuple[int, ...]:
    """Counts of the students that match `which`: all, with several reasons, and with each reason."""
    sums = ", ".join(f"COUNT(*) FILTER ({flag})" for flag, _ in REASONS)
    query = f"SELECT COUNT(*), COUNT(*) FILTER (reason_count > 1), {sums} FROM to_watch WHERE {which}"
    return con.execute(query).fetchall()[0]


def _reasons(counts: Iterable[int]) -> tuple[tuple[str, int], ...]:
    return tuple((reason, n) for (_, reason), n in zip(REASONS, counts, strict=True))


def _watch_changes(con: duckdb.DuckDBPyConnection, day: date) -> WatchChanges | None:
    since = _one(con, f"SELECT MAX(snapshot_date) FROM spans.days WHERE snapshot_date < DATE '{day}'")
    if since is None:
        return None
    newly, _, *by_reason = _counted(con, "change = 'newly to watch'")
    no_longer = _one(con, "SELECT COUNT(*) FROM to_watch WHERE change = 'no longer to watch'")
    return WatchChanges(since=since, newly=newly, no_longer=no_longer, by_reason=_reasons(by_reason))


def _changes(con: duckdb.DuckDBPyConnection, day: date) -> list[str]:
    """Changes of the newest day, as short sentences; none on the very first day."""
    if _one(con, "SELECT COUNT(*) FROM spans.days") < 2:
        return []
    counted = con.execute(sql("changes"), {"day": day}).fetchone()
    phrases = (
        ("student is new or back", "students are new or back"),
        ("student is no longer listed", "students are no longer listed"),
        ("student joined a class", "students joined a class"),
        ("student left a class", "students left a class"),
        ("student submitted assignments", "students submitted assignments"),
        ("student is missing more assignments", "students are missing more assignments"),
        ("student's score rose", "students' scores rose"),
        ("student's score fell", "students' scores fell"),
        ("class opened", "classes opened"),
        ("class closed", "classes closed"),
        ("class changed its teacher", "classes changed their teacher"),
    )
    return [f"{n:,} {one if n == 1 else many}" for n, (one, many) in zip(counted or (), phrases, strict=True) if n]


def _one(con: duckdb.DuckDBPyConnection, query: str) -> Any:
    row = con.execute(query).fetchone()
    return row[0] if row else None


# -- the charts --------------------------------------------------------------------------------------------------------

# Each outcome's mark and colour.
OUTCOMES = {
    "synced": ("", "good"),
    "unproven": ("?", "warn"),
    "held": ("!", "warn"),
    "failed": ("\N{MULTIPLICATION SIGN}", "bad"),
    "missing": ("\N{EN DASH}", "bad"),
    "discarded": ("/", "muted"),
}

ROW = 36  # a class with the bar below the title
SIDE = 27  # a class with the bar beside the title


def draw(morning: Morning) -> tuple[Chart, ...]:
    """Lay out all charts that have data."""
    compared = (*morning.ahead, *reversed(morning.behind))
    charts = (
        _watch(morning.watched[:CLASSES_TO_WATCH]) if morning.watched else None,
        _compare(compared) if compared else None,
        trend(morning.trend) if len(morning.trend) > 1 else None,
        _syncs(morning.nights) if morning.nights else None,
    )
    return tuple(chart for chart in charts if chart)


def _watch(shown: tuple[WatchedClass, ...]) -> Chart:
    described = (f"{w.class_title}: {w.watched} of {w.students}, {w.new} new" for w in shown)
    legend = ((SQUARE, "strong", "newly to watch"),) if any(w.new for w in shown) else ()
    chart = Chart(
        "watch",
        "Students to watch, by class",
        f"Bars, one per class, of its students to watch. {'; '.join(described)}.",
        LEGEND * bool(legend) + ROW * len(shown),
        (*legend, (SQUARE, "soft", "as before")) if legend else (),
    )
    for y, w in zip(range(LEGEND * bool(legend), chart.height, ROW), shown, strict=True):
        new, both = (round(100 * n / w.students, 2) for n in (w.new, w.watched))  # of the whole class
        chart.titles.append((w.class_title, 0, y, 62, "left"))
        more = f", {w.new} new" if w.new else ""
        chart.labels.append(Label(f"{w.watched} of {w.students}{more}", 100, y + 14, anchor="end"))
        chart.bars += [(both, y + 20, 100 - both, 9, "grid"), (0, y + 20, new, 9, "strong")]
        chart.bars.append((new, y + 20, both - new, 9, "soft"))
    return chart


def _compare(shown: tuple[ComparedClass, ...]) -> Chart:
    """Each class has the bar on one side of the middle and the title on the other, so that the two never overlap."""

    def described(some: Iterable[ComparedClass]) -> str:
        return "; ".join(f"{c.class_title}: {_signed(c)}" for c in some) or "none"

    chart = Chart(
        "compare",
        "Classes against their course",
        "Bars, one per class, of the points of completion that it is ahead of or behind the average of its course;"
        f" classes of {SMALL_CLASS} students and more."
        f" Furthest ahead: {described(c for c in shown if c.points > 0)}."
        f" Furthest behind: {described(c for c in reversed(shown) if c.points < 0)}.",
        LEGEND + SIDE * len(shown),
        ((SQUARE, "good", "points ahead"), (SQUARE, "bad", "points behind")),
    )
    most = max(abs(c.points) for c in shown)
    across = scale(-most, most, 16, 84)
    for y, c in zip(range(LEGEND, chart.height, SIDE), shown, strict=True):
        end, ahead = across(c.points), c.points > 0
        chart.titles.append((c.class_title, 0 if ahead else 51.5, y + 3, 48.5, "right" if ahead else "left"))
        anchor, dx = ("start", 5) if ahead else ("end", -5)
        chart.labels.append(Label(_signed(c), end, y + 17, "ink", anchor, dx))
        chart.bars.append((min(50, end), y + 4, abs(end - 50), 17, "good" if ahead else "bad"))
    chart.lines.append((((50, LEGEND), (50, chart.height)), "muted", 1))
    return chart


def _syncs(nights: tuple[Night, ...]) -> Chart:
    outcomes = [night.outcome for night in nights]
    described = "; ".join(f"{short_date(night.day)} {night.outcome}" for night in nights if night.outcome != "synced")
    legend = tuple((mark or SQUARE, colour, o) for o, (mark, colour) in OUTCOMES.items() if o in outcomes)
    top = LEGEND * (2 if len(legend) > KEYS else 1)
    chart = Chart(
        "syncs",
        "The nightly syncs",
        f"A row of squares, one per night: {outcomes.count('synced')} of {len(nights)} synced."
        f" {described or 'No other outcome'}.",
        top + 58,
        legend,
    )
    across = scale(0, max(len(nights), 14), 6, 94)
    for n, night in enumerate(nights):
        mark, colour = OUTCOMES[night.outcome]
        chart.bars.append((across(n + 0.07), top, across(n + 0.93) - across(n + 0.07), 34, colour))
        chart.labels.append(Label(mark, across(n + 0.5), top + 22, "page", "middle", bold=True))
    for n in range(len(nights) - 1, -1, -7):
        chart.labels.append(Label(short_date(nights[n].day), across(n + 0.5), top + 50, anchor="middle"))
    return chart


def _signed(compared: ComparedClass) -> str:
    return f"{compared.points:+.1f}".replace("-", "\N{MINUS SIGN}")


# -- the page ----------------------------------------------------------------------------------------------------------

# After so many hours without a new page, the page itself says how old it is.
STALE_HOURS = 36
UP, DOWN = "\N{UPWARDS ARROW}", "\N{DOWNWARDS ARROW}"
WEEK = 7  # days; within a week, the name of a weekday says which day


@cache
def _environment() -> Environment:
    environment = pages.environment(
        "rollbook.features.morning", number=lambda n: f"{n:,}", day=long_date, severity=severity_word
    )
    environment.filters["sparkline"] = sparkline
    return environment


def render(
    morning: Morning,
    charts: Sequence[Chart],
    *,
    at: datetime,
    trouble: str = "",
    advice: str = "",
    unproven: Sequence[str] = (),
    remarks: Sequence[str] = (),
    explore_url: str = "",
) -> str:
    """Return the page's HTML. `at` is the time shown (UTC), `trouble` what has gone wrong since the data, `advice` what
    the operator can do, `unproven` what is wrong with sets that stay unproven; `remarks` stand at the foot,
    `explore_url` is where people find the names.
    """
    return (
        _environment()
        .get_template("page.html")
        .render(
            morning=morning,
            charts={chart.name: chart for chart in charts},
            figures=figures(morning),
            verdict=verdict(morning),
            sentence=last_night(morning, is_old=bool(trouble)),
            trouble=trouble or trouble_of(morning),
            advice=advice,
            whose=f"{morning.day:%A}" if (at.date() - morning.day).days < WEEK else long_date(morning.day),
            unproven=unproven,
            remarks=remarks,
            explore_url=explore_url,
            syncs=_outcomes(morning.nights),
            at=f"{at:%Y-%m-%d %H:%M} UTC",
            made=f"{at:%Y-%m-%dT%H:%M:%SZ}",
            stale_hours=STALE_HOURS,
            least_students=SMALL_CLASS,
            most_named=NAMED,
            how_to_terms=HOW_TO_TERMS,
            named_at_once=NAMED_AT_ONCE if morning.watch_changes is None else sum(n.is_new for n in morning.named),
            trend=last_days(morning.trend) if morning.trend else "",
        )
    )


def verdict(morning: Morning) -> str:
    """The page's headline: how many students are newly to watch."""
    watch_changes = morning.watch_changes
    if watch_changes is None:
        return f"{_students(morning.to_watch)} to watch on this first night."
    if not watch_changes.newly:
        return f"Nobody is newly to watch; {_students(morning.to_watch)} to watch as before."
    return f"{_students(watch_changes.newly)} newly to watch, of {morning.to_watch:,} in all."


def last_night(morning: Morning, *, is_old: bool) -> str:
    """How the newest night went, in a sentence; if the page shows older records (`is_old`), only their day."""
    counted = f"{count_of(morning.students, 'student')} and {count_of(morning.active_classes, 'active class')}"
    last = morning.nights[-1] if morning.nights else None
    if is_old or (last and last.outcome not in ("synced", "unproven")):
        return f"These are the records of {long_date(morning.day)}: {counted}."
    if last and last.outcome == "unproven":
        return f"Last night's sync could not be proven complete, so nobody was removed from the lists: {counted}."
    return f"Last night's sync is complete: {counted}."


# The page's text about a night without new data, if there is no error message.
_NOTHING_NEW = {
    "held": "brought more changes than a normal night does, so a person must approve it first.",
    "failed": "failed: nothing of that night is known yet. Its operator sees why in the log.",
    "missing": "did not take place.",
    "discarded": "was discarded by a person.",
}


def trouble_of(morning: Morning) -> str:
    """The reason for not showing the newest night, as a sentence; empty if the page shows that night."""
    last = morning.nights[-1] if morning.nights else None
    if last is None or last.outcome not in _NOTHING_NEW:
        return ""
    counted = f"{count_of(last.students or 0, 'student')} and {count_of(last.classes or 0, 'class')}"
    came = f" It brought {counted}." if last.students else ""
    return f"The sync of {long_date(last.day)} {_NOTHING_NEW[last.outcome]}{came}"


def _outcomes(nights: Sequence[Night]) -> str:
    """How the last nights' syncs went, in a line."""
    synced = sum(night.outcome == "synced" for night in nights)
    others = [f"{short_date(night.day)} {night.outcome}" for night in nights if night.outcome != "synced"]
    return "; ".join([f"{synced} of {count_of(len(nights), 'night')} synced", *others]) + "."


def figures(morning: Morning) -> list[tuple[str, str, str]]:
    """The key figures: name, value, and comparison with a day about a week ago, the same for all."""
    now = morning.trend[-1] if morning.trend else Row(completion=None, score=None, active=None)
    then, again = week_before(morning.trend, morning.day), morning.is_counted_again
    share = f"{100 * morning.to_watch / (morning.students or 1):.0f} % of {morning.students:,}"
    return [
        ("students to watch", f"{morning.to_watch:,}", f"{share}; {morning.several_reasons:,} for several reasons"),
        ("average completion", figure(now.completion, " %"), since(now, then, "completion", again=again)),
        ("average score", figure(now.score), since(now, then, "score", again=again)),
        ("active within 7 days", figure(now.active, " %"), since(now, then, "active")),
    ]


def week_before(trend: Sequence[Row], day: date) -> Row | None:
    """The row of the day a week before, give or take a day: what every figure is compared with."""
    near = (row for row in trend if 6 <= (day - row.day).days <= 8)
    return min(near, key=lambda row: abs((day - row.day).days - 7), default=None)


def _students(count: int) -> str:
    return "1 student is" if count == 1 else f"{count:,} students are"


def since(today: Row, day: Row | None, measure: str, *, again: bool = False) -> str:
    """How a measure differs from an earlier day's, in words; `again` if it is of other assignments since."""
    now, then = getattr(today, measure), getattr(day, measure, None)
    if now is None:
        return "no activity is known" if measure == "active" else "nothing to average"
    if day is None or then is None:
        return "nothing from a week ago to compare with"
    earlier = short_date(day.day)
    if again:
        return f"assignments are counted again since {earlier}"
    if abs(now - then) < 0.05:
        return f"unchanged since {earlier}"
    return f"{UP if now > then else DOWN} {abs(now - then):.1f} points since {earlier}"
