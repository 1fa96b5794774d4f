"""thresholds.csv: written with defaults, read at each publish, and never in the way of what is published."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from rollbook.errors import SettingError
from rollbook.night.stages import merge
from rollbook.settings import ROOT
from rollbook.views import editable
from tests.support.warehouses.school import School

pytestmark = pytest.mark.every_feature

HEADING = "name,value,meaning\n"


def values(path: Path) -> dict[str, float]:
    return {t.name: t.value for t in editable.read_thresholds(path)}


DEFAULTS = {t.name: t.value for t in editable.DEFAULTS}


def test_a_file_with_defaults_of_earlier_versions_stays_valid(file: Path) -> None:
    file.write_text(HEADING + "".join(f"{name},{value:g},\n" for name, (value, _) in editable.FORMER.items()))
    assert values(file) == DEFAULTS
    assert {instead for _, instead in editable.FORMER.values()} <= DEFAULTS.keys()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "thresholds.csv"


def test_the_committed_file_holds_the_defaults() -> None:
    assert (ROOT / "warehouse" / "thresholds.csv").read_text() == editable.render_thresholds()


@pytest.mark.parametrize(
    "text",
    [
        HEADING + "score_below,62.5,a comment\n",
        HEADING + "score_below,62.5\n\n",
        "\ufeff" + HEADING + "score_below,62.5,with a byte order mark\n",
        "name;value;meaning\nscore_below;62,5;as a German Excel saves it\n",
        "Name,Value\r\n score_below , 62.5 \r\n",
    ],
)
def test_thresholds_saved_by_spreadsheet_programs_are_read(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")
    assert values(file) == DEFAULTS | {"score_below": 62.5}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: the heading must be name,value,meaning"),
        ("score_below,62\n", "line 1: the heading must be name,value,meaning"),
        (
            HEADING + "score_below,62\nscore_belo,1\n",
            "line 3: 'score_belo' is not a threshold; write one of completion_below",
        ),
        (HEADING + "score_below,many\n", "line 2: score_below is 'many'; write a number from 0 to 100, such as 50"),
        (HEADING + "score_below\n", "line 2: score_below is ''; write a number"),
        (HEADING + "\nscore_below,101\n", "line 3: score_below is '101'; write a number from 0 to 100"),
        (HEADING + "score_below,-1\n", "line 2: score_below is '-1'"),
        (HEADING + "score_below,nan\n", "line 2: score_below is 'nan'"),
        (
            HEADING + "inactive_days,14\n",
            "line 2: inactive_days decides nothing any more: remove the line; inactive_school_days decides instead",
        ),
        (HEADING + "score_below,1\nscore_below,2\n", "line 3: score_below is listed twice"),
        (HEADING + 'score_below,62,"low\nmissing_percent,5,\n', "line 2: a quotation mark is not closed in its cell"),
        (HEADING + 'missing_percent,5,"long" ago\n', "line 2: a quotation mark is not closed in its cell"),
    ],
)
def test_a_malformed_file_is_told_with_the_line_and_the_remedy(file: Path, text: str, message: str) -> None:
    file.write_text(text)
    with pytest.raises(SettingError) as raised:
        editable.read_thresholds(file)
    assert f"{file}, {message}" in raised.value.message
    assert "nothing is lost; correct the line" in raised.value.message


def test_thresholds_are_read_at_each_publish_and_decide_the_list(fortnight: School, tmp_path: Path) -> None:
    school = fortnight.copy(tmp_path / "w")
    low = "SELECT COUNT(*) FROM students_to_watch WHERE is_low_score"
    assert school.rows("SELECT name, value FROM thresholds") == list(DEFAULTS.items())
    (school.warehouse / "thresholds.csv").write_text(HEADING + "score_below,100,\nstays_school_days,0,\n")
    assert school.rows(low)[0][0] < 100
    with school.rollbook().writer().writing():
        school.rollbook().writer().publish(merge(school.rollbook().place))
    scored = school.rows("SELECT COUNT(*) FROM student_summaries WHERE average_score < 100")
    assert school.rows(low) == scored
    assert school.rows("SELECT value FROM thresholds WHERE name = 'score_below'") == [(100,)]


def test_a_malformed_one_stops_the_publish_and_nothing_is_lost(fortnight: School, tmp_path: Path) -> None:
    school = fortnight.copy(tmp_path / "w")
    before = hashlib.sha256(school.published.read_bytes()).hexdigest()
    (school.warehouse / "thresholds.csv").write_text(HEADING + "score_below,high,\n")
    rollbook = school.rollbook()
    with pytest.raises(SettingError, match=r"thresholds\.csv, line 2"), rollbook.writer().writing():
        rollbook.writer().publish(merge(rollbook.place))
    assert hashlib.sha256(school.published.read_bytes()).hexdigest() == before
    assert "thresholds.csv, line 2" in (school.warehouse / "report.html").read_text()
    (school.warehouse / "thresholds.csv").unlink()
    with rollbook.writer().writing():
        rollbook.writer().publish(merge(rollbook.place))
    assert school.rows("SELECT name, value FROM thresholds") == list(DEFAULTS.items())
    assert "thresholds.csv, line 2" not in (school.warehouse / "report.html").read_text()
