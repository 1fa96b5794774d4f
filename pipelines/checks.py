"""The asset checks in Dagster's UI, evaluated after each publish: proofs, unknown fields, holds, data quality.

Only the checks of Rollbook's own work block. They also run before each publish, so readers never see a broken file.
Contradictions in the source only warn: the data are as the source sent them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import dagster as dg
from dagster import AssetCheckEvaluation

from pipelines.operations.data_quality import QUALITY_CHECKS, run_quality_checks
from pipelines.partitions import PUBLISHED
from pipelines.store.checks import RULES
from pipelines.sync import Rollbook
from pipelines.sync.policy import open_holds, overtaken
from pipelines.tables import WALKED
from pipelines.text import count_of, listed


def _key(table: str) -> dg.AssetKey:
    return dg.AssetKey(["history", table])


def _spec(name: str, asset: dg.AssetKey, description: str, *, blocking: bool = False) -> dg.AssetCheckSpec:
    return dg.AssetCheckSpec(name, asset=asset, description=description, blocking=blocking)


SPECS = (
    *(
        _spec("proven_complete", dg.AssetKey(["raw", name]), f"The walk over the {name} was proven complete.")
        for name in WALKED
    ),
    *(
        _spec("no_unknown_fields", dg.AssetKey(["raw", name]), f"The {name} hold no field that is not declared.")
        for name in WALKED
    ),
    _spec("nothing_held", PUBLISHED, "No sync waits for a person's approval."),
    *(_spec(r.name, PUBLISHED, r.sentence, blocking=True) for r in RULES),
    *(_spec(c.name, _key(c.table), c.sentence) for c in QUALITY_CHECKS),
)


def evaluate(rollbook: Rollbook, found: Mapping[str, Sequence[str]]) -> Iterator[AssetCheckEvaluation]:
    """Evaluate all checks on the published file and the newest landings.

    The published file follows all of Rollbook's own rules, or it would not have been published. `found` holds the
    violations, by rule, that stopped a next file. Raises NothingLandedError before the first publish.
    """
    about = {"institution": rollbook.settings.institution} if rollbook.settings.institution else {}
    manifests = rollbook.raw.manifests()
    newest = next((m for m in reversed(manifests) if m.counts_for_its_day), None)
    if newest is not None:
        for name in WALKED:
            raw = dg.AssetKey(["raw", name])
            proven = newest.proof(name) is not None
            yield _result("proven_complete", raw, about, passed=proven, found="" if proven else newest.reason)
            unknown = ", ".join(f"{d.field} ({d.type}, {d.count})" for d in newest.drift if d.set == name)
            yield _result("no_unknown_fields", raw, about, passed=not unknown, found=unknown)
    waiting = ", ".join(str(m.snapshot_date) for m in open_holds(manifests) if not overtaken(m, manifests))
    yield _result("nothing_held", PUBLISHED, about, passed=not waiting, found=waiting)
    for rule in RULES:
        broken = "; ".join(found.get(rule.name, ()))
        yield _result(rule.name, PUBLISHED, about, passed=not broken, blocking=True, found=broken)
    for check, rows in run_quality_checks(rollbook.warehouse.published):
        counted = about | {"how many": rows}  # the UI plots a number over time
        told = count_of(rows, "row") if rows else ""
        yield _result(check.name, _key(check.table), counted, passed=not rows, found=told)


def _result(
    name: str, asset: dg.AssetKey, about: Mapping[str, Any], *, passed: bool, blocking: bool = False, found: str = ""
) -> AssetCheckEvaluation:
    return AssetCheckEvaluation(
        check_name=name,
        asset_key=asset,
        passed=passed,
        severity=dg.AssetCheckSeverity.ERROR if blocking else dg.AssetCheckSeverity.WARN,
        metadata={**about, **({"found": found} if found else {})},
        blocking=blocking,
    )


def together(evaluations: Sequence[tuple[str, AssetCheckEvaluation]]) -> AssetCheckEvaluation:
    """Merge a check's evaluations over several institutions into the one that Dagster shows: it passes if all pass."""
    failed = [(name, e) for name, e in evaluations if not e.passed]
    said = [f"{name} ({e.metadata['found'].value})" if "found" in e.metadata else name for name, e in failed]
    check, about = evaluations[0][1], {"institutions": len(evaluations)}
    blocking = bool(check.blocking)
    return _result(check.check_name, check.asset_key, about, passed=not failed, blocking=blocking, found=listed(said))
