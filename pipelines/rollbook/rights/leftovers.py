"""Files of features that are not there any more, which may hold pupils' records: nobody keeps them up to date, and an
erasure would leave them as they are.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from rollbook.landing.erased import PRIVATE
from rollbook.store.published import PSEUDONYMOUS, PSEUDONYMOUS_FOLDER, REPORT
from rollbook.store.warehouse import BUILD

# Below the warehouse's folder. The list stands here, since the feature's own folder may be gone.
FILES = {
    "pseudonymous": (PSEUDONYMOUS, PSEUDONYMOUS_FOLDER, f"{PRIVATE}/codes.json"),
    "morning": (REPORT,),
    "mirror": (f"{PRIVATE}/mirror.json",),  # where a copy is
    "alerts": (f"{BUILD}/alerts.json",),
}


def leftovers(root: Path, present: Collection[str]) -> list[Path]:
    """Return the files in the warehouse at `root` of features that are not among those `present`."""
    gone = (path for name, paths in FILES.items() if name not in present for path in paths)
    return [path for path in (root / each for each in gone) if path.is_symlink() or path.exists()]
