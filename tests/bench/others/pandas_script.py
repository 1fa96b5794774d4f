"""A script with pandas: all pages into frames, and a Parquet file a day. No proof, no history, no approval."""

from __future__ import annotations

import sys
from pathlib import Path

import httpx
import pandas as pd

base_url, key, folder, day = sys.argv[1:]
with httpx.Client(headers={"X-API-Key": key}, timeout=30) as client:
    for path in ("students", "classes"):
        records, page, pages = [], 1, 1
        while page <= pages:
            answer = client.get(f"{base_url}/svcapi/v1/{path}", params={"page": page, "limit": 100}).json()
            records += answer["data"]
            pages = answer["pagination"]["total_pages"]
            page += 1
        pd.json_normalize(records, sep="_").to_parquet(Path(folder, f"{path}-{day}.parquet"))
