"""The format number in every file that outlives a release: what another version wrote is not taken for damaged.

One number counts for all of them. Raise it whenever this version could not read what the last one wrote, or would read
it wrongly, and say in UPGRADES how to read that: from format 1 on, the newest version opens every earlier one. Files
are read as if they were of this format, and become so when they are next written; the published files are rewritten by
the first writer (`night.writing`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from rollbook.errors import OtherVersionError

FORMAT = 1

# The content of a file, as JSON.
Content = dict[str, Any]


@dataclass(frozen=True)
class Upgrade:
    """What became different from one format to the next: in `files`, by the name of the class of their content, and in
    `published` files, as statements.
    """

    files: Mapping[str, Callable[[Content], Content]] = field(default_factory=dict)
    published: tuple[str, ...] = ()


# By the format that it begins with. Format 1 is the first.
UPGRADES: dict[int, Upgrade] = {}


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a kept file, or one line of it."""

    format: int = FORMAT


class _Number(msgspec.Struct):
    format: int | None = None
    rollbook: str = ""


K = TypeVar("K", bound=Stored)
_number = msgspec.json.Decoder(_Number)


def decode(content: bytes, kind: type[K], file: object) -> K:
    """Return the content of a kept file. Raises OtherVersionError, and ValueError if it is not as it was written."""
    said = _number.decode(content)
    if said.format not in UPGRADES:
        check(said.format, file, said.rollbook)
        return msgspec.json.decode(content, type=kind)
    value = msgspec.json.decode(content, type=Content)
    for upgrade in since(said.format):
        value = upgrade.files.get(kind.__name__, dict)(value)
    return msgspec.json.decode(msgspec.json.encode(value | {"format": FORMAT}), type=kind)


def since(number: int) -> list[Upgrade]:
    """The upgrades from an earlier format to this one, in order."""
    return [UPGRADES[each] for each in range(number, FORMAT)]


def check(number: int | None, file: object, version: str = "") -> None:
    """Raise OtherVersionError unless a file's format number (None if it has none) is this version's. `version` is the
    Rollbook that fetched what is in it, if it says so: a later one may have written it.
    """
    if number == FORMAT:
        return
    if number is not None and number > FORMAT:
        version = version if _is_newer(version) else ""
        name = f"version {version}" if version else "a newer version"
        raise OtherVersionError(
            f"{file} was written by {name} of Rollbook (format {number}, this one reads up to {FORMAT}). Nothing was"
            f" changed: install {f'Rollbook {version} or newer' if version else 'the newest Rollbook'}"
        )
    if number in UPGRADES:
        raise OtherVersionError(
            f"{file} was written by an earlier version of Rollbook (format {number}, this one has {FORMAT}): run"
            " `rollbook sync`, which brings it up to date"
        )
    theirs = "without a format number" if number is None else f"format {number}"
    raise OtherVersionError(
        f"{file} was written before Rollbook's first format ({theirs}, this one reads {FORMAT}). Nothing was changed:"
        " run the version that wrote it, or set ROLLBOOK_WAREHOUSE to a new folder and begin there with this one"
    )


def _is_newer(version: str) -> bool:
    """Whether a version comes after this one."""
    from rollbook import __version__

    said, ours = ([int(number) for number in re.findall(r"\d+", each)] for each in (version, __version__))
    return said > ours
