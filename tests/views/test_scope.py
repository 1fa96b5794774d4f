"""The views over many institutions give each what the same view over it alone gives, for any rows.

The rows are made at random, straight into the tables: institutions share all their ids and days, so that a join, a
count or an order across institutions shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import cache
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from pipelines.store import schema
from pipelines.store.scope import MANY, ONE
from pipelines.tables import TABLES, Column, Relation
from pipelines.views import catalog, thresholds
from pipelines.views import fleet as fleet_views

Rows = list[dict[str, Any]]

DAY = date(2026, 11, 20)
NAMES = ("007", "ash", "birch")
TEXTS = {
    "table_name": (*TABLES,),
    "change": ("added", "changed", "removed", "returned"),
    "column_name": ("completion_rate", "average_score", "name", "total_assignments", "has_ever_logged_in", None),
    "old_value": ("1", "2.5", None),
    "new_value": ("1", "3", None),
    "span_state": ("stated", "empty", "mute"),
    "set_name": ("students", "classes"),
    "outcome": ("synced", "held", "failed", "discarded"),
    "reason": ("one reason", "another"),
    "verdict": ("synced", "unproven", "approved"),
    "type": ("string", "number"),
}
NUMBERS = {
    "student_id": (1, 2, 3, 4, 5), "class_id": (501, 502, 503), "course_id": (70, 71, None), "teacher_id": (8, 9, None),
    "class_status": (0, 1, 1), "student_count": (1, 2, 3), "landing": (1, 2),
}  # fmt: skip
VERSIONED = ("valid_from", "valid_to")
RUNS = ("first_day", "last_day")


def value(rng: Random, column: Column, days: list[date]) -> Any:
    """A value for a column: from few, so that rows meet."""
    if column.name in TEXTS:
        return rng.choice(TEXTS[column.name])
    if column.name in NUMBERS:
        return rng.choice(NUMBERS[column.name])
    of_type: dict[str, Any] = {
        "BIGINT": (0, 1, 2, 5),
        "DOUBLE": (0.0, 12.5, 40.0, 60.25, 75.0, 100.0, None),
        "BOOLEAN": (True, False, None),
        "VARCHAR": ("a", "b", "c", None),
        "JSON": ("{}",),
        "DATE": [*days, DAY - timedelta(days=30), None],
        "TIMESTAMP": tuple(datetime(2026, 11, 20, h, tzinfo=UTC).replace(tzinfo=None) for h in (2, 3)),
    }
    return rng.choice(of_type[column.type])


def rows(rng: Random, relation: Relation, days: list[date]) -> Rows:
    """Random rows of a table that no two share a key of."""
    if relation.name == "thresholds":
        return [
            {"name": t.name, "value": rng.choice((0.0, 5.0, 30.0, 60.0)), "meaning": "m"} for t in thresholds.DEFAULTS
        ]
    if relation.name == "terms":
        return [{"name": rng.choice("AB"), "first_day": days[0], "last_day": days[rng.randrange(len(days))]}]
    if relation.schema == "spans" and relation.name == "days":
        return [{"snapshot_date": day, "digest": "d"} for day in days]
    if relation.name == "institution":
        kinds = {"BIGINT": 7, "VARCHAR": "s", "DATE": None}
        return [{c.name: kinds[c.type] for c in relation.columns} | dict.fromkeys((VERSIONED[0], RUNS[0]), days[0])]
    table = TABLES.get(relation.name) if relation.schema in ("history", "spans") else None
    found: dict[tuple[Any, ...], Rows] = {}
    for _ in range(30):
        row = {c.name: value(rng, c, days) for c in relation.columns}
        for name in {"snapshot_date", "day"} & row.keys():
            row[name] = rng.choice(days)
        if table is None:
            found.setdefault(tuple(row[name] for name in relation.key) or tuple(row.values()), [row])
        elif (key := tuple(row[name] for name in table.key)) not in found:
            fixed = {name: row[name] for name in table.key}
            found[key] = [
                {c.name: value(rng, c, days) for c in relation.columns} | fixed | times
                for times in spells(rng, relation, days)
            ]
    return [row for same in found.values() for row in same]


def spells(rng: Random, relation: Relation, days: list[date]) -> Iterator[dict[str, Any]]:
    """Times that follow each other, with gaps or without; the last may still last."""
    since, until = VERSIONED if relation.schema == "history" else RUNS
    cuts = sorted(rng.sample(days, rng.randint(1, min(5, len(days)))))
    for begin, end in zip(cuts, [*cuts[1:], None], strict=True):
        if rng.random() < 0.8:
            yield {since: begin, until: end}


def fill(con: duckdb.DuckDBPyConnection, relation: Relation, made: Rows, **more: str) -> None:
    if not made:
        return
    columns = {c.name: [row.get(c.name) for row in made] for c in relation.columns}
    fresh = pa.table({**{name: [text] * len(made) for name, text in more.items()}, **columns})
    con.register("fresh", fresh)
    con.execute(f"INSERT INTO {relation.schema}.{relation.name} BY NAME SELECT * FROM fresh")
    con.unregister("fresh")


@cache
def databases(seed: int) -> tuple[duckdb.DuckDBPyConnection, dict[str, duckdb.DuckDBPyConnection]]:
    """The same random rows, of all institutions in one database and of each in its own."""
    rng = Random(seed)
    many = duckdb.connect()
    fleet_views.create_tables(many)
    own = {}
    for name in NAMES:
        days = sorted(rng.sample([DAY + timedelta(days=n) for n in range(20)], rng.randint(4, 10)))
        con = own[name] = duckdb.connect()
        schema.ensure(con)
        for relation in fleet_views.shared():
            made = rows(rng, relation, days)
            fill(con, relation, made)
            fill(many, relation, made, institution=name)
        catalog.create_views(con, ONE)
    catalog.create_views(many, MANY)
    return many, own


def counted(con: duckdb.DuckDBPyConnection, query: str) -> Counter[str]:
    return Counter(map(repr, con.execute(query).fetchall()))


def of_institution(many: duckdb.DuckDBPyConnection, institution: str, relation: str) -> Counter[str]:
    """The rows of one institution, from the database of all."""
    return counted(many, f"SELECT * EXCLUDE (institution) FROM {relation} WHERE institution = '{institution}'")


@pytest.mark.parametrize("name", [v.name for v in catalog.views(MANY)])
def test_each_institution_has_its_own_rows_of_a_view(name: str) -> None:
    compared = 0
    for seed in range(4):
        many, own = databases(seed)
        total = 0
        for institution, con in own.items():
            found, wanted = of_institution(many, institution, name), counted(con, f"FROM {name}")
            assert found == wanted, f"{institution}, seed {seed}: {found - wanted} instead of {wanted - found}"
            total += wanted.total()
        assert counted(many, f"FROM {name}").total() == total
        compared += total
    assert compared > 10


def test_the_rollups_by_day_are_what_the_views_say() -> None:
    many, _ = databases(1)
    fleet_views.create_rollups(many)
    shared = "institution, snapshot_date, students, average_completion_rate, average_score, scored_students"
    found = many.execute(f"SELECT {shared} FROM institutions_daily ORDER BY ALL").fetchall()
    assert found == many.execute(f"SELECT {shared} FROM progress_daily ORDER BY ALL").fetchall()


def test_the_macros_answer_for_each_institution_as_its_own_do() -> None:
    many, own = databases(0)
    for con in (many, *own.values()):
        con.execute("INSERT INTO spans.version VALUES ('one', TIMESTAMP '2026-11-20 02:15:00')")
    catalog.create_macros(many, "one", MANY)
    day, later = f"DATE '{DAY + timedelta(days=9)}'", f"DATE '{DAY + timedelta(days=17)}'"
    calls = [f"{table}_as_of({day})" for table in TABLES]
    calls += [f"students_to_watch_as_of({day})", f"changes_between({day}, {later})"]
    compared = 0
    for institution, con in own.items():
        catalog.create_macros(con, "one")
        for call in calls:
            found, wanted = of_institution(many, institution, call), counted(con, f"FROM {call}")
            assert found == wanted, f"{institution}: {call}"
            compared += bool(wanted)
    assert compared > 15


def test_everything_in_a_fleets_file_has_a_comment() -> None:
    with duckdb.connect() as con:
        fleet_views.create_tables(con)
        fleet_views.create_rollups(con)
        fleet_views.create_views(con, "one")
        silent = """
            SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal AND comment IS NULL
            UNION ALL SELECT table_name, NULL FROM duckdb_tables() WHERE NOT internal AND comment IS NULL
            UNION ALL SELECT view_name, NULL FROM duckdb_views() WHERE NOT internal AND comment IS NULL
        """
        assert con.execute(silent).fetchall() == []
        rows = con.execute("SELECT table_name, column_name FROM duckdb_columns() WHERE schema_name = 'main'").fetchall()
    there = set(rows)
    assert there >= {(r.name, column) for r in fleet_views.rollups() for column, _ in r.columns}
    assert len([column for table, column in rows if table in fleet_views.ROLLUPS]) == sum(
        len(r.columns) for r in fleet_views.rollups()
    ), "a column of a rollup that its header does not name"
