"""Discards a landing, or undoes that: the day is recomposed from its remaining landings, and history follows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from rollbook.errors import ArgumentError
from rollbook.landing.manifest import Manifest, Verdict
from rollbook.night import past
from rollbook.night.past import Confirm, within_hold
from rollbook.night.place import Place
from rollbook.night.policy import counted
from rollbook.night.writing import Writer


def discard(
    writer: Writer,
    day: date,
    number: int | None = None,
    *,
    reason: str,
    by: str = "",
    confirm: Confirm = within_hold,
) -> Manifest:
    """Discard a landing of a day, by default the last one that counts, else the held one, `by` somebody (default: the
    person who runs this). Returns it.

    It is moved aside within `raw/`, stays readable and no longer counts. Raises ArgumentError when there is no such
    landing, its raw bodies have expired or the reason holds a secret, and HeldError when it is not confirmed. Nothing
    is changed then.
    """
    writer.settings.check_words(reason)
    place = writer.place
    with writer.writing():
        manifests = _not_expired(place, day)
        held = [m for m in manifests if m.verdict is Verdict.HELD]
        chosen = [m for m in manifests if m.landing == number] if number else counted(manifests) or held
        if not chosen:
            raise ArgumentError(_no_such_landing(day, number, manifests))
        landing = chosen[-1]
        left = [m for m in manifests if m.landing != landing.landing]
        past.change_day(writer, day, left, lambda: place.raw.discard(landing, reason, writer.clock(), by), confirm)
        return landing


def undo_discard(writer: Writer, day: date, number: int | None = None, *, confirm: Confirm = within_hold) -> Manifest:
    """Restore a discarded landing of a day, by default the last one. Returns it. Raises what `discard` raises, and
    ArgumentError for a landing of another institution.
    """
    place = writer.place
    with writer.writing():
        manifests = _not_expired(place, day)
        aside = [m for m, _ in place.raw.discarded(day)]
        landing = next((m for m in reversed(aside) if number in (None, m.landing)), None)
        if landing is None:
            raise ArgumentError(_nothing_discarded(day, number, [m.landing for m in aside]))
        bound = place.bound_to()
        if bound is not None and landing.school_id != bound:
            raise ArgumentError(
                f"Landing {landing.landing} of {day} is of institution {landing.school_id}, and this warehouse holds"
                f" institution {bound}: it stays discarded, or two schools would be mixed"
            )
        back = sorted([*manifests, landing], key=lambda m: m.landing)
        past.change_day(writer, day, back, lambda: place.raw.undo_discard(landing, writer.clock()), confirm)
        return landing


def _not_expired(place: Place, day: date) -> list[Manifest]:
    """The landings of a day. Raises ArgumentError when they have expired: the day can then no longer change."""
    if day in place.landings.expired_days():
        raise ArgumentError(
            f"What was landed on {day} has expired (ROLLBOOK_KEEP_DAYS): only the history has that day, so no landing"
            " of it can be discarded or restored. Put the day back into raw/ from a backup first"
        )
    return place.raw.manifests(day)


def _no_such_landing(day: date, landing: int | None, manifests: Sequence[Manifest]) -> str:
    """Says why there is nothing to discard."""
    if not manifests:
        return f"Nothing was landed on {day}, so there is nothing to discard"
    there = ", ".join(f"{m.landing} ({m.verdict or 'no verdict'})" for m in manifests)
    missing = "no landing that counts or is held" if landing is None else f"no landing {landing}"
    return f"{day} has {missing}; it has {there}. Name one of them with --landing"


def _nothing_discarded(day: date, landing: int | None, numbers: Sequence[int]) -> str:
    """Says why a discard cannot be undone."""
    if not numbers:
        return f"No landing of {day} was discarded, so there is nothing to restore"
    return f"Landing {landing} of {day} was not discarded; choose from {', '.join(map(str, numbers))} with --landing"
