"""Singer, as Meltano runs it: tap-rest-api-msdk piped into target-duckdb, rows updated by their key.

Meltano is what people use it by, and adds a project folder, logs and state around these same two processes; without it
the measurement is of the work alone. ingestr was looked at instead and left out: the package (1.1.76) is a launcher
that downloads a program when it runs, so that pins do not say what was measured, and its list of sources names HTTP
but no paginated REST service. It was not run.

The seconds include the start of both processes.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

TAP, TARGET = (Path(sys.executable).parent / name for name in ("tap-rest-api-msdk", "target-duckdb"))


def stream(name: str, key: str) -> dict[str, Any]:
    return {
        "name": name,
        "path": f"/{name}",
        "params": {"limit": 100},
        "records_path": "$.data[*]",
        "primary_keys": [key],
        "num_inference_records": 100,
    }


def main(base_url: str, folder: Path) -> None:
    tap = {
        "api_url": f"{base_url}/svcapi/v1",
        "auth_method": "api_key",
        "api_keys": {"X-API-Key": os.environ["BENCH_KEY"]},
        "pagination_request_style": "page_number_paginator",
        "pagination_response_style": "page",
        "pagination_next_page_param": "page",
        "next_page_token_path": "$.pagination.has_next",
        "streams": [stream("students", "id"), stream("classes", "class_id")],
    }
    target = {"path": str(folder / "warehouse.duckdb"), "default_target_schema": "records"}
    for name, config in (("tap.json", tap), ("target.json", target)):
        (folder / name).write_text(json.dumps(config))
    with subprocess.Popen([TAP, "--config", folder / "tap.json"], stdout=subprocess.PIPE) as reading:
        # What it prints is its state, which an incremental stream would go on from.
        subprocess.run(
            [TARGET, "--config", folder / "target.json"], stdin=reading.stdout, check=True, stdout=subprocess.DEVNULL
        )
    if reading.returncode:
        sys.exit(f"tap-rest-api-msdk ended with exit code {reading.returncode}")


if __name__ == "__main__":
    began = time.time()
    main(sys.argv[1], Path(sys.argv[2]))
    print(json.dumps({"seconds": time.time() - began}))
