"""No value that the tables accept stops an answer: views, macros, measures, pages, exports, and the files made from them.

The records are made at random, with odd values in every field that may hold one. They come through whole syncs, so that
what flattening refuses is not tried.
"""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random
from typing import Any

import duckdb
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from pipelines import files
from pipelines.explore import pages
from pipelines.explore.questions import Book, Selection, find
from pipelines.export import Format
from pipelines.export.formats import export
from pipelines.operations.data_quality import run_quality_checks
from pipelines.records import MAX_ID, MAX_NUMBER
from pipelines.report import charts, morning, page
from pipelines.store.scope import MANY
from pipelines.tables import TABLES
from pipelines.views import catalog, metrics, terms, thresholds
from pipelines.views import fleet as fleet_views
from tests.support.nights import House, new_house, night
from tests.support.records import MISSING, Record, Records, classes, school_class, student, students, within

STUDENTS, CLASSES = 24, 6
# Near the largest id, where a sum or a difference of two would leave its type.
FIRST_ID = MAX_ID - 1000
AT = datetime(2026, 11, 30, tzinfo=UTC)
DAYS = ("0001-01-01", "1582-10-04", "1899-12-31", "1970-01-01", "2026-11-18", "2038-01-20", "9999-12-31")
TEXTS = ("", " ", "\0", "a\0b", "=1+1", "'; --", "{}", "%s $x", "\u202eolleh", "\uffff", "é" * 2**15, "\U0001f9d1" * 40)

NUMBERS = (0, 1, -1, MAX_NUMBER, -MAX_NUMBER)
DECIMALS = (0.0, -0.0, 5e-324, 0.1, MAX_NUMBER - 1e-5, float(MAX_NUMBER), -float(MAX_NUMBER))
PERCENTS = (0.0, -0.0, 5e-324, 99.99999999999999, 100.0)


def some(odd: tuple[Any, ...], other: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    """The odd values, and some that are found at random."""
    return st.lists(other, max_size=5).map(lambda more: [*odd, *more])


# The values of each kind of column, from which the records' are drawn.
pools = st.fixed_dictionaries(
    {
        "id": some((), st.integers(MAX_ID - 3, MAX_ID)).map(lambda more: [MAX_ID, *more]),
        "percent": some(PERCENTS, st.floats(0, 100)),
        "BIGINT": some(NUMBERS, st.integers(-MAX_NUMBER, MAX_NUMBER)),
        "DOUBLE": some(DECIMALS, st.floats(-MAX_NUMBER, MAX_NUMBER)),
        "DATE": some(DAYS, st.dates().map(str)),
        "VARCHAR": some(TEXTS, st.text(st.characters(exclude_categories=["Cs"]), max_size=20)),
        "BOOLEAN": st.just([True, False]),
    }
)
limits = st.tuples(*(st.sampled_from((0.0, -0.0, 5e-324, 0.5, t.value, t.most)) for t in thresholds.DEFAULTS))


class Maker:
    """Makes records of values from the pools."""

    def __init__(self, pools: dict[str, list[Any]], random: Random) -> None:
        self.pools = pools
        self.random = random

    def night(self) -> tuple[Records, Records]:
        """The students and classes of a night."""
        return [self.student(FIRST_ID + n) for n in range(STUDENTS)], [
            self.school_class(FIRST_ID + n) for n in range(CLASSES)
        ]

    def student(self, key: int) -> Record:
        """A student, in some classes, one of which may not be listed."""
        listed = self.random.sample(range(CLASSES + 1), self.random.randint(0, 3))
        return {
            "id": key,
            **self.fields("students"),
            "summary": self.fields("student_summaries"),
            "activity_tracking": self.random.choice((self.fields("student_activity"), None)),
            "classes": [{"class_id": FIRST_ID + n, **self.fields("student_classes")} for n in listed],
        }

    def school_class(self, key: int) -> Record:
        """A class."""
        return {
            "class_id": key,
            **self.fields("classes"),
            "summary": self.fields("class_summaries"),
            "assignment_activity": self.fields("class_assignment_activity"),
        }

    def fields(self, table: str) -> Record:
        """The fields of one object; an optional one may be null or missing."""
        made: Record = {}
        for column in TABLES[table].columns:
            if column.name not in TABLES[table].key:
                pool = self.pools["id" if column.id else "percent" if column.percent else column.type]
                value = self.random.choice(pool if column.required else [*pool, None, MISSING])
                outer = made
                for step in column.path[:-1]:
                    outer = outer.setdefault(step, {})
                if value is not MISSING:
                    outer[column.path[-1]] = value
        return made


def ask_views(house: House) -> None:
    """Ask every view, measure and macro; what cannot answer raises."""
    asked = [*(f"FROM {v.name}" for v in catalog.views()), *(m.query for m in metrics.METRICS)]
    for days in (f"DATE '{night(8)}'", "DATE '0001-01-01'", "DATE '9999-12-31'"):
        given = {"day": days, "from_day": "DATE '0001-01-01'", "to_day": days, "class": str(FIRST_ID)}
        for macro in catalog.macros():
            call = f"{macro.name}({', '.join(given[name] for name in macro.parameters)})"
            asked.append(f"FROM {call}" if macro.kind == "MACRO TABLE" else f"SELECT {call}")
    with duckdb.connect(house.published, read_only=True) as con:
        for query in asked:
            con.execute(query).fetchall()
    run_quality_checks(house.published)


def ask_pages(house: House) -> None:
    """Make the morning page with names, and the pages of the app."""
    with duckdb.connect(house.published, read_only=True) as con:
        content = morning.load_morning(con, names=True)
    page.render(content, charts.draw(content), at=AT)
    book, before, day = Book(house.warehouse), night(1), night(8)
    with book.reading():
        pages.school(book)
        pages.compared(book, before, day)
        pages.compared_students(book, before, day, "")
        pages.watch(book, day, "", newly=True)
        for key in (FIRST_ID, FIRST_ID + 1):
            pages.student(book, key)
            pages.one_class(book, key)
            pages.roster(book, key, "")
            pages.timeline(book, key)
            pages.history(book, key)
        for question in ("find_students", "find_classes"):
            find(book, question, "a")
        for relation in book.relations().values():
            pages.listed(book.selected(Selection(relation)), 1, "rows")


def export_some(house: House) -> None:
    """Export what has values of every type, and what is computed from them."""
    with files.aside(house.warehouse / "build") as scratch:
        for view in ("student_progress", "class_comparison", "progress_weekly", "history.classes"):
            for form in Format:
                export(house.published, view, form, scratch / f"out.{form}", scratch=scratch)


def ask_coded(house: House) -> None:
    """Ask the views of the pseudonymous file, which must be of the newest night."""
    with duckdb.connect(house.warehouse / "rollbook-pseudonymous.duckdb", read_only=True) as con:
        assert con.execute("SELECT MAX(snapshot_date) FROM spans.days").fetchall() == [(night(8),)]
        for v in catalog.views():
            con.execute(f"FROM {v.name}").fetchall()


def ask_as_a_fleet(house: House) -> None:
    """The same rows as one institution's of a fleet."""
    with duckdb.connect() as con:
        con.execute(f"ATTACH '{house.published}' AS one (READ_ONLY)")
        fleet_views.create_tables(con)
        for relation in fleet_views.shared():
            full = f"{relation.schema}.{relation.name}"
            con.execute(f"INSERT INTO {full} BY NAME SELECT 'ash' AS institution, * FROM one.{full}")
        fleet_views.create_rollups(con)
        fleet_views.create_views(con, "one")
        for name in (*fleet_views.ROLLUPS, *(v.name for v in catalog.views(MANY))):
            con.execute(f"FROM {name}").fetchall()


# Not shrunk: an example takes seconds, and its error names the value.
@settings(max_examples=3, phases=[Phase.generate])
@given(pools, limits, st.randoms(use_true_random=False))
def test_odd_values_stop_no_answer(pools: dict[str, list[Any]], values: tuple[float, ...], random: Random) -> None:
    maker = Maker(pools, random)
    with new_house(hold_changed_percent=100, hold_removed_percent=100, pseudonymous=True) as house:
        house.warehouse.mkdir(parents=True, exist_ok=True)
        lines = [(t.name, repr(value)) for t, value in zip(thresholds.DEFAULTS, values, strict=True)]
        (house.warehouse / thresholds.FILE).write_text("name,value\n" + "".join(f"{n},{v}\n" for n, v in lines))
        (house.warehouse / terms.FILE).write_text("name,first_day,last_day\n\0 =1,0001-01-01,9999-12-31\n")
        for number in (1, 8):
            house.night(number, *maker.night())
        assert house.query("SELECT COUNT(*) FROM ops.rejects") == [(0,)]
        assert house.query("SELECT COUNT(*), COUNT(DISTINCT snapshot_date) FROM student_daily") == [(2 * STUDENTS, 2)]
        for ask in (ask_views, ask_pages, export_some, ask_coded, ask_as_a_fleet):
            ask(house)


def test_a_mistaken_number_costs_its_record_and_no_view() -> None:
    everybody, taught = students(20), classes(6)
    with new_house() as house:
        house.night(1, everybody, taught)
        for number, minutes, count in ((2, 1.764e12, 2**63 - 1), (3, -1e308, -(2**63))):
            odd = student(1, **within("summary", total_time_minutes=minutes))
            counted = student(2, **within("summary", completed_assignments=count))
            uncounted = within(
                "assignment_activity", students_with_submissions=count, students_without_submissions=count
            )
            places = [school_class(n, student_count=count) for n in (501, 502)]
            house.night(number, [odd, counted, *everybody[2:]], [*places, school_class(503, **uncounted), *taught[3:]])
        right = student(1, **within("summary", total_time_minutes=1310.5))
        house.night(4, [right, *everybody[1:]], taught)
        total = [(night(n), 20, 20 * 1210.5 + (100 if n == 4 else 0)) for n in (1, 2, 3, 4)]
        assert house.query("SELECT snapshot_date, students, total_time_minutes FROM progress_daily ORDER BY 1") == total
        refused = house.query("SELECT about, how_many, said FROM data_quality WHERE kind = 'reject' ORDER BY ALL")
        assert refused[-1] == ("students", 1, "summary.total_time_minutes: expected float >= -100000000000.0")
        ask_views(house)
