"""Carries over data that only an earlier version's tables still hold, once, in the next sync."""

from __future__ import annotations

from collections.abc import Container

import duckdb

from pipelines.store.statements import statements

sql = statements("pipelines.store")


def carry_over(con: duckdb.DuckDBPyConnection, there: Container[tuple[str, str]]) -> None:
    """Fill tables that are new since the file was made from those they replace. `there` are the old tables.

    Before 0.2, `ops.syncs` had one column for the received students and one for the classes.
    """
    if ("ops", "sync_sets") not in there and ("ops", "syncs") in there:
        con.execute(sql("carry_over_sync_sets"))
