"""`make bench`: the first sync and the next day's, as ratios to a bare walk in the same run; then the views,
and what history costs as a year grows.

Timings on shared machines drift, so each round measures all three in turn and the medians of the ratios are shown.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
from rich.console import Console
from rich.table import Table

from tests.bench import history, views
from tests.bench.service import Remote, remote


def measure(work: str, service: Remote, folder: Path, day: object) -> dict[str, float]:
    """Run one piece of work in a fresh process."""
    command = [sys.executable, "-m", "tests.bench.client", work, service.base_url, str(folder), str(day)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=1800)
    cost: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return cost


def nightly(students: int, rounds: int) -> list[dict[str, Any]]:
    """The rounds: the first sync and the next day's, each between two bare walks of the same day."""
    today = datetime.now(UTC).date()
    wednesday = today - timedelta(days=(today.weekday() - 2) % 7)  # school days both: on a weekend little happens
    days = (wednesday - timedelta(days=1), wednesday)
    results = []
    with remote(students, days[0]) as service:
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as made:
                folder = Path(made)
                for what, day in zip("bc", days, strict=True):
                    service.play(day)
                    measure("bare", service, folder, day)  # the service makes its pages on first sight
                    before = measure("bare", service, folder, day)
                    cost = measure("sync", service, folder, day)
                    after = measure("bare", service, folder, day)
                    results += [{"what": "a", **before}, {"what": "a", **after}]
                    own = cost["seconds"] - cost["searching"]
                    ratio = 2 * own / (before["seconds"] + after["seconds"])
                    results.append({"what": what, **cost, "ratio": ratio, "bytes": size(folder)})
                results[-1]["new"] = new_versions(folder, days[1])
    return results


def size(folder: Path) -> int:
    """Bytes on disk under a folder, a file with several names counted once."""
    stats = [p.stat() for p in folder.rglob("*") if p.is_file()]
    return sum({(s.st_dev, s.st_ino): s.st_size for s in stats}.values())


def new_versions(folder: Path, day: object) -> float:
    """The share of students that got a new version of any of their tables but the list of classes, in percent."""
    with duckdb.connect(str(folder / "rollbook.duckdb"), read_only=True) as con:
        row = con.execute(
            """SELECT 100.0 * COUNT(DISTINCT student_id) / (SELECT COUNT(*) FROM students) FROM changes
               WHERE snapshot_date = CAST($1 AS DATE) AND change = 'changed'
               AND table_name IN ('students', 'student_summaries', 'student_activity')""",
            [str(day)],
        ).fetchone()
    return float(row[0]) if row else 0.0


def report(results: list[dict[str, Any]], students: int) -> Table:
    """The medians, as a table."""
    table = Table(title=f"{students:,} students; medians; searches that verify absences counted apart")
    headings = ("", "seconds", "ratio to (a)", "searching", "and the page", "peak memory MB", "on disk MB", "changed %")
    for heading in headings:
        table.add_column(heading, justify="left" if not heading else "right")
    titles = {"a": "(a) bare httpx walk", "b": "(b) first sync", "c": "(c) next day's sync"}
    for what, title in titles.items():
        mine = [r for r in results if r["what"] == what]
        own = [r["seconds"] - r["searching"] for r in mine]
        ratios = sorted(r.get("ratio", 1) for r in mine)
        table.add_row(
            title,
            f"{median(own):.2f}",
            f"{median(ratios):.1f} ({ratios[0]:.1f} to {ratios[-1]:.1f})",
            f"{median(r['searching'] for r in mine):.2f}",
            f"{median(r['whole'] - r['seconds'] for r in mine):.2f}",
            f"{max(r['peak_mb'] for r in mine):.0f}",
            f"{median(r['bytes'] for r in mine) / 1e6:.1f}" if "bytes" in mine[0] else "",
            f"{median(r['new'] for r in mine):.1f}" if "new" in mine[0] else "",
        )
    return table


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--students", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--views", action="store_true", help="only the analysts' views")
    parser.add_argument("--history", action="store_true", help="only the year of snapshots")
    parser.add_argument("--nights", type=int, default=views.NIGHTS, help="how many nights the views look back on")
    chosen = parser.parse_args()
    out = Console(width=120)
    if chosen.history:
        history.main([])
        return
    if not chosen.views:
        out.print(report(nightly(chosen.students, chosen.rounds), chosen.students))
    answered = views.measured(chosen.students, chosen.nights)
    out.print(views.shown(answered, chosen.students, chosen.nights))
    if late := views.slow(answered):
        sys.exit(f"Slower than {views.MOST_SECONDS:g} s: {', '.join(late)}. Make it a table at publish.")
    if not chosen.views:
        history.main([])


if __name__ == "__main__":
    main()
