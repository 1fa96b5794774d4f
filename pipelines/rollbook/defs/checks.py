"""The asset checks: of each landed set's newest night, of the tables and of the published file as they are now.

Rollbook's own rules also run before each publish, so readers never see a broken file. Contradictions in the source only
warn: the data are as the source sent them. The checks of a day are metadata of that day's materialization (`events`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import chain
from typing import Any
from urllib.parse import quote

import dagster as dg

from rollbook.defs import jobs, runs
from rollbook.defs.events import FILE, RAW, TABLE, last_decided, unclear, unknown_fields
from rollbook.defs.resources import School
from rollbook.health.data_quality import QUALITY_CHECKS, run_quality_checks
from rollbook.health.status import freshness, open_holds, why_late
from rollbook.landing.manifest import Manifest
from rollbook.night.place import Place
from rollbook.settings import Settings
from rollbook.tables import WALKED
from rollbook.util.text import count_of, listed

# A check's asset, below the school's name, and its name.
Check = tuple[tuple[str, str], str]


@dataclass(frozen=True)
class CheckFinding:
    """What a check found: how many things contradict it, which are rows unless a `problem` says what.

    It passed if there are none. `holds` are the landings that wait for approval.
    """

    check: Check
    count: int = 0
    problem: str = ""
    holds: Sequence[Manifest] = ()

    @property
    def found(self) -> str:
        """The problem, or the rows; empty if the check passed."""
        return self.problem or (count_of(self.count, "row") if self.count else "")


NEWEST, IS_FRESH, HELD, CONSISTENT = "newest_night", "is_fresh", "nothing_held", "is_consistent"
ASK = "The data are as the service sent them: ask its representative."
# The sentence that a check proves, and what to do if it is not true.
CHECKS: dict[Check, tuple[str, str]] = {
    **{
        ((RAW, name), NEWEST): (
            f"The newest night's walk over the {name} was proven complete, each absence was clear, no record was"
            " refused and no field was unknown.",
            "`rollbook status` shows more. If it stays so, ask the service's representative.",
        )
        for name in WALKED
    },
    **{((TABLE, check.table), check.name): (check.sentence, ASK) for check in QUALITY_CHECKS},
    (FILE, IS_FRESH): (
        "The last night that was due has been synced, or is held. Backfills of older days do not count.",
        "Run `rollbook sync`, and see what it says.",
    ),
    (FILE, HELD): (
        "No sync waits for a person's approval.",
        "Look at what would change. If it is right, launch the job `approve_held` with the text to paste; else ask the"
        " service's representative.",
    ),
    (FILE, CONSISTENT): (
        "Keys are unique, versions do not overlap, each received record became a row or was refused, and tables and"
        " history match the daily snapshots.",
        "Run `rollbook rebuild`. Readers keep the last good file.",
    ),
}


def check_specs(school: School) -> Iterator[dg.AssetCheckSpec]:
    """Yield the checks, each with what to do."""
    for (asset, name), (sentence, advice) in CHECKS.items():
        yield dg.AssetCheckSpec(name, asset=school.key(*asset), description=f"{sentence} If not: {advice}")


def look(
    place: Place, settings: Settings, now: datetime, broken: Mapping[str, Sequence[str]] | None = None
) -> list[CheckFinding]:
    """Look at the published file and at the newest night; returns the finding of each check.

    `broken` holds what stopped a next file, by rule: the published one follows all of Rollbook's own rules, or it would
    not have been published. Raises NothingLandedError before the first publish.
    """
    manifests = place.raw.manifests()
    synced = max((m.snapshot_date for m in manifests if m.counts_for_its_day), default=date.min)
    # A hold before a day that was synced since may still be decided, but need not be.
    waiting = [m for m in open_holds(manifests) if m.snapshot_date >= synced]
    due, late_by = freshness(settings, now, place.newest(), place.warehouse.shown())
    # A held night is late, too, but waits for a person's decision, and HELD says so.
    is_late = late_by is not None and due.date() not in (m.snapshot_date for m in waiting)
    late = f"the night of {due:%Y-%m-%d %H:%M} {why_late(due, (), settings)}" if is_late else ""
    contradictions = [*chain.from_iterable((broken or {}).values())]
    newest = next(filter(None, (last_decided(place, day) for day in reversed(place.raw.days()))), None)
    return [
        *(
            CheckFinding(((TABLE, check.table), check.name), rows)
            for check, rows in run_quality_checks(place.warehouse.published_file)
        ),
        CheckFinding((FILE, IS_FRESH), int(is_late), late),
        CheckFinding((FILE, HELD), len(waiting), ", ".join(str(m.snapshot_date) for m in waiting), waiting),
        CheckFinding((FILE, CONSISTENT), len(contradictions), "; ".join(contradictions)),
        *(_of_walk(newest, name) for name in WALKED if newest is not None),
    ]


def _of_walk(manifest: Manifest, name: str) -> CheckFinding:
    """The problems of a set's walk."""
    refused, hidden = manifest.rejected.get(name, 0), unclear(manifest, name)
    found = (
        "" if manifest.proof(name) is not None else manifest.reason or "not proven",
        f"{count_of(hidden, 'record')} unclear" if hidden else "",
        f"{count_of(refused, 'record')} refused" if refused else "",
        f"unknown: {fields}" if (fields := unknown_fields(manifest, name)) else "",
    )
    problems = [*filter(None, found)]
    return CheckFinding(((RAW, name), NEWEST), len(problems), "; ".join(problems))


def results(school: School, by_institution: Mapping[str, Sequence[CheckFinding]]) -> Iterator[dg.AssetCheckEvaluation]:
    """Yield each check's result over these institutions; a single school's name is empty. It passes if all pass."""
    by_check: dict[Check, dict[str, CheckFinding]] = {}
    for institution, findings in by_institution.items():
        for finding in findings:
            by_check.setdefault(finding.check, {})[institution] = finding
    for (asset, name), by_name in by_check.items():
        failed = {institution: finding.found for institution, finding in by_name.items() if finding.found}
        # The UI plots the number.
        metadata: dict[str, Any] = {"how many": sum(finding.count for finding in by_name.values())}
        if any(by_name):
            metadata["institutions"] = listed([*by_name])
        if failed:
            metadata["found"] = listed([f"{who} ({found})" if who else found for who, found in failed.items()])
            metadata["what to do"] = CHECKS[asset, name][1]
        for institution, finding in by_name.items():
            if finding.holds:
                metadata |= _to_approve(school, institution, finding.holds)
        yield dg.AssetCheckEvaluation(
            asset_key=school.key(*asset),
            check_name=name,
            passed=not failed,
            severity=dg.AssetCheckSeverity.ERROR if name in (IS_FRESH, CONSISTENT) else dg.AssetCheckSeverity.WARN,
            metadata=metadata,
        )


def _to_approve(school: School, institution: str, holds: Sequence[Manifest]) -> dict[str, Any]:
    """What a person needs in order to approve an institution's landings: what would change, and what to launch."""
    of, digests = f" ({institution})" if institution else "", [held.hold_digest for held in holds]
    config = jobs.approval_config(school, digests, institution)
    lines = [f"{held.snapshot_date}: {held.reason}\n\n{runs.change_table(held.counts).value}" for held in holds]
    if not school.given:  # the address of a code location in another project is not known
        launchpad = f"/locations/rollbook/jobs/approve_held/playground/setup?config={quote(config)}"
        lines.append(f"[Open the launchpad with the text to approve]({launchpad})")
    return {
        f"digest{of}": ", ".join(digests),
        f"what would change{of}": dg.MetadataValue.md("\n\n".join(lines)),
        f"paste to approve{of}": config,
    }
