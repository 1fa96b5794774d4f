"""Files of features that are not there any more, which may hold pupils' records: nobody keeps them up to date, and an
erasure would leave them as they are.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from rollbook.landing.erased import PRIVATE
from rollbook.store.district import DISTRICT_REPORT
from rollbook.store.published import (
    DISTRICT_FILE,
    DISTRICT_PSEUDONYMOUS,
    FOLDER,
    PSEUDONYMOUS,
    PSEUDONYMOUS_FOLDER,
    REPORT,
)
from rollbook.store.warehouse import BUILD

# Below the warehouse's folder. The list stands here, since the feature's own folder may be gone.
FILES = {
    "lists": ("own", "own-public.csv"),
    "pseudonymous": (PSEUDONYMOUS, PSEUDONYMOUS_FOLDER, f"{PRIVATE}/codes.json"),
    "morning": (REPORT,),
    "share": (f"{PRIVATE}/shares.json",),  # who may have copied from the file
    "mirror": (f"{PRIVATE}/mirror.json",),  # where a copy is
    "alerts": (f"{BUILD}/alerts.json",),
}


# In the folder that the institutions of a district share.
OF_DISTRICT = (
    *(DISTRICT_FILE, FOLDER, DISTRICT_PSEUDONYMOUS, PSEUDONYMOUS_FOLDER, DISTRICT_REPORT),
    "district/state",  # how the nights ended
)


def leftovers(root: Path, district: Path | None, present: Collection[str]) -> list[Path]:
    """Return the files of features that are not among those `present`: in the warehouse at `root`, and around the
    `district`'s own folder.
    """
    gone = (path for name, paths in FILES.items() if name not in present for path in paths)
    of_many = () if district is None or "district" in present else (district.parent / each for each in OF_DISTRICT)
    return [path for path in (*(root / each for each in gone), *of_many) if path.is_symlink() or path.exists()]
