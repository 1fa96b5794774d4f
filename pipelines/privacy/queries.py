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
# `IN (1, 2, 3)`: the log has the number of students anyway.
_LIST = re.compile(r"IN ?\(\?(?:, \?)+\)", re.IGNORECASE)
_TIGHT = ((re.compile(r" ([,;).\]}]|::)"), r"\1"), (re.compile(r"([(.\[{$]|::) "), r"\1"))


def without_values(query: str) -> str:
    """The query on one line, with `?` for every possible value; empty if DuckDB cannot parse it."""
    try:
        duckdb.extract_statements(query)
        tokens = duckdb.tokenize(query)
    except (duckdb.Error, TypeError, UnicodeError):
        return ""
    text, line, is_function = query.encode(), "", False
    for (start, kind), (end, _) in pairwise([*tokens, (len(text), duckdb.token_type.comment)]):
        if kind is not duckdb.token_type.comment:
            shown = _shown(text[start:end].decode(errors="replace").strip(), kind)
            line += shown if is_function and shown.startswith("(") else f" {shown}"
            is_function = shown.lower() in _declared_names()
    for pattern, tight in _TIGHT:
        line = pattern.sub(tight, line)
    line = _LIST.sub("IN (?, ...)", line.strip())
    return line if len(line) <= MOST else f"{line[:MOST]}..."


def _shown(token: str, kind: duckdb.token_type) -> str:
    if _PUNCTUATION.fullmatch(token):  # DuckDB tokenizes the dot in `s.name` as a number
        return token
    if kind is duckdb.token_type.keyword and _WORD.fullmatch(token):
        return token
    is_declared = kind is duckdb.token_type.identifier and token.strip('"').lower() in _declared_names()
    return token if is_declared else "?"


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
