"""Never green and wrong: random nights against a plain model of what must be published.

`make campaign` plays all of it; the other tests include a few nights. CAMPAIGN_SEEDS=7,8 plays other seeds,
CAMPAIGN_NIGHTS=n more or fewer nights of each; CAMPAIGN_WITHOUT=word leaves out the events whose names hold that word.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import pytest

# They register what can happen.
from tests.campaign import events_files, events_fleet, events_operator, events_raw, events_service  # noqa: F401
from tests.campaign.campaign import EVENTS, Campaign
from tests.campaign.reader import Reader
from tests.campaign.school import CAP
from tests.support.nights import folder
from tests.support.wire.service import Service

SEEDS = tuple(int(s) for s in os.environ.get("CAMPAIGN_SEEDS", "1,2,3,4,5").split(","))
NIGHTS = int(os.environ.get("CAMPAIGN_NIGHTS", "48"))
for _word in filter(None, os.environ.get("CAMPAIGN_WITHOUT", "").split(",")):
    for _name in [n for n in EVENTS if _word in n]:
        del EVENTS[_name]
SHORT_NIGHTS = 12
LEAST = 10
# How often each kind of event came up, in all seeds.
PLAYED: Counter[str] = Counter()


@pytest.fixture
def service() -> Iterator[Service]:
    with Service(cap=CAP) as running:
        yield running


def play(service: Service, seed: int, nights: int) -> Campaign:
    """All nights of a seed; a failure tells the seed and the whole story."""
    with folder() as made:
        warehouse = made / "w"
        reader = Reader(warehouse / "rollbook.duckdb")
        with reader.reading():
            campaign = Campaign(warehouse, service, reader, seed, nights)
            try:
                campaign.play()
            except BaseException as error:
                error.add_note("\n".join([f"CAMPAIGN_SEEDS={seed} CAMPAIGN_NIGHTS={nights}", *campaign.history]))
                raise
    return campaign


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_few_random_nights_publish_what_counts_and_nothing_else(service: Service) -> None:
    play(service, seed=11, nights=SHORT_NIGHTS)


@pytest.mark.campaign
@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", SEEDS)
def test_many_random_nights_publish_what_counts_and_nothing_else(
    service: Service, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    campaign = play(service, seed, NIGHTS)
    PLAYED.update(campaign.played)
    with capsys.disabled():
        print(  # noqa: T201
            f"\nseed {seed}: {NIGHTS} nights, {campaign.played.total()} events, {campaign.reader.reads} reads;"
            f" {dict(sorted(campaign.played.items()))}"
        )


@pytest.mark.campaign
@pytest.mark.slow
def test_every_kind_of_event_has_come_up_ten_times() -> None:
    """Of the nights before this test, in the same process."""
    if len(SEEDS) * NIGHTS < 200 or not PLAYED:
        pytest.skip("these are not all nights")
    counts = {name: PLAYED[name] for name in [*EVENTS, "a day expires"]}
    assert {name: count for name, count in counts.items() if count < LEAST} == {}, counts
