"""`rollbook pages`: progress reports, a page for each student, class and teacher.

paper.py      for whom
progress.py   the pages: their rows, charts and files
commands.py   the command
"""

from __future__ import annotations

from rollbook.feature import Feature


class Pages(Feature):
    """Progress reports to print or to hand out."""

    name = "pages"

    def commands(self) -> None:
        """`rollbook pages`."""
        from rollbook.features.pages import commands  # noqa: F401 - it adds itself


FEATURE = Pages()
