"""The setting of the morning page."""

from __future__ import annotations

from rollbook.settings import Group, setting


class MorningSettings(Group):
    """The morning page."""

    report_names: bool = setting(
        False,
        "whether the file `report.html` names the students to watch; by default it only counts them, as the page in the"
        " UI always does",
        example="true",
    )
