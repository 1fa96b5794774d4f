"""A school in which a student leaves traces everywhere, before that student is erased."""

from __future__ import annotations

from typing import Any

import duckdb

from rollbook.night import discard as discards
from rollbook.night.past import always
from rollbook.rights import erasure as erasing
from rollbook.rights.erasure import Certificate
from tests.support.nights import House, night
from tests.support.processes import canary
from tests.support.records import Records, classes, student, students

# Descriptions of a file or a landing, which change with an erasure.
MADE = (
    ("spans", "version"),
    ("ops", "publishes"),
    ("ops", "feed"),
    ("spans", "days"),
    ("ops", "pages"),
    ("ops", "sync_sets"),
    ("ops", "syncs"),
    ("ops", "drift"),
)


def everybody(number: int) -> Records:
    """A night's students, the canary among them: a change, an arrival, a leaver."""
    changed = student(5, name=f"Night {number}")
    return [*students(4), changed, *students(6, first=6 + number), canary.canary()]


def erase(house: House, student: int = canary.ID, **how: Any) -> Certificate:
    """Erase a student, the canary unless told otherwise."""
    given: dict[str, Any] = {"reason": "case 12", "confirm": lambda _: True, **how}
    return erasing.erase(house.rollbook().writer(), student, **given)


def live(house: House) -> None:
    """Six nights: details, a refused record, a search that finds the student, a search that does not, a landing set
    aside.
    """
    service = house.service
    service.details = {canary.ID: {"note": "canary-detail"}}
    house.night(1, everybody(1), classes(3), details="all")
    house.night(2, [*everybody(2)[:-1], canary.canary() | {"name": None}])
    service.hide(canary.ID)
    house.night(3, everybody(3))
    service.mend()
    house.night(4, everybody(4)[:-1])
    house.night(5, everybody(5))
    discards.discard(house.rollbook().writer(), night(5), reason="on trial", confirm=always)
    behind = {"total_assignments": 20, "completed_assignments": 2, "completion_rate": 10.0, "average_score": 12.0}
    house.night(
        6, [*everybody(6)[:-1], canary.canary(summary=behind, registration_date="Canarybird")]
    )  # on the list of whom to watch


def catalog(house: House) -> list[tuple[Any, ...]]:
    """The tables, views and macros that readers find, with their comments."""
    with duckdb.connect(house.published, read_only=True) as con:
        rows = con.execute("SELECT schema_name, table_name, comment FROM duckdb_tables()").fetchall()
        rows += con.execute("SELECT schema_name, view_name, comment FROM duckdb_views() WHERE NOT internal").fetchall()
        columns = "schema_name, table_name, column_name, data_type, comment FROM duckdb_columns() WHERE NOT internal"
        rows += con.execute(f"SELECT {columns}").fetchall()
        macros = "schema_name, function_name, parameters, comment FROM duckdb_functions() WHERE NOT internal"
        rows += con.execute(f"SELECT {macros}").fetchall()
    return sorted(rows, key=str)
