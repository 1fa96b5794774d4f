"""The data dictionary and the cookbook: never stale, and every question answered on the sandbox's fortnight."""

from __future__ import annotations

import pytest

from rollbook.assembly import chapters
from rollbook.settings import ROOT
from rollbook.views import catalog, dictionary
from rollbook.views.dictionary import Recipe
from tests.support.warehouses.school import School

pytestmark = pytest.mark.every_feature

RECIPES = dictionary.cookbook()


def test_the_committed_dictionary_is_what_the_declarations_give() -> None:
    """Else: run `rollbook docs`."""
    assert (ROOT / "warehouse" / "README.md").read_text(encoding="utf-8") == dictionary.render(chapters())


@pytest.mark.parametrize("recipe", RECIPES, ids=[str(n) for n in range(1, len(RECIPES) + 1)])
def test_a_question_of_the_cookbook_returns_rows(recipe: Recipe, fortnight: School) -> None:
    rows = fortnight.rows(recipe.sql)
    assert rows
    assert all(any(value is not None for value in row) for row in rows)


@pytest.mark.parametrize("name", catalog.VIEWS)
def test_the_header_of_a_view_names_its_columns_in_order(fortnight: School, name: str) -> None:
    """A line that is not read as a column's would leave the column without a comment."""
    assert [column for column, _ in catalog.view(name).columns] == [c for c, *_ in fortnight.rows(f"DESCRIBE {name}")]


def test_the_roster_of_a_day_is_what_was_landed_on_it(fortnight: School) -> None:
    """The cookbook's second question, answered from the snapshot of that day instead of from history."""
    rows = fortnight.rows(RECIPES[1].sql)
    landed = fortnight.rows(
        """SELECT s.student_id, s.name, s.reference_id
           FROM snapshots.student_classes AS e INNER JOIN snapshots.students AS s USING (student_id, snapshot_date)
           WHERE e.class_id = 9000 AND snapshot_date = DATE '2026-10-01'"""
    )
    # A student whose classes were not stated on that day keeps the classes known before: history may hold more, never
    # fewer.
    assert set(landed) <= set(rows)
    assert len(rows) - len(landed) <= 2
    assert landed


def test_students_missing_more_work_match_the_two_snapshots(fortnight: School) -> None:
    rows = {(r[0], r[2], r[3]) for r in fortnight.rows(RECIPES[0].sql)}
    activity = fortnight.frame("SELECT * FROM snapshots.student_activity").set_index(["snapshot_date", "student_id"])
    then, now = (activity.loc[day].assignment_missing_count for day in ("2026-09-30", "2026-10-07"))
    both = then.to_frame("then").join(now.to_frame("now"), how="inner")
    landed = {(i, r.then, r.now) for i, r in both[both.now > both.then].iterrows()}
    assert landed
    assert landed <= rows  # for a student who was silent on a day, history holds what was known
    assert len(rows - landed) <= 5
