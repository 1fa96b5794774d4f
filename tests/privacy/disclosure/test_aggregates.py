"""Releases: what is in the files, that a released week stays, and what happens when something is lost."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.errors import ArgumentError, BusyError, DamagedError, NothingLandedError
from pipelines.privacy.disclosure import aggregates, handout
from pipelines.privacy.disclosure.releases import COLUMNS, Releases
from tests.privacy.disclosure.weeks import Pupil, School, Week

VALUES = ("students", "count", "percent", "average", "members_since")


def pupils(*classes: int, first: int = 1, size: int = 24) -> Week:
    """Students of some classes: half of them active, completions from 20 up, scores 20 higher; five are to watch."""
    return {first + n: Pupil(classes, 20.0 + 2 * n, 40.0 + 2 * n, (first + n) % 2 == 0) for n in range(size)}


SMALL = pupils(201, first=50, size=9)
# A class of 24, one of 9 in another course, and twenty students in none.
WEEK: Week = {**pupils(101), **SMALL, **pupils(first=70, size=20)}


@pytest.fixture
def school(tmp_path: Path) -> School:
    return School(tmp_path / "w", {101: "Algebra", 201: "Latin with Ada"}).publish(WEEK, WEEK)


def csv_rows(school: School, week: str) -> list[Mapping[str, str]]:
    text = (school.out / f"{week}.csv").read_text(encoding="utf-8-sig")
    return list(csv.DictReader(text.splitlines()))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_a_release_says_in_csv_and_parquet_what_is_shown_and_what_is_not(school: School) -> None:
    school.release(weeks=1)
    assert sorted(contents(school.out)) == ["2026-W37.csv", "2026-W37.parquet", "README.txt"]
    rows = csv_rows(school, "2026-W37")
    assert tuple(rows[0]) == COLUMNS
    small, others = "fewer than 10 students", "protects others"
    assert [tuple(row.values()) for row in rows] == [
        ("2026-09-07", "school", "41", "By Hand", "completion", "55", "", "", "39", "2026-09-07", ""),
        ("2026-09-07", "school", "41", "By Hand", "score", "55", "", "", "59", "2026-09-07", ""),
        ("2026-09-07", "school", "41", "By Hand", "active", "55", "25", "45", "", "2026-09-07", ""),
        ("2026-09-07", "school", "41", "By Hand", "to_watch", "55", "15", "27", "", "2026-09-07", ""),
        ("2026-09-07", "course", "1", "Course 1", "completion", "25", "", "", "43", "2026-09-07", ""),
        ("2026-09-07", "course", "1", "Course 1", "score", "25", "", "", "63", "2026-09-07", ""),
        ("2026-09-07", "course", "1", "Course 1", "active", "25", "10", "40", "", "2026-09-07", ""),
        ("2026-09-07", "course", "1", "Course 1", "to_watch", "", "", "", "", "", others),
        *(("2026-09-07", "course", "2", "", m, "", "", "", "", "", small) for m in ("completion", "score", "active", "to_watch")),
        ("2026-09-07", "class", "101", "Algebra", "completion", "25", "", "", "43", "2026-09-07", ""),
        ("2026-09-07", "class", "101", "Algebra", "score", "25", "", "", "63", "2026-09-07", ""),
        ("2026-09-07", "class", "101", "Algebra", "active", "25", "10", "40", "", "2026-09-07", ""),
        ("2026-09-07", "class", "101", "Algebra", "to_watch", "", "", "", "", "", others),
        *(("2026-09-07", "class", "201", "", m, "", "", "", "", "", small) for m in ("completion", "score", "active", "to_watch")),
    ]  # fmt: skip
    table = pq.read_table(school.out / "2026-W37.parquet").to_pylist()
    assert [tuple("" if v is None else str(v) for v in row.values()) for row in table] == [
        tuple(r.values()) for r in rows
    ]


def test_a_suppressed_figure_has_no_value_of_any_kind(school: School) -> None:
    school.release()
    rows = [row for week in ("2026-W37", "2026-W38") for row in csv_rows(school, week)]
    hidden = [row for row in rows if row["suppressed"]]
    assert hidden
    assert {row[column] for row in hidden for column in VALUES} == {""}
    assert {row["suppressed"] for row in hidden} == {"fewer than 10 students", "protects others"}
    assert [(r["level"], r["id"]) for r in rows] == [(r["level"], r["id"]) for r in sorted(rows, key=_order)]
    assert "Ada" not in (school.out / "2026-W37.csv").read_text()


def _order(row: Mapping[str, str]) -> tuple[str, int, int]:
    return row["week_begins"], ("school", "course", "class").index(row["level"]), int(row["id"])


def test_a_week_is_released_when_it_is_over(school: School) -> None:
    assert [r.name for r in school.release(weeks=1).released] == ["2026-W37"]
    assert [r.name for r in school.release(weeks=2).released] == ["2026-W38"]
    assert [r.name for r in school.release(weeks=9).released] == []


@pytest.mark.slow
def test_weeks_released_at_once_are_the_same_as_those_released_one_by_one(tmp_path: Path) -> None:
    weeks = [{s: p for s, p in WEEK.items() if s > gone} for gone in (0, 1, 3, 12)]
    at_once, one_by_one = (School(tmp_path / name).publish(*weeks) for name in ("a", "b"))
    at_once.release()
    for number in range(1, 5):
        one_by_one.release(weeks=number)
    assert contents(at_once.out) == contents(one_by_one.out)


def test_a_released_week_stays_when_the_records_have_changed_since_and_the_command_says_so(school: School) -> None:
    school.release()
    before = contents(school.out)
    moved = {s: replace(p, completion=90.0) if s == 5 else p for s, p in WEEK.items() if s != 7}
    result = school.publish(moved, WEEK).release()
    assert (result.released, result.changed, result.altered) == ((), ("2026-W37",), ())
    assert contents(school.out) == before
    assert school.publish(WEEK, WEEK).release().changed == ()


def test_a_lost_folder_is_written_again_as_it_was(school: School) -> None:
    school.release()
    before = contents(school.out)
    for path in school.out.iterdir():
        path.unlink()
    school.publish({s: p for s, p in WEEK.items() if s != 7}, {}).release()
    assert contents(school.out) == before
    school.release(out=school.root / "elsewhere")
    assert contents(school.root / "elsewhere") == before


def test_a_file_that_somebody_changed_is_left_and_named(school: School) -> None:
    school.release()
    path = school.out / "2026-W37.csv"
    path.write_bytes(path.read_bytes() + b"\n")
    assert school.release().altered == ("2026-W37.csv",)
    assert path.read_bytes().endswith(b"\n\n")


def test_without_the_record_of_a_release_nothing_is_released(school: School) -> None:
    school.release(weeks=1)
    record = school.root / "private" / "aggregates" / "2026-W37.json.gz"
    whole = record.read_bytes()
    record.write_bytes(whole[:-20])
    with pytest.raises(DamagedError, match=r"^private/aggregates/2026-W37\.json\.gz cannot be read"):
        school.release()
    record.unlink()
    with pytest.raises(DamagedError, match="holds 2026-W37, but this warehouse has no record"):
        school.release()
    record.write_bytes(whole)
    assert [r.name for r in school.release().released] == ["2026-W38"]


def test_a_release_that_was_stopped_before_its_files_is_finished_by_the_next(
    school: School, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object) -> tuple[str, ...]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(handout, "write", stopped)
        with pytest.raises(KeyboardInterrupt):
            school.release()
    assert not school.out.exists()
    assert school.release().released == ()
    assert sorted(contents(school.out)) == [
        *("2026-W37.csv", "2026-W37.parquet", "2026-W38.csv", "2026-W38.parquet", "README.txt")
    ]


def test_one_at_a_time(school: School) -> None:
    with Releases(school.root).writing(), pytest.raises(BusyError):
        school.release()


def test_the_record_is_the_owners_alone_and_the_folder_as_the_setting_says(school: School) -> None:
    school.release()
    private = [school.root / "private", school.root / "private" / "aggregates"]
    assert [path.stat().st_mode & 0o777 for path in private] == [0o700, 0o700]
    assert {path.stat().st_mode & 0o777 for path in private[1].iterdir()} == {0o600}
    assert {path.stat().st_mode & 0o777 for path in school.out.iterdir()} == {0o600}


@pytest.mark.parametrize("week", [{}, {1: Pupil()}, {n: Pupil((101,), None, None) for n in range(12)}])
def test_empty_and_tiny_schools(tmp_path: Path, week: Week) -> None:
    school = School(tmp_path / "w").publish(week, {}, week)
    school.release()
    for name in ("2026-W37", "2026-W38", "2026-W39"):
        assert {row["average"] for row in csv_rows(school, name)} <= {""}


def test_a_title_that_a_spreadsheet_would_run_or_that_has_quotes(tmp_path: Path) -> None:
    titles = {101: '=HYPERLINK("http://x","y")', 102: 'The "best", they say'}
    school = School(tmp_path / "w", titles).publish({**pupils(101), **pupils(102, first=50)})
    school.release()
    assert {row["name"] for row in csv_rows(school, "2026-W37") if row["level"] == "class"} == {
        "'" + titles[101],
        titles[102],
    }


def test_after_k_was_raised_figures_of_fewer_are_not_shown_any_more(tmp_path: Path) -> None:
    week = {**pupils(101, size=12), **pupils(102, first=50, size=30), **pupils(103, first=90, size=30)}
    school = School(tmp_path / "w").publish(week, week)
    school.release(weeks=1, k=10)
    school.release(weeks=2, k=15)

    def of(name: str) -> list[str]:
        return [
            r["id"]
            for r in csv_rows(school, name)
            if r["level"] != "course" and r["measure"] == "completion" and r["average"]
        ]

    # The two other classes and the school would show the class of twelve.
    assert (of("2026-W37"), of("2026-W38")) == (["41", "101", "102", "103"], ["41", "102"])


def test_who_is_erased_is_forgotten_and_does_not_show_by_being_gone(school: School) -> None:
    school.publish(WEEK)
    school.release()
    records = Releases(school.root)
    assert records.forget([7, 12345]) == 1
    content = gzip.decompress((school.root / "private" / "aggregates" / "2026-W37.json.gz").read_bytes()).decode()
    assert ", 7," not in content
    assert ", 8," in content
    assert {-1} == {s for r in records.all() for c in r.cohorts for s in c.students if s < 0}
    before = contents(school.out)
    gone = {s: p for s, p in WEEK.items() if s != 7}
    school.publish(gone, gone).release()
    # The group without the erased student would differ from the released one by that student alone.
    assert [r["average"] for r in csv_rows(school, "2026-W38") if r["id"] == "101"] == ["", "", "", ""]
    assert {name: content for name, content in contents(school.out).items() if name in before} == before


def test_before_the_first_publish_and_where_the_folder_is_a_file(tmp_path: Path, school: School) -> None:
    with pytest.raises(NothingLandedError):
        School(tmp_path / "none").release()
    with pytest.raises(ArgumentError, match="is not a folder"):
        school.release(out=school.published)


def test_the_command_tells_what_it_released_and_warns_of_what_changed(
    school: School, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ROLLBOOK_WAREHOUSE", str(school.root))
    monkeypatch.setenv("ROLLBOOK_SUPPRESS_BELOW", "12")
    first = CliRunner().invoke(app, ["aggregates", "--out", str(tmp_path / "given")])
    assert (first.exit_code, "2026-W37" in first.output, "holds 2 weeks" in first.output) == (0, True, True)
    assert "fewer than 12 students" in (tmp_path / "given" / "README.txt").read_text()
    school.publish({s: p for s, p in WEEK.items() if s != 7}, WEEK)
    second = CliRunner().invoke(app, ["aggregates"])
    assert second.exit_code == 0
    assert "nothing new was released" in second.output
    assert "The records of 2026-W37 have changed since" in second.output
    assert contents(school.out) == contents(tmp_path / "given")


def test_progress_goes_from_nothing_to_all_steps_of_each_week(school: School) -> None:
    told: list[tuple[str, int, int]] = []
    aggregates.release(
        school.root, school.published, school.out, k=10, today=date(2026, 9, 21), progress=lambda *t: told.append(t)
    )
    assert told == [(f"figures of {week}", done, 7) for week in ("2026-W37", "2026-W38") for done in range(8)]


def test_the_published_file_is_only_read(school: School) -> None:
    before = school.published.read_bytes()
    school.release()
    assert school.published.read_bytes() == before
