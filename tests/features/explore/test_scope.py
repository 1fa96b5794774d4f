"""A reader's scope is enforced in SQL: by a rule for each relation, and against conditions on the rows left out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import duckdb
import pytest
from starlette.routing import Router

from rollbook.errors import DamagedError
from rollbook.features.explore import book, scope, server
from rollbook.features.explore.readers import Readers
from rollbook.features.explore.scope import AVERAGES, By, Night, Nights
from rollbook.store import schema
from rollbook.tables import TABLES
from rollbook.views import catalog
from tests.support.nights import night as day_of
from tests.support.reading import opened, writable
from tests.support.warehouses.staff import CLASSES, NIGHTS, SCOPED, STUDENTS, Staff, staff_room, word

pytestmark = pytest.mark.nights

SEES = {
    "year10@school.example": ("year=10",),
    "tutor@school.example": ("tutor_group=10B",),
    "teacher2@school.example": ("teacher",),
    "both@school.example": ("teacher", "tutor_group=8A"),
    "teacher4@school.example": ("year=8",),
}
WITHOUT_FIGURES = {
    "class_daily": [
        *("average_completion_rate", "average_score", "total_engagement_minutes", "assignment_count"),
        *("students_with_submissions", "students_without_submissions"),
    ]
}


@pytest.fixture(scope="module")
def staff(tmp_path_factory: pytest.TempPathFactory) -> Staff:
    """The school with readers."""
    return staff_room(tmp_path_factory.mktemp("staff") / "w")


@pytest.fixture(scope="module")
def shared(staff: Staff) -> Iterator[Night]:
    """Its newest night, as all readers share it."""
    with closing(staff.night()) as night:
        yield night


@pytest.fixture(params=SCOPED)
def reader(request: pytest.FixtureRequest, shared: Night) -> Iterator[tuple[str, duckdb.DuckDBPyConnection]]:
    """A reader's login and own connection."""
    with shared.reading(request.param, frozenset(SEES[request.param])) as (con, _):
        yield request.param, con


def listed(ids: set[int]) -> str:
    return f"({', '.join(map(str, sorted(ids) or [-1]))})"


def publish_again(staff: Staff) -> None:
    """Publish the same once more, as another file."""
    before = staff.published.resolve()
    copy = before.with_name("rollbook.later.duckdb")
    copy.write_bytes(before.read_bytes())
    staff.published.unlink()
    staff.published.symlink_to(copy)


def test_every_relation_of_the_file_has_a_rule_of_its_own() -> None:
    declared = {(r.schema, r.name) for r in (*schema.declared(), *schema.snapshots())}
    assert scope.rules().keys() == declared | {("main", name) for name in catalog.VIEWS}
    of_everybody = {"terms", "thresholds", "active_days", "institution", "days", "proven", "version"}
    assert {name for (_, name), rule in scope.rules().items() if rule is By.OPEN} == of_everybody
    bound = {name for name, rule in scope.rules().items() if rule is By.BOUND}
    assert bound <= {("main", name) for name in catalog.VIEWS}


def test_whom_a_reader_sees_follows_lists_and_classes(staff: Staff, shared: Night) -> None:
    for login, sees in SEES.items():
        seen = shared.scope(login, frozenset(sees))
        assert {*seen.students} == staff.students(login)
        assert {*seen.classes} == staff.classes(login)
        assert seen.averaged == staff.averaged(login)
        assert seen.missing == ()
    assert any(staff.averaged(login) < staff.classes(login) for login in SCOPED)
    nobody = shared.scope("x", frozenset({"year=14", "no_list=1", "teacher"}))
    assert nobody == scope.Scope(missing=("no_list=1", "teacher", "year=14"))


def test_without_variables_nothing_that_is_anybodys_has_a_row(shared: Night) -> None:
    with shared._con.cursor() as con:
        con.execute("USE rollbook")
        found = {r.full for r in shared.relations if con.execute(f"SELECT 1 FROM {r.full} LIMIT 1").fetchall()}
    opened = {r.full for r in shared.relations if r.rule is By.OPEN} | {'main."calendar"', 'main."metrics"'}
    assert found <= opened
    assert 'spans."days"' in found


def test_each_relation_has_the_readers_rows_and_no_others(
    staff: Staff, shared: Night, reader: tuple[str, duckdb.DuckDBPyConnection]
) -> None:
    """Also the views that are made again: they find what the file's own views say of these students and classes."""
    login, con = reader
    students, classes = listed(staff.students(login)), listed(staff.classes(login))
    averaged = listed(staff.averaged(login))
    compared = 0
    with opened(staff.published) as whole:
        for relation in shared.relations:
            names = [name for name, _ in relation.columns]
            mine = con.execute(f"FROM {relation.full}").fetchall()
            if relation.rule is By.CLOSED:
                assert (mine, [c[0] for c in con.description or ()]) == ([], names)
                continue
            is_student, is_class = "student_id" in names, "class_id" in names
            rule = f"student_id IN {students}" if is_student else f"class_id IN {classes}" if is_class else "TRUE"
            if relation.rule is By.EITHER:
                rule = f"{rule} OR (student_id IS NULL AND class_id IN {classes} AND (table_name NOT IN {AVERAGES} OR class_id IN {averaged}))"
            hidden = WITHOUT_FIGURES.get(relation.name, [])
            if relation.name in AVERAGES:
                hidden = [c.name for c in TABLES[relation.name].columns if c.name in names and c.name != "class_id"]
            if relation.rule is By.OPEN:
                hidden = {"institution": ["api_key_name"], "days": ["digest"]}.get(relation.name, [])
            shown = [
                f'CASE WHEN {"FALSE" if relation.rule is By.OPEN else f"class_id IN {averaged}"} THEN "{name}" END'
                if name in hidden
                else f'"{name}"'
                for name in names
            ]
            if relation.name == "student_identities":
                shown[names.index("person")] = "CASE WHEN ids = 1 THEN person END"
            theirs = whole.execute(f"SELECT {', '.join(shown)} FROM {relation.full} WHERE {rule}").fetchall()
            assert sorted(map(repr, mine)) == sorted(map(repr, theirs)), relation.full
            compared += bool(theirs)
    assert compared > 30


def test_macros_answer_of_the_readers_students_alone(
    staff: Staff, reader: tuple[str, duckdb.DuckDBPyConnection]
) -> None:
    login, con = reader
    students, classes = staff.students(login), staff.classes(login)
    every = [*STUDENTS]
    calls = [
        (f"{t.name}_as_of(DATE '{day_of(n)}')", t.parent_key) for t in TABLES.values() for n in range(1, NIGHTS + 1)
    ]
    calls += [(f"students_to_watch_as_of(DATE '{day_of(n)}')", "student_id") for n in range(1, NIGHTS + 1)]
    calls += [(f"watch_daily_of({every})", "student_id")]
    calls += [(f"student_changes(DATE '{day_of(1)}', DATE '{day_of(3)}')", "student_id")]
    with opened(staff.published) as whole:
        for call, key in calls:
            if key in ("student_id", "class_id") and not call.startswith(AVERAGES):
                ids = listed(students if key == "student_id" else classes)
                theirs = whole.execute(f"FROM {call} WHERE {key} IN {ids}").fetchall()
                assert sorted(map(repr, con.execute(f"FROM {call}").fetchall())) == sorted(map(repr, theirs)), call
    changed = con.execute(f"FROM changes_between(DATE '{day_of(1)}', DATE '{day_of(3)}')").fetchall()
    assert {row[2] for row in changed} - {None} <= students
    with pytest.raises(duckdb.CatalogException):
        con.execute("FROM changes_since(0, 0)")


def test_no_error_message_tells_of_a_row_outside(
    staff: Staff, shared: Night, reader: tuple[str, duckdb.DuckDBPyConnection]
) -> None:
    """DuckDB evaluates a query's conditions below a plain view: an error then repeats what the view leaves out."""
    login, con = reader
    outside = min({*STUDENTS} - staff.students(login) - {21, 22}), min({*CLASSES, 0} - staff.classes(login))
    tried = 0
    for relation in shared.relations:
        names = {name for name, _ in relation.columns}
        key, other = ("student_id", outside[0]) if "student_id" in names else ("class_id", outside[1])
        if relation.rule is By.CLOSED or key not in names:
            continue
        for name, kind in relation.columns:
            told = f'error("{name}")' if kind == "VARCHAR" else f"CAST(CONCAT('x', \"{name}\") AS BIGINT)"
            query = f"SELECT COUNT(*) FROM {relation.full} WHERE {key} = {other} AND {told} IS NULL"
            assert con.execute(query).fetchall() == [(0,)]
            tried += 1
    assert tried > 200
    plain = (
        "SELECT * FROM published.main.students WHERE student_id IN (SELECT UNNEST(GETVARIABLE('students')::BIGINT[]))"
    )
    with pytest.raises(duckdb.Error, match=word(outside[0])):
        con.execute(
            f"SELECT COUNT(*) FROM ({plain}) WHERE student_id = {outside[0]} AND error(name) IS NULL"
        ).fetchall()


def test_what_nothing_is_declared_for_is_there_without_rows(tmp_path: Path) -> None:
    staff = staff_room(tmp_path / "w")
    with duckdb.connect(writable(staff.published)) as con:
        con.execute("CREATE TABLE main.new_one AS SELECT student_id, name FROM main.students")
        con.execute("CREATE TABLE main.own_groups AS SELECT student_id, name FROM main.students")
        con.execute("CREATE TABLE history.own_rooms AS SELECT class_id, class_room FROM main.classes")
        con.execute("CREATE TABLE main.own_staff AS SELECT teacher_email FROM main.classes")
        con.execute("CREATE VIEW main.own_again AS FROM main.own_groups")
    login = "tutor@school.example"
    with closing(staff.night()) as night, night.reading(login, frozenset(SEES[login])) as (con, _):
        found = {
            name: {row[0] for row in con.execute(f"FROM {name}").fetchall()}
            for name in ("main.new_one", "main.own_groups", "main.own_again", "history.own_rooms", "main.own_staff")
        }
        assert found == {
            "main.new_one": set(),
            "main.own_groups": staff.students(login),
            "main.own_again": staff.students(login),
            "history.own_rooms": staff.classes(login),
            "main.own_staff": set(),
        }
        assert night.listed & {("main", "new_one"), ("main", "own_staff")} == set()
        assert ("main", "own_groups") in night.listed


def test_a_file_without_lists_shows_a_year_to_nobody(tmp_path: Path) -> None:
    staff = staff_room(tmp_path / "w")
    with duckdb.connect(writable(staff.published)) as con:
        con.execute("DROP VIEW main.students_own")
    with closing(staff.night()) as night:
        assert night.scope("x", frozenset({"year=10"})) == scope.Scope(missing=("year=10",))
        assert night.scope("teacher2@school.example", frozenset({"teacher"})).classes == staff.taught(
            "teacher2@school.example"
        )


def test_readers_share_a_night_until_the_last_has_left(tmp_path: Path) -> None:
    staff, nights = staff_room(tmp_path / "w"), Nights()
    build = staff.warehouse / "build"

    def spilled() -> int:
        return len([*build.glob("aside-*")])

    before = spilled()
    with nights.newest(staff.published, build) as first:
        with nights.newest(staff.published, build) as again:
            assert again is first
        publish_again(staff)
        with nights.newest(staff.published, build) as second:
            assert second is not first
        assert first.whole("SELECT COUNT(*) > 0 FROM main.students") == [(True,)]
        assert spilled() == before + 2
    assert spilled() == before + 1
    with pytest.raises(duckdb.ConnectionException):
        first.whole("SELECT 1")
    staff.published.unlink()
    with pytest.raises(DamagedError), nights.newest(staff.published, build):
        pass
    assert spilled() == before


def test_a_publish_is_opened_before_anybody_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the night before is closed: after an erasure, nothing of it stays in memory."""
    staff = staff_room(tmp_path / "w")
    monkeypatch.setattr(server, "OPENED_WITHIN", 0.05)

    def opened() -> Night | None:
        return book.nights._current()

    async def looked_after() -> None:
        async with server._looking_after(Readers(staff.warehouse, teachers=False))(Router()):
            before = await found(lambda night: night is not None)
            publish_again(staff)
            await found(lambda night: night not in (None, before))
            with pytest.raises(duckdb.ConnectionException):
                before.whole("SELECT 1")

    async def found(wanted: Callable[[Night | None], bool]) -> Night:
        for _ in range(600):
            if wanted(night := opened()):
                assert night is not None
                return night
            await asyncio.sleep(0.1)
        raise AssertionError("not within a minute")

    asyncio.run(looked_after())
    assert opened() is None


def test_nothing_opens_another_file_or_changes_a_setting(shared: Night, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a\n1\n")
    with shared.reading("x", frozenset({"year=10"})) as (con, _):
        for refused in (
            f"FROM read_csv('{tmp_path / 'x.csv'}')",
            "SET enable_external_access = true",
            "SET threads = 8",
        ):
            with pytest.raises(duckdb.Error):
                con.execute(refused)
        assert con.execute("SELECT MAX(snapshot_date) FROM spans.days").fetchall() == [(day_of(1) + timedelta(days=2),)]
