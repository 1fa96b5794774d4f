"""`rollbook explore`: a small web app over the published file, for people who do not write SQL.

    server.py    serves the pages, and logs each view: behind the guard of `util.request_guard`, on this machine,
    login.py     or behind a proxy with the school's sign-in
    readers.py   `readers.csv`: who sees what
    scope.py     what a reader sees of a night, enforced in SQL
    pages.py     what each page shows: a function per page, a template `<name>.html`; long queries are in `sql/`
    book.py      reads the published file, for one view: all of it, or what a reader sees

Pages are rendered here, of plain links and forms: what is shown is in the address, so that it can be reloaded, kept and
gone back to. They have the look and the charts of the morning page (`util/pages`). The app only reads: each view opens
the published file again, so a newer night is seen at the next click.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rollbook.feature import Feature

if TYPE_CHECKING:
    from rollbook.health.finding import Finding
    from rollbook.opened import Rollbook


class Explore(Feature):
    """The web app, and who sees what in it."""

    name = "explore"
    needs = ("morning", "pages", "why")
    settings = "rollbook.features.explore.settings:ExploreSettings"

    def commands(self) -> None:
        """`rollbook explore` and `rollbook readers`."""
        from rollbook.features.explore import commands  # noqa: F401 - it adds itself

    def lines(self, opened: Rollbook) -> Iterator[Finding]:
        """Whether readers.csv can be read, if there is one."""
        from rollbook.errors import SettingError
        from rollbook.features.explore import readers
        from rollbook.health.finding import Finding, Level
        from rollbook.util.text import count_of

        try:
            if lines := readers.read(opened.place.warehouse.root / readers.FILE):
                says = f"{readers.FILE} has {count_of(len(lines), 'login')}; `rollbook readers` says who sees whom"
                yield Finding("readers", Level.OK, says)
        except SettingError as error:
            yield Finding("readers", Level.WARNING, f"{error.message}. Until then nobody sees anything in explore")


FEATURE = Explore()
