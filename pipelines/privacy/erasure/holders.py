"""What else holds an erased student, besides raw bodies, snapshots and the published file.

A holder removes the erased students from what it keeps and returns how many things it changed; None if it does not
apply. It runs after the publish, and again after a kill, so it is idempotent. Its name in HOLDERS has a label in
`certificate.LABELS`.
"""

from __future__ import annotations

from collections.abc import Callable

from pipelines.privacy.codes import Codes
from pipelines.privacy.pseudonymous import Pseudonymous
from pipelines.store.published import fleet_file
from pipelines.store.warehouse import Warehouse

Gone = Callable[[int], bool]
Holder = Callable[[Warehouse, Gone], int | None]


def _codes(warehouse: Warehouse, gone: Gone) -> int:
    """Remove codes, and pseudonymous files that hold the student; returns the number of codes."""
    codes = Codes(warehouse.root)
    release = codes.load()
    known = [student for student in (release.codes if release else {}) if gone(student)]
    forgotten = sum(codes.forget(student) for student in known)
    file = Pseudonymous(warehouse, wanted=True)
    if file.is_current():
        file.drop_older()
    else:  # not made again, so it holds the student; the next writer makes it if it is wanted
        file.versions.clear()
    return forgotten


def _fleet(warehouse: Warehouse, gone: Gone) -> int | None:  # noqa: ARG001 - the publish has left the student out
    """Remove the fleet's files with all their versions; returns the number of versions.

    The files are not rebuilt here: they hold all institutions, so this writer would have to read the others' files for
    minutes under its own lock, and an erasure must not wait for another school's damaged file.
    """
    return None if warehouse.fleet is None else fleet_file.remove_all(warehouse.fleet)


HOLDERS: dict[str, Holder] = {"codes": _codes, "fleet": _fleet}
