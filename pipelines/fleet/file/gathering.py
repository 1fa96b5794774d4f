"""A consistent set of the institutions' parts, for one build.

Institutions publish while a build runs, and remove the files of their older version then. So each institution's files,
all of one version, are hard-linked into the build's own folder before any is read.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pipelines import files
from pipelines.institutions import Registry
from pipelines.store import parts
from pipelines.store.parts import Given

# Attempts for an institution that publishes while its files are gathered, and the wait between them.
TRIES = 5
WAIT_SECONDS = 0.2

DAMAGED = "what it gives the fleet is not whole: its next sync writes it again"
RENAMED = "it is not in the registry, and its school is there under the name {}"


@dataclass
class Gathered:
    """The gathered parts of each institution, and why others were left out, by name."""

    links: Path
    given: dict[str, Given] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def files(self, table: str) -> dict[str, Path]:
        """The files of a table by institution, in order. Parts of an earlier Rollbook may lack the table."""
        return {name: self.path(table, name) for name in sorted(self.given) if table in self.given[name].tables}

    def path(self, table: str, name: str) -> Path:
        """The path of an institution's file of a table within the build's folder."""
        return self.links / table / f"{name}.parquet"

    def leave_out(self, name: str, why: str) -> None:
        """Leave an institution out. Its files are removed: an engine reads all files in a folder."""
        for file in self.links.glob(f"*/{name}.parquet"):
            file.unlink()
        self.given.pop(name, None)
        self.left_out[name] = why


def gather(fleet: Path, links: Path, registry: Registry) -> Gathered:
    """Gather the parts of all institutions, including those that left the registry."""
    found = Gathered(links)
    for name in parts.givers(fleet):
        given = _linked(fleet, found, name)
        if given is None:
            found.leave_out(name, DAMAGED)
        else:
            found.given[name] = given
    for name, other in _renamed(found.given, registry).items():
        found.leave_out(name, RENAMED.format(other))
    return found


def _linked(fleet: Path, found: Gathered, name: str) -> Given | None:
    """Link an institution's files; None if some are missing or damaged."""
    for number in range(TRIES):
        if number:
            time.sleep(WAIT_SECONDS)
        given = parts.note_of(fleet, name)
        if given is None:
            return None
        try:
            for table, part in given.tables.items():
                target = found.path(table, name)
                link_or_copy(parts.path_of(fleet, table, name, part), target)
                if target.stat().st_size != part.size:
                    raise FileNotFoundError(part.file)
        except FileNotFoundError:  # it is publishing, or a file was removed
            continue
        return given
    return None


def _renamed(given: Mapping[str, Given], registry: Registry) -> dict[str, str]:
    """Institutions that left the registry but whose school is in it under another name: old name to new name."""
    now = {g.school_id: name for name, g in given.items() if name in registry.institutions}
    return {name: now[g.school_id] for name, g in given.items() if now.get(g.school_id, name) != name}


def link_or_copy(file: Path, target: Path) -> None:
    """Hard-link a file, or copy it where the file system has no hard links. Raises FileNotFoundError."""
    files.folder(target.parent)
    target.unlink(missing_ok=True)
    try:
        os.link(file, target)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(file, target)
