"""One measured piece of work in a process of its own: `python -m tests.bench.client WORK BASE_URL FOLDER DAY [FIRST]`.

It prints one line of JSON: the seconds from the first request to the published file, those of them that went into the
searches that verify absences, the seconds until the sync ended (the morning page is drawn after publishing), and the
peak memory. What a process loads before it asks for anything is left out of all three: httpx of a bare walk too.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from datetime import date
from pathlib import Path

import httpx

from pipelines.settings import load
from pipelines.sync import Rollbook
from tests.bench.service import KEY


def bare(base_url: str) -> None:
    """Walk both sets and drop the bodies: what no client can do without."""
    with httpx.Client(headers={"X-API-Key": KEY}, timeout=30) as client:
        for path in ("students", "classes"):
            page, pages = 1, 1
            while page <= pages:
                answer = client.get(f"{base_url}/svcapi/v1/{path}", params={"page": page, "limit": 100})
                if page == 1:
                    pages = answer.json()["pagination"]["total_pages"]
                page += 1


def main() -> None:
    """Do one piece of work and print what it cost."""
    work, base_url, folder, day = sys.argv[1], sys.argv[2], Path(sys.argv[3]), date.fromisoformat(sys.argv[4])
    first = date.fromisoformat(sys.argv[5]) if len(sys.argv) > 5 else day
    searching = 0.0
    if work == "bare":
        began = time.time()
        bare(base_url)
        ended = published = time.time()
    else:
        # A tenth of a percent of 100,000 students leave in a night: more than a person would want to look at, and
        # for a benchmark not a mass change.
        settings = load(base_url=base_url, api_key=KEY, warehouse=folder, first_date=first, verify_most=10_000)
        rollbook = Rollbook(settings, head_start=True)
        manifest = rollbook.sync(day).manifest
        ended = time.time()
        began, searching = manifest.started_at.timestamp(), manifest.search_seconds
        published = rollbook.warehouse.published.stat().st_ctime  # the moment it took the old one's place
    # Of the second process as well; their peaks are not at the same time, so together they took less.
    peak = sum(resource.getrusage(of).ru_maxrss for of in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1024
    cost = {"seconds": published - began, "searching": searching, "whole": ended - began, "peak_mb": peak}
    print(json.dumps(cost))


if __name__ == "__main__":
    main()
