"""The two weeks before and after a contact, recomputed in plain Python from what the published views say day by day."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import asdict
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest
from typer.testing import CliRunner

import rollbook
from rollbook.cli import app
from rollbook.errors import ArgumentError, NothingLandedError, SettingError
from rollbook.reading import contacts as comparing
from rollbook.reading.contacts import report
from rollbook.reading.thresholds import LEAST_SHOWN, REASONS
from rollbook.sandbox import MadeUpInstitution
from rollbook.sandbox.institution import terms
from rollbook.views.editable import Term
from tests.support.warehouses.years import school_days, year

pytestmark = pytest.mark.nights

DAYS = school_days(date(2026, 11, 2), date(2027, 3, 19))
FORTNIGHT = timedelta(days=14)
HEADING = "student_id,on,until,by\n"
WORDS = ("high", "medium", "low")


@pytest.fixture(scope="module")
def school_of_300(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four months of a school of 300, in which some were spoken to: of those on the list, and some others."""
    root = tmp_path_factory.mktemp("spoken")
    year(root / "rollbook.duckdb", MadeUpInstitution(300), DAYS, [Term(*term) for term in terms(DAYS[0], DAYS[-1])])
    draw, lines = Random(64), []
    for student, days in sorted(watched(root).items()):
        chosen = draw.sample(sorted(days), min(len(days), draw.choice([0, 0, 1, 1, 3])))
        lines += [(student, on + timedelta(days=draw.choice([0, 0, 1, 2]))) for on in chosen]
    lines += [(draw.randint(1, 400), draw.choice(DAYS)) for _ in range(30)]
    lines += [(draw.choice(lines)[0], draw.choice(DAYS) + timedelta(days=5)) for _ in range(20)]
    write(root, lines)
    return root


def write(root: Path, lines: list[tuple[int, date]]) -> None:
    text = "".join(f"{student},{on},{on + FORTNIGHT},head\n" for student, on in lines)
    (root / "contacted.csv").write_text(HEADING + text)


def read(root: Path) -> list[tuple[int, date]]:
    """Who was spoken to, and when."""
    lines = (root / "contacted.csv").read_text().splitlines()[1:]
    return [(int(student), date.fromisoformat(on)) for student, on, *_ in (line.split(",") for line in lines)]


def watched(root: Path) -> dict[int, dict[date, tuple[frozenset[str], str]]]:
    """The reasons, with `any`, and the severity in words, of each student on each day."""
    flags = [flag for flag in REASONS if flag != "any"]
    found: dict[int, dict[date, tuple[frozenset[str], str]]] = defaultdict(dict)
    with duckdb.connect(str(root / "rollbook.duckdb"), read_only=True) as con:
        query = f"SELECT student_id, snapshot_date, severity, {', '.join(flags)} FROM watch_daily WHERE severity > 0"
        for student, day, severity, *of in con.execute(query).fetchall():
            words = "high" if severity >= 4 else "medium" if severity >= 2 else "low"
            reasons = frozenset({"any", *(flag for flag, is_so in zip(flags, of, strict=True) if is_so)})
            found[student][day] = reasons, words
    return found


def work(root: Path) -> dict[tuple[int, date], tuple[int, int]]:
    """The assignments completed and given, of each student on each day."""
    with duckdb.connect(str(root / "rollbook.duckdb"), read_only=True) as con:
        query = "SELECT student_id, snapshot_date, completed_assignments, total_assignments FROM student_daily"
        return {(student, day): (done, given) for student, day, done, given in con.execute(query).fetchall()}


Pairs = dict[tuple[str, str, bool], list[tuple[int, list[int], bool]]]


def recomputed(root: Path) -> tuple[int | None, list[dict[str, Any]]]:
    """How many are compared, and the rows."""
    noted, on_list, done = read(root), watched(root), work(root)
    groups, compared = Pairs(), 0
    for day in sorted({landed(on) for _, on in noted if on >= DAYS[0]}):
        before, after = [each for each in DAYS if each <= day - FORTNIGHT], [e for e in DAYS if e >= day + FORTNIGHT]
        if before and after:
            pairs = of_day(noted, on_list, done, (before[-1], day, after[0]))
            compared += len({student for key in pairs if key[2] for student, *_ in pairs[key]})
            for key, rows in pairs.items():
                if (*key[:2], True) in pairs:
                    groups.setdefault(key, []).extend(rows)
    sides = {key: side(rows, groups.get(("any", *key[1:]), [])) for key, rows in groups.items()}
    for words in WORDS:
        for is_spoken in (True, False):
            alike = [key for key in sides if key[0] != "any" and key[1:] == (words, is_spoken)]
            hidden = [key for key in alike if sides[key]["students"] is None]
            if len(hidden) == 1 and alike != hidden:
                one = min({*alike} - {*hidden}, key=lambda key: (sides[key]["students"], [*REASONS].index(key[0])))
                sides[one] = HIDDEN
    is_told = all(sides["any", words, True] != HIDDEN for words in WORDS if ("any", words, True) in sides)
    shown = [(reason, words) for reason in REASONS for words in WORDS if (reason, words, True) in groups]
    return compared if is_told else None, [
        {"reason": reason, "severity": words}
        | {name: sides.get((reason, words, of)) or side([], []) for name, of in (("spoken", True), ("others", False))}
        for reason, words in shown
    ]


def landed(on: date) -> date:
    """The last landed day up to a day."""
    return max(day for day in DAYS if day <= on)


def of_day(
    noted: list[tuple[int, date]],
    on_list: dict[int, dict[date, tuple[frozenset[str], str]]],
    done: dict[tuple[int, date], tuple[int, int]],
    days: tuple[date, date, date],
) -> Pairs:
    """Who is compared of a day, by reason, severity and whether the student was spoken to."""
    pairs, (before, day, after) = Pairs(), days
    for student in sorted(on_list):
        contacts = [on for each, on in noted if each == student]
        is_spoken = any(
            on >= DAYS[0] and landed(on) == day and not any(on - FORTNIGHT <= other < on for other in contacts)
            for on in contacts
        )
        states = [done.get((student, each)) for each in days]
        is_touched = any(before <= on <= after for on in contacts)
        if day not in on_list[student] or (is_touched and not is_spoken) or None in states:
            continue
        (d0, g0), (d1, g1), (d2, g2) = (state for state in states if state)
        figures = [d1 - d0, g1 - g0, d2 - d1, g2 - g1]
        if min(figures) >= 0:
            reasons, words = on_list[student][day]
            for reason in reasons:
                pairs.setdefault((reason, words, is_spoken), []).append((student, figures, after in on_list[student]))
    return pairs


HIDDEN = {"students": None, "before_percent": None, "after_percent": None, "still_percent": None}


def side(rows: list[tuple[int, list[int], bool]], every: list[tuple[int, list[int], bool]]) -> dict[str, Any]:
    students, rest = {row[0] for row in rows}, {row[0] for row in every}
    if 0 < len(students) < LEAST_SHOWN or 0 < len(rest) - len(students) < LEAST_SHOWN:
        return HIDDEN
    done_before, given_before, done_after, given_after = (sum(f[n] for _, f, _ in rows) for n in range(4))
    still = sum(is_still for *_, is_still in rows)
    is_told = not 0 < still < LEAST_SHOWN and not 0 < len(rows) - still < LEAST_SHOWN
    return {
        "students": len(students),
        "before_percent": round(100 * done_before / given_before, 1) if given_before else None,
        "after_percent": round(100 * done_after / given_after, 1) if given_after else None,
        "still_percent": round(100 * still / len(rows), 1) if is_told and rows else None,
    }


def test_before_and_after_equal_a_recomputation_in_plain_python(school_of_300: Path) -> None:
    measured = report(school_of_300)
    compared, rows = recomputed(school_of_300)
    assert (measured.contacts, measured.compared) == (len(read(school_of_300)), compared)
    assert [asdict(row) for row in measured.rows] == rows
    assert sum(row.spoken.after_percent is not None for row in measured.rows) >= 3, "or nothing was compared"
    assert any(row.others.still_percent is not None for row in measured.rows)
    assert any(row.spoken.students is None for row in measured.rows), "or nothing was hidden"


def test_a_notebook_gets_the_rows(school_of_300: Path, alone: Path) -> None:
    rows = [asdict(row) for row in report(school_of_300).rows]
    frame = rollbook.open(school_of_300).spoken_to().astype(object)
    for who in ("spoken", "others"):
        given = frame.filter(like=f"{who}_").rename(columns=lambda name, who=who: name.removeprefix(f"{who}_"))
        assert given.where(given.notna(), None).to_dict("records") == [row[who] for row in rows]
    none = rollbook.open(alone).spoken_to()
    assert [*none] == [*frame]
    assert none.empty


def test_what_is_shown_does_not_tell_of_what_is_hidden(school_of_300: Path) -> None:
    """A single hidden reason would be what `any` has more than the others."""
    measured = report(school_of_300)
    hidden: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for row in measured.rows:
        if row.reason != "any":
            hidden["spoken", row.severity].append(row.spoken.students is None)
            if row.others.students != 0:
                hidden["others", row.severity].append(row.others.students is None)
    assert [key for key, each in hidden.items() if each.count(True) == 1 < len(each)] == []


def test_few_days_at_a_time_give_the_same(school_of_300: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = report(school_of_300)
    monkeypatch.setattr(comparing, "STUDENT_DAYS", 7 * 300)
    assert report(school_of_300) == whole


@pytest.fixture
def alone(school_of_300: Path, tmp_path: Path) -> Path:
    """The same school, without a contact yet."""
    (tmp_path / "rollbook.duckdb").symlink_to(school_of_300 / "rollbook.duckdb")
    return tmp_path


def test_nobody_is_told_of_where_few_were_spoken_to(alone: Path) -> None:
    assert asdict(report(alone)) == {"contacts": 0, "compared": 0, "rows": ()}
    day = DAYS[40]
    on_list = [student for student, days in watched(alone).items() if day in days][:4]
    write(alone, [(student, day) for student in on_list])
    few = report(alone)
    assert (few.contacts, few.compared) == (None, None)
    assert {row.spoken.students for row in few.rows} == {None}
    assert {row.spoken.before_percent for row in few.rows} == {None}


def test_the_number_compared_does_not_tell_of_a_hidden_severity(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    day = DAYS[40]
    of = {words: [s for s, days in watched(alone).items() if day in days and days[day][1] == words] for words in WORDS}
    write(alone, [(student, day) for student in (*of["high"][:3], *of["medium"][:20])])
    measured = report(alone)
    any_reason = [row.spoken.students for row in measured.rows if row.reason == "any"]
    assert (measured.contacts, measured.compared) == (23, None)
    assert [each is None for each in any_reason] == [True, False]
    monkeypatch.setenv("ROLLBOOK_WAREHOUSE", str(alone))
    shown = " ".join(CliRunner().invoke(app, ["thresholds", "--contacts"]).output.split())
    assert "23 contacts, by contacted.csv as it is now. Some of them are compared" in shown


def test_contacts_without_two_weeks_on_either_side_are_left_out(alone: Path) -> None:
    for day in (DAYS[0] - timedelta(days=9), DAYS[5], DAYS[-5], DAYS[-1] + timedelta(days=9)):
        write(alone, [(student, day) for student in watched(alone)])
        assert report(alone).compared == 0


def test_what_cannot_be_compared_is_told(alone: Path, tmp_path: Path) -> None:
    (alone / "contacted.csv").write_text(HEADING + "Ada,,,\n")
    with pytest.raises(SettingError, match="contacted.csv, line 2: student_id is 'Ada'"):
        report(alone)
    empty = tmp_path / "empty"
    empty.mkdir()
    year(empty / "rollbook.duckdb", MadeUpInstitution(60), [])
    with pytest.raises(NothingLandedError, match="No landed day is left"):
        report(empty)


def test_the_command_compares_on_terminal_page_and_as_json(
    school_of_300: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROLLBOOK_WAREHOUSE", str(school_of_300))
    shown = CliRunner().invoke(app, ["thresholds", "--contacts", "--page"])
    assert shown.exit_code == 0, shown.output
    assert "contacts, by contacted.csv as it is now" in shown.output
    told_of = [row for row in report(school_of_300).rows if row.spoken.students]
    assert 0 < shown.output.count("  not spoken to") == len(told_of) < len(report(school_of_300).rows)
    assert "shows no cause" in shown.output
    page = (school_of_300 / "exports" / "contacts.html").read_text()
    assert "<h1>Before and after a contact</h1>" in page
    assert "shows no cause" in page
    told = CliRunner().invoke(app, ["thresholds", "--contacts", "--json"])
    assert json.loads(told.output) == json.loads(json.dumps(asdict(report(school_of_300))))
    refused = CliRunner().invoke(app, ["thresholds", "--contacts", "--try", "completion_below=40"])
    assert isinstance(refused.exception, ArgumentError)
    assert refused.exception.message == "--contacts is by the thresholds that were in force: leave --try out"
