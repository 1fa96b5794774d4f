"""What the UI shows as checks, after each publish: whether the set was proven, and whether the data agree.

A check blocks only where Rollbook itself erred, and those are made ahead of the publish, so that readers never see
such a file. Where the source contradicts itself it is a warning: the data are what it said.
"""

from collections.abc import Iterator, Mapping, Sequence

import dagster as dg
from dagster import AssetCheckEvaluation

from pipelines.landing.manifest import Manifest
from pipelines.operations.data_quality import FACTS, Finding, findings
from pipelines.store.checks import RULES
from pipelines.sync import Rollbook
from pipelines.sync.policy import open_holds, overtaken
from pipelines.tables import WALKED

_PUBLISHED = dg.AssetKey(["published", "rollbook"])


def _key(table: str) -> dg.AssetKey:
    return dg.AssetKey(["history", table])


def _spec(name: str, asset: dg.AssetKey, says: str, *, ours: bool = False) -> dg.AssetCheckSpec:
    return dg.AssetCheckSpec(name, asset=asset, description=says, blocking=ours)


SPECS = (
    *(
        _spec("proven_complete", dg.AssetKey(["raw", name]), f"The walk over the {name} was proven complete.")
        for name in WALKED
    ),
    *(
        _spec("no_unknown_fields", dg.AssetKey(["raw", name]), f"The {name} hold no field that is not declared.")
        for name in WALKED
    ),
    _spec("nothing_held", _PUBLISHED, "No sync waits for a person's approval."),
    *(_spec(r.name, _PUBLISHED, r.sentence, ours=True) for r in RULES),
    *(_spec(f.name, _key(f.table), f.sentence) for f in FACTS),
)


def published(rollbook: Rollbook, found: Mapping[str, Sequence[str]]) -> Iterator[AssetCheckEvaluation]:
    """Look at the published file and at the landings behind it.

    Of our own rules the published file keeps all, or it would not be published; `found` holds what they found in a
    next file that therefore was not. Raises NothingLandedError before the first publish.
    """
    manifests = rollbook.raw.manifests()
    newest = next((m for m in reversed(manifests) if m.counts_for_its_day), None)
    if newest is not None:
        yield from _of_landing(newest)
    yield _nothing_held(manifests)
    for rule in RULES:
        sentences = found.get(rule.name, ())
        yield _result(rule.name, _PUBLISHED, passed=not sentences, ours=True, found="; ".join(sentences))
    for finding in findings(rollbook.warehouse.published):
        yield _of_fact(finding)


def _of_landing(manifest: Manifest) -> Iterator[AssetCheckEvaluation]:
    for name in WALKED:
        asset = dg.AssetKey(["raw", name])
        proven = manifest.proof(name) is not None
        yield _result("proven_complete", asset, passed=proven, found="" if proven else manifest.reason)
        unknown = [f"{d.field} ({d.type}, {d.count})" for d in manifest.drift if d.set == name]
        yield _result("no_unknown_fields", asset, passed=not unknown, found=", ".join(unknown))


def _nothing_held(manifests: list[Manifest]) -> AssetCheckEvaluation:
    """Whether a day is held that no later synced day has overtaken."""
    waiting = [str(m.snapshot_date) for m in open_holds(manifests) if not overtaken(m, manifests)]
    return _result("nothing_held", _PUBLISHED, passed=not waiting, found=", ".join(waiting))


def _of_fact(finding: Finding) -> AssetCheckEvaluation:
    ids = ", ".join(map(str, finding.sample))
    found = f"{finding.broken}, such as {ids}" if finding.broken else ""
    return _result(
        finding.fact.name, _key(finding.fact.table), passed=not finding.broken, found=found, count=finding.broken
    )


def _result(
    name: str, asset: dg.AssetKey, *, passed: bool, ours: bool = False, found: str = "", count: int | None = None
) -> AssetCheckEvaluation:
    return AssetCheckEvaluation(
        check_name=name,
        asset_key=asset,
        passed=passed,
        severity=dg.AssetCheckSeverity.ERROR if ours else dg.AssetCheckSeverity.WARN,
        # A number is plotted night by night.
        metadata={**({"found": found} if found else {}), **({} if count is None else {"how many": count})},
        blocking=ours,
    )
