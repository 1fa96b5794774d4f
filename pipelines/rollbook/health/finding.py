"""A line about how something is doing."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Level(StrEnum):
    """The severity of a finding. Only `failed` keeps a sync from running."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


class Finding(msgspec.Struct, frozen=True):
    """One line: what was checked, its level, and a sentence on what was found and what to do."""

    what: str
    level: Level
    says: str
