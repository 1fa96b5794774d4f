"""A district's nights, with real processes: what goes wrong at one institution costs the others nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from rollbook import settings
from rollbook.errors import ArgumentError, HeldError
from rollbook.features.district.nights import DistrictState, load_state, record, resume
from rollbook.features.district.worker import NightKind, NightOutcome
from rollbook.night.approvals import approve, to_approve
from tests.support.nights import night
from tests.support.records import MISSING, school_class, student
from tests.support.warehouses.district import District, new_district
from tests.support.wire import faults
from tests.support.wire.listeners import Webhook, webhook

pytestmark = [pytest.mark.timeout(240), pytest.mark.nights]

GOOD = ("ash", "birch", "cedar")


AT = datetime(2026, 11, 20, 2, 20, tzinfo=UTC)


@dataclass
class Nights:
    district: District
    hook: Webhook
    first: dict[str, NightOutcome]
    again: dict[str, NightOutcome]
    asked: dict[str, int]
    asked_again: dict[str, int]


@pytest.fixture(scope="module")
def nights() -> Iterator[Nights]:
    """A night with all kinds of trouble, and the same run once more."""
    with webhook() as hook, new_district(["ash", "birch", "twin"], ["cedar", "odd"], "refused", "dead", "away") as d:
        d["refused"].key = "a new key"
        d.hosts[2].schools = {d["refused"].key: d["refused"]}
        d["odd"].students = [student(n, name=MISSING) for n in range(1, 9)]
        d["twin"].school = d["ash"].school
        d["ash"].classes = [school_class(501, later_field="x")]
        d.write(
            {
                "dead": {"base_url": '"http://127.0.0.1:9"', "retry_seconds": "0", "notify": '{ env = "DEAD_HOOK" }'},
            }
        )
        d.pause("away", "holidays")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DEAD_HOOK", hook.url)
            d.hosts[0].on(faults.hang(0.3), times=None)  # or no two requests could meet
            d.night(1, only=["ash"])
            first = d.night(1, jobs=8)  # all at once
            requests = d.asked()
            again = d.night(1)
            yield Nights(d, hook, first, again, requests, d.asked())


def test_each_institution_has_its_own_outcome_and_what_is_good_is_published(nights: Nights) -> None:
    assert {name: outcome.kind for name, outcome in nights.first.items()} == {
        **dict.fromkeys(GOOD, NightKind.SYNCED),
        **dict.fromkeys(("twin", "odd", "refused", "dead"), NightKind.FAILED),
        "away": NightKind.PAUSED,
    }
    assert "whose records ash holds already" in nights.first["twin"].message
    assert "8 of 8 students were refused" in nights.first["odd"].message
    assert "does not accept the API key (401)" in nights.first["refused"].message
    assert "set api_key of refused in institutions.toml" in nights.first["refused"].message
    assert "gave no usable answer" in nights.first["dead"].message
    assert nights.first["away"].message == "holidays"
    for name in GOOD:
        assert nights.district.house(name).query("SELECT count(*) FROM students") == [(5,)]
        assert nights.first[name].received == {"students": 5, "classes": 1}
        assert nights.first[name].day == night(1)
    assert len(nights.hook.texts) == 2, "one alert of each run, to the addresses of its institution"
    assert "127.0.0.1:9" in nights.hook.texts[0]


def test_only_institutions_without_a_sync_are_fetched(nights: Nights) -> None:
    assert nights.first["ash"].fetched is False
    assert [nights.again[name].fetched for name in GOOD] == [False] * 3
    more = {name: nights.asked_again[name] - count for name, count in nights.asked.items()}
    assert {name for name, count in more.items() if count} == {"twin", "odd"}  # no key or host of the others is there
    assert {n: o.kind for n, o in nights.again.items()} == {n: o.kind for n, o in nights.first.items()}
    assert [host.most_at_once for host in nights.district.hosts] == [1, 1, 1, 0, 0], "one request at a time"


def test_outcomes_are_the_owners_and_no_file_has_a_key(nights: Nights) -> None:
    folder = nights.district.warehouse / "district" / "state"
    assert sorted(p.stem for p in folder.glob("*.json")) == sorted(nights.first)
    assert {p.stat().st_mode & 0o777 for p in folder.iterdir()} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700
    assert sum(path.is_file() for path in nights.district.root.rglob("*")) > 50
    assert nights.district.files_with_a_key() == []
    assert settings.load(institution="birch").api_key.get_secret_value() == nights.district["birch"].key


@pytest.mark.weekly
def test_three_nights_of_a_refused_key_pause_an_institution() -> None:
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
            assert kinds == [NightKind.SYNCED, NightKind.SYNCED]
            assert {o.kind for o in refused} == {NightKind.FAILED}
            assert ["Rollbook has paused it now" in o.message for o in refused] == [False] * 5 + [True]
            assert paused["birch"].kind is NightKind.PAUSED
            assert "refused its key on 3 nights in a row, the last of them 2026-11-26" in paused["birch"].message
            assert paused["ash"].kind is NightKind.SYNCED
            assert all(r.headers["x-api-key"] != birch.key for r in district.hosts[0].requests[before:])
            assert "Rollbook has paused it now" in hook.texts[-1]
            keys[birch.key] = birch
            assert resume(district.warehouse / "district", "birch") is True
            assert district.night(9)["birch"].kind is NightKind.SYNCED
            assert load_state(district.warehouse / "district", "birch").refused == ()


@pytest.mark.slow
def test_a_process_that_is_killed_or_hangs_costs_its_institution_only(monkeypatch: pytest.MonkeyPatch) -> None:
    with new_district("ash", "birch") as district, webhook() as hook:
        district.write({"ash": {"notify": '{ env = "HOOK" }'}})
        monkeypatch.setenv("HOOK", hook.url)
        district["ash"].on(faults.hang(60), path="students", times=None)
        run = district.institutions(1)
        run.max_seconds = 20
        outcomes = run.sync()
        assert {name: o.kind for name, o in outcomes.items()} == {"ash": NightKind.FAILED, "birch": NightKind.SYNCED}
        assert outcomes["ash"].message.startswith("It was not done in time, and was ended. Nothing is lost")
        assert len(hook.texts) == 1
        district["ash"].mend()
        assert district.night(1)["ash"].kind is NightKind.SYNCED


def after(*nights: tuple[int, NightKind, bool]) -> DistrictState:
    """The state after some nights: the number of each, its outcome, and whether the key was refused."""
    state = DistrictState()
    for number, kind, refused in nights:
        later = timedelta(days=number - 1)
        state = state.after(NightOutcome(kind=kind, at=AT + later, day=date(2026, 11, 20) + later, refused=refused))
    return state


@pytest.mark.parametrize(
    ("refused", "others", "paused"),
    [
        ((1, 2), (), False),
        ((1, 2, 3), (), True),
        ((1, 1, 1, 2), (), False),
        ((1, 2, 4), (3,), False),
        ((), (1, 2, 3), False),
    ],
)
def test_only_a_key_refused_on_three_nights_in_a_row_pauses(
    refused: tuple[int, ...], others: tuple[int, ...], paused: bool
) -> None:
    nights = sorted([*((n, True) for n in refused), *((n, False) for n in others)])
    assert bool(after(*((n, NightKind.FAILED, key) for n, key in nights)).why_paused("ash")) is paused


def test_a_damaged_state_is_begun_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    record(tmp_path, "ash", NightOutcome(kind=NightKind.SYNCED, at=AT))
    (tmp_path / "state" / "ash.json").write_bytes(b"\x00half")
    assert load_state(tmp_path, "ash") == DistrictState()
    assert "cannot be read (DecodeError); the next night replaces it" in caplog.text


@pytest.mark.slow
def test_an_earlier_days_approval_is_the_institutions_last_outcome() -> None:
    with new_district("ash") as district, district.in_environment():
        house = district.house("ash")
        house.night(1, [student(n) for n in range(1, 21)])
        with pytest.raises(HeldError):
            house.night(2, [student(1)])
        state = district.warehouse / "district"
        assert (held := load_state(state, "ash").last) is not None
        assert (held.kind, held.day) == (NightKind.HELD, night(2))
        rollbook = house.at(4).rollbook()
        with pytest.raises(ArgumentError):
            approve(rollbook.writer(), ["0" * 12])
        assert load_state(state, "ash").last == held, "a mistyped digest is no night"
        digests = [each.hold_digest for each in to_approve(rollbook.place)]
        approve(rollbook.writer(), digests)
        assert (last := load_state(state, "ash").last) is not None
        assert (last.kind, last.day) == (NightKind.SYNCED, night(2))
