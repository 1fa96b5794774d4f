"""The jobs: the nightly sync, and an operator's two: approve what is held, and discard a landing. These do not fetch.

The sensor `record` marks what an operator's job did, as it marks what the commands did.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from typing import Any

import dagster as dg
from pydantic import Field

from rollbook.defs import runs
from rollbook.defs.events import FILE
from rollbook.defs.resources import RESOURCE, School
from rollbook.errors import ArgumentError, RollbookError
from rollbook.landing.manifest import Hold, TableCounts
from rollbook.night import approvals, discard
from rollbook.night.writing import Writer
from rollbook.opened import Rollbook

NIGHTLY_SYNC = "nightly_sync"
# Who decided, where nobody is known.
UI = "the UI"


class _OfOne(dg.Config):
    """The options of both jobs."""

    institution: str = Field(
        default="", description="In a district: the name of the institution, as in the registry. Else leave it empty."
    )


class Approval(_OfOne):
    """The options of an approval, as the launchpad shows them."""

    held: list[str] = Field(
        default=[],
        description="Required. What to merge, without fetching again: the digests that the check `nothing_held` shows."
        " Look at its tables of counts first. Another landing, or one that would change something else, is refused.",
    )
    reason: str = Field(default="", description="Why; kept with the landing, and shown by `rollbook why`. No names.")


class Discarding(_OfOne):
    """The options of a discard, as the launchpad shows them."""

    day: str = Field(
        default="",
        description="Required. The snapshot's date, as 2026-11-20: a landing of this day no longer counts.",
    )
    landing: int = Field(
        default=0, description="The number of the landing, as in ops.syncs; 0 is the last one that counts, or is held."
    )
    reason: str = Field(
        default="", description="Required. Why: kept with the landing, and shown in ops.syncs. No names of pupils."
    )
    confirm: bool = Field(
        default=False,
        description="Publish what that changes. Without it, the run fails and shows a table of what would change.",
    )


def approve(writer: Writer, options: Approval) -> Sequence[TableCounts]:
    """Merge and publish what is held; returns what that changed. Raises RollbookError."""
    return approvals.approve(writer, options.held, reason=options.reason, by=UI).counts


def take_back(writer: Writer, options: Discarding) -> Sequence[TableCounts]:
    """Discard a landing; returns what that changed. Raises RollbookError."""
    try:
        day = date.fromisoformat(options.day)
    except ValueError:
        raise ArgumentError("day is not a date: write it as 2026-11-20") from None
    if not (reason := options.reason.strip()):
        raise ArgumentError("Say why: the reason is kept with the landing")
    asked = list[Hold]()

    def confirm(change: Hold) -> bool:
        asked.append(change)
        return options.confirm

    discard.discard(writer, day, options.landing or None, reason=reason, by=UI, confirm=confirm)
    return asked[-1].counts


# Opens the warehouse of a school, or of a district's institution by its name, with a run's resources.
Open = Callable[[object, str], Rollbook]


def open_school(school: School, resources: object, institution: str) -> Rollbook:
    """Return a single school's warehouse. Raises RollbookError."""
    if institution:
        raise ArgumentError("There is one school only: leave institution empty")
    return school.opened(resources)


def jobs(
    school: School,
    everything: dg.AssetsDefinition,
    opened: Open,
) -> list[Any]:  # Dagster's type of an asset's job is not public
    """Return all jobs of a code location."""
    resource, published = {school.named(RESOURCE)}, school.key(*FILE).to_user_string()

    nightly_sync = dg.define_asset_job(
        school.named(NIGHTLY_SYNC),
        selection=dg.AssetSelection.assets(everything),
        executor_def=dg.in_process_executor,
        description="Fetch both sets, snapshot, merge and publish them: one day, one run. A night of the command"
        f" `rollbook sync` has no run: the [events of {published}](/assets/{published}?view=events) show every night.",
    )

    @dg.op(name=school.named("approve"), required_resource_keys=resource)
    def approve_op(context: dg.OpExecutionContext, config: Approval) -> None:
        with _ends_in_a_sentence(context):
            _say(context, approve(opened(context.resources, config.institution).writer(), config))

    @dg.op(name=school.named("landing"), required_resource_keys=resource)
    def discard_op(context: dg.OpExecutionContext, config: Discarding) -> None:
        with _ends_in_a_sentence(context):
            _say(context, take_back(opened(context.resources, config.institution).writer(), config))

    @dg.job(
        name=school.named("approve_held"),
        executor_def=dg.in_process_executor,
        description="Merge and publish what a sync held. The check `nothing_held` of published/rollbook shows what"
        " would change, and what to paste here.",
    )
    def approve_held() -> None:
        approve_op()

    @dg.job(
        name=school.named("discard"),
        executor_def=dg.in_process_executor,
        description="Take back a landing: of a wrong clock, of wrong data, or approved by mistake. `rollbook discard"
        " DAY --undo` puts it back.",
    )
    def discard_job() -> None:
        discard_op()

    return [nightly_sync, approve_held, discard_job]


def approval_config(school: School, held: Sequence[str], institution: str = "") -> str:
    """What approves these digests, as one line of YAML for the launchpad."""
    options = {"held": held, "reason": "", **({"institution": institution} if institution else {})}
    return json.dumps({"ops": {school.named("approve"): {"config": options}}})


def _say(context: dg.OpExecutionContext, counts: Sequence[TableCounts]) -> None:
    """Say in the run what readers have lost, and show all that has changed."""
    context.log.info(runs.removal(counts))
    context.add_output_metadata({"what changed": runs.change_table(counts)})


@contextmanager
def _ends_in_a_sentence(context: dg.OpExecutionContext) -> Iterator[None]:
    """Do an operator's work: an error of Rollbook's fails the run, in a sentence."""
    runs.mark_as_mine(context.instance, context.run_id)
    try:
        yield
    except RollbookError as error:
        raise runs.Failed(error) from None
