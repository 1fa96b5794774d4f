"""Redacts a query for the access log: which tables and columns were queried, not whom about.

DuckDB's own tokenizer splits the query. Keywords, punctuation and declared names are kept; everything else becomes `?`:
strings, numbers, comments and every other name, since an alias, a quoted name or a value without quotes may be a
pupil's.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise

import duckdb

from pipelines.store.schema import SCHEMAS, declared

# The most characters kept of a query.
MOST = 2_000

_WORD = re.compile(r"[A-Za-z_]+")
_PUNCTUATION = re.compile(r"[^\w\s\"'`]+")


def without_values(query: str) -> str:
    """The query on one line, with `?` for every possible value; empty if DuckDB cannot parse it."""
    try:
        duckdb.extract_statements(query)
        tokens = duckdb.tokenize(query)
    except (duckdb.Error, TypeError, UnicodeError):
        return ""
    text, line = query.encode(), ""
    for (start, kind), (end, _) in pairwise([*tokens, (len(text), duckdb.token_type.comment)]):
        token = text[start:end].decode(errors="replace")
        shown = " " if kind is duckdb.token_type.comment else _shown(token.strip(), kind)
        line += f"{shown} " if token[-1:].isspace() else shown
    line = " ".join(line.split())
    return line if len(line) <= MOST else f"{line[:MOST]}..."


def _shown(token: str, kind: duckdb.token_type) -> str:
    """The token itself if no value can be in it; DuckDB takes the dot in `s.name` for a number."""
    is_keyword = kind is duckdb.token_type.keyword and _WORD.fullmatch(token)
    is_name = kind is duckdb.token_type.identifier and token.strip('"').lower() in _declared_names()
    return token if is_keyword or is_name or _PUNCTUATION.fullmatch(token) else "?"


@cache
def _declared_names() -> frozenset[str]:
    """Every name in a published file, and DuckDB's own functions and types: none of them is a pupil's."""
    from pipelines.views import catalog  # not for `rollbook --help`, which imports the commands

    names = {*SCHEMAS, "rollbook", "main", "date", "timestamp", "varchar", "bigint", "integer", "double", "boolean"}
    for relation in declared():
        names |= {relation.name, *(column.name for column in relation.columns)}
    for view in catalog.views():
        names |= {view.name, *(name for name, _ in view.columns)}
    names |= {macro.name for macro in catalog.macros()}
    with duckdb.connect() as con:
        names |= {row[0] for row in con.execute("SELECT DISTINCT function_name FROM duckdb_functions()").fetchall()}
    return frozenset(names)
