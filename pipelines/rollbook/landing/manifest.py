"""The values that stages pass to each other: landings, their proofs and verdicts.

Only values: no HTTP, no files, no SQL. The values in a manifest are msgspec structs, so the declarations define the
manifest's JSON.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from hashlib import sha256
from typing import Literal

import msgspec

from rollbook.landing.formats import Stored

# Replaces an erased student's id: the service's ids begin at 1.
NOBODY = 0

# The kind of request; `own` for a list of the school's own, which nobody was asked for.
RequestKind = Literal["auth", "walk", "search", "detail", "own"]


class Details(StrEnum):
    """The students that are also fetched singly."""

    none = "none"
    changed = "changed"
    all = "all"


class Verdict(StrEnum):
    """The decision about a landing, made once. A landing without a verdict does not count (G4)."""

    SYNCED = "synced"
    UNPROVEN = "unproven"
    HELD = "held"
    APPROVED = "approved"
    FAILED = "failed"

    @property
    def counts(self) -> bool:
        """Whether the landing is part of the day's state (G7)."""
        return self in (Verdict.SYNCED, Verdict.UNPROVEN, Verdict.APPROVED)

    @property
    def outcome(self) -> str:
        """The sync's outcome as in `ops.syncs`: synced, held or failed."""
        return "synced" if self.counts else self.value


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """Proof that one walk showed a whole set. Required to mark records absent (G1)."""

    set: str
    walk: int
    total_count: int
    unique_ids: int
    pages: int
    limit: int


class Walk(msgspec.Struct, frozen=True, kw_only=True):
    """How one set was read: the number of walks, and the proof if a walk was complete.

    `counted` has the numbers of the walks whose pages count: the proven walk, or all walks if none was proven (then the
    set only adds and updates). `received` counts the records on the pages, `distinct` each record once. `repeated_ids`
    are some of the ids that came more than once in each counted walk. `erased` of the distinct records belong to erased
    students and are not kept, but count as seen, so that the proof holds. `spoiled` gives the reason for each walk that
    was not proven.
    """

    set: str
    walks: int
    counted: tuple[int, ...]
    proof: Proof | None = None
    total_count: int = 0
    received: int = 0
    distinct: int = 0
    repeated: int = 0
    repeated_ids: tuple[int, ...] = ()
    erased: int = 0
    spoiled: tuple[str, ...] = ()

    @property
    def records(self) -> int:
        """How many distinct records were received and kept."""
        return self.distinct - self.erased


class Absence(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the search for one vanished record (G2). `asked_by` has the fields searched, not their values.

    Only `removed` states the record absent; an `unclear` answer states nothing. A record that a search found and that
    the next walk listed is `listed_again`. A record that only searches find is hidden: `hidden_since` is the first day
    on which no list of the service had the record, if the landing may count the record so. `still_known` is a record
    that was not current, only stated by a landing that is held or discarded, and that a search found: the landing
    states nothing about it.
    """

    set: str
    id: int
    answer: Literal["removed", "found_by_search", "listed_again", "still_known", "unclear"]
    asked_by: tuple[str, ...] = ()
    hidden_since: date | None = None


class Received(msgspec.Struct, frozen=True, kw_only=True):
    """The description of one received body.

    `kind` is what was requested: `auth`, a page of a `walk`, a page of a `search` for the vanished record `sought`, or
    the `detail` of the student `sought`. An `own` body is the school's list `name`, whose `records` are its lines. The
    body had `records` records when received; `erased` of the records have been removed, then or later.
    """

    set: str
    kind: RequestKind
    page: int
    name: str = ""
    walk: int = 1
    sought: int | None = None
    received_at: datetime
    records: int
    erased: int = 0


class Body(Received, frozen=True, kw_only=True):
    """Index entry of one received body: one line of `pages.jsonl`.

    `offset` and `length` (bytes) locate the zstd frame in `bodies.zst`; `size` (bytes) and `sha256` describe the
    uncompressed body.
    """

    offset: int
    length: int
    size: int
    sha256: str


class TableCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many rows a landing changes, or would change, in one table.

    Of the `changed` rows, `altered` differ in more than measures, and in `restarted` the total begins again, as at the
    start of a term. `vanished` has the measures that most rows would lose, each with the rows that have a value and
    would lose the value.
    """

    table: str
    before: int
    added: int
    changed: int
    removed: int
    altered: int = 0
    restarted: int = 0
    vanished: dict[str, tuple[int, int]] = {}


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """The reason of a hold: a sentence, and the counts behind it (G3)."""

    reason: str
    counts: tuple[TableCounts, ...]


@dataclass(frozen=True)
class Drift:
    """One undeclared field seen in a landing: where, the JSON type, and how often."""

    set: str
    field: str
    type: str
    count: int


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """The approval of a held landing (G3). Times are UTC."""

    # The account that logged in; `the UI` if it was decided there.
    by: str
    approved_at: datetime
    # The person's own words.
    reason: str
    # The reason of the hold.
    held: str
    held_at: datetime
    # The changes that were shown.
    counts: tuple[TableCounts, ...]

    def applied_to(self, manifest: Manifest) -> Manifest:
        """The landing with its approval."""
        return msgspec.structs.replace(manifest, verdict=Verdict.APPROVED, approval=self)


class Manifest(Stored, frozen=True, kw_only=True):
    """The record of one landing, stored with the bodies as `manifest.json`.

    `walks` holds each walked set's proof; `unverified` lists, per set, the vanished records that were too many to
    search for; `verdict` comes with the `reason`, the `counts` per table and the time; `approval` says who approved
    what was held. `oddities` counts, by kind, what was read although the contract does not foresee it.
    `deferred` says why the landing could not be evaluated when fetched: compared with nothing, the landing proves
    nothing. `own` has the SHA-256 of each of the school's own lists, by name, empty for a list that could not be read;
    None if the night did not see which there are. `service_time` is the service's own time at the auth check; the
    contract gives no zone. `erasures` is how many students had been erased when the landing was last written: it has
    none of them (see `erased`). All other times are UTC.
    """

    snapshot_date: date
    landing: int
    started_at: datetime
    finished_at: datetime
    school_id: int | None = None
    school_name: str | None = None
    service_time: datetime | None = None
    walks: tuple[Walk, ...] = ()
    absences: tuple[Absence, ...] = ()
    unverified: dict[str, tuple[int, ...]] = msgspec.field(default_factory=dict)
    requests: int = 0
    retries: int = 0
    bytes_received: int = 0
    search_seconds: float = 0.0
    bodies: int = 0
    bodies_sha256: str = ""
    own: dict[str, str] | None = None
    oddities: dict[str, int] = msgspec.field(default_factory=dict)
    erasures: int = 0
    deferred: str = ""
    verdict: Verdict | None = None
    reason: str = ""
    judged_at: datetime | None = None
    approval: Approval | None = None
    counts: tuple[TableCounts, ...] = ()
    rejected: dict[str, int] = msgspec.field(default_factory=dict)
    drift: tuple[Drift, ...] = ()
    rollbook: str = ""

    def walk(self, set_name: str) -> Walk | None:
        """Return how a set was read; None if the set was not walked."""
        return next((w for w in self.walks if w.set == set_name), None)

    def hidden(self, set_name: str) -> dict[int, date]:
        """Return the records of one set that are listed nowhere but found by search, each since when."""
        return {a.id: a.hidden_since for a in self.absences if a.set == set_name and a.hidden_since is not None}

    def found(self, set_name: str) -> frozenset[int]:
        """Return the ids of one set's vanished records that a search found after all."""
        return frozenset(a.id for a in self.absences if a.set == set_name and a.answer == "found_by_search")

    def absent(self, set_name: str) -> frozenset[int]:
        """Return the ids of one set's records that the landing states absent, if it counts (G2): a search did not find
        them, or they were too many to search for. A landing with the latter is held, so that it counts only if a person
        approves it. None of a set without proof.
        """
        if self.proof(set_name) is None:
            return frozenset()
        removed = (a.id for a in self.absences if a.set == set_name and a.answer == "removed")
        return frozenset((*removed, *self.unverified.get(set_name, ()))) - {NOBODY}

    def unclear(self, set_name: str) -> tuple[int, ...]:
        """Return the ids of one set's vanished records without a clear answer, in order: they stay as they were."""
        answers = (a for a in self.absences if a.set == set_name and a.answer == "unclear")
        return tuple(a.id for a in answers if a.id != NOBODY)

    @property
    def received(self) -> dict[str, int]:
        """How many distinct records were received per set."""
        return {walk.set: walk.records for walk in self.walks}

    def proof(self, set_name: str) -> Proof | None:
        """Return the proof of a set; None if the walks left the set unproven or the searches disproved it (G1, G2)."""
        walk = self.walk(set_name)
        return None if walk is None or self.deferred else walk.proof

    @property
    def proven(self) -> bool:
        """Whether every walked set was proven complete."""
        return bool(self.walks) and all(self.proof(w.set) is not None for w in self.walks)

    @property
    def counts_for_its_day(self) -> bool:
        """Whether the verdict makes the landing part of the day's state."""
        return self.verdict is not None and self.verdict.counts

    @property
    def seconds(self) -> float:
        """How long the sync took: from the first request to the verdict, without the time that it waited for a person's
        approval.
        """
        ended = self.finished_at if self.approval else self.judged_at or self.finished_at
        return round((ended - self.started_at).total_seconds(), 3)

    @property
    def hold_digest(self) -> str:
        """Twelve hex digits that stand for a held landing and for the changes that the landing would make: an approval
        names these digits.
        """
        shown = (self.snapshot_date, self.landing, self.bodies_sha256, self.reason, self.counts)
        return sha256(msgspec.json.encode(shown)).hexdigest()[:12]


class Discard(msgspec.Struct, frozen=True, kw_only=True):
    """The reason, the time (UTC) and the person (the account that logged in) of a discard, and since when the landing
    is back.

    `discard.json`, stored with the bodies, lists all discards, in order: a landing that is put back keeps it.
    """

    reason: str
    discarded_at: datetime
    by: str
    undone_at: datetime | None = None
    undone_by: str = ""


@dataclass(frozen=True)
class LandedBody:
    """One body as flattening receives it: what was requested, and what was received."""

    set: str
    kind: str
    page: int
    content: bytes
    sought: int | None = None
    received_at: datetime | None = None


@dataclass(frozen=True)
class Reject:
    """One refused record (G9): where it was, the reason, and the record itself. `id` is None if unreadable.

    Or a refused value of a record that counts otherwise: the `table` and `column`, never the value.
    """

    set: str
    page: int
    position: int
    reason: str
    record: str = ""
    id: int | None = None
    table: str = ""
    column: str = ""

    @property
    def why(self) -> str:
        """The reason, with the column if only a value was refused."""
        return f"{self.table}.{self.column}: {self.reason}" if self.column else self.reason
