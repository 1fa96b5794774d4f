"""What the thresholds did, recomputed in plain Python from what the published views say day by day."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
import pytest
from typer.testing import CliRunner

import rollbook
from rollbook.cli import app
from rollbook.errors import ArgumentError, NothingLandedError, SettingError
from rollbook.reading import thresholds as measuring
from rollbook.reading.thresholds import LEAST_SHOWN, REASONS, changed, report
from rollbook.sandbox import MadeUpInstitution
from rollbook.sandbox.institution import terms
from rollbook.views import editable
from rollbook.views.editable import Term
from tests.support.warehouses.years import school_days, year

pytestmark = pytest.mark.nights

TRIED = {"completion_below": 45.0, "missing_percent": 40.0, "inactive_school_days": 3.0}
DAYS = school_days(date(2026, 11, 2), date(2027, 4, 16))
TERMS = [Term(*term) for term in terms(DAYS[0], DAYS[-1])]
Days = Mapping[date, frozenset[str]]


@pytest.fixture(scope="module")
def two_terms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two terms of a school of 150, and in `tried` the same with other thresholds, and in `no_terms` without terms."""
    folder = tmp_path_factory.mktemp("terms")
    school = MadeUpInstitution(150)
    for name, of_terms, values in (("now", TERMS, {}), ("tried", TERMS, TRIED), ("no_terms", [], {})):
        (folder / name).mkdir()
        thresholds = changed(editable.DEFAULTS, values)
        year(folder / name / "rollbook.duckdb", school, DAYS, of_terms, thresholds)
    return folder


def said(warehouse: Path) -> dict[int, dict[date, frozenset[str]]]:
    """The reasons of each student on each day, as watch_daily says, with `any`."""
    flags = ", ".join(flag for flag in REASONS if flag != "any")
    found: dict[int, dict[date, frozenset[str]]] = defaultdict(dict)
    with duckdb.connect(str(warehouse / "rollbook.duckdb"), read_only=True) as con:
        query = f"SELECT student_id, snapshot_date, {flags} FROM watch_daily WHERE severity IS NOT NULL"
        for student, day, *of in con.execute(query).fetchall():
            names = (name for name, is_so in zip(REASONS, of, strict=False) if is_so)
            found[student][day] = frozenset({*names, "any"})
    return found


def listed(warehouse: Path, day: date) -> set[int]:
    with duckdb.connect(str(warehouse / "rollbook.duckdb"), read_only=True) as con:
        query = "SELECT student_id FROM student_daily WHERE snapshot_date = ?"
        return {key for (key,) in con.execute(query, [day]).fetchall()}


def under(warehouse: Path) -> set[tuple[int, date]]:
    """The students and days on which completion or score was under the bounds."""
    query = """
        SELECT student_id, snapshot_date FROM student_daily
        WHERE completion < 30 AND total_assignments >= 15 OR average_score < 50
    """
    with duckdb.connect(str(warehouse / "rollbook.duckdb"), read_only=True) as con:
        return {*con.execute(query).fetchall()}


def units(warehouse: Path, of_terms: list[Term]) -> list[tuple[int, date, date, bool]]:
    """Each student at each end: the first day, the end, and whether completion or score was under the bounds then."""
    below, ended = under(warehouse), [term for term in of_terms if term.last_day <= DAYS[-1]]
    spans = [(t.first_day, max(d for d in DAYS if d <= t.last_day)) for t in ended] or [(DAYS[0], DAYS[-1])]
    return [
        (student, first, end, (student, end) in below) for first, end in spans for student in listed(warehouse, end)
    ]


def days_of_term(of_terms: list[Term], since: date, until: date) -> int:
    """The days after one day up to another, of which those of terms count."""
    days = (since + timedelta(days=n) for n in range(1, (until - since).days + 1))
    return sum(not of_terms or any(t.first_day <= day <= t.last_day for t in of_terms) for day in days)


def runs(days: Days, reason: str) -> list[list[date]]:
    """The unbroken runs of landed days with a reason."""
    found: list[list[date]] = []
    for before, day in pairwise([None, *DAYS]):
        if day and reason in days.get(day, ()):
            if found and found[-1][-1] == before:
                found[-1].append(day)
            else:
                found.append([day])
    return found


def hidden(count: int) -> int | None:
    return None if 0 < count < LEAST_SHOWN else count


def share(part: int | None, whole: int | None) -> float | None:
    return None if not whole or part is None or hidden(whole - part) is None else round(100 * part / whole, 1)


def recomputed(
    reason: str,
    flags: Mapping[int, Days],
    of_units: list[tuple[int, date, date, bool]],
    of_terms: list[Term],
    below: set[tuple[int, date]] | None,
) -> dict[str, Any]:
    """The row of a reason. `below` says who was under the bounds when; None where the outcome is a list."""
    leads, so_already, flagged = [], 0, 0
    for student, first, end, has_outcome in of_units:
        days = [day for day, of in flags.get(student, {}).items() if reason in of and first <= day < end]
        flagged += bool(days)
        if days and has_outcome:
            leads.append(days_of_term(of_terms, min(days), end))
            so_already += (student, min(days)) in (below or ())
    all_runs = [runs(days, reason) for days in flags.values()]
    lengths = [(run[-1] - run[0]).days + 1 for of in all_runs for run in of]
    ended = sum(run[-1] != DAYS[-1] for of in all_runs for run in of)
    back = sum((after[0] - run[-1]).days <= 7 for of in all_runs for run, after in pairwise(of))
    weeks = {day - timedelta(days=day.weekday()) for day in DAYS}
    of_weeks = {
        (s, d - timedelta(days=d.weekday())) for s, days in flags.items() for d, of in days.items() if reason in of
    }
    outcomes, is_shown = sum(of for *_, of in of_units), hidden(flagged) is not None
    right = hidden(len(leads)) if is_shown and hidden(flagged - len(leads)) is not None else None
    return {
        "reason": reason,
        "flagged": hidden(flagged),
        "rightly": right,
        "already": hidden(so_already) if right is not None and below is not None else None,
        "outcomes": hidden(outcomes),
        "precision_percent": share(right, hidden(flagged)),
        "recall_percent": share(right, hidden(outcomes)),
        "lead_days": median(leads) if right else None,
        "lasts_days": median(lengths) if is_shown and lengths else None,
        "back_percent": share(hidden(back), ended) if is_shown else None,
        "a_week": round(len(of_weeks) / len(weeks), 1) if is_shown else None,
    }


def test_every_figure_equals_a_recomputation_in_plain_python(two_terms: Path) -> None:
    measured, now, tried = report(two_terms / "now", TRIED), said(two_terms / "now"), said(two_terms / "tried")
    of_units = units(two_terms / "now", TERMS)
    assert {end for *_, end, _ in of_units} == {date(2026, 12, 18), date(2027, 4, 9)}
    for setting, flags in (("now", now), ("tried", tried)):
        rows = [asdict(row) for row in measured.rows if row.setting == setting]
        expected = [recomputed(reason, flags, of_units, TERMS, under(two_terms / "now")) for reason in REASONS]
        assert rows == [{"setting": setting} | row for row in expected]
        weekly: dict[date, set[int]] = {day - timedelta(days=day.weekday()): set() for day in DAYS}
        for student, days in flags.items():
            for day in days:
                weekly[day - timedelta(days=day.weekday())].add(student)
        weeks = [(setting, str(week), hidden(len(who))) for week, who in weekly.items()]
        assert [week for week in measured.weeks if week[0] == setting] == weeks
    assert sum(row.precision_percent is not None for row in measured.rows) >= 6, "or nothing was compared"


def test_without_terms_the_newest_day_is_the_end(two_terms: Path) -> None:
    measured, flags = report(two_terms / "no_terms"), said(two_terms / "no_terms")
    of_units = units(two_terms / "no_terms", [])
    assert measured.periods == ("all days",)
    assert [asdict(row) for row in measured.rows] == [
        {"setting": "now"} | recomputed(reason, flags, of_units, [], under(two_terms / "no_terms"))
        for reason in REASONS
    ]


def test_a_schools_own_list_is_the_outcome_where_there_is_one(two_terms: Path, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    flags = said(two_terms / "now")
    (tmp_path / "rollbook.duckdb").symlink_to(two_terms / "now" / "rollbook.duckdb")
    first = {student: day for day in reversed(DAYS) for student in listed(two_terms / "now", day)}
    left = {student: DAYS[60 + at] for at, student in enumerate(sorted(first)[::8])}
    own = tmp_path / "own" / "outcomes.csv"
    own.write_text("student_id;on\n" + "".join(f"{student};{day:%d.%m.%Y}\n" for student, day in left.items()))
    of_units = [(s, first[s], left.get(s, DAYS[-1]), s in left) for s in first]
    measured = report(tmp_path)
    assert measured.outcome == "listed in own/outcomes.csv"
    assert [asdict(row) for row in measured.rows] == [
        {"setting": "now"} | recomputed(reason, flags, of_units, TERMS, None) for reason in REASONS
    ]
    few = list(left)[:3]
    own.write_text("student_id,on\n" + "".join(f"{student},{DAYS[-1]}\n" for student in few))
    for row in report(tmp_path).rows:
        assert (row.outcomes, row.recall_percent) == (None, None), "three are a group that is not shown"
        assert (row.rightly, row.precision_percent) in ((None, None), (0, 0.0))
    own.write_text("student_id,on\nAnna,2026-12-01\n")
    with pytest.raises(SettingError, match=r"outcomes.csv, line 2: student_id is 'Anna'; write a number"):
        report(tmp_path)


def test_few_days_at_a_time_give_the_same_and_none_is_told(
    two_terms: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = report(two_terms / "now")
    monkeypatch.setattr(measuring, "STUDENT_DAYS", 40 * 150)
    assert report(two_terms / "now") == whole
    year(tmp_path / "rollbook.duckdb", MadeUpInstitution(60), [])
    with pytest.raises(NothingLandedError, match="No landed day is left"):
        report(tmp_path)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"completion": 40},
            "'completion' is not a threshold: choose from completion_below, low_completion_assignments",
        ),
        ({"completion_below": 101}, "completion_below is 101: give a number from 0 to 100"),
        ({"score_below": "many"}, "score_below is 'many': give a number from 0 to 100"),
        ({"score_below": "nan"}, "score_below is 'nan': give a number from 0 to 100"),
    ],
)
def test_what_is_no_threshold_or_no_value_is_told(two_terms: Path, values: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        report(two_terms / "now", values)


def test_the_command_shows_both_side_by_side_and_writes_the_page(
    two_terms: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROLLBOOK_WAREHOUSE", str(two_terms / "now"))
    shown = CliRunner().invoke(app, ["thresholds", "--try", "completion_below=45", "missing_percent=40", "--page"])
    assert shown.exit_code == 0, shown.output
    assert "Tried: completion_below=45, missing_percent=40." in shown.output
    assert shown.output.count("  tried ") == len(REASONS)
    assert "cannot know what would have happened otherwise" in shown.output
    page = (two_terms / "now" / "exports" / "thresholds.html").read_text()
    assert "Students flagged in each week" in page
    told = CliRunner().invoke(app, ["thresholds", "--json"])
    rows = json.loads(told.output)["rows"]
    assert rows == [asdict(row) for row in report(two_terms / "now").rows]
    refused = CliRunner().invoke(app, ["thresholds", "--try", "completion_below"])
    assert isinstance(refused.exception, ArgumentError)
    assert "write it as completion_below=40" in refused.exception.message


def test_a_notebook_gets_the_rows_and_the_log_notes_it(two_terms: Path) -> None:
    frame = rollbook.open(two_terms / "now").thresholds(completion_below=45)
    assert [*frame.setting] == ["now"] * len(REASONS) + ["tried"] * len(REASONS)
    (noted,) = (two_terms / "now" / "private").glob("access-*.jsonl")
    assert '"kind":"notebook"' in noted.read_text().splitlines()[-1]


@pytest.mark.slow
def test_200_nights_of_600_take_five_seconds_and_little_memory(tmp_path: Path) -> None:
    days = school_days(date(2026, 8, 24), date(2027, 7, 16))
    assert len(days) == 200
    year(tmp_path / "rollbook.duckdb", MadeUpInstitution(600), days, [Term(*term) for term in terms(days[0], days[-1])])
    program = (
        "import sys, time; from pathlib import Path; from rollbook.reading.thresholds import report;"
        "report(Path(sys.argv[1])); status = Path('/proc/self/status').read_text();"
        "print(time.process_time(), status.partition('VmHWM:')[2].split()[0])"
    )
    done = subprocess.run([sys.executable, "-c", program, tmp_path], check=True, capture_output=True, text=True)
    seconds, kilobytes = map(float, done.stdout.split())
    assert seconds < 15, "of processor, on a machine that does other things; 1 s on a quiet one"
    assert kilobytes < 400 * 1024
