"""The data dictionary and its cookbook: never stale, and every question answered on the sandbox's fortnight."""

from __future__ import annotations

import re

import duckdb
import pytest

from pipelines.settings import ROOT
from pipelines.store import relations
from pipelines.tables import TABLES
from pipelines.views import catalog, dictionary, metrics
from pipelines.views.dictionary import Recipe
from tests.support.warehouses.school import School

RECIPES = dictionary.cookbook()


def test_the_committed_dictionary_is_what_the_declarations_give() -> None:
    """Else: run `rollbook docs`."""
    assert (ROOT / "warehouse" / "README.md").read_text(encoding="utf-8") == dictionary.render()


def test_it_shows_every_table_view_macro_and_column_with_its_meaning() -> None:
    text = dictionary.render()
    for t in TABLES.values():
        assert f"\n### {t.name}\n\n{t.comment}" in text
        for c in t.columns:
            assert f"| `{c.name}` | {c.type} | {c.comment} |" in text
        assert f"\n### {t.name}\n\n{t.comment}\n\nKey: `{'`, `'.join(t.key)}`." in text
        for prefix in ("history", "snapshots", "spans"):
            assert f"`{prefix}.{t.name}`" in text
    for r in relations.KEPT:
        assert f"### {r.name if r.schema == 'main' else f'{r.schema}.{r.name}'}\n\n{r.comment}" in text
        assert all(c.comment in text for c in r.columns)
    for q in catalog.views():
        assert f"\n### {q.name}\n\n{q.comment}" in text
        assert all(re.search(rf"\| `{name}` \| [A-Z]+ \| {re.escape(about)} \|", text) for name, about in q.columns)
        key = ", ".join(f"`{k}` (may be NULL)" if k in q.nullable else f"`{k}`" for k in q.key)
        assert f"\n### {q.name}\n\n{q.comment}\n\nKey: {key}." in text
    for m in catalog.macros():
        assert f"| `{m.call}` | {m.comment} |" in text
    for measure in metrics.METRICS:
        assert f"| `{measure.name}` | {', '.join(measure.grain)} | {measure.definition} |" in text
    assert "erDiagram" in text


def test_it_says_what_each_table_and_view_joins_and_where_a_key_may_be_null() -> None:
    lines = dictionary.render().splitlines()
    assert "Key: `student_id`, `class_id`. `student_id` joins `students`; `class_id` joins `classes`." in lines
    assert "Key: `class_id`. `course_id` joins `courses`; `teacher_id` joins `teachers`." in lines
    assert (
        "Key: `snapshot_date`, `table_name`, `student_id` (may be NULL), `class_id` (may be NULL), `change`, `column_name`"
        " (may be NULL). `student_id` joins `students`; `class_id` joins `classes`."
    ) in lines
    assert lines.count("Key: `course_id`.") == 1


def test_the_cookbook_holds_twenty_questions() -> None:
    assert len(RECIPES) == len({r.question for r in RECIPES}) == 20
    assert all(r.question.endswith("?") for r in RECIPES)
    text = dictionary.render()
    assert all(f"### {n}. {r.question}\n\n```sql\n{r.sql}\n```" in text for n, r in enumerate(RECIPES, start=1))


@pytest.mark.parametrize("recipe", RECIPES, ids=[str(n) for n in range(1, len(RECIPES) + 1)])
def test_a_question_of_the_cookbook_returns_rows(recipe: Recipe, fortnight: School) -> None:
    rows = fortnight.rows(recipe.sql)
    assert rows
    assert all(any(value is not None for value in row) for row in rows)


def test_the_newest_day_can_be_asked_for_by_a_variable(fortnight: School) -> None:
    told = "`SET VARIABLE day = (SELECT MAX(day)\n  FROM calendar)`, then `WHERE snapshot_date = getvariable('day')`"
    assert told in dictionary.render()
    with duckdb.connect(fortnight.published, read_only=True) as con:
        con.execute("SET VARIABLE day = (SELECT MAX(day) FROM calendar)")
        asked = "SELECT student_id, completion_rate, class_count FROM {} ORDER BY ALL"
        newest = con.execute(asked.format("student_daily WHERE snapshot_date = getvariable('day')")).fetchall()
        assert newest == con.execute(asked.format("student_progress")).fetchall()


def test_the_roster_of_a_day_is_what_was_landed_on_it(fortnight: School) -> None:
    """The cookbook's second question, answered from the snapshot of that day instead of from history."""
    asked = fortnight.rows(RECIPES[1].sql)
    landed = fortnight.rows(
        """SELECT s.student_id, s.name, s.reference_id
           FROM snapshots.student_classes AS e INNER JOIN snapshots.students AS s USING (student_id, snapshot_date)
           WHERE e.class_id = 5012 AND snapshot_date = DATE '2026-10-01'"""
    )
    # A student silent about the classes on that day is still in what was known: history may hold more, never fewer.
    assert set(landed) <= set(asked)
    assert len(asked) - len(landed) <= 2
    assert landed


def test_who_fell_since_last_month_fell_between_the_two_snapshots(fortnight: School) -> None:
    asked = {(r[0], r[2], r[3]) for r in fortnight.rows(RECIPES[0].sql)}
    summaries = fortnight.frame("SELECT * FROM snapshots.student_summaries").set_index(["snapshot_date", "student_id"])
    then, now = summaries.loc["2026-09-30"].completion_rate, summaries.loc["2026-10-07"].completion_rate
    both = then.to_frame("then").join(now.to_frame("now"), how="inner")
    fell = both[both.then - both.now > 20]
    assert asked == {(i, r.then, r.now) for i, r in fell.iterrows()}
