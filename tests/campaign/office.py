"""The school's own list in a simulated warehouse, read in plain Python."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

LIST = "own/years.csv"
HEADING = "student_id,year"
# The year of each pupil; a text for a list that cannot be read; None where nobody can see which lists there are.
Years = Mapping[int, str] | str | None


def save(warehouse: Path, years: Mapping[int, str]) -> None:
    """Save the list."""
    path = warehouse / LIST
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([HEADING, *(f"{pupil},{year}" for pupil, year in years.items())]) + "\n")


def read(warehouse: Path) -> Years:
    """What a night finds."""
    path = warehouse / LIST
    if not path.parent.is_dir():
        return None
    if not path.is_file():
        return {}
    lines = path.read_bytes().decode("latin-1").splitlines()
    if lines[:1] != [HEADING] or any('"' in line for line in lines):
        return "unread"
    return {int(pupil): year for pupil, year in (line.split(",") for line in lines[1:])}
