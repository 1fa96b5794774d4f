"""The bare walk: reads every page of both sets, and drops the bodies. Imports httpx only, and prints its seconds.

`python tests/bench/bare.py BASE_URL KEY [TARGETS]`; of a file with TARGETS, each on a line, these are asked instead.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import httpx

targets = Path(sys.argv[3]).read_text().split() if sys.argv[3:] else []
began = time.perf_counter()
with httpx.Client(headers={"X-API-Key": sys.argv[2]}, timeout=30) as client:
    for target in targets:
        client.get(f"{sys.argv[1]}{target}")
    for path in () if targets else ("students", "classes"):
        page, pages = 1, 1
        while page <= pages:
            answer = client.get(f"{sys.argv[1]}/svcapi/v1/{path}", params={"page": page, "limit": 100})
            if page == 1:
                pages = answer.json()["pagination"]["total_pages"]
            page += 1
print(time.perf_counter() - began)
