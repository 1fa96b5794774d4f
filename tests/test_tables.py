"""The declarations themselves: what everything else is made from holds together."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from rollbook.errors import DeclarationError
from rollbook.feature import relations
from rollbook.settings import ROOT
from rollbook.store import schema
from rollbook.tables import TABLES, Table, fingerprint
from rollbook.views import catalog

# Column by column: the contract's fields, flattened.
COLUMNS = {
    "students": "student_id email name first_name last_name reference_id profile_image registration_date is_registered",
    "student_summaries": "student_id total_assignments completed_assignments completion_rate average_score"
    " total_assessments completed_assessments total_time_minutes last_activity_date",
    "student_activity": "student_id first_login_date last_activity_date days_since_last_activity"
    " assignment_submission_count assignment_missing_count has_ever_logged_in",
    "student_classes": "student_id class_id class_title course_name",
    "classes": "class_id class_title class_code class_status class_room class_dateadded course_id course_name"
    " teacher_id teacher_name teacher_email student_count",
    "class_summaries": "class_id average_completion_rate average_score total_engagement_minutes",
    "class_assignment_activity": "class_id has_assignments assignment_count first_assignment_date last_assignment_date"
    " students_enrolled students_with_submissions students_without_submissions",
    "student_details": "student_id payload fetched_at",
    "institution": "school_id school_name school_key api_key_name",
}


def test_every_column_of_text_says_whether_it_is_personal() -> None:
    """Somebody must decide, since what is personal is left out of the pseudonymous file."""
    declared = [*schema.declared(), schema.OBSERVED, *relations()]
    texts = [(f"{r.schema}.{r.name}", c) for r in declared for c in r.columns if c.is_text]
    assert len(texts) > 60
    assert [(name, c.name) for name, c in texts if c.personal is None] == []


def test_columns_that_name_a_person_are_personal() -> None:
    assert [(t.name, c.name) for t in TABLES.values() for c in t.columns if c.personal] == [
        *(("students", c) for c in ["email", "name", "first_name", "last_name", "reference_id", "profile_image"]),
        ("classes", "teacher_name"),
        ("classes", "teacher_email"),
        ("student_details", "payload"),
        ("institution", "api_key_name"),
    ]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"personal": None}, r"classes\.class_room may hold text: declare personal=True or personal=False"),
        ({"name": "valid_to"}, r"classes\.valid_to has the name of a column of Rollbook's own"),
        ({"name": "class_id"}, r"classes\.class_id is part of the key: declare it required=True"),
        ({"name": "student_id"}, r"classes\.student_id would stay when the student is erased"),
    ],
)
def test_a_declaration_that_would_fail_later_is_refused(change: dict[str, Any], why: str) -> None:
    table = TABLES["classes"]
    column = replace(next(c for c in table.columns if c.name == "class_room"), **change)
    with pytest.raises(DeclarationError, match=why):
        catalog.check(replace(table, columns=(*table.columns, column)))


@pytest.mark.parametrize(
    ("name", "taken"), [("calendar", "main.calendar"), ("changes", "main.changes"), ("days", "spans.days")]
)
def test_a_table_named_like_a_view_or_table_is_refused(name: str, taken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TABLES, name, replace(TABLES["classes"], name=name))
    with pytest.raises(DeclarationError, match=f"has the name {taken}. Name the declared table otherwise"):
        catalog.check_names()


def test_the_fingerprint_is_the_same_in_every_process() -> None:
    program = "from rollbook.tables import fingerprint; print(fingerprint())"
    for seed in ("1", "2"):
        env = os.environ | {"PYTHONHASHSEED": seed}
        printed = subprocess.check_output([sys.executable, "-c", program], cwd=ROOT, env=env, text=True, timeout=60)
        assert printed.strip() == fingerprint()


def test_the_fingerprint_is_of_what_flattening_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Saying that a column is personal, or is not, changes no day of the lake."""
    before, table = fingerprint(), TABLES["classes"]

    def declared(**change: object) -> Table:
        changed = [replace(c, **change) if c.name == "class_room" else c for c in table.columns]  # type: ignore[arg-type]
        return replace(table, columns=tuple(changed))

    for personal in (None, False, True):
        monkeypatch.setitem(TABLES, "classes", declared(personal=personal))
        assert fingerprint() == before
    monkeypatch.setitem(TABLES, "classes", declared(required=True))
    assert fingerprint() != before
