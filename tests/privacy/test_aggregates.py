"""Released figures: of whom and of what they are, when they are released, and that they stay."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from datetime import date

import pytest
from typer.testing import CliRunner

from rollbook.cli import app
from rollbook.errors import ArgumentError
from rollbook.privacy import aggregates
from rollbook.privacy.aggregates import figure, release
from tests.support.nights import House, new_house, night
from tests.support.records import Records, entry, school_class, student, within
from tests.support.warehouses.begun import begin
from tests.support.warehouses.erasures import erase

TERM = "name,first_day,last_day\nAutumn,2026-09-01,2026-11-21\n"
OVER = date(2026, 11, 22)


def pupil(number: int) -> dict[str, object]:
    """Sixty students: 1 to 40 take Algebra (most of them in both classes), 41 to 60 Latin. Every third is not active."""
    taken = [entry(class_id=c) for c in ((501, 502) if number <= 30 else (501,) if number <= 40 else (503,))]
    last = "2026-11-01" if number % 3 == 0 else "2026-11-19"
    worked = {"total_assignments": 0 if number == 1 else 10, "completion_rate": float(number), "average_score": None}
    done = within("summary", **worked, last_activity_date=last) | within("activity_tracking", last_activity_date=last)
    return student(number, classes=taken, **done)


def taught() -> Records:
    algebra, latin = ({"course_id": n, "course_name": name} for n, name in ((70, "=Algebra()"), (71, "Latin with Ada")))
    return [school_class(501, course=algebra), school_class(502, course=algebra), school_class(503, course=latin)]


@pytest.fixture
def house() -> Iterator[House]:
    """Two nights, in a term that ends with the second one."""
    with new_house([pupil(n) for n in range(1, 61)], taught(), hold_changed_percent=100) as made:
        begin(made, nights=2)
        (made.warehouse / "terms.csv").write_text(TERM)
        yield made


def released(house: House, day: date | None = None, today: date = OVER) -> tuple[list[date], list[str]]:
    return release(house.warehouse, day, today=today, mode=0o640)


def contents(house: House) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (house.warehouse / "aggregates").iterdir()}


def test_a_term_that_is_over_is_released_with_the_groups_that_are_large_enough(house: House) -> None:
    assert released(house, today=date(2026, 11, 21)) == ([], [])
    assert released(house) == ([date(2026, 11, 21)], [])
    folder = house.warehouse / "aggregates"
    assert sorted(contents(house)) == ["2026-11-21.csv", "README.txt"]
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o640}
    rows = list(csv.DictReader((folder / "2026-11-21.csv").read_text(encoding="utf-8-sig").splitlines()))
    about = [(r["day"], r["level"], r["id"], r["name"], r["measure"], r["students"]) for r in rows]
    assert about == [
        *(("2026-11-21", "school", "41", "Made-up School", m, "50 to 99") for m in ("active", "completion", "to_watch")),
        *(("2026-11-21", "course", "70", "'=Algebra()", m, "20 to 49") for m in ("active", "completion", "to_watch")),
    ]  # fmt: skip
    assert {r["percent"] for r in rows} <= {f"{n} to {n + 10}" for n in range(0, 100, 10)}
    assert "Ada" not in (folder / "2026-11-21.csv").read_text(), "nothing tells of a group that is too small"


def test_each_student_counts_once_and_only_with_a_known_value(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    groups: list[tuple[object, ...]] = []
    monkeypatch.setattr(aggregates, "figure", lambda _, *group: groups.append(group[:-1]))
    released(house)
    assert [group for group in groups if group[0] != "to_watch"] == [
        ("active", 60, 4000.0, [100.0] * 4),
        ("completion", 59, sum(range(2, 61)), [60.0, 59.0, 58.0, 57.0]),
        ("active", 40, 2700.0, [100.0] * 4),
        ("completion", 39, sum(range(2, 41)), [40.0, 39.0, 38.0, 37.0]),
        ("active", 20, 1300.0, [100.0] * 4),
        ("completion", 20, sum(range(41, 61)), [60.0, 59.0, 58.0, 57.0]),
    ]
    watched = house.query("SELECT COUNT(*) FROM students_to_watch")[0][0]
    assert next(total for measure, _, total, _ in groups if measure == "to_watch") == 100 * watched


def test_a_release_is_never_written_again(house: House) -> None:
    released(house)
    before = contents(house)
    erase(house, 7)
    house.night(2, [pupil(n) | within("summary", completion_rate=5.0) for n in range(2, 61)])
    assert released(house) == ([], [])
    with pytest.raises(ArgumentError, match="2026-11-21 was released already"):
        released(house, night(2))
    (house.warehouse / "terms.csv").write_text(TERM.replace("2026-11-21", "2026-11-20"))
    assert released(house) == ([], ["Autumn"]), "not by another name either"
    assert contents(house) == before


def test_one_landed_day_is_released_by_hand(house: House) -> None:
    assert released(house, night(1)) == ([night(1)], [])
    assert sorted(contents(house)) == [f"{night(1)}.csv", "README.txt"]
    with pytest.raises(ArgumentError, match="Nothing was landed on 2027-01-05: name 2026-11-21, the last landed day"):
        released(house, date(2027, 1, 5))
    with pytest.raises(ArgumentError, match="2026-11-20 was released already, and releases are at least 30 days apart"):
        released(house, night(2))


def test_the_command_names_the_files(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLLBOOK_WAREHOUSE", str(house.warehouse))
    first = CliRunner().invoke(app, ["aggregates", "--day", "2026-11-21"])
    assert (first.exit_code, "2026-11-21.csv" in first.output.replace("\n", "")) == (0, True), first.output
    assert "Nothing new was released" in CliRunner().invoke(app, ["aggregates"]).output


def of(size: int, value: float, secret: str) -> tuple[str, str] | None:
    return figure(secret, "completion", size, size * value, [value] * min(size, 4), 5)


def test_no_group_of_fewer_than_twenty_is_shown_and_the_limit_is_not_sharp() -> None:
    shown = {size: sum(of(size, 50.0, str(n)) is not None for n in range(300)) for size in (22, 25, 28)}
    assert (shown[22], shown[28]) == (0, 300)
    assert 50 < shown[25] < 250


def test_a_figure_is_a_band_that_its_noise_may_move() -> None:
    assert {of(1000, value, "s") for value in (0.0, 55.0, 100.0)} == {
        ("200 or more", band) for band in ("0 to 10", "50 to 60", "90 to 100")
    }
    small = [of(30, 59.0, str(n)) for n in range(300)]
    assert {f[1] for f in small if f} == {"50 to 60", "60 to 70"}


def test_each_release_has_a_secret_of_its_own(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same noise, what a figure changes by from release to release would be exact."""
    secrets: list[str] = []
    monkeypatch.setattr(aggregates, "figure", lambda secret, *_: secrets.append(secret))
    for _ in range(2):
        released(house)
        (house.warehouse / "aggregates" / "2026-11-21.csv").unlink()
    assert (len(set(secrets)), len(min(secrets))) == (2, 64)
