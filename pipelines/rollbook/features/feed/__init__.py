"""The feed: what became different for readers since a publish, for another system that polls.

feed.py         the tables, the macro `changes_since`, and what fills them
dictionary.md   its chapter of the data dictionary
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rollbook.feature import Feature

if TYPE_CHECKING:
    from rollbook.tables import Relation
    from rollbook.views.additions import Connection, NextFile
    from rollbook.views.catalog import Macro
    from rollbook.views.dictionary import Chapter


class Feed(Feature):
    """What became different since a publish."""

    name = "feed"

    def relations(self) -> Iterable[Relation]:
        """The last publishes, and what each made different."""
        from rollbook.features.feed.feed import FEED, PUBLISHES

        return PUBLISHES, FEED

    def macros(self, version: str) -> Iterable[Macro]:
        """`changes_since`."""
        from rollbook.features.feed.feed import changes_since

        return (changes_since(version),)

    def look(self, con: Connection) -> object:
        """Who is to watch in the published file: in a large school, that takes a second."""
        from rollbook.features.feed.feed import watched

        return watched(con, "published.")

    def fill(self, con: Connection, file: NextFile) -> None:
        """Record what the next file makes different; or begin an epoch, where that cannot be told."""
        from rollbook.features.feed.feed import begin, record

        if file.base is None:
            begin(con)
        else:
            record(con, file.since, sorted(file.touched), file.declared, file.ahead.get(self.name))

    def chapters(self) -> Iterable[Chapter]:
        """How another system polls."""
        from rollbook.features.feed.feed import chapter

        return [chapter()]


FEATURE = Feed()
