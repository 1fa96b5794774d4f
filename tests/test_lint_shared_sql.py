"""The lint of shared SQL finds what engines understand differently."""

from __future__ import annotations

import pytest
import sqlglot

from tests.lint_shared_sql import faults


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT ROW_NUMBER() OVER (PARTITION BY institution) FROM t", "rownumber has no order"),
        ("SELECT RANK() OVER (ORDER BY average_score DESC) FROM t", "ORDER BY average_score does not say where NULLs"),
        ("SELECT SUM(completion_rate) FROM t", "adds up DOUBLE"),
        ("SELECT ROUND(x, 2) FROM t", "ROUND is not the same"),
        ("SELECT ANY_VALUE(x) FROM t", "ANY_VALUE is not the same"),
        ("SELECT * EXCLUDE (x) FROM t", "EXCLUDE is not the same"),
        ("SELECT x FROM t WHERE day = CURRENT_DATE", "CURRENT_DATE is not the same"),
    ],
)
def test_a_statement_that_engines_read_otherwise_is_found(query: str, message: str) -> None:
    assert any(message in fault for fault in faults(query, sqlglot.parse_one(query, dialect="duckdb")))


def test_a_statement_that_leaves_nothing_open_passes() -> None:
    query = """
        SELECT institution, SUM(CAST(average_score AS DECIMAL(18, 6))), RANK() OVER (ORDER BY x DESC NULLS LAST)
        FROM t GROUP BY institution -- ROUND, FIRST
    """
    assert list(faults(query, sqlglot.parse_one(query, dialect="duckdb"))) == []
