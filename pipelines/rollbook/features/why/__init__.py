"""`rollbook why`: where a row or a value comes from.

provenance.py   traces a row to the landing, the request and the bytes that it came from
commands.py     the command
"""

from __future__ import annotations

from rollbook.feature import Feature


class Why(Feature):
    """Where a value comes from."""

    name = "why"

    def commands(self) -> None:
        """`rollbook why`."""
        from rollbook.features.why import commands  # noqa: F401 - it adds itself


FEATURE = Why()
