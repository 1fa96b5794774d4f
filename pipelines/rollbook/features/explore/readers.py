"""Who sees what: `readers.csv` in the warehouse, a line for each login and what it sees; several lines add up.

    login,sees
    head@school.example,all
    hoy10@school.example,year=10        a value of one of the school's own lists
    tutor@school.example,tutor_group=10B
    sub@school.example,teacher          own classes, by the class's teacher email

It counts from the next request. While it cannot be read, it shows nobody anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from rollbook.errors import SettingError
from rollbook.util import files
from rollbook.views import editable

FILE, HEADER = "readers.csv", ("login", "sees")
ALL, TEACHER = "all", "teacher"
MOST = 10_000  # lines
_UPPER = re.compile("[A-Z]")

# What each login sees: `all`, `teacher`, or a column and its value, such as `year=10`; with the number of the line.
Lines = Mapping[str, Mapping[str, int]]


def plain(login: str) -> str:
    """A login as it is compared: in lower case, of ASCII alone, since of the sign of Kelvin that would make a k."""
    return _UPPER.sub(lambda letter: letter[0].lower(), login.strip())


def read(path: Path) -> Lines:
    """Read the file; nobody without it. Raises SettingError, which names the line and what to write."""
    return _parsed(path) if path.exists() else {}


class Readers:
    """Who may read a warehouse. `teachers` see their own classes without a line."""

    def __init__(self, warehouse: Path, *, teachers: bool) -> None:
        self.path, self.teachers = warehouse / FILE, teachers
        self._file = files.Decoded(lambda _, path: _parsed(Path(path)))

    def sees(self, login: str) -> frozenset[str]:
        """What a login sees, by the file as it is now. Raises SettingError if it cannot be read."""
        try:
            lines = self._file.read(str(self.path))
        except FileNotFoundError:
            lines = {}
        except OSError as error:
            raise SettingError(f"{self.path} cannot be read ({error.strerror}), so nobody sees anything") from None
        return frozenset(lines.get(login, {})) | ({TEACHER} if self.teachers else frozenset())


def _parsed(path: Path) -> Lines:
    found: dict[str, dict[str, int]] = {}
    for count, line in enumerate(editable.lines(path, HEADER, needed=2), start=1):
        login, sees, *more = line.cells
        if count > MOST:
            raise editable.malformed(path, line.number, f"there are more than {MOST:,} lines; name fewer readers")
        if any(more):
            raise editable.malformed(
                path, line.number, "there are more than two cells; write login,sees, and another line for more"
            )
        if not login:
            raise editable.malformed(path, line.number, "the login is missing; write it as the sign-in gives it")
        what = _what(sees)
        if what is None:
            raise editable.malformed(
                path, line.number, f"sees is {sees[:40]!r}; write all, teacher, or a column of an own list, as year=10"
            )
        of = found.setdefault(plain(login), {})
        if what in of:
            raise editable.malformed(path, line.number, f"it says the same as line {of[what]}; remove one of them")
        of[what] = line.number
    return found


def _what(sees: str) -> str | None:
    """What a line lets a login see, as it is kept; None if it cannot be read."""
    if sees.lower() in (ALL, TEACHER):
        return sees.lower()
    column, sign, value = (part.strip() for part in sees.partition("="))
    return f"{column.lower()}={value}" if column and sign and value else None
