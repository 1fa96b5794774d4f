"""The keys that are declared are keys: no two rows share a key, and NULL is only where declared."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from rollbook.feature import relations
from rollbook.store import schema
from rollbook.store.schema import OBSERVED
from rollbook.tables import Relation
from rollbook.views import catalog
from tests.support.warehouses.school import School

TABLES = [r for r in (*schema.declared(), OBSERVED, *relations()) if r.key]
# There every night, so that an empty view would prove nothing.
FILLED = {"changes", "thresholds", "syncs", "sync_sets", "days", "proven", "version", "observed", "students", "classes"}


def check(school: School, name: str, key: Collection[str], nullable: Collection[str]) -> int:
    """Assert that the key is unique; returns how many rows there are."""
    columns = ", ".join(key)
    nulls = ", ".join(f"COUNT(*) FILTER ({c} IS NULL)" for c in key)
    ((rows, keys, *missing),) = school.rows(
        f"SELECT COUNT(*), (SELECT COUNT(*) FROM (SELECT DISTINCT {columns} FROM {name})), {nulls} FROM {name}"
    )
    assert keys == rows, f"two rows of {name} share their {columns}"
    assert {c for c, n in zip(key, missing, strict=True) if n} <= set(nullable), f"NULL in the key of {name}"
    return int(rows)


# Without lists, students_own has no rows: tests/features/lists has its key.
@pytest.mark.parametrize("name", [name for name in catalog.VIEWS if name != "students_own"])
def test_a_view_has_a_key_that_no_two_rows_share(name: str, fortnight: School) -> None:
    view = catalog.view(name)
    assert view.key, f"pipelines/rollbook/views/sql/{name}.sql has no line '-- key: COLUMN, COLUMN' below its first one"
    assert set(view.key) <= {column for column, _ in view.columns}, f"the key of {name} names a column it does not have"
    assert check(fortnight, name, view.key, view.nullable), f"{name} is empty in the fortnight, which proves nothing"


@pytest.mark.parametrize("relation", TABLES, ids=lambda r: f"{r.schema}.{r.name}")
def test_no_two_rows_of_a_table_share_its_key(relation: Relation, fortnight: School) -> None:
    rows = check(fortnight, f"{relation.schema}.{relation.name}", relation.key, relation.nullable)
    assert rows or relation.name not in FILLED


def test_no_view_has_a_type_that_power_bi_cannot_read() -> None:
    unread = {column: kind for column, kind in catalog.types().items() if "HUGEINT" in kind or "DECIMAL" in kind}
    assert unread == {}
