"""The charts of the morning page: where things go, how they are described, and what a class's title may say."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from rollbook.features.morning import morning
from rollbook.features.morning.morning import ComparedClass, Morning, Night, WatchedClass
from rollbook.reading.charts import SQUARE, Chart, Row, sparkline

FIRST = date(2026, 10, 23)
MINUS, CROSS, DASH = "\N{MINUS SIGN}", "\N{MULTIPLICATION SIGN}", "\N{EN DASH}"
EMPTY = Morning(
    school="Linden Vale", day=FIRST, students=0, active_classes=0, changes=(), to_watch=0, silence=None, is_without_school=False, terms_ended=None, is_counted_again=False, several_reasons=0,
    watch_changes=None, by_reason=(), by_severity=(), watched=(), watched_classes=0, ahead=(), behind=(), trend=(), nights=(), named=(),
)  # fmt: skip


def drawn(**data: Any) -> Chart:
    """The one chart of a morning that has only these data."""
    (chart,) = morning.draw(replace(EMPTY, **data))
    return chart


def watched(title: str, students: int, watched: int, new: int) -> WatchedClass:
    return WatchedClass(1, title, students, watched, new)


def compared(title: str, points: float) -> ComparedClass:
    return ComparedClass(title, 20, 50, None, points)


def month(*scores: float | None) -> tuple[Row, ...]:
    """Days on which only the score is known."""
    return tuple(
        Row(day=FIRST + timedelta(days=n), completion=None, score=score, active=None) for n, score in enumerate(scores)
    )


def nights(*outcomes: str) -> tuple[Night, ...]:
    return tuple(Night(FIRST + timedelta(days=n), 1600, 40, outcome) for n, outcome in enumerate(outcomes))


def texts(chart: Chart) -> list[str]:
    return [label.text for label in chart.labels if label.text]


def test_a_classs_bar_begins_with_new_students() -> None:
    chart = drawn(watched=(watched("Physics 1D", 38, 36, 18), watched("Music 1B", 27, 27, 0)))
    assert [(x, round(width, 2), colour) for x, _, width, _, colour in chart.bars] == [
        (94.74, 5.26, "grid"), (0, 47.37, "strong"), (47.37, 47.37, "soft"),
        (100, 0, "grid"), (0, 0, "strong"), (0, 100, "soft"),
    ]  # fmt: skip
    assert [text for text, *_ in chart.titles] == ["Physics 1D", "Music 1B"]
    assert texts(chart) == ["36 of 38, 18 new", "27 of 27"]
    assert [words for _, _, words in chart.legend] == ["newly to watch", "as before"]
    assert chart.alt == (
        "Bars, one per class, of its students to watch. Physics 1D: 36 of 38, 18 new; Music 1B: 27 of 27, 0 new."
    )


def test_a_line_in_a_row_goes_in_steps_up_to_today() -> None:
    assert sparkline([(28, 99.0), (7, 100.0)]) == [(0, 5.2), (75, 5.2), (75, 4), (100, 4)]
    assert sparkline([(28, 40.0), (7, 60.0)]) == [(0, 16), (75, 16), (75, 4), (100, 4)]
    assert sparkline([(0, 40.0)]) == [(100, 10), (100, 10)]
    assert sparkline(None) == []


def test_classes_are_compared_from_the_furthest_ahead_to_the_furthest_behind() -> None:
    chart = drawn(
        ahead=(compared("Robotics 3C", 20), compared("Fencing 2A", 10)),
        behind=(compared("Photography 3B", -20), compared("Gardening 3C", -0.5)),
    )
    assert [text for text, *_ in chart.titles] == ["Robotics 3C", "Fencing 2A", "Gardening 3C", "Photography 3B"]
    assert texts(chart) == ["+20.0", "+10.0", f"{MINUS}0.5", f"{MINUS}20.0"]
    assert [(x, width, colour) for x, _, width, _, colour in chart.bars] == [
        (50, 34, "good"), (50, 17, "good"), (49.15, pytest.approx(0.85), "bad"), (16, 34, "bad"),
    ]  # fmt: skip
    assert chart.alt.endswith(
        " Furthest ahead: Robotics 3C: +20.0; Fencing 2A: +10.0."
        f" Furthest behind: Photography 3B: {MINUS}20.0; Gardening 3C: {MINUS}0.5."
    )


def test_a_line_of_percent_spans_at_least_ten_points() -> None:
    chart = drawn(trend=month(60.0, 61.0))
    (points,) = [points for points, _, width in chart.lines if width == 2]
    low, high = (y for _, y in points)
    assert low - high == pytest.approx((128 - 36 - 8) / 10, abs=0.1)


def test_a_line_has_labels_at_both_ends_and_skips_missing_days() -> None:
    chart = drawn(trend=month(None, 60.0, None, 62.0))
    assert texts(chart) == [
        *("26 Oct", "23 Oct", "Completion, %", "no values"),
        *("Score", "60.0", "62.0", "Active within 7 days, %", "no values"),
    ]
    (points,) = [points for points, _, width in chart.lines if width == 2]
    assert [x for x, _ in points] == [38, 86]
    assert chart.alt == "3 lines from 23 Oct to 26 Oct. score: 60.0 to 62.0."


def test_the_outcomes_of_nights_are_drawn_and_told() -> None:
    chart = drawn(nights=nights("synced", "unproven", "held", "failed", "missing", "discarded"))
    assert [colour for *_, colour in chart.bars] == ["good", "warn", "warn", "bad", "bad", "muted"]
    assert texts(chart) == ["?", "!", CROSS, DASH, "/", "28 Oct"]
    assert [(mark, words) for mark, _, words in chart.legend] == [
        *((SQUARE, "synced"), ("?", "unproven"), ("!", "held")),
        *((CROSS, "failed"), (DASH, "missing"), ("/", "discarded")),
    ]
    assert chart.alt == (
        "A row of squares, one per night: 1 of 6 synced."
        " 24 Oct unproven; 25 Oct held; 26 Oct failed; 27 Oct missing; 28 Oct discarded."
    )


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ("held", "brought more changes than a normal night does, so a person must approve it first."),
        ("failed", "failed: nothing of that night is known yet. Its operator sees why in the log."),
        ("missing", "did not take place."),
        ("discarded", "was discarded by a person."),
    ],
)
def test_a_night_that_brought_nothing_replaces_the_verdict(outcome: str, words: str) -> None:
    html = morning.render(replace(EMPTY, nights=nights(outcome)), [], at=datetime(2026, 10, 24, tzinfo=UTC))
    sentence = f"The sync of Friday, 23 Oct 2026 {words} It brought 1,600 students and 40 classes."
    assert f"<strong>These are Friday&rsquo;s figures.</strong> {sentence}\n</div>" in html
    assert "These are the records of Friday, 23 Oct 2026: 0 students and 0 active classes." in html
    assert "complete" not in html
    assert "to watch on this first night" not in html
