"""Never green and wrong: simulated nights against a plain model of what must be published.

A few nights of new lives, each time different; `python -m tests.campaign --seed N` plays a life again.
"""

from __future__ import annotations

import os
from random import Random

import pytest

from rollbook.settings import ROOT
from tests.campaign.campaign import NIGHTS
from tests.campaign.lives import play
from tests.mutations import CAMPAIGN, MUTATIONS, fails, place
from tests.support.tiers import slow, weekly

SEED = int(os.environ["CAMPAIGN_SEED"])  # drawn, and printed, by conftest
LIVES = 6
# Lines that the campaign finds broken within few nights, at least one for each of ten guarantees; `python -m
# tests.mutations --campaign` tries all.
SEEN = (
    'answer="removed" if is_clean',
    "if 100 * c.altered > changed_percent",
    "self.decide(",
    "number = max(number, recorded)",
    "deferred=blocked",
    "if m.hold_digest in digests",
    "OR ({{ observed }}.state = 'not_stated'",
    "WHERE a.id IS NULL OR g.landing",
    "    if day > today:",
    "rejected > MAX_REJECTED",
    "files.move(aside, self.link)",
    "if bound_to not in (None, school_id):",
    "lock.acquire(timeout=0)",
)


def test_each_broken_line_is_one_of_the_code() -> None:
    for mutation in MUTATIONS:
        place(mutation.line, ROOT / "pipelines")  # raises ValueError
    for line in SEEN:
        assert sum(mutation.line.startswith(line) for mutation in MUTATIONS) == 1, line


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("life", "nights"), [slow(0, 20), *(weekly(life, NIGHTS) for life in range(1, LIVES))])
def test_a_life_publishes_what_counts_and_nothing_else(life: int, nights: int) -> None:
    play(SEED + life, nights)


@pytest.mark.weekly
@pytest.mark.timeout(1800)
def test_it_sees_that_a_line_is_broken() -> None:
    """A line of SEEN, each time another: a model that agrees with everything would agree with that, too."""
    line = Random(SEED).choice(SEEN)
    (broken,) = (mutation for mutation in MUTATIONS if mutation.line.startswith(line))
    assert fails(broken, CAMPAIGN), broken
