"""What a feature adds to the published file comes with it, is filled before the checks, and goes with it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import duckdb
import pytest

from rollbook.errors import SettingError
from rollbook.night import sync
from rollbook.opened import Rollbook
from rollbook.rights.erasure import erase
from rollbook.tables import Column, Relation
from rollbook.views.additions import Addition, NextFile
from rollbook.views.catalog import Macro
from tests.support.nights import House, new_house
from tests.support.records import students

pytestmark = [pytest.mark.nights, pytest.mark.every_feature]

CLUBS = Relation("spans", "clubs", "A row per student and club.", (Column("student_id", "BIGINT", "The student."),))


@dataclass
class Clubs:
    """A feature that declares a table, makes another one from it with a view on top, and has a macro."""

    relation: Relation = CLUBS
    error: Exception | None = None
    name = "clubs"

    def __post_init__(self) -> None:
        self.files: list[NextFile] = []

    def relations(self) -> Iterable[Relation]:
        return (self.relation,)

    def macros(self, version: str) -> Iterable[Macro]:
        return (
            Macro("clubs_of", ("id",), "Them.", f"CREATE OR REPLACE MACRO main.clubs_of(id) AS '{version}'", "MACRO"),
        )

    def look(self, con: duckdb.DuckDBPyConnection) -> object:
        return con.sql("SELECT COUNT(*) FROM published.main.students").fetchall()[0][0]

    def fill(self, con: duckdb.DuckDBPyConnection, file: NextFile) -> None:
        if self.error is not None:
            raise self.error
        self.files.append(file)
        con.execute("DELETE FROM spans.clubs")
        con.execute("INSERT INTO spans.clubs BY NAME SELECT student_id FROM main.students")
        con.execute("CREATE TABLE main.clubs_now AS FROM spans.clubs")
        con.execute("CREATE VIEW main.students_clubs AS FROM main.students JOIN main.clubs_now USING (student_id)")


class Greetings:
    """A feature that has a macro, and no table."""

    name = "greetings"

    def relations(self) -> Iterable[Relation]:
        return ()

    def macros(self, version: str) -> Iterable[Macro]:
        return (Macro("clubs_of", ("id",), "Them.", "CREATE OR REPLACE MACRO main.clubs_of(id) AS 'hello'", "MACRO"),)

    def look(self, con: duckdb.DuckDBPyConnection) -> object:
        """Nothing."""

    def fill(self, con: duckdb.DuckDBPyConnection, file: NextFile) -> None:
        """Nothing."""


def opened(house: House, number: int, *additions: Addition) -> Rollbook:
    """The house in a night, with these additions alone."""
    rollbook = house.at(number).rollbook()
    rollbook.place = replace(rollbook.place, additions=additions)
    return rollbook


def names(house: House) -> set[str]:
    """What of clubs the published file has."""
    listed = """
        SELECT table_name FROM duckdb_columns() WHERE NOT internal UNION SELECT view_name FROM duckdb_views()
        UNION SELECT function_name FROM duckdb_functions() WHERE NOT internal
    """
    return {name for (name,) in house.query(listed) if "club" in name or "since" in name}


def test_what_a_feature_adds_comes_and_goes_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rollbook.ingest.LARGE", 1)  # else nothing is looked for ahead
    clubs = Clubs()
    with new_house(students(3)) as house:
        house.night(1)
        assert names(house) == {"changes_since"}
        sync(opened(house, 2, clubs).writer())
        assert names(house) == {"clubs", "clubs_now", "students_clubs", "clubs_of"}
        sync(opened(house, 3, clubs).writer())
        assert house.query("SELECT COUNT(*), clubs_of(1) = MAX(id) FROM students_clubs, spans.version") == [(3, True)]
        # The first file's declarations were others, so it was not compared with the one before.
        assert [file.base is None for file in clubs.files] == [True, False]
        assert clubs.files[1].ahead == {"clubs": 3}
        house.night(4)
        assert names(house) == {"changes_since"}


def test_a_macro_comes_and_goes_with_its_feature() -> None:
    with new_house(students(3)) as house:
        sync(opened(house, 1).writer())
        sync(opened(house, 2, Greetings()).writer())
        assert names(house) == {"clubs_of"}
        sync(opened(house, 3).writer())
        assert not names(house)


def test_a_feature_whose_fill_fails_fails_the_publish() -> None:
    with new_house(students(3)) as house:
        house.night(1)
        before = house.published.resolve()
        with pytest.raises(SettingError, match="the list is wrong"):
            sync(opened(house, 2, Clubs(error=SettingError("the list is wrong"))).writer())
        assert house.published.resolve() == before
        sync(opened(house, 2, Clubs()).writer())
        assert house.query("SELECT COUNT(*) FROM students_clubs") == [(3,)]


def test_an_erased_student_leaves_what_a_feature_added() -> None:
    with new_house(students(3)) as house:
        sync(opened(house, 1, Clubs()).writer())
        erase(opened(house, 1, Clubs()).writer(), 2, reason="case 12", confirm=lambda _: True)
        assert house.query("SELECT LIST(student_id ORDER BY student_id) FROM students_clubs") == [([1, 3],)]
