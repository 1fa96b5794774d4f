"""The folder `own/` of a warehouse: which lists there are, and what is wrong with them."""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from rollbook.errors import SettingError
from rollbook.features.lists import contacts
from rollbook.health.finding import Finding, Level
from rollbook.landing import own
from rollbook.landing.erased import Matcher
from rollbook.landing.manifest import Manifest
from rollbook.night.landings import Landings
from rollbook.util import files
from rollbook.util.text import count_of, listed
from rollbook.views import contacted, editable

log = logging.getLogger(__name__)

FOLDER, PUBLIC = "own", "own-public.csv"
# Landed where the folder could not be seen, but other lists were: a name that no list has.
UNSEEN = "own/"
_CSV = re.compile(r"(?i)(.+)\.csv")
# What spreadsheet and other programs put beside a file while it is open.
_TEMPORARY = ("~", ".")


@dataclass(frozen=True)
class Survey:
    """The lists in the folder: the bytes by name, None for a list that cannot be read; `lists` is None where the folder
    is missing or cannot be read. `problems` say what to correct, by file.
    """

    lists: own.Own | None = None
    problems: dict[str, str] = field(default_factory=dict)

    @property
    def told(self) -> list[str]:
        """The problems, each with its file."""
        return [f"{name if name == FOLDER else f'{FOLDER}/{name}'}: {says}" for name, says in self.problems.items()]


def survey(root: Path) -> Survey:
    """Look at the lists of the warehouse at `root`."""
    folder, problems = root / FOLDER, dict[str, str]()
    try:
        paths = sorted(path for path in folder.iterdir() if not path.name.startswith(_TEMPORARY))
    except FileNotFoundError:
        return Survey()
    except OSError as error:
        return Survey(None, {FOLDER: f"the folder cannot be read ({error.strerror}); all lists stay as they were"})
    by_name, lists = defaultdict[str, list[Path]](list), dict[str, bytes | None]()
    for path in paths:
        match = _CSV.fullmatch(path.name)
        if match is None:
            problems[path.name] = "it is not a list: save it as CSV UTF-8, with a name that ends in .csv"
        elif not own.is_name(name := own.column_name(match[1])):
            problems[path.name] = "its name cannot be a table's: use letters, digits and _, and begin with a letter"
        else:
            by_name[name].append(path)
    for name, alike in by_name.items():
        if len(lists) == own.MOST_LISTS:
            problems[alike[0].name] = f"there are more than {own.MOST_LISTS} lists, so it is left out"
        elif len(alike) > 1:
            lists[name] = None
            problems[alike[1].name] = f"its name and that of {alike[0].name} differ in case alone: remove one of them"
        else:
            lists[name], problem = _content(alike[0])
            if problem:
                problems[alike[0].name] = problem
    return Survey(lists, problems)


def _content(path: Path) -> tuple[bytes | None, str]:
    """A list's bytes, or None if it cannot be read; and what to correct."""
    try:
        if path.stat().st_size > own.MOST_BYTES:
            return None, f"it is larger than {own.MOST_BYTES:,} bytes, which a list may have at most"
        content = path.read_bytes()
        return content, own.read(content).remark
    except own.UnreadableListError as error:
        return None, str(error)
    except OSError as error:
        return None, f"it cannot be read ({error.strerror})"


def to_land(root: Path) -> own.Own | None:
    """The lists that a night lands, and those of contacts; the log says what to correct. What was noted lately and a
    save of contacted.csv lacks is written back first.
    """
    with suppress(SettingError, OSError):  # read below, where it is told
        contacted.put_back(root)
    found, (noted, wrong) = survey(root), contacts.to_land(root)
    for problem in filter(None, (*found.told, wrong)):
        log.warning("%s", problem)
    if not noted:
        return found.lists
    return {**({UNSEEN: None} if found.lists is None else found.lists), **noted}


def forget(root: Path, erased: Matcher) -> int:
    """Remove the lines about erased students from all files in the folder; returns how many. Other lines stay."""
    removed = 0
    for path in _files(root):
        left, lines = own.without(path.read_bytes(), erased)
        if lines:
            files.write(path, left, path.stat().st_mode & 0o777)  # the office's account goes on with it
            removed += lines
    return removed


def _files(root: Path) -> Iterable[Path]:
    """All CSV files in the folder, also those that cannot be read as lists."""
    folder = root / FOLDER
    return [path for path in sorted(folder.glob("*")) if path.is_file() and _CSV.fullmatch(path.name)]


def public(root: Path) -> tuple[frozenset[tuple[str, str]], str]:
    """The lists and columns that `own-public.csv` names, and what is wrong with it: then it names none."""
    path, named = root / PUBLIC, set[tuple[str, str]]()
    try:
        for line in editable.lines(path, ("list", "column"), needed=2) if path.exists() else ():
            cells = [own.column_name(cell) for cell in line.cells]
            if not all(map(own.is_name, cells[:2])) or any(cells[2:]):
                says = f"line {line.number}: write a list and one of its columns, so no column is public"
                return frozenset(), says
            named.add((cells[0], cells[1]))
    except SettingError as error:
        return frozenset(), f"{error.message}. Until then no column is public"
    except OSError as error:
        return frozenset(), f"it cannot be read ({error.strerror}), so no column is public"
    return frozenset(named), ""


def findings(root: Path, landings: Landings) -> Iterator[Finding]:
    """What to correct in the folder, and which lists end with the next night or ended with the last."""
    found, (noted, unread) = survey(root), contacts.to_land(root)
    for problem in filter(None, (*found.told, unread)):
        yield Finding("lists", Level.WARNING, problem)
    if wrong := public(root)[1]:
        yield Finding("lists", Level.WARNING, f"{PUBLIC}: {wrong}")
    seen = [(day, had) for day, of_day in landings.counted_days().items() if (had := _last_seen(of_day)) is not None]
    if not noted and any(contacts.FILE in had for _, had in seen):
        says = f"{contacts.FILE} is missing: the table contacts stays as it was. Put it back, or save its heading alone"
        yield Finding("lists", Level.WARNING, says)
    seen = [(day, had) for day, of_day in seen if (had := _without_contacts(of_day)) is not None]
    landed = seen[-1][1] if seen else {}
    if found.lists is None and landed:
        yield Finding("lists", Level.WARNING, f"{FOLDER}/ is missing: all lists stay as they were. Put it back")
    elif found.lists is not None and (gone := landed.keys() - found.lists.keys()):
        says = f"{_files_of(gone)} was removed: its rows end with the next night. Put it back to keep them"
        yield Finding("lists", Level.WARNING, says)
    if len(seen) > 1 and (ended := seen[-2][1].keys() - landed.keys()):
        says = f"{_files_of(ended)} was removed, so its rows ended on {seen[-1][0]}"
        yield Finding("lists", Level.WARNING, says)
    if found.lists and not found.problems:
        yield Finding("lists", Level.OK, f"{count_of(len(found.lists), 'list')} of the school's own in {FOLDER}/")


def _last_seen(landings: Iterable[Manifest]) -> Mapping[str, str] | None:
    """The lists of the last of a day's landings that saw them."""
    return next((m.own for m in reversed([*landings]) if m.own is not None), None)


def _without_contacts(had: Mapping[str, str]) -> Mapping[str, str] | None:
    """The lists of the folder; None if it was not seen."""
    return None if UNSEEN in had else {name: had[name] for name in had if not contacts.is_of_contacts(name)}


def _files_of(names: Iterable[str]) -> str:
    return listed([f"{FOLDER}/{name}.csv" for name in sorted(names)])
