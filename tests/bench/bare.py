"""The bare walk: reads every page of both sets, and drops the bodies. Imports httpx only, and prints its seconds.

`python tests/bench/bare.py BASE_URL KEY`
"""

from __future__ import annotations

import sys
import time

import httpx

began = time.perf_counter()
with httpx.Client(headers={"X-API-Key": sys.argv[2]}, timeout=30) as client:
    for path in ("students", "classes"):
        page, pages = 1, 1
        while page <= pages:
            answer = client.get(f"{sys.argv[1]}/svcapi/v1/{path}", params={"page": page, "limit": 100})
            if page == 1:
                pages = answer.json()["pagination"]["total_pages"]
            page += 1
print(time.perf_counter() - began)
