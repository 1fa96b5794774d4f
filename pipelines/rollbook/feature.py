"""What a feature adds to Rollbook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.routing import Route

    from rollbook.health.finding import Finding
    from rollbook.landing.own import Own
    from rollbook.night.listeners import Listener
    from rollbook.opened import Rollbook
    from rollbook.rights.personal import PersonalData
    from rollbook.tables import Relation
    from rollbook.views.additions import Connection, NextFile
    from rollbook.views.catalog import Macro
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

    def inputs(self, root: Path) -> Own | None:  # noqa: ARG002 - see the class
        """The school's own lists in the warehouse at `root`, which a night lands; None where nobody can see which there
        are.
        """
        return None

    def lines(self, opened: Rollbook) -> Iterable[Finding]:  # noqa: ARG002 - see the class
        """Lines for `rollbook status` and `rollbook doctor`."""
        return ()

    def personal(self, root: Path) -> PersonalData | None:  # noqa: ARG002 - see the class
        """What it holds of people in the warehouse at `root`, for an erasure and a subject access file."""
        return None

    def definitions(self, school: Any) -> Any:  # noqa: ARG002 - see the class
        """What Dagster loads for it, for a `defs.resources.School`: a `dg.Definitions`, or None. Both lie above."""
        return None

    def routes(self) -> Sequence[Route]:
        """Pages that are served beside Dagster's UI."""
        return ()

    def explored(self) -> Sequence[Route]:
        """Addresses that `rollbook explore` serves without its login: they ask for a token of their own."""
        return ()

    def relations(self) -> Iterable[Relation]:
        """Tables that it adds to the published file."""
        return ()

    def macros(self, version: str) -> Iterable[Macro]:  # noqa: ARG002 - see the class
        """Macros that it adds to a version of the published file."""
        return ()

    def look(self, con: Connection) -> object:  # noqa: ARG002 - see the class
        """What `fill` needs of the published file, attached as `published`: read while the service is still asked, and
        only if there is time. None for nothing.
        """
        return None

    def fill(self, con: Connection, file: NextFile) -> None:
        """Fill its tables in the next file, before the checks, or in a file from which a student was erased. An error
        fails the publish.
        """

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


def relations() -> list[Relation]:
    """The tables that they add to the published file."""
    return [relation for each in present() for relation in each.relations()]


def macros(version: str = "") -> list[Macro]:
    """The macros that they add to a version of the published file."""
    return [macro for each in present() for macro in each.macros(version)]


def settings_groups() -> Iterator[Any]:
    """Their groups of settings."""
    return (resolve_name(each.settings) for each in present() if each.settings)
