"""The registry of a district, `institutions.toml`: which institutions there are, and the settings of each.

A single school has no registry. `settings` says what each setting means; `district` works with many institutions. The
registry holds no key: it names the environment variable or the file that does.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dotenv import dotenv_values

from rollbook.errors import SettingError
from rollbook.util import files
from rollbook.util.text import listed

FILE = "institutions.toml"
DEFAULTS = "defaults"
# Names of other things next to the institutions' folders, also from when the folder was a single school's warehouse.
RESERVED = frozenset(
    ("district", "raw", "snapshots", "build", "published", "pseudonymous", "exports", "demo", "private", DEFAULTS)
)
# Also the name of a folder, a Dagster partition and a lake partition; lower case, for file systems that ignore case.
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


@dataclass(frozen=True)
class Secret:
    """Where a secret is: in an environment variable, or in a file. Never the secret itself."""

    env: str = ""
    file: str = ""

    def read(self, root: Path) -> str:
        """Return the secret; `.env` in `root` counts as environment. Raises ValueError, which says what is missing."""
        if not self.env:
            return _content(root / Path(self.file).expanduser())
        for variables in (os.environ, dotenv_values(root / ".env")):
            if value := secret_in_file(self.env, variables, root) or variables.get(self.env):
                return value
        raise ValueError(
            f"is in {self.env}, which is not set: put it into a file, and the file's path into {self.env}_FILE, in the"
            " environment or .env"
        )


def secret_in_file(
    name: str, variables: Mapping[str, str | None], root: Path, called: Callable[[str], str] = str
) -> str:
    """The secret in the file that the variable `<name>_FILE` names, from `root`; empty without that variable.

    `called` turns a name into the one among the variables. Raises ValueError, worded to follow the name: the file
    cannot be read, or the variable `name` is there, too.
    """
    if not (path := variables.get(called(f"{name}_FILE"))):
        return ""
    if variables.get(called(name)):
        raise ValueError(f"is both in {name} and in the file that {name}_FILE names: keep one of them")
    return _content(root / Path(path.strip("\"'")).expanduser())  # `docker run --env-file` keeps quotes


def _content(path: Path) -> str:
    try:
        content = path.read_text(encoding="utf-8-sig").strip()  # editors on Windows begin with a byte order mark
    except (OSError, UnicodeDecodeError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "it is not text"
        raise ValueError(f"is in the file {path}, which cannot be read ({reason})") from None
    if not content:
        raise ValueError(f"is in the file {path}, which is empty")
    return content


@dataclass(frozen=True)
class Institution:
    """One institution of the registry: its name and its settings (`[defaults]` included), and which of them are in its
    own table.
    """

    name: str
    values: Mapping[str, object] = field(default_factory=dict, repr=False)
    own: frozenset[str] = frozenset()

    def check_together(self, *settings: str) -> None:
        """Raise SettingError unless these settings, as far as there are any, are in one table."""
        there = [name for name in settings if name in self.values]
        own = [name for name in there if name in self.own]
        if own and own != there:
            others = [name for name in there if name not in own]
            raise SettingError(
                f"{listed(own)} of {self.name} is in [{self.name}] of {FILE}, and {listed(others)} in [{DEFAULTS}]:"
                f" write both into [{self.name}], or one school's key might be sent to another one's service"
            )

    def variables(self, *settings: str) -> frozenset[str]:
        """Return the environment variables that hold the secrets of some settings, by default of all."""
        values = (v for k, v in self.values.items() if not settings or k in settings)
        return frozenset(v.env for v in values if isinstance(v, Secret) and v.env)


@dataclass(frozen=True)
class Registry:
    """The institutions by name, in the file's order. `defaults` are for each that does not override them."""

    path: Path
    institutions: Mapping[str, Institution]
    defaults: Mapping[str, object] = field(default_factory=dict, repr=False)

    def __getitem__(self, name: str) -> Institution:
        """Return the institution of that name. Raises SettingError, which suggests the nearest name."""
        institution = self.institutions.get(name)
        if institution is None:
            near = get_close_matches(name, self.institutions, n=1)
            meant = f"; did you mean {near[0]}?" if near else f": it has {self.listed()}"
            raise SettingError(f"{self.path.name} has no such institution{meant}")
        return institution

    def variables(self, *settings: str) -> frozenset[str]:
        """Return the environment variables that hold any institution's secrets of some settings, by default of all."""
        return frozenset().union(*(i.variables(*settings) for i in self.institutions.values()))

    def listed(self, most: int = 20) -> str:
        """Return the names, comma-separated; after the first `most`, only how many more there are."""
        return listed(list(self.institutions), most) or "none"


def read(path: Path, names: frozenset[str], secret: frozenset[str]) -> Registry:
    """Read a registry. `names` are the settings that an institution may have, `secret` those that hold secrets.

    Raises SettingError: one line that names the place in the file and says what to write. It quotes no value.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except tomllib.TOMLDecodeError as error:
        raise SettingError(f"{path.name} is not valid TOML: {_place(str(error))}") from None
    except UnicodeDecodeError:
        raise SettingError(f"{path.name} is not text in UTF-8") from None
    except OSError as error:
        raise SettingError(f"{path.name} cannot be read ({os.strerror(error.errno or 0)})") from None
    defaults = _values(path, DEFAULTS, document.pop(DEFAULTS, {}), names, secret)
    values = {check_name(name): _values(path, name, table, names, secret) for name, table in document.items()}
    registered = {
        name: Institution(name, MappingProxyType(defaults | own), frozenset(own)) for name, own in values.items()
    }
    return Registry(path, MappingProxyType(registered), MappingProxyType(defaults))


def add(path: Path, name: str, values: Mapping[str, Any], check: Callable[[Path], None]) -> None:
    """Add an institution with these settings to a file, which is created if needed. The rest of the file stays.

    A secret is a table: `{"env": "NAME"}` or `{"file": "/path"}`. `check` raises SettingError for a file that is not
    valid; then the file is unchanged. Raises SettingError for an invalid name, too.
    """
    path, mode, text = path.resolve(), files.PRIVATE_FILE, ""  # a symlink is kept
    if path.exists():
        mode, text = stat.S_IMODE(path.stat().st_mode), path.read_text(encoding="utf-8").rstrip("\n") + "\n\n"
    lines = [f"[{check_name(name)}]", *(f"{key} = {_toml(value)}" for key, value in values.items())]
    with files.replacing(path, mode) as aside:
        aside.write_text(text.lstrip("\n") + "\n".join(lines) + "\n", encoding="utf-8")
        check(aside)


def check_name(name: str) -> str:
    """Return a name that can be a folder's and a partition's. Raises SettingError for any other name."""
    if name in RESERVED:
        raise SettingError(f"No institution can be called {name}: Rollbook uses this name itself")
    if not _NAME.fullmatch(name):
        raise SettingError(
            f"No institution can be called {name[:80]!r}: write lower-case letters, digits, - and _ (at most 63), such"
            " as linden-vale. If this is a setting for all, it belongs under [defaults]"
        )
    return name


def _values(path: Path, name: str, table: object, names: frozenset[str], secret: frozenset[str]) -> dict[str, object]:
    """Return a table's settings, with a `Secret` for each secret setting. Raises SettingError."""
    where = f"[{name}] of {path.name}"
    if not isinstance(table, dict):
        raise SettingError(f"{path.name}: {name} must be a table: write [{name}] and its settings below it")
    values: dict[str, object] = {}
    for key, value in table.items():
        if key not in names:
            raise SettingError(f"{where} has {key!r}, {_unknown(key, names)}")
        if key in secret:
            values[key] = _secret(where, key, value)
        elif isinstance(value, (dict, list)):
            raise SettingError(f"{key} in {where} must be one value")
        else:
            values[key] = value
    return values


def _secret(where: str, key: str, value: object) -> Secret:
    if isinstance(value, dict) and len(value) == 1:
        ((kind, place),) = value.items()
        if kind in ("env", "file") and isinstance(place, str) and place.strip():
            return Secret(**{kind: place.strip()})
    raise SettingError(
        f'{key} in {where} must say where it is, never what it is: write {{ env = "NAME" }} or {{ file = "/path" }}'
    )


def _toml(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return f"{{ {', '.join(f'{key} = {_toml(text)}' for key, text in value.items())} }}"


def _unknown(key: str, names: frozenset[str]) -> str:
    if key in ("warehouse", "institution", "institutions", "ui_hosts"):
        return f"which is the same for all institutions: set ROLLBOOK_{key.upper()} in the environment"
    near = get_close_matches(key.lower().removeprefix("rollbook_"), names, n=1)
    return f"which is not a setting{f'; did you mean {near[0]}?' if near else ''}"


def _place(message: str) -> str:
    """Return tomllib's message without the text that it quotes from the file, which may be a key."""
    place = re.search(r"\((at [^)]*)\)$", message)
    reason = "something is defined twice" if message.startswith("Cannot") else "it cannot be read"
    return f"{reason} {place[1] if place else ''}".strip()
