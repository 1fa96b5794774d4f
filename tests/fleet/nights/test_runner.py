"""A fleet's nights, with real processes: what goes wrong at one institution costs the others nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from pipelines import settings
from pipelines.fleet.nights import outcomes
from pipelines.fleet.nights.outcomes import Kind, Outcome
from tests.support.nights import night
from tests.support.records import MISSING, school_class, student, students
from tests.support.warehouses.district import District, new_district
from tests.support.wire import faults
from tests.support.wire.listeners import Webhook, webhook

pytestmark = pytest.mark.timeout(240)

GOOD = ("ash", "birch", "cedar")


@dataclass
class Nights:
    district: District
    hook: Webhook
    first: dict[str, Outcome]
    again: dict[str, Outcome]
    asked: dict[str, int]
    asked_again: dict[str, int]


@pytest.fixture(scope="module")
def nights() -> Iterator[Nights]:
    """A night with all kinds of trouble, and the same run once more."""
    with webhook() as hook, new_district(["ash", "birch", "twin"], ["cedar", "odd"], "refused", "dead", "away") as d:
        d["refused"].key = "a new key"
        d.hosts[2].schools = {d["refused"].key: d["refused"]}
        d["odd"].students = [student(n, email=MISSING) for n in range(1, 9)]
        d["twin"].school = d["ash"].school
        d["ash"].classes = [school_class(501, later_field="x")]
        d.write(
            {
                "dead": {"base_url": '"http://127.0.0.1:9"', "retry_seconds": "0", "notify": '{ env = "DEAD_HOOK" }'},
                "away": {"paused": '"holidays"'},
            }
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DEAD_HOOK", hook.url)
            d.hosts[0].on(faults.hang(0.3), times=None)  # or no two requests could meet
            d.night(1, only=["ash"])
            first = d.night(1, jobs=8)  # all at once
            asked = d.asked()
            again = d.night(1)
            yield Nights(d, hook, first, again, asked, d.asked())


def test_each_institution_has_its_own_outcome(nights: Nights) -> None:
    assert {name: outcome.kind for name, outcome in nights.first.items()} == {
        **dict.fromkeys(GOOD, Kind.SYNCED),
        **dict.fromkeys(("twin", "odd", "refused", "dead"), Kind.FAILED),
        "away": Kind.PAUSED,
    }
    assert "whose records ash holds already" in nights.first["twin"].message
    assert "8 of 8 students were refused" in nights.first["odd"].message
    assert "does not accept the API key (401)" in nights.first["refused"].message
    assert "set api_key of refused in institutions.toml" in nights.first["refused"].message
    assert "gave no usable answer" in nights.first["dead"].message
    assert nights.first["away"].message == "holidays"


def test_what_is_good_is_published(nights: Nights) -> None:
    for name in GOOD:
        assert nights.district.house(name).query("SELECT count(*) FROM students") == [(5,)]
        assert nights.first[name].received == {"students": 5, "classes": 1}
        assert nights.first[name].day == night(1)


def test_what_was_synced_already_is_not_asked_again_and_the_rest_is(nights: Nights) -> None:
    assert nights.first["ash"].asked is False
    assert [nights.again[name].asked for name in GOOD] == [False] * 3
    more = {name: nights.asked_again[name] - count for name, count in nights.asked.items()}
    assert {name for name, count in more.items() if count} == {"twin", "odd"}  # no key or host of the others is there
    assert {n: o.kind for n, o in nights.again.items()} == {n: o.kind for n, o in nights.first.items()}


def test_a_host_gets_one_request_at_a_time(nights: Nights) -> None:
    assert [host.most_at_once for host in nights.district.hosts] == [1, 1, 1, 0, 0]


def test_outcomes_are_kept_for_the_owner_alone(nights: Nights) -> None:
    folder = nights.district.warehouse / "fleet" / "state"
    assert sorted(p.stem for p in folder.glob("*.json")) == sorted({*nights.first} - {"away"})
    assert {p.stat().st_mode & 0o777 for p in folder.iterdir()} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700


def test_no_key_is_in_any_file(nights: Nights) -> None:
    assert sum(path.is_file() for path in nights.district.root.rglob("*")) > 50
    assert nights.district.files_with_a_key() == []


def test_an_alert_goes_to_the_addresses_of_its_institution(nights: Nights) -> None:
    assert len(nights.hook.texts) == 2  # of two runs
    assert "127.0.0.1:9" in nights.hook.texts[0]


def test_the_keys_are_back_in_this_process_afterwards(nights: Nights) -> None:
    assert settings.load(institution="birch").api_key.get_secret_value() == nights.district["birch"].key


@pytest.mark.slow
def test_three_nights_of_a_refused_key_pause_an_institution_until_it_is_resumed() -> None:
    with new_district(["ash", "birch"]) as district, webhook() as hook:
        district.write(defaults='notify = { env = "HOOK" }')
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HOOK", hook.url)
            birch, keys = district["birch"], district.hosts[0].schools
            kinds = [district.night(1)["birch"].kind]
            del keys[birch.key]
            refused = [district.night(n)["birch"] for n in (2, 2, 3)]
            keys[birch.key] = birch
            kinds.append(district.night(4)["birch"].kind)
            del keys[birch.key]
            refused += [district.night(n)["birch"] for n in (5, 6, 7)]
            before = len(district.hosts[0].requests)
            paused = district.night(8)
            assert kinds == [Kind.SYNCED, Kind.SYNCED]
            assert {o.kind for o in refused} == {Kind.FAILED}
            assert ["Rollbook has paused it now" in o.message for o in refused] == [False] * 5 + [True]
            assert paused["birch"].kind is Kind.PAUSED
            assert "refused its key on 3 nights in a row, the last of them 2026-11-26" in paused["birch"].message
            assert paused["ash"].kind is Kind.SYNCED
            assert all(r.headers["x-api-key"] != birch.key for r in district.hosts[0].requests[before:])
            assert "Rollbook has paused it now" in hook.texts[-1]
            keys[birch.key] = birch
            assert outcomes.resume(district.warehouse / "fleet", "birch") is True
            assert district.night(9)["birch"].kind is Kind.SYNCED
            assert outcomes.load(district.warehouse / "fleet", "birch").refused == ()


@pytest.mark.slow
def test_a_held_institution_is_asked_again_and_the_others_are_synced() -> None:
    with new_district(["ash", "birch"]) as district:
        district["birch"].students = students(60)
        district.night(1)
        district["birch"].students = students(30)
        second = district.night(2)
        assert {name: o.kind for name, o in second.items()} == {"ash": Kind.SYNCED, "birch": Kind.HELD}
        assert "`rollbook --institution birch sync --date 2026-11-21 --approve`" in second["birch"].message
        district["birch"].students = students(60)
        assert district.night(2)["birch"].kind is Kind.SYNCED


@pytest.mark.slow
def test_a_process_that_is_killed_or_hangs_costs_its_institution_only(monkeypatch: pytest.MonkeyPatch) -> None:
    with new_district("ash", "birch") as district, webhook() as hook:
        district.write({"ash": {"notify": '{ env = "HOOK" }'}})
        monkeypatch.setenv("HOOK", hook.url)
        district["ash"].on(faults.hang(60), path="students", times=None)
        fleet = district.fleet(1)
        fleet.most_seconds = 12
        found = fleet.sync()
        assert {name: o.kind for name, o in found.items()} == {"ash": Kind.FAILED, "birch": Kind.SYNCED}
        assert found["ash"].message.startswith("It was not done in time, and was ended. Nothing is lost")
        assert len(hook.texts) == 1
        district["ash"].mend()
        assert district.night(1)["ash"].kind is Kind.SYNCED


def test_a_date_in_the_future_has_no_partition(nights: Nights) -> None:
    found = nights.district.night(1, only=["ash"], day=datetime(2027, 1, 1, tzinfo=UTC).date())
    assert found["ash"].kind is Kind.FAILED
    assert "2027-01-01" in found["ash"].message
