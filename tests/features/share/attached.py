"""Answers statements, one a line as JSON, with the httpfs of DuckDB: run by a Python without anything of Rollbook."""

import importlib.metadata
import json
import sys

import duckdb

(extension,) = (f for f in importlib.metadata.files("duckdb-extension-httpfs") or () if f.suffix == ".duckdb_extension")
con = duckdb.connect()
con.execute(f"LOAD '{extension.locate()}'")
for line in sys.stdin:
    try:
        answer: dict[str, object] = {"rows": con.execute(json.loads(line)).fetchall()}
    except duckdb.Error as error:
        answer = {"error": str(error)}
    print(json.dumps(answer, default=str), flush=True)  # noqa: T201 - that is its answer
