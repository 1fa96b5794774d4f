"""`rollbook pages`: progress reports, a page for each student, class and teacher.

paper.py      for whom, and on what paper
progress.py   the pages: their rows, charts and files
printing.py   their PDF
commands.py   the command
"""

from __future__ import annotations

from rollbook.feature import Feature


class Pages(Feature):
    """Progress reports to print or to hand out."""

    name = "pages"
    settings = "rollbook.features.pages.paper:PaperSettings"

    def commands(self) -> None:
        """`rollbook pages`."""
        from rollbook.features.pages import commands  # noqa: F401 - it adds itself


FEATURE = Pages()
