"""How values are put into words and rows into HTML."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pytest

from pipelines.explore import pages

HOSTILE = '<img src=x onerror="alert(1)">'
SAFE = "&lt;img src=x onerror=&#34;alert(1)&#34;&gt;"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "\N{EN DASH}"), (True, "yes"), (False, "no"), (0, "0"), (12345, "12,345"), (50.0, "50"), (66.666, "66.67"),
        (date(2026, 10, 7), "2026-10-07"), (datetime(2026, 10, 7, 2, 16, 5), "2026-10-07 02:16:05")  # noqa: DTZ001 - as DuckDB gives it
       , ("a\nb", r"a\nb"),
    ],
)  # fmt: skip
def test_a_value_is_put_into_words(value: Any, text: str) -> None:
    assert pages.cell(value) == text


def test_what_came_from_outside_is_text_everywhere() -> None:
    drawn = [
        pages.table((HOSTILE,), [(HOSTILE,), (pages.Link(HOSTILE, "?page=student&student_id=7"),)]),
        pages.figures([(HOSTILE, HOSTILE, HOSTILE)]),
        pages.heading(HOSTILE, HOSTILE),
        pages.verdict(HOSTILE, HOSTILE, good=False),
        pages.line(HOSTILE, [(date(2026, 10, 6), 1.0), (date(2026, 10, 7), 2.0)]),
    ]
    for part in drawn:
        assert "<img" not in part
        assert SAFE in part


def test_numbers_are_on_the_right_and_ids_without_separators() -> None:
    made = pages.table(("class_id", "students", "title"), [(500000, 1234, "A"), (None, 5, "B")], ids=(0,))
    row = '<tr><td>500000</td><td class="rb-number">1,234</td><td>A</td></tr>'
    assert row in made
    assert '<th class="rb-number">students</th>' in made


def test_a_line_needs_two_days_on_which_the_value_is_known() -> None:
    first, second = date(2026, 10, 6), date(2026, 10, 7)
    assert "Too few days" in pages.line("Score", [(first, 1.0), (second, None)])
    drawn = pages.line("Score", [(first, 50.0), (second, 60.0)])
    assert 'aria-label="Score: 50.0 on 2026-10-06, 60.0 on 2026-10-07"' in drawn
    assert 'points="0.0,100.0 100.0,0.0 "' in drawn
