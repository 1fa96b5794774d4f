"""`rollbook thresholds`: what the reasons to watch did in the past, and what others would have done; and the weeks
before and after students were spoken to.

commands.py   the command
page.py       the page, `exports/thresholds.html`, with its template beside it

The figures are `rollbook.reading.thresholds`, which the notebook shows, too, and `rollbook.reading.contacts`.
"""

from __future__ import annotations

from rollbook.feature import Feature


class Thresholds(Feature):
    """What the thresholds did."""

    name = "thresholds"

    def commands(self) -> None:
        """`rollbook thresholds`."""
        from rollbook.features.thresholds import commands  # noqa: F401 - it adds itself


FEATURE = Thresholds()
