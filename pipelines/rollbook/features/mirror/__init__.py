"""The copy of a warehouse in an object store (ROLLBOOK_LAKE): S3 or a compatible store, or a folder elsewhere.

mirror.py     brings the copy up to date, proves it, and restores a warehouse from it
commands.py   `rollbook mirror`
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from rollbook.feature import Feature

if TYPE_CHECKING:
    from rollbook.health.finding import Finding
    from rollbook.night.listeners import Listener
    from rollbook.opened import Rollbook
    from rollbook.rights.personal import PersonalData


class MirrorCopy(Feature):
    """The off-site copy."""

    name = "mirror"
    settings = "rollbook.features.mirror.settings:MirrorSettings"

    def commands(self) -> None:
        """`rollbook mirror`."""
        from rollbook.features.mirror import commands  # noqa: F401 - it adds itself

    def listener(self, opened: Rollbook) -> Listener:
        """Copies what a writer wrote."""
        from rollbook.features.mirror.mirror import Mirror

        return Mirror(opened.settings, opened.bound_to)

    def lines(self, opened: Rollbook) -> Iterator[Finding]:
        """When the copy was last proven."""
        from rollbook.features.mirror.mirror import NEEDS_EXTRA, Mirror
        from rollbook.health.finding import Finding, Level

        copy = opened.find(Mirror)
        if copy is not None and copy.url and find_spec("obstore") is None:
            yield Finding("copy", Level.WARNING, NEEDS_EXTRA)
        elif copy is not None and (says := copy.remark()):
            state = copy.state()
            is_proven = state.proven_at is not None and not (state.unproven or state.failed)
            yield Finding("copy", Level.OK if is_proven else Level.WARNING, says)

    def personal(self, root: Path) -> PersonalData:  # noqa: ARG002 - the same everywhere
        """The copy is updated when an erasure ends."""
        from rollbook.rights.personal import PersonalData

        return PersonalData(
            to_do=(
                "The copy in an object store (ROLLBOOK_LAKE), if there is one, is updated when the erasure ends:"
                " `rollbook mirror status` says whether it was. Old versions that the store keeps still hold the"
                " student: delete them.",
            )
        )


FEATURE = MirrorCopy()
