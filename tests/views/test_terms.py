"""terms.csv: empty at first, read at each publish, and what the calendar makes of the terms."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest

from rollbook.errors import SettingError
from rollbook.night.stages import merge
from rollbook.settings import ROOT
from rollbook.views import editable
from rollbook.views.editable import Term
from tests.support.warehouses.school import School

HEADING = "name,first_day,last_day\n"
AUTUMN = Term("Autumn", date(2026, 9, 1), date(2026, 12, 18))
SPRING = Term("Spring", date(2027, 1, 11), date(2027, 3, 26))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "terms.csv"


def test_the_committed_file_holds_no_term() -> None:
    assert (ROOT / "warehouse" / "terms.csv").read_text() == editable.render_terms() == HEADING


def test_a_missing_file_is_written_and_an_existing_one_stays(file: Path) -> None:
    editable.ensure(file.parent)
    assert editable.read_terms(file) == ()
    file.write_text(editable.render_terms([AUTUMN]))
    editable.ensure(file.parent)
    assert editable.read_terms(file) == (AUTUMN,)


@pytest.mark.parametrize(
    "text",
    [
        HEADING + "Spring,2027-01-11,2027-03-26\nAutumn,2026-09-01,2026-12-18\n",
        "\ufeffName;First_day;Last_day\r\n Autumn ; 01.09.2026;18.12.2026\r\n;;\r\nSpring;11.1.2027;26.3.2027\r\n",
    ],
)
def test_terms_saved_by_spreadsheet_programs_are_read_in_any_order(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")
    assert editable.read_terms(file) == (AUTUMN, SPRING)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,value\n", "line 1: the heading must be name,first_day,last_day"),
        (HEADING + ",2026-09-01,2026-12-18\n", "line 2: a term needs a name"),
        (HEADING + "Autumn,9/1/2026,12/18/2026\n", "line 2: first_day is '9/1/2026'; write a date such as 2026-09-01"),
        (HEADING + "Autumn,2026-09-01\n", "line 2: last_day is ''; write a date"),
        (HEADING + "Autumn,2026-02-30,2026-12-18\n", "line 2: first_day is '2026-02-30'"),
        (HEADING + "Autumn,2026-12-18,2026-09-01\n", "line 2: 'Autumn' ends before it begins"),
        (editable.render_terms([AUTUMN, AUTUMN]), "line 3: 'Autumn' is listed twice; give each term its own name"),
        (
            HEADING + "Spring,2026-12-18,2027-03-26\nAutumn,2026-09-01,2026-12-18\n",
            "line 2: 'Spring' begins on 2026-12-18, before 'Autumn' is over: a day is in one term at most",
        ),
    ],
)
def test_a_malformed_file_is_told_with_the_line_and_the_remedy(file: Path, text: str, message: str) -> None:
    file.write_text(text)
    with pytest.raises(SettingError, match=re.escape(f"{file}, {message}")):
        editable.read_terms(file)


def test_they_are_read_at_each_publish_and_the_calendar_counts_their_weeks(fortnight: School, tmp_path: Path) -> None:
    school = fortnight.copy(tmp_path / "w")
    (school.warehouse / "terms.csv").write_text(editable.render_terms())
    rollbook = school.rollbook()
    with rollbook.writer().writing():
        rollbook.writer().publish(merge(rollbook.place))
    assert school.rows("SELECT COUNT(term), COUNT(term_week) FROM calendar") == [(0, 0)]
    days = [r[0] for r in school.rows("SELECT day FROM calendar")]
    thursday = next(day for day in days[1:] if day.isoweekday() == 4)
    (school.warehouse / "terms.csv").write_text(editable.render_terms([Term("Harvest", thursday, days[-2])]))
    with rollbook.writer().writing():
        rollbook.writer().publish(merge(rollbook.place))
    assert school.rows("FROM terms") == [("Harvest", thursday, days[-2])]
    weeks = dict(school.rows("SELECT day, term_week FROM calendar WHERE term = 'Harvest'"))
    assert list(weeks) == [day for day in days if thursday <= day <= days[-2]]
    assert weeks == {day: 1 + (day.toordinal() - 1) // 7 - (thursday.toordinal() - 1) // 7 for day in weeks}
    (school.warehouse / "terms.csv").write_text(HEADING + "Harvest,soon,later\n")
    with rollbook.writer().writing(), pytest.raises(SettingError, match=r"terms\.csv, line 2"):
        rollbook.writer().publish(merge(rollbook.place))
    assert len(school.rows("FROM terms")) == 1
