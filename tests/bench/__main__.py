"""`make bench`: the first night and the next one as multiples of a bare walk in the same run, with `--peers` of other
tools as well; then the views, after some nights and after a year, and what history costs as a year grows.
"""

from __future__ import annotations

import argparse
import sys

from rich.console import Console

from tests.bench import faulty, history, nightly, views, year
from tests.bench.meter import RunError
from tests.bench.tools import PEERS, ROLLBOOK

# Every view answers within its second on a school of this size; of a larger one they are shown and not judged.
JUDGED_UP_TO = 100_000


def nights(students: int, rounds: int, out: Console, *, peers: bool, lively: bool) -> None:
    """Measure the nights and what faults cost, and print the tables."""
    tools = (ROLLBOOK, *(PEERS if peers else ()))
    problems = {tool.name: words for tool in tools if (words := tool.problem())}
    found = nightly.measured(students, rounds, tools, problems, lively=lively)
    lost = faulty.outcomes([tool for tool in tools if tool.name not in problems], nightly.school_days())
    out.print(nightly.compared(found, lost))
    out.print(nightly.details(found))
    out.print(nightly.machine(), highlight=False)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--students", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3, help="of Rollbook; each peer plays one")
    parser.add_argument("--peers", action="store_true", help="compare with other tools (make bench PEERS=1)")
    parser.add_argument("--lively", action="store_true", help="four students in ten change overnight, not one in forty")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--nightly", action="store_true", help="only the two nights")
    only.add_argument("--views", action="store_true", help="only the analysts' views")
    only.add_argument("--year", action="store_true", help="only the views, looking back on a year made without nights")
    only.add_argument("--history", action="store_true", help="only the year of snapshots")
    parser.add_argument("--nights", type=int, default=views.NIGHTS, help="how many nights the views look back on")
    chosen = parser.parse_args()
    try:
        measure(chosen)
    except RunError as error:
        sys.exit(f"Rollbook {error}.")


def judge(out: Console, answered: list[views.Answered], students: int, nights: int) -> None:
    """Print how long the views take; ends the run when one takes too long."""
    out.print(views.shown(answered, students, nights))
    late = views.slow(answered)
    if late and students <= JUDGED_UP_TO:
        sys.exit(f"Slower than {views.MOST_SECONDS:g} s: {', '.join(late)}. Make it a table at publish.")


def measure(chosen: argparse.Namespace) -> None:
    """Measure what was chosen, and print it."""
    out = Console(width=160)
    everything = not (chosen.nightly or chosen.views or chosen.year or chosen.history)
    if chosen.nightly or everything:
        nights(chosen.students, chosen.rounds, out, peers=chosen.peers, lively=chosen.lively)
    if chosen.views or everything:
        answered = views.measured(chosen.students, chosen.nights)
        judge(out, answered, chosen.students, chosen.nights)
    if chosen.year or everything:
        judge(out, views.of_year(chosen.students), chosen.students, year.DAYS)
    if chosen.history or everything:
        history.main([])


if __name__ == "__main__":
    main()
