"""What is remembered of an institution between two nights, and when a refused key pauses it. No process is started."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from pipelines.fleet.nights import outcomes
from pipelines.fleet.nights.order import Queue
from pipelines.fleet.nights.outcomes import Kind, Outcome, State
from pipelines.text import naming

AT = datetime(2026, 11, 20, 2, 20, tzinfo=UTC)


def outcome(number: int, kind: Kind = Kind.SYNCED, *, refused: bool = False) -> Outcome:
    after = timedelta(days=number - 1)
    return Outcome(kind=kind, at=AT + after, day=date(2026, 11, 20) + after, refused=refused)


def refused(number: int) -> Outcome:
    return outcome(number, Kind.FAILED, refused=True)


def after(*nights: Outcome) -> State:
    state = State()
    for night in nights:
        state = state.after(night, "ash")
    return state


@pytest.mark.parametrize(
    ("nights", "paused"),
    [
        ((refused(1), refused(2)), False),
        ((refused(1), refused(2), refused(3)), True),
        ((refused(1), refused(1), refused(1), refused(2)), False),
        ((refused(1), refused(2), outcome(3, Kind.FAILED), refused(4)), False),
        ((refused(1), refused(2), outcome(3), refused(4), refused(5)), False),
        ((outcome(1, Kind.FAILED), outcome(2, Kind.FAILED), outcome(3, Kind.FAILED), outcome(4, Kind.HELD)), False),
    ],
)
def test_only_a_key_refused_on_three_nights_in_a_row_pauses(nights: tuple[Outcome, ...], paused: bool) -> None:
    assert bool(after(*nights).paused) is paused


def test_since_when_the_nights_end_as_the_last_one_did() -> None:
    assert after(outcome(1), outcome(2)).since == AT
    assert after(outcome(1), outcome(2, Kind.HELD), outcome(3, Kind.HELD)).since == AT + timedelta(days=1)


def test_a_state_is_kept_whole_and_read_back(tmp_path: Path) -> None:
    known = outcomes.record(tmp_path, "ash", replace(outcome(1), received={"students": 5}, message="words"))
    assert outcomes.load(tmp_path, "ash") == known
    assert outcomes.load(tmp_path, "birch") == State()


def test_a_damaged_state_is_begun_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    outcomes.record(tmp_path, "ash", outcome(1))
    (tmp_path / "state" / "ash.json").write_bytes(b"\x00half")
    assert outcomes.load(tmp_path, "ash") == State()
    assert "cannot be read (DecodeError); the next night replaces it" in caplog.text
    assert outcomes.record(tmp_path, "ash", outcome(2)).since == AT + timedelta(days=1)


def test_resuming_forgets_the_refusals(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        outcomes.record(tmp_path, "ash", refused(number))
    assert outcomes.load(tmp_path, "ash").paused
    assert outcomes.resume(tmp_path, "ash") is True
    assert outcomes.resume(tmp_path, "ash") is False
    assert not outcomes.record(tmp_path, "ash", refused(4)).paused


def test_those_under_way_ask_as_many_hosts_as_there_are() -> None:
    queue = Queue({"a1": "a", "a2": "a", "a3": "a", "b1": "b", "c1": "c"})
    first = [queue.next() for _ in range(4)]
    assert first == ["a1", "b1", "c1", "a2"]
    queue.done("b1")
    assert queue.next() == "a3"
    assert not queue


def test_advice_names_the_institution() -> None:
    said = (
        "`rollbook sync --fresh` or rollbook backfill; see rollbook.duckdb, `rollbook fleet sync` and Rollbook itself"
    )
    assert naming("ash", said) == (
        "`rollbook --institution ash sync --fresh` or rollbook --institution ash backfill; see rollbook.duckdb,"
        " `rollbook fleet sync` and Rollbook itself"
    )
    assert naming("ash", "set ROLLBOOK_API_KEY") == "set api_key of ash in institutions.toml"
    assert naming("", said) == said
