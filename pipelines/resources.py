"""Dagster resources. They only forward to `sync`: what a stage does is not written here.

`Options` holds what an operator may decide for one run, asked once in the launchpad; `Writer` is the warehouse, held
by one run from its first stage to its last.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from enum import Enum
from typing import Any, ClassVar

import dagster as dg
from dagster._core.definitions.assets.graph.asset_graph_subset import AssetGraphSubset
from pydantic import Field, PrivateAttr

from pipelines.errors import HeldError, RollbookError
from pipelines.landing.manifest import Hold
from pipelines.settings import Settings, load
from pipelines.source.pagination import Progress
from pipelines.sync import Rollbook
from pipelines.text import markdown


class Details(Enum):
    """Which students are fetched singly as well."""

    none = "none"
    changed = "changed"
    all = "all"


class Options(dg.ConfigurableResource):  # type: ignore[type-arg]
    """What an operator may decide for one run."""

    approve: bool = Field(
        default=False,
        description="Merge what this day's sync held, without fetching again; in a backfill, publish although a table "
        "would lose more than the hold allows. For this run only; look at the held run's table of counts first.",
    )
    details: Details = Field(
        default=Details.none,
        description="Fetch /v1/student/<id> too, one request per student: for none, for those who changed, for all.",
    )
    force: bool = Field(
        default=False,
        description="Make all tables and the whole history anew from the daily snapshots, even where nothing changed, "
        "instead of bringing them up to this day. This mends what a failed check found in the published file; it "
        "takes longer, and the result is the same when nothing was wrong.",
    )


class Held(dg.Failure):
    """A run that ended because its sync is held."""

    # An error's first line in the UI begins with where its class was defined, unless Python itself defined it. It
    # shall begin with what happened.
    __module__ = "builtins"


class Failed(dg.Failure):
    """A run that ended with what Rollbook reports on purpose."""

    __module__ = "builtins"


class Writer(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The warehouse, for one run. The settings are read when a stage needs them, and are no part of a run's config."""

    # Who watches the pages come in: the command line, which runs the job in its own process.
    watch: ClassVar[Progress | None] = None

    _rollbook: Rollbook | None = PrivateAttr(default=None)
    _held: ExitStack = PrivateAttr(default_factory=ExitStack)

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> Iterator[Writer]:  # noqa: ARG002 - Dagster's
        """Let go of the warehouse when the run is over, however it ended."""
        with self._held:
            yield self

    @property
    def rollbook(self) -> Rollbook:
        """The warehouse, held from the first call on. Raises RollbookError."""
        if self._rollbook is None:
            rollbook = Rollbook(load(), progress=Writer.watch)
            self._held.enter_context(rollbook.writer())
            self._rollbook = rollbook
        return self._rollbook


def settings_or_none() -> Settings | None:
    """The settings, or None while they are incomplete: the graph must load in the UI all the same."""
    try:
        return load()
    except RollbookError:
        return None


@contextmanager
def translate_errors() -> Iterator[None]:
    """Turn what Rollbook reports into a failed run whose first line says what to do, without a retry."""
    try:
        yield
    except HeldError as error:
        metadata: dict[str, Any] = {"exit_code": error.exit_code}
        if isinstance(error.report, Hold):
            metadata["what would change"] = hold_table(error.report)
        raise Held(error.message.removeprefix("Held: "), metadata=metadata, allow_retries=False) from None
    except RollbookError as error:
        raise Failed(error.message, metadata={"exit_code": error.exit_code}, allow_retries=False) from None


def narrow_backfill(context: dg.OpExecutionContext, days: dg.PartitionsDefinition[str], missing: list[str]) -> None:
    """Take the days on which nothing was landed out of the target of the UI's backfill that this run is of.

    Dagster ends a backfill as failed when any day of its target stays unmade; here such a day was reported, and the
    others are whole. It has no public call for this: should its own values change, the backfill shows as failed, and
    nothing else comes of it.
    """
    backfill_id = context.run.tags.get("dagster/backfill")
    backfill = context.instance.get_backfill(backfill_id) if backfill_id and missing else None
    data = backfill.asset_backfill_data if backfill and backfill.is_asset_backfill else None
    if backfill is None or data is None:
        return
    gone = days.subset_with_partition_keys(missing).to_serializable_subset()
    target = data.target_subset.partitions_subsets_by_asset_key
    less = {key: subset & gone for key, subset in target.items()}
    drop = AssetGraphSubset(less, set())  # type: ignore[call-arg]
    narrowed = data._replace(target_subset=data.target_subset - drop, requested_subset=data.requested_subset - drop)
    context.instance.update_backfill(backfill._replace(asset_backfill_data=narrowed))


def hold_table(hold: Hold) -> dg.MetadataValue[Any]:
    """The counts behind a hold, as the UI shows them."""
    lines = ["| table | rows | added | changed | removed | some of the ids |", "|---|--:|--:|--:|--:|---|"]
    for c in hold.counts:
        some = markdown(", ".join(map(str, c.sample)))
        lines.append(f"| {c.table} | {c.before} | {c.added} | {c.changed} | {c.removed} | {some} |")
    return dg.MetadataValue.md("\n".join(lines))
