"""The bare walk: every page of both sets, the bodies dropped. What no client can do without.

A process of its own that imports httpx and nothing of ours: `python tests/bench/bare.py BASE_URL`, with the key in
BENCH_KEY. It prints one line of JSON with its seconds; the imports are left out.
"""

from __future__ import annotations

import json
import os
import sys
import time

import httpx


def walk(base_url: str, key: str) -> None:
    """Read both sets, page by page."""
    with httpx.Client(headers={"X-API-Key": key}, timeout=30) as client:
        for path in ("students", "classes"):
            page, pages = 1, 1
            while page <= pages:
                answer = client.get(f"{base_url}/svcapi/v1/{path}", params={"page": page, "limit": 100})
                if page == 1:
                    pages = answer.json()["pagination"]["total_pages"]
                page += 1


if __name__ == "__main__":
    began = time.time()
    walk(sys.argv[1], os.environ["BENCH_KEY"])
    print(json.dumps({"seconds": time.time() - began}))
