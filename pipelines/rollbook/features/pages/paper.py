"""For whom the pages are, and on what paper: what the command needs to know before it makes any."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator

from rollbook.settings import Group, setting
from rollbook.views.metrics import SMALL_CLASS

A4 = "A4"
FAMILY_CLASS = 10  # students: an average of fewer may tell a family of another child


class Edition(StrEnum):
    """For whom the pages are."""

    STAFF = "staff"
    FAMILY = "family"

    @property
    def least(self) -> int:
        """The fewest students of a class whose averages are shown."""
        return SMALL_CLASS if self is Edition.STAFF else FAMILY_CLASS

    def folder(self, chosen: str) -> str:
        """The name of a folder of chosen pages: `class-501`, `family-class-501`; without a choice `all`, `family`."""
        return "-".join(filter(None, ("family" if self is Edition.FAMILY else "", chosen))) or "all"


def _size(value: str) -> str:
    if value.strip().lower() not in ("a4", "letter"):
        raise ValueError("must be A4 or Letter")
    return value.strip()


class PaperSettings(Group):
    """Progress reports."""

    paper: Annotated[str, AfterValidator(_size)] = setting(
        A4, "the paper of the progress reports that `rollbook pages --pdf` prints: `A4` or `Letter`", example="Letter"
    )
