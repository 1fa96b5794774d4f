"""`make bench-watch`: whom the reasons to watch find in the sandbox's school year, and whom they flag wrongly."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import duckdb
from rich.console import Console
from rich.table import Table

from rollbook.reading.thresholds import changed
from rollbook.sandbox import MadeUpInstitution
from rollbook.sandbox.institution import terms
from rollbook.views import editable
from rollbook.views.editable import Term
from tests.support.models.watching import Verdict, judge, truth
from tests.support.warehouses.years import school_days, year

FIRST, LAST = date(2026, 8, 24), date(2027, 7, 9)
RULE = "SELECT snapshot_date, student_id FROM watch_daily WHERE severity IS NOT NULL"
TWINS = ("lull", "late marking", "holiday")


def verdicts(
    students: int, seed: int, tried: dict[str, str], rules: Sequence[str], without: Sequence[str] = ()
) -> list[Verdict]:
    """The figures of one school's year, by each rule and the thresholds with those that are tried."""
    school = MadeUpInstitution(students, seed, without=without)
    days = school_days(FIRST, LAST, with_holiday="holiday" not in without)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rollbook.duckdb")
        year(path, school, days, [Term(*term) for term in terms(FIRST, LAST)], changed(editable.DEFAULTS, tried))
        with duckdb.connect(str(path), read_only=True) as con:
            flagged = [con.execute(rule).fetchall() for rule in rules]
    happened = truth(school, days)
    return [judge(happened, of_rule) for of_rule in flagged]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="make bench-watch")
    parser.add_argument("--students", type=int, default=600)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--try", dest="tried", nargs="*", default=[], metavar="NAME=VALUE")
    parser.add_argument(
        "--rule", type=Path, nargs="*", default=[], help="files with a query of days and student ids each"
    )
    parser.add_argument(
        "--twins", action="store_true", help="also the schools without a lull, late marking, the holiday"
    )
    chosen = parser.parse_args()
    tried = dict(each.split("=") for each in chosen.tried)
    rules = {"watch_daily": RULE} | {path.stem: path.read_text() for path in chosen.rule}
    schools: list[tuple[str, ...]] = [(), *((what,) for what in TWINS if chosen.twins)]
    table = Table(title=f"{chosen.seeds} school years of {chosen.students} students {' '.join(chosen.tried)}")
    table.add_column("figure")
    found = []
    for without in schools:
        totals = [Verdict() for _ in rules]
        for seed in range(1, chosen.seeds + 1):
            for total, more in zip(
                totals, verdicts(chosen.students, seed, tried, [*rules.values()], without), strict=True
            ):
                total += more  # noqa: PLW2901 - it adds up in place
        for name, total in zip(rules, totals, strict=True):
            table.add_column(", without ".join((name, *without)), justify="right")
            found.append(total.lines())
    for figure in found[0]:
        table.add_row(figure, *(lines[figure] for lines in found))
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
