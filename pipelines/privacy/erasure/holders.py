"""Who else holds something of an erased student, beside raw bodies, snapshots and the published file.

A holder takes the student out of what it keeps and returns how much that was; None where there is no such thing. It
runs after the publish, and again after a kill. What it counts gets a label in `certificate.LABELS`, under its name in
HOLDERS.
"""

from __future__ import annotations

from collections.abc import Callable

from pipelines.privacy.codes import Codes
from pipelines.privacy.disclosure.releases import Releases
from pipelines.privacy.pseudonymous import Pseudonymous
from pipelines.store import fleet_file
from pipelines.store.parts import Parts
from pipelines.store.warehouse import Warehouse

Gone = Callable[[int], bool]
Holder = Callable[[Warehouse, Gone], int | None]


def _codes(warehouse: Warehouse, gone: Gone) -> int:
    """The table of codes, and the pseudonymous files that were made with the student in them."""
    codes = Codes(warehouse.root)
    release = codes.load()
    known = [student for student in (release.codes if release else {}) if gone(student)]
    forgotten = sum(codes.forget(student) for student in known)
    file = Pseudonymous(warehouse, wanted=True)
    if file.is_current():
        file.drop_older()
    else:  # one that could not be made again holds the student; the next writer makes it if it is wanted
        file.versions.clear()
    return forgotten


def _releases(warehouse: Warehouse, gone: Gone) -> int:
    """Whose figures were released, week by week."""
    releases = Releases(warehouse.root)
    known = {student for release in releases.all() for cohort in release.cohorts for student in cohort.students}
    return releases.forget(student for student in known if gone(student))


def _fleet(warehouse: Warehouse, gone: Gone) -> int | None:  # noqa: ARG001 - the publish has left the student out
    """What the institution gives its fleet, and the fleet's own files with all their versions.

    They are removed, not made again here: they hold all institutions, whose parts this one's writer would have to
    read, for minutes and with its own lock held; and an erasure must not wait for another school's damaged file.
    """
    if warehouse.fleet is None:
        return None
    parts = Parts(warehouse)
    if not parts.is_current():  # what could not be written again holds the student
        parts.clear()
    parts.forget_earlier_names()
    return fleet_file.remove_all(warehouse.fleet)


HOLDERS: dict[str, Holder] = {"codes": _codes, "releases": _releases, "fleet": _fleet}
