"""The keys that are declared are keys: no two rows share them, and NULL is only where it may be."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from pipelines.store import schema
from pipelines.store.relations import OBSERVED
from pipelines.tables import Relation
from pipelines.views import catalog
from pipelines.views.keys import joins
from tests.support.warehouses.school import School

TABLES = [r for r in (*schema.declared(), OBSERVED) if r.key]
# There every night, so that an empty one would prove nothing.
FILLED = {"changes", "thresholds", "syncs", "sync_sets", "days", "proven", "version", "observed", "students", "classes"}


def check(school: School, name: str, key: Collection[str], nullable: Collection[str]) -> int:
    """Assert that the key is one; returns how many rows there are."""
    columns = ", ".join(key)
    nulls = ", ".join(f"COUNT(*) FILTER ({c} IS NULL)" for c in key)
    ((rows, keys, *missing),) = school.rows(
        f"SELECT COUNT(*), (SELECT COUNT(*) FROM (SELECT DISTINCT {columns} FROM {name})), {nulls} FROM {name}"
    )
    assert keys == rows, f"two rows of {name} share their {columns}"
    assert {c for c, n in zip(key, missing, strict=True) if n} <= set(nullable), f"NULL in the key of {name}"
    return int(rows)


@pytest.mark.parametrize("name", catalog.VIEWS)
def test_a_view_has_a_key_that_no_two_rows_share(name: str, fortnight: School) -> None:
    view = catalog.view(name)
    assert view.key, f"pipelines/views/sql/{name}.sql has no line '-- key: COLUMN, COLUMN' below its first one"
    assert set(view.key) <= {column for column, _ in view.columns}, f"the key of {name} names a column it does not have"
    assert check(fortnight, name, view.key, view.nullable), f"{name} is empty in the fortnight, which proves nothing"


@pytest.mark.parametrize("relation", TABLES, ids=lambda r: f"{r.schema}.{r.name}")
def test_no_two_rows_of_a_table_share_its_key(relation: Relation, fortnight: School) -> None:
    rows = check(fortnight, f"{relation.schema}.{relation.name}", relation.key, relation.nullable)
    assert rows or relation.name not in FILLED


def test_of_the_tables_only_pages_rejects_and_the_runs_have_no_key() -> None:
    without = {f"{r.schema}.{r.name}" for r in schema.declared() if not r.key and r.schema != "spans"}
    assert without == {"ops.pages", "ops.rejects"}


def test_a_view_is_told_where_its_key_may_be_null(monkeypatch: pytest.MonkeyPatch) -> None:
    made = read(monkeypatch, "-- key: snapshot_date, class_id (may be NULL)")
    assert (made.key, made.nullable) == (("snapshot_date", "class_id"), ("class_id",))
    assert made.described == "One row per day and class. Key: snapshot_date, class_id."


def test_a_view_without_a_key_is_read_and_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    made = read(monkeypatch, "--")
    assert (made.key, made.described) == ((), "One row per day and class.")


@pytest.mark.parametrize("line", ["-- key: a,b", "-- key: a b", "-- key: a, b.", "-- key: a\n-- key: b"])
def test_a_key_that_cannot_be_read_is_refused(monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    message = "views/sql/daily.sql: write its key as '-- key: day, class_id (may be NULL)', on one line"
    with pytest.raises(ValueError, match=f"^{message.replace('(', '.').replace(')', '.')}$"):
        read(monkeypatch, line)


def read(monkeypatch: pytest.MonkeyPatch, line: str) -> catalog.View:
    """A view with this line in its header."""
    text = f"-- daily: One row per day and class.\n{line}\nSELECT 1\n"
    monkeypatch.setattr(catalog, "query", lambda name, **parts: text)
    return catalog.view.__wrapped__("daily")


def test_a_column_joins_the_table_or_view_that_its_name_is_a_key_of() -> None:
    columns = ("snapshot_date", "student_id", "class_id", "course_id", "teacher_id", "school_id")
    assert joins("roster", columns) == (
        ("student_id", "students"),
        ("class_id", "classes"),
        ("course_id", "courses"),
        ("teacher_id", "teachers"),
        ("school_id", "institution"),
    )
    assert joins("courses", ["course_id"]) == ()
