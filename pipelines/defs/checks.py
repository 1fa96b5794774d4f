"""The asset checks in Dagster's UI, evaluated after each publish: proofs, unknown fields, holds, data quality.

The checks of Rollbook's own work also run before each publish, so readers never see a broken file. Contradictions in
the source only warn: the data are as the source sent them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import dagster as dg

from pipelines.defs.partitions import PUBLISHED
from pipelines.operations.data_quality import QUALITY_CHECKS, run_quality_checks
from pipelines.store.checks import RULES
from pipelines.sync import Rollbook
from pipelines.sync.policy import open_holds, overtaken
from pipelines.tables import WALKED
from pipelines.text import count_of, listed

# What each check found: a sentence, or a number of rows. A check that passed found nothing.
Found = Mapping[dg.AssetCheckKey, str | int]

SPECS = (
    *(
        dg.AssetCheckSpec(
            "proven_complete", asset=["raw", name], description=f"The walk over the {name} was proven complete."
        )
        for name in WALKED
    ),
    *(
        dg.AssetCheckSpec(
            "no_unknown_fields", asset=["raw", name], description=f"The {name} hold no field that is not declared."
        )
        for name in WALKED
    ),
    dg.AssetCheckSpec("nothing_held", asset=PUBLISHED, description="No sync waits for a person's approval."),
    *(dg.AssetCheckSpec(rule.name, asset=PUBLISHED, description=rule.sentence) for rule in RULES),
    *(dg.AssetCheckSpec(c.name, asset=["history", c.table], description=c.sentence) for c in QUALITY_CHECKS),
)
_SEVERITY_OF_OWN = {rule.name: dg.AssetCheckSeverity.ERROR for rule in RULES}


def look(rollbook: Rollbook, broken: Mapping[str, Sequence[str]]) -> Found:
    """Look at the published file and the newest landings; `broken` holds what stopped a next file, by rule.

    The published file follows all of Rollbook's own rules, or it would not have been published. Raises
    NothingLandedError before the first publish.
    """
    manifests = rollbook.raw.manifests()
    waiting = [str(m.snapshot_date) for m in open_holds(manifests) if not overtaken(m, manifests)]
    found: dict[dg.AssetCheckKey, str | int] = {
        dg.AssetCheckKey(dg.AssetKey(["history", check.table]), check.name): rows
        for check, rows in run_quality_checks(rollbook.warehouse.published)
    }
    found |= {dg.AssetCheckKey(PUBLISHED, rule.name): "; ".join(broken.get(rule.name, ())) for rule in RULES}
    found[dg.AssetCheckKey(PUBLISHED, "nothing_held")] = ", ".join(waiting)
    for newest in [m for m in manifests if m.counts_for_its_day][-1:]:
        for name in WALKED:
            raw = dg.AssetKey(["raw", name])
            unproven = "" if newest.proof(name) is not None else newest.reason or "it was not proven"
            found[dg.AssetCheckKey(raw, "proven_complete")] = unproven
            unknown = (f"{d.field} ({d.type}, {d.count})" for d in newest.drift if d.set == name)
            found[dg.AssetCheckKey(raw, "no_unknown_fields")] = ", ".join(unknown)
    return found


def results(of: Mapping[str, Found]) -> Iterator[dg.AssetCheckResult]:
    """Yield each check's result over these institutions; a single school's name is empty. It passes if all pass."""
    for spec in SPECS:
        found = {name: seen[spec.key] for name, seen in of.items() if spec.key in seen}
        if not found:
            continue
        told = {name: count_of(f, "row") if isinstance(f, int) else f for name, f in found.items() if f}
        metadata: dict[str, str | int] = {"institutions": listed([*found])} if any(found) else {}
        if told:
            metadata["found"] = listed([f"{name} ({says})" if name else says for name, says in told.items()])
        if rows := [f for f in found.values() if isinstance(f, int)]:
            metadata["how many"] = sum(rows)  # the UI plots it
        yield dg.AssetCheckResult(
            passed=not told,
            asset_key=spec.asset_key,
            check_name=spec.name,
            severity=_SEVERITY_OF_OWN.get(spec.name, dg.AssetCheckSeverity.WARN),
            metadata=metadata,
        )
