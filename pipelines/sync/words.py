"""The sentences about a landing, and about a day without one, that the log, the UI and the prompt say alike."""

from __future__ import annotations

from collections.abc import Container, Sequence
from datetime import date

from pipelines.landing import Hold, Manifest, Verdict


def held(manifest: Manifest, hold: Hold) -> str:
    """Why a landing is held, and what to do."""
    return (
        f"Held: {hold.reason}. Readers keep what was published. If it is right, run"
        f" `rollbook sync --date {manifest.snapshot_date} --approve`; else ask the service's representative"
    )


def unproven(manifest: Manifest) -> str:
    """Why a landing that counts removes nothing, in words; empty when both sets were proven."""
    reasons = []
    for w in manifest.walks:
        if manifest.proof(w.set) is None:
            unclear = [a for a in manifest.absences if a.set == w.set and a.answer == "unclear"]
            why = f"no clean answer about id {unclear[0].id}" if unclear else "; ".join(w.spoiled)
            reasons.append(f"{w.set} could not be proven complete ({why}), so nothing was removed from them")
    return ". ".join(reasons)


def nothing(day: date, manifests: Sequence[Manifest], thinned: Container[date] = ()) -> str:
    """Why a day cannot be rebuilt, in words."""
    if not manifests and day in thinned:
        return f"what was landed on {day} was let go of (ROLLBOOK_KEEP_DAYS); the history keeps what it said"
    if any(m.verdict is Verdict.HELD for m in manifests):
        return f"what was landed on {day} is held; `rollbook sync --date {day} --approve` merges it"
    if manifests:
        return f"nothing that counts was landed on {day} (its syncs failed), and the service keeps no history"
    return f"nothing was landed on {day}, and the service keeps no history"
