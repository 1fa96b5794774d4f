"""Messages about landings, and about days without one, shared by the log, the UI and the command line."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from datetime import date, timedelta
from enum import StrEnum

from pipelines.landing.manifest import Hold, Manifest, Verdict
from pipelines.text import count_of


class Skip(StrEnum):
    """Why a backfill skips a day, short enough for a list."""

    EXPIRED = "expired"
    HELD = "held"
    FAILED = "its syncs failed"
    NEVER = "nothing was landed"


def held(manifest: Manifest, hold: Hold) -> str:
    """Why a landing is held, and what to do."""
    return (
        f"Held: {hold.reason}. Readers keep what was published. If it is right, run"
        f" `rollbook sync --date {manifest.snapshot_date} --approve`; else ask the service's representative"
    )


def contract_changed(refused: str) -> str:
    """Why a landing fails when too many of its records were refused."""
    return (
        f"{refused}. The service no longer says what its contract says: ask its representative what changed;"
        " nothing was merged"
    )


def rebuild_would_lose(days: Sequence[date]) -> str:
    """Why a rebuild is refused, and what to do instead."""
    return (
        f"The history holds {count_of(len(days), 'day')} ({days[0]} to {days[-1]}) whose raw bodies were deleted"
        " (ROLLBOOK_KEEP_DAYS), and a rebuild from raw/ would lose them. It was refused and nothing was"
        " changed. `rollbook backfill FROM TO` rebuilds the days that raw/ still holds; to rebuild all,"
        " restore the others to raw/ from a backup first, or accept the loss with `rollbook rebuild"
        " --accept-loss`"
    )


def refused_on_recompose(manifest: Manifest, refused: str) -> str:
    """Why a landing that was accepted once can no longer be flattened."""
    return (
        f"{manifest.snapshot_date}, landing {manifest.landing}: {refused}. It was accepted when it was fetched, so a"
        " declaration in pipelines/tables.py no longer fits it: correct the declaration, then run this again. Nothing"
        " was changed"
    )


def raw_lacks(lost: Sequence[tuple[date, int]]) -> str:
    """Why a night fails when landings are missing, and what to do. They are given as day and number."""
    days = _spans(sorted({day for day, _ in lost}))
    return (
        f"raw/ lacks {count_of(len(lost), 'landing')} that the snapshots and the history were made from: {days}."
        " Restore what is missing to raw/ from a backup or, with ROLLBOOK_LAKE, from the copy (`rollbook mirror restore"
        " --into FOLDER`); or give it up with `rollbook rebuild --accept-loss`. Landings fetched until then stay in"
        " raw/ and are merged afterwards"
    )


def held_back(reason: str) -> str:
    """Why something was not published, and what to do."""
    return (
        f"Held: {reason}. Nothing was changed. If it is right, run it again with --yes (in the UI: with"
        " `approve: true` in the launchpad)"
    )


def nothing_held(day: date | None) -> str:
    """Why there is nothing to approve."""
    of = f"on {day}" if day else "on any day"
    return f"Nothing is held {of}, so there is nothing to approve. `rollbook status` lists what is held"


def no_such_landing(day: date, landing: int | None, manifests: Sequence[Manifest]) -> str:
    """Why there is nothing to discard."""
    if not manifests:
        return f"Nothing was landed on {day}, so there is nothing to discard"
    there = ", ".join(f"{m.landing} ({m.verdict or 'no verdict'})" for m in manifests)
    asked = "no landing that counts or is held" if landing is None else f"no landing {landing}"
    return f"{day} has {asked}; it has {there}. Name one of them with --landing"


def nothing_discarded(day: date, landing: int | None, numbers: Sequence[int]) -> str:
    """Why there is no discard to undo."""
    if not numbers:
        return f"No landing of {day} was discarded, so there is nothing to restore"
    return f"Landing {landing} of {day} was not discarded; choose from {', '.join(map(str, numbers))} with --landing"


def unproven(manifest: Manifest) -> str:
    """Why a landing that counts removes nothing; empty if both sets were proven."""
    if manifest.deferred:
        return "it could not be compared with the nights before when it was fetched, so nothing was removed"
    reasons = []
    for w in manifest.walks:
        if manifest.proof(w.set) is None:
            unclear = any(a.set == w.set and a.answer == "unclear" for a in manifest.absences)
            why = "no clean answer about a missing record" if unclear else "; ".join(w.spoiled)
            reasons.append(f"{w.set} could not be proven complete ({why}), so nothing was removed from them")
    return ". ".join(reasons)


def long_unproven(set_name: str, since: date, nights: int, repeated_ids: Sequence[int]) -> str:
    """What is wrong with a set that stays unproven night after night, and what to do."""
    ids = ", ".join(map(str, repeated_ids))
    why = f"The service lists ids more than once, such as {ids}" if ids else "Its pages and its total do not agree"
    return (
        f"{set_name} could not be proven complete on {nights} nights in a row, since {since}, so what has left since is"
        f" still listed. {why}: ask the service's representative to correct that"
    )


def why_skipped(day: date, manifests: Sequence[Manifest], expired: Container[date] = ()) -> Skip:
    """Why a day without a landing that counts cannot be rebuilt."""
    if not manifests and day in expired:
        return Skip.EXPIRED
    if any(m.verdict is Verdict.HELD for m in manifests):
        return Skip.HELD
    return Skip.FAILED if manifests else Skip.NEVER


def skipped(day: date, why: Skip) -> str:
    """Why a day cannot be rebuilt, and what to do."""
    match why:
        case Skip.EXPIRED:
            return f"what was landed on {day} has expired (ROLLBOOK_KEEP_DAYS); the history keeps what it said"
        case Skip.HELD:
            return f"what was landed on {day} is held; `rollbook sync --date {day} --approve` merges it"
        case Skip.FAILED:
            return f"nothing that counts was landed on {day} (its syncs failed), and the service keeps no history"
        case Skip.NEVER:
            return f"nothing was landed on {day}, and the service keeps no history"


def nothing_counts(day: date, manifests: Sequence[Manifest], expired: Container[date] = ()) -> str:
    """As `skipped`, from the day's manifests."""
    return skipped(day, why_skipped(day, manifests, expired))


def skipped_days(days: Mapping[date, Skip], asked: int) -> str:
    """One line: how many of the `asked` days are skipped, which, and why."""
    told = [
        f"{_spans([day for day, why in days.items() if why is reason])} ({reason})"
        for reason in dict.fromkeys(days.values())
    ]
    return f"{len(days)} of {asked} {'day' if asked == 1 else 'days'}" + (f": {'; '.join(told)}" if told else "")


def _spans(days: Sequence[date]) -> str:
    """The days in order, with consecutive days as spans."""
    spans: list[list[date]] = []
    for day in days:
        if spans and day - spans[-1][-1] == timedelta(days=1):
            spans[-1].append(day)
        else:
            spans.append([day])
    return ", ".join(str(s[0]) if len(s) == 1 else f"{s[0]} to {s[-1]}" for s in spans)
