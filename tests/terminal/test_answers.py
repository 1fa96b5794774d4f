"""A query's answer on a terminal: whole columns, and a single record on its side."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from rich.cells import cell_len

from rollbook.store.published import PUBLISHED
from rollbook.terminal import Terminal, answers
from rollbook.views import catalog
from tests.support.warehouses.school import School

Ask = Callable[[str, int], tuple[list[str], str]]


@pytest.fixture
def ask(fortnight: School, monkeypatch: pytest.MonkeyPatch) -> Ask:
    def asked(query: str, width: int) -> tuple[list[str], str]:
        shown, said = io.StringIO(), io.StringIO()
        for name, file in (("out", shown), ("err", said)):
            terminal = Terminal(file=file, force_terminal=True, width=width, color_system=None, legacy_windows=False)
            monkeypatch.setattr(answers, name, terminal)
        answers.show_answer(fortnight.warehouse, fortnight.warehouse / PUBLISHED, query, 50)
        return shown.getvalue().splitlines(), said.getvalue()

    return asked


@pytest.mark.parametrize("width", [20, 40, 80, 120])
def test_columns_are_whole_and_the_others_are_named(ask: Ask, fortnight: School, width: int) -> None:
    lines, said = ask("FROM progress_daily", width)
    headings = [heading.strip() for heading in lines[0].split("┃")]
    columns = [name for name, *_ in fortnight.rows("DESCRIBE progress_daily")]
    assert headings == columns[: len(headings)]
    assert len(lines) == 2 + len(fortnight.rows("FROM progress_daily"))  # no cell goes on in another line
    assert max(map(len, lines)) <= width
    left_out = columns[len(headings) :]
    assert said.startswith(f"{len(left_out)} more columns would not fit: {', '.join(left_out)}. Widen")
    assert "show one row whole with --rows 1" in said


def test_one_record_that_is_too_wide_is_shown_on_its_side(ask: Ask, fortnight: School) -> None:
    lines, said = ask("FROM student_progress LIMIT 1", 80)
    columns = [name for name, *_ in fortnight.rows("DESCRIBE student_progress")]
    assert [name for line in lines[2:] if (name := line.split("│")[0].strip())] == columns
    assert said == ""


def test_a_long_text_is_folded_and_what_fits_is_shown(ask: Ask) -> None:
    lines, said = ask("SELECT REPEAT('long ', 30) AS text, 1 AS one UNION ALL SELECT 'b', 2", 80)
    assert (len(lines), said) == (2 + 4 + 1, "")
    assert max(map(len, lines)) < 80


@pytest.mark.parametrize(
    ("view", "asked"),
    [
        ("students_to_watch", ["name", "severity", "reason"]),
        ("roster", ["class_title", "name", "teacher_name", "student_id"]),
    ],
)
def test_80_columns_show_what_a_view_is_asked_for(ask: Ask, fortnight: School, view: str, asked: list[str]) -> None:
    lines, said = ask(view, 80)
    assert [heading.strip() for heading in lines[0].split("┃")] == asked
    assert max(map(cell_len, lines)) <= 80
    columns = [name for name, *_ in fortnight.rows(f"DESCRIBE {view}")]
    assert f" would not fit: {', '.join(columns[len(asked) :])}." in said
    cells = [[cell.strip() for cell in line.split("│")] for line in lines[2:]]
    ((*first,),) = fortnight.rows(f"FROM {view}{catalog.view(view).order_by(columns)} LIMIT 1")
    whole = " ".join("" if value is None else str(value) for value in first[: len(asked)])
    until = next((n for n, row in enumerate(cells[1:], 1) if row[0]), len(cells))
    shown = [" ".join(filter(None, column)) for column in zip(*cells[:until], strict=True)]
    assert " ".join(shown) == whole, "folded, not cut"
