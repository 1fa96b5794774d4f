"""Dagster resources. They only forward to `sync`.

`Options` is an operator's config for one run, as the launchpad shows it; `Writer` is the warehouse, which a run locks
from its first stage to its last.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from enum import Enum
from types import MappingProxyType
from typing import Any, ClassVar

import dagster as dg
from pydantic import Field, PrivateAttr

from pipelines.errors import CheckError, HeldError, KeyRefusedError, RollbookError
from pipelines.landing.manifest import Hold
from pipelines.settings import Settings, load, registry
from pipelines.source.pagination import Progress
from pipelines.sync import Rollbook
from pipelines.text import naming


class Details(Enum):
    """Which students are also fetched one by one."""

    none = "none"
    changed = "changed"
    all = "all"


class Options(dg.ConfigurableResource):  # type: ignore[type-arg]
    """An operator's options for one run."""

    approve: bool = Field(
        default=False,
        description="Merge what this day's sync held, without fetching again. In a backfill, publish even if a table "
        "would lose more than the hold allows. For this run only; look at the held run's table of counts first.",
    )
    details: Details = Field(
        default=Details.none,
        description="Fetch /v1/student/<id> too, one request per student: for none, for those who changed, for all.",
    )
    fresh: bool = Field(
        default=False,
        description="Fetch even if this day was synced within ROLLBOOK_CACHE_MINUTES. Otherwise only the key is "
        "checked, and what was fetched then is used. The nightly run always fetches.",
    )
    force: bool = Field(
        default=False,
        description="Compute all tables and the whole history again from the daily snapshots (a full refresh), instead "
        "of merging only what changed. Repairs what a failed check found in the published file. Takes longer; the "
        "result is the same if nothing was wrong.",
    )


class Held(dg.Failure):
    """Fails a run because its sync is held."""

    # The UI's first line of an error begins with the class's module, unless it is a builtin. It should begin with the
    # message.
    __module__ = "builtins"


class Failed(dg.Failure):
    """Fails a run with a RollbookError's message. `found` holds the violations that stopped a publish, by check."""

    found: Mapping[str, Sequence[str]] = MappingProxyType({})
    is_key_refused = False

    __module__ = "builtins"


class Writer(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The warehouse, for one run. Settings are read when a stage needs them and are not part of a run's config."""

    # Called for each fetched page. The command line sets it: it runs the job in its own process.
    progress: ClassVar[Progress | None] = None

    _institution: str | None = PrivateAttr(default=None)
    _rollbook: Rollbook | None = PrivateAttr(default=None)
    _lock: ExitStack = PrivateAttr(default_factory=ExitStack)

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> Iterator[Writer]:  # noqa: ARG002 - Dagster's
        """Release the writer lock when the run ends, also on an error."""
        with self._lock:
            yield self

    def open(self, institution: str) -> None:
        """Select the institution whose warehouse it is; empty for a single school."""
        self._institution = institution or None

    def close(self) -> None:
        """Release the writer lock at the end of a run's last stage. Raises LostError if the copy shows a loss here."""
        self._lock.close()
        self.rollbook.mirror.check()

    @contextmanager
    def key(self) -> Iterator[None]:
        """Load the institution's key for the block that fetches. A single school's key is always loaded."""
        rollbook = self.rollbook
        without = rollbook.settings
        if self._institution:
            rollbook.settings = load(institution=self._institution)
        try:
            yield
        finally:
            rollbook.settings = without

    @property
    def rollbook(self) -> Rollbook:
        """The warehouse; the first access takes the writer lock. Raises RollbookError."""
        if self._rollbook is None:
            rollbook = Rollbook(load(fetches=False, institution=self._institution), progress=Writer.progress)
            self._lock.enter_context(rollbook.writer())
            self._rollbook = rollbook
        return self._rollbook


def keep_keys(institutions: Iterable[str]) -> None:
    """Remove all other institutions' keys from this process's environment, before it sends a request or starts a child.

    A run inherits every key from Dagster, which does not know whose run it is. A single school keeps its own.
    """
    if (known := registry()) is not None:
        own = frozenset().union(*(known[n].variables("api_key") for n in institutions if n in known.institutions))
        for name in known.variables("api_key") - own:
            os.environ.pop(name, None)


def settings_or_none() -> Settings | None:
    """Return the settings, or None while they are incomplete: the graph must still load in the UI."""
    try:
        return load()
    except RollbookError:
        return None


@contextmanager
def translate_errors(institution: str = "") -> Iterator[None]:
    """Turn a RollbookError into a failed run without retries, whose first line says what happened and what to do.

    With a registry, the commands in the message name the institution.
    """
    try:
        yield
    except HeldError as error:
        metadata: dict[str, Any] = {"exit_code": error.exit_code}
        if isinstance(error.report, Hold):
            metadata["what would change"] = hold_table(error.report)
        raise Held(
            naming(institution, error.message.removeprefix("Held: ")), metadata=metadata, allow_retries=False
        ) from None
    except RollbookError as error:
        failed = Failed(
            naming(institution, error.message), metadata={"exit_code": error.exit_code}, allow_retries=False
        )
        failed.is_key_refused = isinstance(error, KeyRefusedError)
        if isinstance(error, CheckError):
            failed.found = error.found
        raise failed from None


def hold_table(hold: Hold) -> dg.MetadataValue[Any]:
    """Return a hold's counts as a Markdown table."""
    lines = ["| table | rows | added | changed | removed |", "|---|--:|--:|--:|--:|"]
    lines += [f"| {c.table} | {c.before} | {c.added} | {c.changed} | {c.removed} |" for c in hold.counts]
    return dg.MetadataValue.md("\n".join(lines))
