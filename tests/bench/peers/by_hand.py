"""A script as people write it: httpx, pandas, DuckDB. Tables are replaced each night, so there is no history."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pandas as pd


def fetch(client: httpx.Client, path: str) -> list[dict[str, Any]]:
    records, page, pages = [], 1, 1
    while page <= pages:
        answer = client.get(path, params={"page": page, "limit": 100})
        answer.raise_for_status()
        body = answer.json()
        records += body["data"]
        pages = body["pagination"]["total_pages"]
        page += 1
    return records


def main(base_url: str, folder: Path) -> None:
    headers = {"X-API-Key": os.environ["BENCH_KEY"]}
    with httpx.Client(base_url=f"{base_url}/svcapi/v1", headers=headers, timeout=30) as client:
        students, classes = fetch(client, "/students"), fetch(client, "/classes")
    with_classes = [student for student in students if "classes" in student]
    tables = {
        "students": pd.json_normalize(students, sep="_").drop(columns="classes"),
        "student_classes": pd.json_normalize(with_classes, record_path="classes", meta="id"),
        "classes": pd.json_normalize(classes, sep="_"),
    }
    with duckdb.connect(str(folder / "warehouse.duckdb")) as con:
        for name, frame in tables.items():
            con.register("frame", frame)
            con.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM frame")


if __name__ == "__main__":
    began = time.time()
    main(sys.argv[1], Path(sys.argv[2]))
    print(json.dumps({"seconds": time.time() - began}))
