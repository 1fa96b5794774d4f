"""Which columns name a row of another table or view: `class_id` joins `classes`.

By their names: a set's key names a record of that set, and a column that is the whole key of a view (`course_id` of
`courses`) names one of its rows. A row that is joined may be missing: from history and from changes records may have
left, and a student's record may list a class that the class list lacks.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from pipelines.tables import SETS, owner
from pipelines.views import catalog


@cache
def targets() -> dict[str, str]:
    """The table or view in `main` that a column of this name joins."""
    of_views = {v.key[0]: v.name for v in reversed(catalog.views()) if len(v.key) == 1 and v.key[0].endswith("_id")}
    return of_views | {s.key: owner(s.key).name for s in SETS.values()}


def joins(name: str, columns: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Each column of a table or view that joins another one, with that one's name."""
    return tuple((c, targets()[c]) for c in columns if c in targets() and targets()[c] != name)
