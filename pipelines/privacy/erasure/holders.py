"""What else holds an erased student, besides raw bodies, snapshots and the published file.

A holder removes the erased students from what it keeps and returns how many things it changed; None if it does not
apply. It runs after the publish, and again after a kill, so it is idempotent. Its name in HOLDERS has a label in
`certificate.LABELS`.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from pipelines.privacy.pseudonymous import Pseudonymous
from pipelines.store.published import fleet_file
from pipelines.store.warehouse import Warehouse

Gone = Callable[[int], bool]
Holder = Callable[[Warehouse, Gone], int | None]


def _codes(warehouse: Warehouse, gone: Gone) -> int:
    """Remove codes, and pseudonymous files that hold the student; returns the number of codes."""
    file = Pseudonymous(warehouse, wanted=True)
    release, forgotten = file.codes.load(), 0
    if release is not None:
        left = {student: code for student, code in release.codes.items() if not gone(student)}
        forgotten = len(release.codes) - len(left)
        if forgotten:
            file.codes.save(msgspec.structs.replace(release, codes=left))
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
