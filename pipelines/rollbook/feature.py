"""What a feature adds to Rollbook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import dagster as dg
    from starlette.routing import Route

    from rollbook.defs.resources import School
    from rollbook.health.finding import Finding
    from rollbook.night.listeners import Listener
    from rollbook.opened import Rollbook
    from rollbook.rights.personal import PersonalData
    from rollbook.views.dictionary import Chapter


class Feature:
    """Each method does nothing unless overridden, and imports what it needs: `rollbook --help` asks every feature."""

    name = ""
    # Other features that this one shows; without them it is left out.
    needs: tuple[str, ...] = ()
    # Its group of settings, as `module:Class`.
    settings = ""

    def commands(self) -> None:
        """Add its commands to `rollbook.terminal.app`."""

    def listener(self, opened: Rollbook) -> Listener | None:  # noqa: ARG002 - see the class
        """What is told of an institution's nights."""
        return None

    def lines(self, opened: Rollbook) -> Iterable[Finding]:  # noqa: ARG002 - see the class
        """Lines for `rollbook status` and `rollbook doctor`."""
        return ()

    def personal(self, root: Path) -> PersonalData | None:  # noqa: ARG002 - see the class
        """What it holds of people in the warehouse at `root`, for an erasure and a subject access file."""
        return None

    def definitions(self, school: School) -> dg.Definitions | None:  # noqa: ARG002 - see the class
        """What Dagster loads for it."""
        return None

    def routes(self) -> Sequence[Route]:
        """Pages that are served beside Dagster's UI."""
        return ()

    def chapters(self) -> Iterable[Chapter]:
        """Chapters of the data dictionary."""
        return ()

    def repair(self, opened: Rollbook) -> None:
        """Make again what an erasure or new codes removed; called without the lock, by the command."""


@cache
def present() -> tuple[Feature, ...]:
    """The features that are there, in their order."""
    # By name: features lie above.
    there = {
        name: import_module(f"rollbook.features.{name}").FEATURE for name in resolve_name("rollbook.features:FEATURES")
    }
    return tuple(each for each in there.values() if there.keys() >= set(each.needs))


def settings_groups() -> Iterator[Any]:
    """Their groups of settings."""
    return (resolve_name(each.settings) for each in present() if each.settings)
