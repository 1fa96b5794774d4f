"""One sync in a process of its own: `python -m tests.bench.client BASE_URL FOLDER DAY [FIRST]`, the key in BENCH_KEY.

It prints one line of JSON: the seconds from the first request to the published file, those of them that went into the
searches that verify absences, those from the last body's last byte to the published file, the seconds until the sync
ended (the morning page is drawn after publishing), and whether both sets were proven complete. What a process loads
before it asks for anything is left out, as in the bare walk.
"""

from __future__ import annotations

import json
import os
import sys
import time
from datetime import date
from pathlib import Path

from pipelines.settings import load
from pipelines.sync import Rollbook


def main() -> None:
    """Sync one day and print what it cost."""
    base_url, folder, day = sys.argv[1], Path(sys.argv[2]), date.fromisoformat(sys.argv[3])
    first = date.fromisoformat(sys.argv[4]) if len(sys.argv) > 4 else day
    # A tenth of a percent of 100,000 students leave in a night: more than a person would want to look at, and
    # for a benchmark not a mass change.
    key = os.environ["BENCH_KEY"]
    settings = load(base_url=base_url, api_key=key, warehouse=folder, first_date=first, verify_most=10_000)
    rollbook = Rollbook(settings)
    rollbook.start_ahead()
    time.sleep(1)  # the command loads Dagster for longer
    manifest = rollbook.sync(day).manifest
    ended = time.time()
    began = manifest.started_at.timestamp()
    published = rollbook.warehouse.published.stat().st_ctime  # the moment it took the old one's place
    received = max(body.received_at for body in rollbook.raw.pages(manifest)).timestamp()
    cost = {
        "seconds": published - began,
        "searching": manifest.search_seconds,
        "after": published - received,
        "whole": ended - began,
        "proven": manifest.proven,
    }
    print(json.dumps(cost))


if __name__ == "__main__":
    main()
