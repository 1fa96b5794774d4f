"""dlt: its REST source with versions kept (`scd2`), into DuckDB."""

import json
import os
import sys
import time
from pathlib import Path

os.environ["RUNTIME__DLTHUB_TELEMETRY"] = "false"  # read on import

import dlt
from dlt.sources.rest_api import rest_api_source


def main(base_url: str, folder: Path) -> None:
    source = rest_api_source(
        {
            "client": {
                "base_url": f"{base_url}/svcapi/v1/",
                "auth": {
                    "type": "api_key",
                    "name": "X-API-Key",
                    "api_key": os.environ["BENCH_KEY"],
                    "location": "header",
                },
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
        pipelines_dir=str(folder / "dlt"),
        destination=dlt.destinations.duckdb(str(folder / "warehouse.duckdb")),
        dataset_name="records",
    )
    pipeline.run(source)


if __name__ == "__main__":
    began = time.time()
    main(sys.argv[1], Path(sys.argv[2]))
    print(json.dumps({"seconds": time.time() - began}))
