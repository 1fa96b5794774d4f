"""The record of processing (GDPR Art. 30): data held, purpose, storage, retention, access, recipients, erasure.

`processing.md` is its text, with the declarations and the settings filled in, so that it matches the installation. What
no program can know is left to the institution, and marked.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from importlib.resources import files as resources
from pathlib import Path
from urllib.parse import urlsplit

from rollbook import __version__
from rollbook.settings import Settings
from rollbook.store.published import KEPT as VERSIONS_KEPT
from rollbook.store.published import unwritten
from rollbook.store.schema import KEPT, OBSERVED
from rollbook.tables import SETS, TABLES, Column, Relation, Table, of_set
from rollbook.util import files
from rollbook.util.text import count_of, markdown


def render(
    settings: Settings,
    *,
    at: datetime,
    home: Path | None = None,
    run_days: int = 0,
    added: Iterable[Relation] = (),
) -> str:
    """Return the record as Markdown. `home` is Dagster's folder, whose runs are kept for `run_days` days; `added` are
    the tables that features add to the published file.
    """
    from jinja2 import Environment, StrictUndefined

    # S701 wants HTML escaping; this is Markdown, and outside values are escaped for it.
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)  # noqa: S701
    environment.filters |= {
        "markdown": markdown,
        "readers": _readers,
        "unwritten": unwritten,
        "days": lambda days: count_of(days, "day"),
    }
    service = urlsplit(settings.base_url)
    template = resources("rollbook.rights").joinpath("processing.md").read_text("utf-8")
    text = environment.from_string(template).render(
        version=__version__,
        made=f"{at:%Y-%m-%d}",
        settings=settings,
        service=service.hostname,
        encryption="plain http on this machine" if service.scheme == "http" else "https",
        tables=TABLES.values(),
        relations=(*KEPT, OBSERVED, *added),
        about=_about,
        sets=[s for s in SETS.values() if s.names],
        folder_of=files.folder_mode,
        private=files.PRIVATE_FOLDER,
        private_file=files.PRIVATE_FILE,
        versions_kept=VERSIONS_KEPT,
        home=home,
        run_days=run_days,
    )
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def _about(table: Table | Relation, column: Column) -> str:
    """Whether a column identifies a person, or is about one; empty if neither."""
    if column.personal:
        return "identifies"
    names = {c.name for c in table.columns}
    if "student_id" in names or {"id", "set_name"} <= names:
        return "about a student"
    # All that belongs to a record with a name is about that person; so are the other fields of an object with one, such
    # as a class's teacher.
    own = of_set(table.set)[0].columns if isinstance(table, Table) and SETS[table.set].walked else ()
    if any(c.personal and len(c.path) == 1 for c in own):
        return "about a person"
    persons = {c.path[:-1] for c in table.columns if c.personal} - {()}
    return "about a person" if column.path[:-1] in persons else ""


def _readers(mode: int) -> str:
    """The accounts that may read a file or folder of this mode, in words, and the mode in octal."""
    group = "its owner and its group" if mode & 0o040 else "its owner"
    return f"{'every account of this machine' if mode & 0o004 else group} ({mode:o})"
