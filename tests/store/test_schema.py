"""The published file explains itself: everything in it has a comment, and the comments are the declarations'."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from rollbook.store import schema
from rollbook.store.lake import Lake
from rollbook.tables import TABLES
from rollbook.views import catalog
from tests.support.warehouses.school import School

pytestmark = pytest.mark.nights

UNEXPLAINED = """
SELECT 'table ' || schema_name || '.' || table_name FROM duckdb_tables() WHERE NOT internal AND comment IS NULL
UNION ALL
SELECT 'view ' || schema_name || '.' || view_name FROM duckdb_views() WHERE NOT internal AND comment IS NULL
UNION ALL
SELECT 'column ' || schema_name || '.' || table_name || '.' || column_name
FROM duckdb_columns() WHERE NOT internal AND comment IS NULL
UNION ALL
SELECT 'macro ' || function_name FROM duckdb_functions() WHERE NOT internal AND comment IS NULL
"""
COLUMN = "SELECT comment FROM duckdb_columns() WHERE schema_name = 'main' AND table_name = ? AND column_name = ?"


def test_every_table_view_macro_and_column_has_a_comment(fortnight: School) -> None:
    assert fortnight.rows(UNEXPLAINED) == []


def test_views_are_remade_only_after_a_change_beneath_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    create_views = catalog.create_views

    def noted(con: duckdb.DuckDBPyConnection) -> None:
        calls.append("views")
        create_views(con)

    monkeypatch.setattr(catalog, "create_views", noted)
    with duckdb.connect() as con:
        schema.ensure(con)
        lake = Lake(tmp_path)
        for version in ("1", "2"):
            catalog.create(con, lake, [], version)
        assert calls == ["views"]
        for of, name, value in (
            (catalog, "VIEWS", catalog.VIEWS[:-1]),
            (schema, "declared", lambda _: ()),
            (duckdb, "__version__", "9.9.9"),
        ):
            monkeypatch.setattr(of, name, value)
            catalog._views_digest.cache_clear()
            catalog.create(con, lake, [], "3")
        assert calls == ["views"] * 4
    catalog._views_digest.cache_clear()


def test_a_reworded_comment_reaches_the_file_and_the_rows_stay() -> None:
    with duckdb.connect() as con:
        schema.ensure(con)
        con.execute("INSERT INTO main.institution VALUES (1, 'n', 'k', 'a')")
        con.execute("COMMENT ON COLUMN main.institution.school_name IS 'as it was worded before'")
        con.execute("COMMENT ON TABLE main.institution IS 'as it was worded before'")
        assert schema.ensure(con) == frozenset()
        assert con.execute(COLUMN, ["institution", "school_name"]).fetchall() == [("Institution name.",)]
        table = "SELECT comment FROM duckdb_tables() WHERE schema_name = 'main' AND table_name = 'institution'"
        assert con.execute(table).fetchall() == [(TABLES["institution"].comment,)]
        assert con.execute("SELECT COUNT(*) FROM main.institution").fetchall() == [(1,)]


def test_a_table_declared_otherwise_is_made_anew_with_its_comments() -> None:
    with duckdb.connect() as con:
        schema.ensure(con)
        con.execute("ALTER TABLE main.institution DROP COLUMN api_key_name")
        assert schema.ensure(con) == {"main"}
        comment = con.execute(COLUMN, ["institution", "api_key_name"]).fetchall()
        assert comment == [("Friendly name of the API key in use.",)]
