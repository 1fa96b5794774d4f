"""The pseudonymous file: it has all that analysts need, and nothing that names anybody (G12)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rollbook.features.pseudonymous.contents import CODE, LEFT_OUT, STUDENT
from rollbook.store import schema
from rollbook.tables import TABLES
from rollbook.views import catalog
from tests.support.nights import House, night
from tests.support.warehouses.pseudonyms import STUDENTS, WORDS, Secrets, codes, ident, lived, pseudonymous, rows

pytestmark = pytest.mark.nights

OF_RECORDS = "('reject', 'refused value', 'drift')"


@pytest.fixture(scope="module")
def secrets() -> Secrets:
    return Secrets()


@pytest.fixture(scope="module")
def coded_life(secrets: Secrets) -> Iterator[House]:
    with lived(secrets) as house:
        yield house


# --- nothing in it names anybody -------------------------------------------------------------------------------------


def test_no_name_and_no_id_is_in_its_bytes_or_rows(coded_life: House, secrets: Secrets) -> None:
    assert len(secrets.numbers) == STUDENTS + 1
    assert secrets.in_bytes(pseudonymous(coded_life)) == set()
    assert secrets.in_rows(pseudonymous(coded_life)) == []


def test_the_search_finds_them_in_the_published_file(coded_life: House, secrets: Secrets) -> None:
    assert set(secrets.in_rows(coded_life.published)) == {*WORDS, *map(str, secrets.numbers)}
    assert len(secrets.in_bytes(coded_life.published)) > len(WORDS)


def test_personal_columns_are_there_and_empty_and_say_so(coded_life: House) -> None:
    for relation in schema.declared():
        for column in relation.columns:
            name = f"{relation.schema}.{relation.name}"
            if column.personal and name not in ("main.changes", "ops.syncs"):
                assert rows(coded_life, f"SELECT COUNT({column.name}) FROM {name}") == [(0,)], (name, column.name)
                place = f"schema_name || '.' || table_name = '{name}' AND column_name = '{column.name}'"
                comments = rows(coded_life, f"SELECT comment FROM duckdb_columns() WHERE {place}")
                assert comments == [(f"{column.comment} {LEFT_OUT}",)]


def shared(view: str) -> str:
    """A view, without the findings about records as received."""
    return f"(FROM {view} WHERE kind NOT IN {OF_RECORDS})" if view == "data_quality_rows" else view


def test_the_views_leave_out_exactly_the_columns_that_say_so(coded_life: House) -> None:
    """A column says so if, and only if, it has values in the published file and none here."""
    left_out_columns = rows(
        coded_life, f"SELECT table_name, column_name FROM duckdb_columns() WHERE comment LIKE '%{LEFT_OUT}%'"
    )
    count = "SELECT {} FROM {}"
    for view in catalog.views():
        names = [name for name, _ in view.columns]
        counts = count.format(", ".join(f"COUNT({n})" for n in names), shared(view.name))
        ((*here,), (*there,)) = rows(coded_life, counts)[0], coded_life.query(counts)[0]
        left_out = {n for n, h, t in zip(names, here, there, strict=True) if t and not h}
        assert left_out == {n for v, n in left_out_columns if v == view.name and there[names.index(n)]}, view.name
    assert ("roster", "teacher_name") in left_out_columns
    assert ("students_to_watch", "name") in left_out_columns
    assert ("metrics", "name") not in left_out_columns


def test_the_lake_and_what_quotes_records_are_not_in_it(coded_life: House) -> None:
    schemas = "SELECT schema_name FROM duckdb_schemas() WHERE database_name = current_database() AND NOT internal"
    assert {name for (name,) in rows(coded_life, schemas)} == {"history", "ops", "spans"}
    for name in (
        "ops.rejects",
        "ops.refused_values",
        "ops.drift",
        "ops.pages",
        "main.student_details",
        "history.student_details",
    ):
        assert rows(coded_life, f"SELECT COUNT(*) FROM {name}") == [(0,)]
        assert coded_life.query(f"SELECT COUNT(*) > 0 FROM {name}") == [(True,)], name
    assert {n for n, t in TABLES.items() if t.tracks_only_personal} == {"student_details"}


# --- it is the same otherwise ----------------------------------------------------------------------------------------


def without_names(table: str, schema_name: str) -> str:
    """The columns of a table that are not personal, the id left out."""
    declared = next(r for r in schema.declared() if (r.schema, r.name) == (schema_name, table))
    return ", ".join(c.name for c in declared.columns if not c.personal and c.name != STUDENT)


def assert_same_rows(house: House, name: str, schema_name: str) -> None:
    """Both files have the same rows of a table, apart from personal columns; codes take the place of ids."""
    key = f"{STUDENT}, " if STUDENT in TABLES[name].names else ""
    query = f"SELECT {key}{without_names(name, schema_name)} FROM {schema_name}.{name}"
    assigned = codes(house)
    expected = [(assigned[row[0]], *row[1:]) if key else row for row in house.query(query)]
    assert sorted(rows(house, query), key=repr) == sorted(expected, key=repr) != [], (schema_name, name)


@pytest.mark.parametrize("name", [n for n, t in TABLES.items() if not t.tracks_only_personal])
def test_the_current_rows_are_those_of_the_published_file(coded_life: House, name: str) -> None:
    assert_same_rows(coded_life, name, "main")


def test_every_view_has_as_many_rows_but_those_about_names_and_bodies(coded_life: House) -> None:
    for name in catalog.VIEWS:
        if name not in ("student_timeline", "data_quality"):
            query = f"SELECT COUNT(*) FROM {shared(name)}"
            assert rows(coded_life, query) == coded_life.query(query), name
    timeline = "FROM student_timeline WHERE what <> 'details'"
    assert rows(coded_life, f"SELECT COUNT(*) {timeline}") == coded_life.query(f"SELECT COUNT(*) {timeline}")
    assert rows(coded_life, "SELECT COUNT(*) FROM student_timeline WHERE what = 'details'") == [(0,)]
    findings = f"SELECT kind, about, how_many, since FROM data_quality WHERE kind NOT IN {OF_RECORDS} ORDER BY ALL"
    assert rows(coded_life, findings) == coded_life.query(findings)


# --- nothing shows that something personal changed -------------------------------------------------------------------


def test_a_change_of_names_alone_makes_no_version_change_or_count(coded_life: House) -> None:
    renamed, more = codes(coded_life)[ident(1)], codes(coded_life)[ident(2)]
    assert coded_life.query(f"SELECT COUNT(*) FROM history.students WHERE student_id = {ident(1)}") == [(3,)]
    assert rows(coded_life, f"SELECT valid_from, valid_to FROM history.students WHERE student_id = {renamed}") == [
        (night(1), None)
    ]
    changed = "FROM changes WHERE change = 'changed' AND student_id ="
    assert rows(coded_life, f"SELECT * EXCLUDE (student_id) {changed} {renamed}") == []
    # Of the other one the figure is told, and when; the name is not.
    assert rows(coded_life, f"SELECT snapshot_date, table_name, column_name {changed} {more}") == [
        (night(d), "student_summaries", "completed_assignments") for d in (2, 3)
    ]
    # A class whose teacher got another name.
    assert coded_life.query("SELECT COUNT(*) FROM history.classes WHERE class_id = 501") == [(2,)]
    assert rows(coded_life, "SELECT COUNT(*) FROM history.classes WHERE class_id = 501") == [(1,)]


def test_the_counts_of_a_night_are_those_of_what_is_shown(coded_life: House) -> None:
    """On night 2 one figure changed, two students' names and a teacher's: one row is told."""
    counts = "SELECT snapshot_date, rows_added, rows_changed, rows_removed FROM sync_log ORDER BY 1"
    (_, here, *_), (_, there, *_) = rows(coded_life, counts), coded_life.query(counts)
    that_night = f"FROM changes WHERE change = 'changed' AND snapshot_date = '{night(2)}'"
    ((details,),) = coded_life.query(f"SELECT COUNT(*) {that_night} AND table_name = 'student_details'")
    assert there[2] - here[2] == 3 + details
    numbers = rows(coded_life, f"SELECT COUNT(DISTINCT (table_name, student_id, class_id)) {that_night}")
    assert numbers == [(here[2],)] == [(1,)]
    assert rows(coded_life, "SELECT COUNT(bytes_received) FROM ops.syncs") == [(0,)]


# --- nothing leads from a code to an id ------------------------------------------------------------------------------


def test_each_student_has_one_code_everywhere_which_says_what_it_is(coded_life: House) -> None:
    assigned = set(codes(coded_life).values())
    holding = rows(
        coded_life, "SELECT schema_name, table_name, comment FROM duckdb_columns() WHERE column_name = 'student_id'"
    )
    assert {comment for *_, comment in holding} == {CODE}
    assert len(holding) > 20
    for of, name, _ in holding:
        assert {code for (code,) in rows(coded_life, f"SELECT DISTINCT student_id FROM {of}.{name}")} - assigned <= {
            None
        }, name


def test_no_table_keeps_the_order_of_the_ids(coded_life: House) -> None:
    """Rows are in the order of the codes; of `changes`, within a day."""
    for name in ("main.students", "history.students", "main.student_summaries", "history.student_classes"):
        codes_there = [code for (code,) in rows(coded_life, f"SELECT student_id FROM {name}")]
        assert codes_there == sorted(codes_there), name
    changed = rows(coded_life, "SELECT snapshot_date, student_id FROM changes WHERE student_id IS NOT NULL")
    assert changed == sorted(changed)
