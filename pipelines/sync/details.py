"""Chooses the students whose details are fetched, which needs all parts of the sync."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from pipelines.settings import Details
from pipelines.source.fetch import Draft

if TYPE_CHECKING:
    from pipelines.sync.rollbook import Rollbook


def chosen(rollbook: Rollbook, details: Details, draft: Draft) -> list[int]:
    """Return the students whose details to fetch: all or the changed ones, except the just fetched and the erased."""
    students = sorted(draft.ids["students"]) if details == "all" else rollbook.composer.changed_students(draft)
    since = rollbook.clock() - timedelta(minutes=rollbook.settings.cache_minutes)
    fetched = rollbook.landings.details_since(draft.manifest.snapshot_date, since)
    gone = rollbook.raw.memory.matcher()
    return [student for student in students if student not in fetched and student not in gone]
