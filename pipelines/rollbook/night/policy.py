"""Every decision about a landing, as pure functions of their arguments: no files, no clock, no environment.

`decide` turns the proof, the counts, the rejects and an earlier hold into one `Decision`. The sync, status, the checks,
the alerts and the report all use the decision, or the resulting verdict. Below are the messages about landings, and
about days without a landing, that the log, the UI and the command line share.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Protocol

from rollbook.errors import ArgumentError
from rollbook.flatten.values import CONFLICT
from rollbook.landing.manifest import Hold, Manifest, Reject, TableCounts, Verdict
from rollbook.tables import SETS, TABLES, WALKED
from rollbook.util.text import count_of, listed

# A small table loses 10 % with a single row: up to five removed rows are never held, whatever their share.
NEVER_HELD_ROWS = 5
# Up to this many refused records of a set are just bad records, whatever their share: one bad class of four costs one
# record. More than this, and more than MAX_REJECTED of the set, mean that the contract has changed.
NEVER_TOO_MANY_REJECTS = 5
MAX_REJECTED = 0.20

# So many of the ids without a clear answer are named.
IDS_TOLD = 5
# If this many nights in a row leave a set unproven, the cause lasts, and nobody who left is removed: tell a person.
UNPROVEN_NIGHTS = 3


class HoldLimits(Protocol):
    """The settings by which a landing is held."""

    @property
    def hold_removed_percent(self) -> float:
        """The share of a set that one night may remove."""

    @property
    def hold_changed_percent(self) -> float:
        """The share of a table's rows that one night may change."""


@dataclass(frozen=True)
class Decision:
    """The decision on a landing: the verdict, why it is held, failed or unproven, and the `counts` per table."""

    verdict: Verdict
    reason: str
    counts: tuple[TableCounts, ...] = ()

    @property
    def hold(self) -> Hold:
        """The reason and the counts, to be shown to a person."""
        return Hold(reason=self.reason, counts=self.counts)


def decide(
    manifest: Manifest,
    counts: tuple[TableCounts, ...],
    limits: HoldLimits,
    *,
    since_before: tuple[TableCounts, ...] | None = None,
    approve: bool = False,
) -> Decision:
    """The verdict on a landing that would change the published tables by `counts` (G1, G3).

    Where earlier landings of the day count, it is judged by what the whole day changes `since_before`: else a loss
    would pass in slices. A landing that was held once stays held until approved, even if the settings or the published
    tables have changed since.
    """
    reason = change_guard(
        counts if since_before is None else since_before,
        removed_percent=limits.hold_removed_percent,
        changed_percent=limits.hold_changed_percent,
        unverified={name: len(ids) for name, ids in manifest.unverified.items()},
    )
    if reason and since_before is not None:
        reason = f"with the day's earlier syncs, {reason}"
    if not reason and manifest.verdict is Verdict.HELD:
        reason = manifest.reason
    if reason and not approve:
        return Decision(Verdict.HELD, reason, counts)
    verdict = Verdict.SYNCED if manifest.proven else Verdict.UNPROVEN
    return Decision(Verdict.APPROVED if reason else verdict, unproven(manifest), counts)


def seen(manifest: Manifest, others: Iterable[Manifest]) -> list[Manifest]:
    """The landings of its day that a person has seen when a landing comes: the last approved one, and those before."""
    before = [m for m in others if m.landing < manifest.landing]
    approved = [m.landing for m in before if m.verdict is Verdict.APPROVED]
    return [m for m in before if approved and m.landing <= approved[-1]]


def change_guard(
    counts: Iterable[TableCounts], *, removed_percent: float, changed_percent: float, unverified: Mapping[str, int]
) -> str:
    """The reason why counts exceed a normal night's, as text; empty if none does (G3).

    Only the tables of walked sets are guarded. A school day changes the measures of everybody, so only changes of other
    columns count, and measures that vanish though their total does not begin again. `unverified` counts, per set,
    vanished records that were too many to search for (G2). Where many records of a set would go, the rows that go with
    them are not named.
    """
    removed, changed, lost_measures = dict[str, str](), list[str](), list[str]()
    for c in counts:
        own, of_record = SETS[TABLES[c.table].set], c.table in SETS
        if not own.walked or not c.before:
            continue
        what = c.table if of_record else f"rows of {c.table}"
        is_over = c.removed > NEVER_HELD_ROWS and 100 * c.removed > removed_percent * c.before
        if is_over and own.name not in removed:
            removed[c.table] = f"{c.removed} of {c.before} {what} ({100 * c.removed / c.before:.3g} %)"
        if 100 * c.altered > changed_percent * c.before:
            changed.append(f"{c.altered} of {c.before} {what} ({100 * c.altered / c.before:.3g} %)")
        if vanished := {name: n for name, n in c.vanished.items() if n[1] > NEVER_HELD_ROWS}:
            had, lost = max(vanished.values(), key=lambda n: n[1])
            total = own.total.partition(".")[2]
            lost_measures.append(
                f"{lost} of {had} rows of {c.table} would lose {listed(list(vanished))}, though {total} does not begin"
                " again"
            )
    reasons = [f"{n} {name} vanished, too many to ask the service about one by one" for name, n in unverified.items()]
    if removed:
        told = listed(list(removed.values()))
        reasons.append(f"{told} would be removed, more than ROLLBOOK_HOLD_REMOVED_PERCENT={removed_percent:g}")
    if changed:
        reasons.append(f"{listed(changed)} would change, more than ROLLBOOK_HOLD_CHANGED_PERCENT={changed_percent:g}")
    return "; ".join((*reasons, *lost_measures))


def restarted(counts: Iterable[TableCounts]) -> list[str]:
    """The tables in which most totals begin again, as with a term, which holds nothing."""
    return [c.table for c in counts if 2 * c.restarted > c.before]


def check_reject_rate(rejects: Sequence[Reject], records: Mapping[str, int], values: Mapping[str, int]) -> str:
    """The set whose refused records, or the column whose refused values, are so many that the contract must have
    changed, and why; else empty (G9).

    Only walked sets count: a refused school name or student's detail costs only itself. `records` is the number of
    distinct records that were received per walked set, `values` the number of their values that were kept, by
    table.column.
    """
    for name in WALKED:
        refused = [r for r in rejects if r.set == name and not r.column]
        if too_many_rejected(len(refused), records[name]):
            return f"{len(refused)} of {records[name]} {name} were refused, the first because {refused[0].reason}"
    # Entries listed twice were read: the last entry counts.
    refused = [r for r in rejects if r.column and r.reason != CONFLICT]
    for (name, table, column), count in Counter((r.set, r.table, r.column) for r in refused).items():
        declared = TABLES[table]
        # A whole object or list that cannot be read counts per record.
        is_value = column in declared.names and column not in declared.key
        stated = count + values.get(f"{table}.{column}", 0) if is_value else records[name]
        if name in WALKED and count > NEVER_TOO_MANY_REJECTS and count > MAX_REJECTED * stated:
            why = next(r.reason for r in refused if (r.table, r.column) == (table, column))
            return f"{count} of {stated} values of {table}.{column} were refused, the first because it is {why}"
    return ""


def too_many_rejected(rejected: int, records: int) -> bool:
    """Whether a set has so many refused records that the contract must have changed.

    If all of several records were refused, their number does not matter. A single record may just be bad.
    """
    if 1 < records <= rejected:  # a search may find a further one
        return True
    return rejected > NEVER_TOO_MANY_REJECTS and rejected > MAX_REJECTED * records


def counted(manifests: Iterable[Manifest]) -> list[Manifest]:
    """The landings of a day that make up the day's state, in order (G7)."""
    return [m for m in manifests if m.counts_for_its_day]


def open_hold(manifests: Iterable[Manifest]) -> Manifest | None:
    """The landing of one day that waits for approval; None if a later landing of that day was synced (G3)."""
    decided = [m for m in manifests if m.verdict not in (None, Verdict.FAILED)]
    return decided[-1] if decided and decided[-1].verdict is Verdict.HELD else None


@dataclass(frozen=True)
class Unproven:
    """A set that no night since `since` has proven, or has left without unclear answers. The newest walks repeated the
    `repeated_ids`, among others; the last of them `lacked` something, in words; and the newest searches for the
    `unclear_ids` had no clear answer.
    """

    set: str
    since: date
    nights: int
    repeated_ids: tuple[int, ...] = ()
    unclear_ids: tuple[int, ...] = ()
    lacked: str = ""

    @property
    def description(self) -> str:
        """Says what is wrong and what to do."""
        if self.unclear_ids:
            return (
                f"{self.set} {_some(self.unclear_ids)} are no longer listed, and no search for them had a clear answer"
                f" on {self.nights} nights in a row, since {self.since}, so they stay current. The service's searches"
                " fail, or these records have no name to search by: ask its representative"
            )
        ids = ", ".join(map(str, self.repeated_ids))
        lacked = f" ({self.lacked})" if self.lacked else ""
        said = f"Its pages and its total do not agree{lacked}"
        why = f"The service lists ids more than once, such as {ids}" if ids else said
        return (
            f"{self.set} could not be proven complete on {self.nights} nights in a row, since {self.since}, so what has"
            f" left since is still listed. {why}: ask the service's representative to correct that"
        )


def _some(ids: Sequence[int]) -> str:
    """Some ids, as text."""
    return ", ".join(map(str, ids[:IDS_TOLD])) + (f" and {len(ids) - IDS_TOLD} more" if len(ids) > IDS_TOLD else "")


def long_unproven(nights: Iterable[Sequence[Manifest]]) -> list[Unproven]:
    """The sets that the last three nights or more left unproven (G1), or with unclear answers (G2).

    `nights` are the counted landings of each day, the newest day first. Reads no further than the last night with
    neither.
    """
    unproven: dict[str, list[Manifest]] = {name: [] for name in WALKED}
    lasting = set(WALKED)
    for landings in nights:
        lasting -= {name for name in lasting if any(m.proof(name) and not m.unclear(name) for m in landings)}
        if not lasting:
            break
        for name in lasting:
            unproven[name].append(landings[-1])
    ranges = []
    for name, last in unproven.items():
        if len(last) >= UNPROVEN_NIGHTS:
            newest, walk = last[0], last[0].walk(name)
            lacked, repeated = (walk.spoiled[-1:], walk.repeated_ids) if walk else ((), ())
            unclear = newest.unclear(name) if newest.proof(name) else ()
            since = last[-1].snapshot_date
            ranges.append(Unproven(name, since, len(last), repeated, unclear, "".join(lacked)))
    return ranges


def partition(day: date, first: date, today: date, timezone: str) -> date:
    """Return the day. Raises ArgumentError if it cannot be synced, with the days or the setting that would allow it."""
    if day < first:
        raise ArgumentError(
            f"{day} is before the first day of this warehouse, {first}: set ROLLBOOK_FIRST_DATE to an earlier date"
        )
    if day > today:
        raise ArgumentError(f"{day} has not begun: it is {today} in {timezone}; days run from {first} to today")
    return day


def check_order(day: date, landed: Iterable[Manifest], now: datetime) -> None:
    """Raise ArgumentError if a later day was landed earlier: the newer data would get the older date."""
    later = [m for m in landed if m.snapshot_date > day and m.started_at <= now and m.verdict is not Verdict.FAILED]
    if later:
        last = later[-1]
        raise ArgumentError(
            f"{last.snapshot_date} was landed before, at {last.started_at:%Y-%m-%d %H:%M} UTC, so what is fetched now"
            f" cannot be {day}'s: ROLLBOOK_TIMEZONE, or this machine's clock, was set back since. Nothing was fetched."
            f" Set it right, or wait until that day has come; if its date is wrong, `rollbook discard"
            f" {last.snapshot_date}` first"
        )


# --- messages --------------------------------------------------------------------------------------------------------


def unproven(manifest: Manifest) -> str:
    """The reason why a landing that counts removes nothing, or does not remove some; empty without one."""
    if manifest.deferred:
        return "it could not be compared with the nights before when it was fetched, so nothing was removed"
    reasons = []
    for w in manifest.walks:
        if manifest.proof(w.set) is None:
            why = "; ".join(w.spoiled)
            reasons.append(f"{w.set} could not be proven complete ({why}), so nothing was removed from them")
        elif unclear := manifest.unclear(w.set):
            stay = "stays" if len(unclear) == 1 else "stay"
            reasons.append(
                f"{count_of(len(unclear), 'missing record')} of {w.set} {stay} current, for want of a clear answer"
            )
    return ". ".join(reasons)


def spans(days: Sequence[date]) -> str:
    """The days in order, with consecutive days as spans."""
    spans: list[list[date]] = []
    for day in days:
        if spans and day - spans[-1][-1] == timedelta(days=1):
            spans[-1].append(day)
        else:
            spans.append([day])
    return ", ".join(str(s[0]) if len(s) == 1 else f"{s[0]} to {s[-1]}" for s in spans)
