"""A pipeline of dlt: its REST source, merged into DuckDB as slowly changing dimensions (type 2)."""

from __future__ import annotations

import sys
from pathlib import Path

import dlt
from dlt.sources.rest_api import rest_api_source

base_url, key, folder, _ = sys.argv[1:]
source = rest_api_source(
    {
        "client": {
            "base_url": f"{base_url}/svcapi/v1/",
            "headers": {"X-API-Key": key},
            "paginator": {"type": "page_number", "base_page": 1, "total_path": "pagination.total_pages"},
        },
        "resource_defaults": {
            "write_disposition": {"disposition": "merge", "strategy": "scd2"},
            "endpoint": {"params": {"limit": 100}, "data_selector": "data"},
        },
        "resources": [
            {"name": "students", "primary_key": "id"},
            {"name": "classes", "primary_key": "class_id"},
        ],
    }
)
pipeline = dlt.pipeline(
    "school",
    pipelines_dir=str(Path(folder, "pipelines")),
    destination=dlt.destinations.duckdb(str(Path(folder, "school.duckdb"))),
    dataset_name="records",
)
pipeline.run(source)
