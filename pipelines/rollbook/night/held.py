"""What a held landing would change for readers: which students and classes would go, and from which classes.

The landing is composed, merged and compared in a private folder in `build/`, which is removed at the end; nothing else
is written, and the landing stays held.
"""

from __future__ import annotations

from dataclasses import dataclass

from rollbook.landing.manifest import Manifest, TableCounts
from rollbook.night.diff import trial
from rollbook.night.place import Place
from rollbook.night.policy import HoldLimits
from rollbook.night.stages import Landed, evaluate, merge_beside
from rollbook.store.database import connect, literal


@dataclass(frozen=True)
class Going:
    """The rows that readers would lose if a held landing were merged.

    `students` are ids and names; `classes` are titles, each with the students listed now, how many of them would go,
    and whether the class itself would. `counts` are the changes in each current table.
    """

    counts: tuple[TableCounts, ...]
    students: tuple[tuple[int, str], ...]
    classes: tuple[tuple[str, int, int, bool], ...]


def going(place: Place, held: Manifest, limits: HoldLimits) -> Going:
    """Compare what is published with what would be after the approval of a held landing. Takes no writer lock.

    Raises BehindError as `diff.trial`, and ContractChangedError.
    """
    with trial(place, held.snapshot_date) as aside:
        evaluation = evaluate(aside, Landed(held), limits)
        _, merged = merge_beside(aside, evaluation.composed)
        with connect(scratch=aside.warehouse.scratch, published=place.warehouse.published_file) as con:
            con.execute(f"ATTACH {literal(aside.warehouse.next)} AS next (READ_ONLY)")
            students = con.execute("""
                SELECT student_id, name FROM published.main.students ANTI JOIN next.main.students USING (student_id)
                ORDER BY name, student_id
            """).fetchall()
            classes = con.execute("""
                SELECT
                    ANY_VALUE(COALESCE(c.class_title, e.class_title)) AS title,
                    COUNT(e.student_id) AS students,
                    COUNT(e.student_id) FILTER (n.student_id IS NULL) AS leaving,
                    c.class_id IS NOT NULL AND BOOL_AND(k.class_id IS NULL) AS closes
                FROM published.main.student_classes AS e
                FULL JOIN published.main.classes AS c USING (class_id)
                LEFT JOIN next.main.student_classes AS n USING (class_id, student_id)
                LEFT JOIN next.main.classes AS k USING (class_id)
                GROUP BY class_id, c.class_id
                HAVING leaving > 0 OR closes
                ORDER BY leaving DESC, title, class_id
            """).fetchall()
    return Going(merged.counts, tuple(students), tuple(classes))
