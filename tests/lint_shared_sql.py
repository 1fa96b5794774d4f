"""What holds for the statements that every engine runs, beyond what `lint_sql` asks of all.

DuckDB, Sail and Spark must give the same rows: so all that an engine could decide by itself is said, or left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import sqlglot
from sqlglot import exp

from rollbook.tables import TABLES

SHARED = ("definition", "observations", "runs_from_lake", "last_stated", "untracked_values", "current", "changes")
# Never NULL, so their order need not say where NULLs come.
_KEYS = frozenset(
    {"institution", "id", "day", "n", "ord", "snapshot_date", "first_day", "valid_from", "week_begins"}
    | {name for table in TABLES.values() for name in table.key}
)
_ORDERED = (exp.RowNumber, exp.Rank, exp.DenseRank, exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue)
# ROUND goes by a number's digits on Spark; an average of DOUBLE depends on the order of adding up.
_BANNED = re.compile(
    r"(?<!NULLS )\b(ANY_VALUE|FIRST|LAST|FIRST_VALUE|LAST_VALUE|ROUND|AVG|NOW|TODAY|CURRENT_DATE|CURRENT_TIMESTAMP|RANDOM|LIST"
    r"|ARRAY_AGG|STRING_AGG|QUALIFY|EXCLUDE|GROUP BY ALL)\b"
)
_DOUBLES = frozenset(c.name for table in TABLES.values() for c in table.columns if c.type == "DOUBLE")


def is_shared(path: Path) -> bool:
    """Whether every engine runs this statement."""
    return path.parent.name == "rollups" or (path.parent.parent.name == "history" and path.stem in SHARED)


def faults(text: str, statement: exp.Expr) -> Iterator[str]:
    """What an engine could understand differently, in sentences."""
    words = re.sub(r"--[^\n]*|'[^']*'", "", text)
    yield from (f"{word} is not the same on every engine" for word in sorted(set(_BANNED.findall(words))))
    for window in statement.find_all(exp.Window):
        if isinstance(window.this, _ORDERED) and not window.args.get("order") and not window.args.get("alias"):
            yield f"{window.this.key} has no order"
    for ordered in statement.find_all(exp.Ordered):
        name = ordered.this.name
        if name not in _KEYS and not re.search(rf"\b{name}( ASC| DESC)? NULLS\b", words):
            yield f"ORDER BY {name} does not say where NULLs come"
    for total in statement.find_all(exp.Sum):
        for column in total.find_all(exp.Column):
            cast = column.find_ancestor(exp.Cast)
            if column.name in _DOUBLES and not (cast and cast.to.is_type(exp.DataType.Type.DECIMAL)):
                yield f"SUM({column.name}) adds up DOUBLE, in any order"
    try:
        sqlglot.parse_one(text, dialect="spark")
    except sqlglot.errors.ParseError as error:
        yield f"Spark cannot parse it: {str(error).splitlines()[0]}"
