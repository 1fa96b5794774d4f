"""Opens an institution for a command. Cheap to import: what a command needs is imported when it opens something."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rollbook.feature import present
from rollbook.settings import load
from rollbook.terminal import choose_warehouse
from rollbook.util.imports import light

if TYPE_CHECKING:
    from rollbook.opened import Rollbook


def open_rollbook(*, fetches: bool = False, demo: bool = False, **overrides: Any) -> Rollbook:
    """A Rollbook with the current settings. `fetches` and `overrides` go to `settings.load`, whose errors it raises.

    Imports the stages only here, to keep `rollbook --help` fast, and lightly: a command that imports more of a night
    does so after this call.
    """
    with light():
        from rollbook.assembly import assemble
        from rollbook.flatten import rows

        rows.load()
    if demo:
        choose_warehouse()
    return assemble(load(fetches=fetches, **overrides))


@contextmanager
def repaired(opened: Rollbook) -> Iterator[None]:
    """Let the features make again what the block removes, also where it ends with a loss that the copy found."""
    try:
        yield
    finally:
        for each in present():
            each.repair(opened)
