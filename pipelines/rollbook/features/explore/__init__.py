"""`rollbook explore`: a small web app on loopback over the published file, for people who do not write SQL.

    server.py    serves the pages behind the guard of `util.request_guard`, and logs each view
    pages.py     what each page shows: a function per page, a template `<name>.html`; long queries are in `sql/`
    book.py      reads the published file, for one view

Pages are rendered here, of plain links and forms: what is shown is in the address, so that it can be reloaded, kept and
gone back to. They have the look and the charts of the morning page (`util/pages`). The app only reads: each view opens
the published file again, so a newer night is seen at the next click.
"""

from __future__ import annotations

from rollbook.feature import Feature


class Explore(Feature):
    """The web app on this machine."""

    name = "explore"
    needs = ("morning", "pages", "why")

    def commands(self) -> None:
        """`rollbook explore`."""
        from rollbook.features.explore import commands  # noqa: F401 - it adds itself


FEATURE = Explore()
