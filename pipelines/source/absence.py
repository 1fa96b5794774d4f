"""Absence check (G2): searches for each record that a proven walk no longer shows, by its names.

This module alone decides whether a vanished record was removed. Callers act on the result.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Protocol

from pipelines.errors import KeyRefusedError, ServiceError
from pipelines.landing.manifest import Absence
from pipelines.source.client import Client
from pipelines.source.pagination import Sink, search
from pipelines.tables import SETS, Set

log = logging.getLogger(__name__)

Names = tuple[tuple[str, str], ...]


class Published(Protocol):
    """The current records and their names: a proven walk may lack some of them."""

    def vanished(self, set_name: str, received: AbstractSet[int]) -> Mapping[int, Names]:
        """Return the current records of a set that were not received; none before the first publish.

        Maps each id to its (field, value) pairs to search by, in the order of `Set.names`.
        """


def verify(
    client: Client,
    set_name: str,
    received: AbstractSet[int],
    published: Published,
    sink: Sink,
    *,
    walks: int,
    most: int,
) -> tuple[tuple[Absence, ...], int]:
    """Search for each published record that a set's proven walk did not show; if there are over `most`, for none.

    Returns the answers, and how many vanished records were not asked for because they were too many. Every result page
    goes to the sink, even of a search that found nothing: it is the evidence. The first record without a clean answer
    ends the check: it leaves the whole set unproven, so nothing can be removed anyway. Raises KeyRefusedError. Any
    other refusal, or no answer, counts as an unclean answer.
    """
    vanished = published.vanished(set_name, received)
    if len(vanished) > most:
        log.warning("%s: %d records vanished, too many to search for", set_name, len(vanished))
        return (), len(vanished)
    absences: list[Absence] = []
    for sought, names in sorted(vanished.items()):
        absences.append(search_by_names(client, SETS[set_name], sought, names, sink, walks=walks))
        if absences[-1].answer == "unclear":
            break
    return tuple(absences), 0


def search_by_names(client: Client, set_: Set, sought: int, names: Names, sink: Sink, *, walks: int) -> Absence:
    """Search for one record by each of its names until it is found.

    The answer is `removed` if at least one search ended cleanly without finding it, else `unclear`.
    """
    searched: list[str] = []
    answers: set[str] = set()
    for field, value in names:
        if not value or not value.strip():
            continue  # an empty search does not filter: it lists every record
        searched.append(field)
        try:
            answers.add(search(client, set_, value, sought, sink, walks))
        except KeyRefusedError:
            raise
        except ServiceError as error:
            log.warning("%s %d: the search by %s failed (%s)", set_.name, sought, field, type(error).__name__)
        if "found" in answers:
            return Absence(set=set_.name, id=sought, answer="slipped", asked_by=tuple(searched))
    clean = "not found" in answers
    return Absence(set=set_.name, id=sought, answer="removed" if clean else "unclear", asked_by=tuple(searched))
