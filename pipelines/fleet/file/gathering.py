"""A consistent set of what the institutions give, for one build.

Institutions publish while a build runs, and remove the files of their older version then. So each institution's files
get a second name in the build's own folder, all of one version, before any is read.
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

# How often an institution is tried again that publishes while its files are gathered, and how long to wait in between.
TRIES = 5
WAIT_SECONDS = 0.2

DAMAGED = "what it gives the fleet is not whole: its next sync writes it again"
RENAMED = "it is not in the registry, and its school is there under the name {}"


@dataclass
class Gathered:
    """What was gathered: what each institution gives, and why others were left out, by name."""

    links: Path
    given: dict[str, Given] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def files(self, table: str) -> dict[str, Path]:
        """The files of a table by institution, in order; of an earlier Rollbook's parts it may be missing."""
        return {name: self.path(table, name) for name in sorted(self.given) if table in self.given[name].tables}

    def path(self, table: str, name: str) -> Path:
        """Where the file of a table is for the build."""
        return self.links / table / f"{name}.parquet"

    def leave_out(self, name: str, why: str) -> None:
        """Go on without an institution. Its files go too: an engine reads all that are in a folder."""
        for file in self.links.glob(f"*/{name}.parquet"):
            file.unlink()
        self.given.pop(name, None)
        self.left_out[name] = why


def gather(fleet: Path, links: Path, registry: Registry) -> Gathered:
    """Gather what all institutions give, those that left the registry among them."""
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
    """Give an institution's files a second name; None when they are not all there."""
    for number in range(TRIES):
        if number:
            time.sleep(WAIT_SECONDS)
        given = parts.note_of(fleet, name)
        if given is None:
            return None
        try:
            for table, part in given.tables.items():
                target = found.path(table, name)
                same_file(parts.path_of(fleet, table, name, part), target)
                if target.stat().st_size != part.size:
                    raise FileNotFoundError(part.file)
        except FileNotFoundError:  # it publishes just now, or somebody removed a file
            continue
        return given
    return None


def _renamed(given: Mapping[str, Given], registry: Registry) -> dict[str, str]:
    """Institutions that left the registry and whose school is in it under another name: that other name by theirs."""
    now = {g.school_id: name for name, g in given.items() if name in registry.institutions}
    return {name: now[g.school_id] for name, g in given.items() if now.get(g.school_id, name) != name}


def same_file(file: Path, name: Path) -> None:
    """Give a file a second name; where the disk cannot, a copy."""
    files.folder(name.parent)
    name.unlink(missing_ok=True)
    try:
        os.link(file, name)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(file, name)
