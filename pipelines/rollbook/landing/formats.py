"""The format number in every file that outlives a release: what another version wrote is not taken for damaged.

One number counts for all of them. Raise it whenever this version could not read what the last one wrote, or would read
it wrongly. Nothing is converted before the first release.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from rollbook.errors import OtherVersionError

FORMAT = 3


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a kept file, or one line of it."""

    format: int = FORMAT


class _Number(msgspec.Struct):
    format: int | None = None


K = TypeVar("K", bound=Stored)
_number = msgspec.json.Decoder(_Number)


def decode(content: bytes, kind: type[K], file: object) -> K:
    """Return the content of a kept file. Raises OtherVersionError, and ValueError if it is not as it was written."""
    check(_number.decode(content).format, file)
    return msgspec.json.decode(content, type=kind)


def check(number: int | None, file: object) -> None:
    """Raise OtherVersionError unless a file's format number (None if it has none) is this version's."""
    if number != FORMAT:
        theirs = "without a format number" if number is None else f"format {number}"
        raise OtherVersionError(
            f"{file} was written by another version of Rollbook ({theirs}, this one reads {FORMAT}). Nothing was"
            " changed: run that version, or set ROLLBOOK_WAREHOUSE to a new folder and begin there with this one"
        )
