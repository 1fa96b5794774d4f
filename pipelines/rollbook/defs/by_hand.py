"""The jobs of an operator beside the nightly one: approve what is held, and discard a landing. Neither fetches.

The sensor `record` marks what they did, as it marks what the commands did.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import date

import dagster as dg
from pydantic import Field

from rollbook import settings
from rollbook.defs import runs
from rollbook.defs.school import School
from rollbook.errors import ArgumentError, RollbookError
from rollbook.features.assembly import assemble
from rollbook.night import approvals, discard
from rollbook.opened import Rollbook

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
        description="What to merge, without fetching again: the digests that the held runs show. Look at their tables "
        "of counts first. Another landing, or one that would change something else, is refused."
    )
    reason: str = Field(default="", description="Why; kept with the landing, and shown by `rollbook why`. No names.")


class Discarding(_OfOne):
    """The options of a discard, as the launchpad shows them."""

    day: str = Field(description="The snapshot's date, as 2026-11-20: a landing of this day no longer counts.")
    landing: int = Field(
        default=0, description="The number of the landing, as in ops.syncs; 0 is the last one that counts, or is held."
    )
    reason: str = Field(description="Why: kept with the landing, and shown in ops.syncs. No names of pupils.")
    confirm: bool = Field(
        default=False,
        description="Publish what that changes. Without it, the run fails and shows a table of what would change.",
    )


def jobs(school: School) -> list[dg.JobDefinition]:
    """Return both jobs of a code location."""
    resource = {school.named("rollbook")}

    @dg.op(name=school.named("approve"), required_resource_keys=resource)
    def approve(context: dg.OpExecutionContext, config: Approval) -> None:
        with _opened(context, school, config.institution) as rollbook:
            held = approvals.to_approve(rollbook.place, every_day=True)
            days = [each.snapshot_date for each in held if each.hold_digest in config.held]
            with _recorded(rollbook, max(days, default=rollbook.today())):
                approvals.approve(rollbook.writer(), config.held, reason=config.reason, by=UI)

    @dg.op(name=school.named("landing"), required_resource_keys=resource)
    def discard_landing(context: dg.OpExecutionContext, config: Discarding) -> None:
        with _opened(context, school, config.institution) as rollbook:
            try:
                day = date.fromisoformat(config.day)
            except ValueError:
                raise ArgumentError("day is not a date: write it as 2026-11-20") from None
            if not config.reason.strip():
                raise ArgumentError("Say why: the reason is kept with the landing")
            discard.discard(
                rollbook.writer(),
                day,
                config.landing or None,
                reason=config.reason.strip(),
                by=UI,
                confirm=lambda _: config.confirm,
            )

    @dg.job(
        name=school.named("approve_held"),
        executor_def=dg.in_process_executor,
        description="Merge and publish what a sync held, by the digest that the held run shows.",
    )
    def approve_held() -> None:
        approve()

    @dg.job(
        name=school.named("discard"),
        executor_def=dg.in_process_executor,
        description="Take back a landing: of a wrong clock, of wrong data, or approved by mistake. `rollbook discard"
        " DAY --undo` puts it back.",
    )
    def discard_job() -> None:
        discard_landing()

    return [approve_held, discard_job]


@contextmanager
def _opened(context: dg.OpExecutionContext, school: School, institution: str) -> Iterator[Rollbook]:
    """The warehouse that a job is about. An error of Rollbook's fails the run, in a sentence."""
    runs.mark_as_mine(context.instance, context.run_id)
    try:
        if school.registry() is None:
            if institution:
                raise ArgumentError("There is one school only: leave institution empty")
            yield assemble(school.settings(getattr(context.resources, school.named("rollbook")).folder))
        else:
            if not institution:
                raise ArgumentError("This is a district: name the institution")
            yield assemble(settings.load(fetches=False, institution=institution))
    except RollbookError as error:
        raise runs.Failed(error) from None


def _recorded(rollbook: Rollbook, day: date) -> AbstractContextManager[object]:
    """Count an institution's approval among the nights of its district. A single school has none."""
    if not rollbook.settings.institution:
        return nullcontext()
    from rollbook.features.district.nights import recorded  # a single school loads nothing of the fleet

    return recorded(rollbook, day)
