"""Whole lives, and the shortest lives that fail."""

from __future__ import annotations

import logging
import traceback
from collections import Counter
from collections.abc import Callable, Container
from typing import NamedTuple

# They register what can happen.
from tests.campaign import (  # noqa: F401
    events_district,
    events_files,
    events_lists,
    events_operator,
    events_raw,
    events_service,
)
from tests.campaign.campaign import NIGHTS, Campaign
from tests.support.nights import folder


class Failure(NamedTuple):
    """How a life failed: in a sentence, with what had happened, with the command that plays the life again, and in
    whole.
    """

    sentence: str
    story: list[str]
    command: str
    text: str

    @property
    def places(self) -> list[str]:
        """Where something had happened."""
        return [line.split()[0] for line in self.story if line.startswith("  ") and line[2] != " "]

    @property
    def nights(self) -> int:
        """How many nights the life took."""
        return sum(line.startswith("night ") for line in self.story)


# The seed of a life, what happened, and how it failed.
Attempt = tuple[int, Counter[str], Failure | None]


def play(seed: int, nights: int = NIGHTS, only: Container[str] | None = None) -> Campaign:
    """A whole life."""
    with folder() as root:
        campaign = Campaign(root, seed, nights, only)
        campaign.play()
    return campaign


def attempt(seed: int, nights: int, only: list[str] | None = None) -> Attempt:
    """Play a life, and tell how that went."""
    logging.disable()
    try:
        return seed, play(seed, nights, only).played, None
    except Exception as error:  # noqa: BLE001 - the failure is told
        *story, command = error.__notes__[-1].splitlines()
        text = "".join(traceback.format_exception(error))
        return seed, Counter(), Failure(f"{type(error).__name__}: {error}", story, command, text)


def shortest(places: list[str], fails: Callable[[list[str]], bool]) -> list[str]:
    """The places that are left when everything is left out without which the life still fails."""
    size = max(len(places) // 2, 1)
    while True:
        start = 0
        while start < len(places):
            fewer = places[:start] + places[start + size :]
            if fails(fewer):
                places = fewer
            else:
                start += size
        if size == 1:
            return places
        size = max(size // 2, 1)
