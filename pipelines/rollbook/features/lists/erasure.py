"""Removes erased students from the files of the school's own lists."""

from __future__ import annotations

from pathlib import Path

from rollbook.features.lists.folder import FOLDER, forget
from rollbook.night.listeners import ErasureUnderWay, Listener

LABELS = {"lists": "lines of the school's own lists in own/, removed"}
TO_DO = (
    f"Other files than CSV in {FOLDER}/, and those that the office keeps, were not searched: take the student out"
    " there, too. Nights leave out lines about the student.",
)


class Files(Listener):
    """The files of the warehouse at `root`."""

    name = "the school's own lists"

    def __init__(self, root: Path) -> None:
        self.root = root

    def erased(self, erased: ErasureUnderWay) -> None:
        """Remove an erased student's lines."""
        erased.counts["lists"] = erased.counts.get("lists", 0) + forget(self.root, erased.erased)
