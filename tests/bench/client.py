"""One sync in a process of its own: `python -m tests.bench.client BASE_URL KEY WAREHOUSE DAY`.

Prints the seconds from the first request to the published file, without the searches that verify absences (most of
their time is the sandbox's), and of these the seconds after the last byte.
"""

from __future__ import annotations

import sys
from datetime import date, timedelta
from pathlib import Path

from rollbook.util.imports import light

with light():  # as the command does
    from rollbook.assembly import assemble
    from rollbook.flatten import rows
    from rollbook.night import sync
    from rollbook.settings import load

    rows.load()


def main() -> None:
    """Sync one day."""
    base_url, key, folder, day = sys.argv[1], sys.argv[2], Path(sys.argv[3]), date.fromisoformat(sys.argv[4])
    # A tenth of a percent of 100,000 students leave in a night, which is more than is searched for by default.
    first = day - timedelta(days=7)
    rollbook = assemble(load(base_url=base_url, api_key=key, warehouse=folder, first_date=first, verify_most=10_000))
    manifest = sync(rollbook, day).manifest
    if not manifest.proven:
        sys.exit("the walk was not proven complete")
    published = rollbook.warehouse.published_file.stat().st_ctime  # when it took the old one's place
    whole = published - manifest.started_at.timestamp() - manifest.search_seconds
    print(whole, published - manifest.finished_at.timestamp())


if __name__ == "__main__":
    main()
