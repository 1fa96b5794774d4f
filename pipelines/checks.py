"""The asset checks in Dagster's UI, evaluated after each publish: proofs, unknown fields, holds, data quality.

Only the checks of Rollbook's own work block. They also run before each publish, so readers never see a broken file.
Contradictions in the source only warn: the data are as the source sent them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import dagster as dg
from dagster import AssetCheckEvaluation

from pipelines.landing.manifest import Manifest
from pipelines.operations.data_quality import QUALITY_CHECKS, QualityResult, run_quality_checks
from pipelines.partitions import PUBLISHED
from pipelines.store.checks import RULES
from pipelines.sync import Rollbook
from pipelines.sync.policy import open_holds, overtaken
from pipelines.tables import WALKED
from pipelines.text import count_of

# The most institutions that a check's result names.
MOST_NAMED = 20


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
    manifests = rollbook.raw.manifests()
    newest = next((m for m in reversed(manifests) if m.counts_for_its_day), None)
    if newest is not None:
        yield from _landing_results(newest)
    yield _nothing_held(manifests)
    for rule in RULES:
        sentences = found.get(rule.name, ())
        yield _result(rule.name, PUBLISHED, passed=not sentences, blocking=True, found="; ".join(sentences))
    for result in run_quality_checks(rollbook.warehouse.published):
        yield _quality_result(result)


def _landing_results(manifest: Manifest) -> Iterator[AssetCheckEvaluation]:
    for name in WALKED:
        asset = dg.AssetKey(["raw", name])
        proven = manifest.proof(name) is not None
        yield _result("proven_complete", asset, passed=proven, found="" if proven else manifest.reason)
        unknown = [f"{d.field} ({d.type}, {d.count})" for d in manifest.drift if d.set == name]
        yield _result("no_unknown_fields", asset, passed=not unknown, found=", ".join(unknown))


def _nothing_held(manifests: list[Manifest]) -> AssetCheckEvaluation:
    """Passes unless a day is held and no later day was synced."""
    waiting = [str(m.snapshot_date) for m in open_holds(manifests) if not overtaken(m, manifests)]
    return _result("nothing_held", PUBLISHED, passed=not waiting, found=", ".join(waiting))


def _quality_result(result: QualityResult) -> AssetCheckEvaluation:
    found = count_of(result.failures, "row") if result.failures else ""
    asset = _key(result.check.table)
    return _result(result.check.name, asset, passed=not result.failures, found=found, count=result.failures)


def _result(
    name: str, asset: dg.AssetKey, *, passed: bool, blocking: bool = False, found: str = "", count: int | None = None
) -> AssetCheckEvaluation:
    return AssetCheckEvaluation(
        check_name=name,
        asset_key=asset,
        passed=passed,
        severity=dg.AssetCheckSeverity.ERROR if blocking else dg.AssetCheckSeverity.WARN,
        # The UI plots a number over time.
        metadata={**({"found": found} if found else {}), **({} if count is None else {"how many": count})},
        blocking=blocking,
    )


def about(institution: str, evaluation: AssetCheckEvaluation) -> AssetCheckEvaluation:
    """Return an evaluation with its institution in the metadata; unchanged without a registry."""
    if not institution:
        return evaluation
    return _copy(evaluation, evaluation.passed, {"institution": institution, **evaluation.metadata})


def together(evaluations: Sequence[tuple[str, AssetCheckEvaluation]]) -> AssetCheckEvaluation:
    """Merge a check's evaluations over several institutions into the one that Dagster shows: it passes if all pass."""
    failed = [(name, e) for name, e in evaluations if not e.passed]
    said = [f"{name} ({e.metadata['found'].value})" if "found" in e.metadata else name for name, e in failed]
    more = [f"{len(said) - MOST_NAMED} more"] if len(said) > MOST_NAMED else []
    metadata: dict[str, Any] = {"institutions": len(evaluations)}
    if said:
        metadata["found"] = "; ".join(said[:MOST_NAMED] + more)
    return _copy(evaluations[0][1], not failed, metadata)


def _copy(evaluation: AssetCheckEvaluation, passed: bool, metadata: Mapping[str, Any]) -> AssetCheckEvaluation:
    return AssetCheckEvaluation(
        check_name=evaluation.check_name,
        asset_key=evaluation.asset_key,
        passed=passed,
        severity=evaluation.severity,
        metadata=metadata,
        blocking=evaluation.blocking,
    )
