"""The asset checks: what is looked at after each publish, and each check's result.

Those of what was landed belong to a day; the others are about the file as it is now. Those of Rollbook's own work also
run before each publish, so readers never see a broken file. Contradictions in the source only warn: the data are as the
source sent them.
"""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from itertools import chain, product

import dagster as dg
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluationTargetMaterializationData

from rollbook.defs.partitions import IS_FRESH, PUBLISHED
from rollbook.night.rollbook import Rollbook
from rollbook.operations.data_quality import QUALITY_CHECKS, run_quality_checks
from rollbook.operations.status import freshness, not_synced, open_holds
from rollbook.store.checks import RULES
from rollbook.tables import WALKED
from rollbook.util.text import count_of, listed

# The finding of each check: a sentence, or a number of rows. A check that passed found nothing. A check of a landed day
# has the day, the others have none.
Found = Mapping[tuple[dg.AssetCheckKey, str | None], str | int]

# The checks of each day's landing, and what they say of a set.
OF_A_DAY = {
    "proven_complete": "The walk over the {} was proven complete.",
    "absences_are_clear": "Each of the {} that the walk no longer listed was searched for, with a clear answer.",
    "none_refused": "No record of the {} was refused.",
    "no_unknown_fields": "The {} hold no field that is not declared.",
}
OF_THE_FILE = {
    IS_FRESH: "The last night that was due has been synced. Backfills of older days do not count.",
    "nothing_held": "No sync waits for a person's approval.",
    **RULES,
}


def check_specs(days: dg.PartitionsDefinition[str]) -> Iterator[dg.AssetCheckSpec]:
    """Yield the checks; those of what was landed have these days."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.PreviewWarning)  # checks by day are a preview in Dagster 1.13
        for name, (check, says) in product(WALKED, OF_A_DAY.items()):
            yield dg.AssetCheckSpec(check, asset=["raw", name], description=says.format(name), partitions_def=days)
    for check, says in OF_THE_FILE.items():
        yield dg.AssetCheckSpec(check, asset=PUBLISHED, description=says)
    for c in QUALITY_CHECKS:
        yield dg.AssetCheckSpec(c.name, asset=["history", c.table], description=c.sentence)


def look(rollbook: Rollbook, days: Iterable[date], broken: Mapping[str, Sequence[str]] | None = None) -> Found:
    """Look at the published file and at what was landed on these days.

    `broken` holds what stopped a next file, by rule: the published one follows all of Rollbook's own rules, or it would
    not have been published. Raises NothingLandedError before the first publish.
    """
    manifests = rollbook.raw.manifests()
    synced = max((m.snapshot_date for m in manifests if m.counts_for_its_day), default=date.min)
    # A hold before a day that was synced since may still be decided, but need not be.
    waiting = [str(m.snapshot_date) for m in open_holds(manifests) if m.snapshot_date >= synced]
    due, late_by = freshness(rollbook, rollbook.newest(), rollbook.warehouse.shown())
    of_the_file = {name: "; ".join((broken or {}).get(name, ())) for name in RULES}
    of_the_file |= {"nothing_held": ", ".join(waiting), IS_FRESH: "" if late_by is None else not_synced(due)}
    results: dict[tuple[dg.AssetCheckKey, str | None], str | int] = {
        (dg.AssetCheckKey(dg.AssetKey(["history", check.table]), check.name), None): rows
        for check, rows in run_quality_checks(rollbook.warehouse.published_file)
    }
    results |= {(dg.AssetCheckKey(PUBLISHED, name), None): says for name, says in of_the_file.items()}
    for day in days:
        # The last landing that counts; on a day that has none, the one that failed or is held.
        for name, m in product(WALKED, (rollbook.landings.counted(day) or rollbook.raw.manifests(day))[-1:]):
            unclear = sum(a.set == name and a.answer == "unclear" for a in m.absences) + m.unverified.get(name, 0)
            unknown = (f"{d.field} ({d.type}, {d.count})" for d in m.drift if d.set == name)
            of_the_day: dict[str, str | int] = {
                "proven_complete": "" if m.proof(name) is not None else m.reason or "it was not proven",
                "absences_are_clear": count_of(unclear, "record") if unclear else "",
                "none_refused": count_of(m.rejected[name], "record") if m.rejected.get(name) else "",
                "no_unknown_fields": ", ".join(unknown),
            }
            results |= {(dg.AssetCheckKey(dg.AssetKey(["raw", name]), c), str(day)): f for c, f in of_the_day.items()}
    return results


def results(context: dg.AssetExecutionContext, of: Mapping[str, Found]) -> Iterator[dg.AssetCheckEvaluation]:
    """Yield each check's result over these institutions; a single school's name is empty. It passes if all pass.

    Links the result to its materialization; otherwise the UI shows the check as missing. Dagster's own
    `AssetCheckResult` does so, too, but has no day. The name imported for it is private; 1.13.0 has it, and 1.13.27.
    """
    for check, day in dict.fromkeys(chain.from_iterable(of.values())):
        problems = {name: seen[check, day] for name, seen in of.items() if (check, day) in seen}
        counts = {name: count_of(f, "row") if isinstance(f, int) else f for name, f in problems.items() if f}
        metadata: dict[str, str | int] = {"institutions": listed([*problems])} if any(problems) else {}
        if counts:
            metadata["found"] = listed([f"{name} ({says})" if name else says for name, says in counts.items()])
        if rows := [f for f in problems.values() if isinstance(f, int)]:
            metadata["how many"] = sum(rows)  # the UI plots it
        target = None
        if day is not None:
            filters = dg.AssetRecordsFilter(check.asset_key, asset_partitions=[day])
            for event in context.instance.fetch_materializations(filters, limit=1).records:
                target = AssetCheckEvaluationTargetMaterializationData(
                    storage_id=event.storage_id, run_id=event.run_id, timestamp=event.timestamp
                )
        yield dg.AssetCheckEvaluation(
            asset_key=check.asset_key,
            check_name=check.name,
            passed=not counts,
            severity=dg.AssetCheckSeverity.ERROR if check.name in (IS_FRESH, *RULES) else dg.AssetCheckSeverity.WARN,
            metadata=metadata,
            partition=day,
            target_materialization_data=target,
        )
