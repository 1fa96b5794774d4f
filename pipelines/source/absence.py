"""Absence, verified (G2): each record that a proven walk no longer shows is asked for by its names.

Only this decides what a vanished record is; acting on it is for those who hold the manifest.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Protocol

from pipelines.errors import KeyRefusedError, ServiceError
from pipelines.landing.manifest import Absence, Proof
from pipelines.source.client import Client
from pipelines.source.pagination import Sink, search
from pipelines.tables import SETS, Set

log = logging.getLogger(__name__)

Names = tuple[tuple[str, str], ...]


class Published(Protocol):
    """What readers see at present: whom a proven walk could miss, and what they were called."""

    def vanished(self, set_name: str, received: AbstractSet[int]) -> Mapping[int, Names]:
        """The records that are current in a set's table and were not received; none before anything was published.

        Each id with its (field, value) pairs to search by, in the order of `Set.names`.
        """


class NothingPublished:
    """The warehouse before its first sync."""

    def vanished(self, set_name: str, received: AbstractSet[int]) -> Mapping[int, Names]:  # noqa: ARG002 - the protocol's
        """None."""
        return {}


@dataclass(frozen=True)
class Verified:
    """What was asked about the vanished records of one set. `unasked` counts them when they were too many."""

    absences: tuple[Absence, ...] = ()
    unasked: int = 0


def verify(
    client: Client,
    proof: Proof,
    received: AbstractSet[int],
    published: Published,
    sink: Sink,
    *,
    walks: int,
    most: int,
) -> Verified:
    """Ask for each published record of a proven set that its walk did not show, at most `most` of them.

    Every result page that was read goes to the sink, also of a search that found nothing: it is the evidence. The
    first record without a clean answer ends the asking, since it leaves the whole set unproven and nothing will be
    removed whatever the others would say. Raises KeyRefusedError; any other refusal or silence is an unclean answer.
    """
    set_ = SETS[proof.set]
    vanished = published.vanished(set_.name, received)
    if len(vanished) > most:
        log.warning("%s: %d records vanished, too many to ask about", set_.name, len(vanished))
        return Verified(unasked=len(vanished))
    absences = []
    for sought, names in sorted(vanished.items()):
        absences.append(ask(client, set_, sought, names, sink, walks=walks))
        if absences[-1].answer == "unclear":
            break
    return Verified(tuple(absences))


def ask(client: Client, set_: Set, sought: int, names: Names, sink: Sink, *, walks: int) -> Absence:
    """Search for one record by each of its names, until it is found.

    `removed` takes at least one name that was searched to a clean end; without any the answer is `unclear`.
    """
    asked: list[str] = []
    clean = False
    for field, value in names:
        if not value or not value.strip():
            continue  # an empty search is no search: it lists everybody
        asked.append(field)
        try:
            answer = search(client, set_, value, sought, sink, walks)
        except KeyRefusedError:
            raise
        except ServiceError as error:
            log.warning("%s %d: the search by %s failed (%s)", set_.name, sought, field, type(error).__name__)
            continue
        if answer == "found":
            return Absence(set=set_.name, id=sought, answer="slipped", asked_by=tuple(asked))
        clean = clean or answer == "not found"
    return Absence(set=set_.name, id=sought, answer="removed" if clean else "unclear", asked_by=tuple(asked))
