"""The copy in a real S3 server, with what goes wrong between here and there."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from rollbook.features.mirror import mirror
from rollbook.features.mirror.mirror import Mirror
from tests.support.nights import ChangingNights, House, new_house
from tests.support.records import classes, students
from tests.support.tiers import weekly
from tests.support.wire.storage import CREDENTIALS, Between, Fault, make_bucket, restored, s3_server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with s3_server() as url:
        yield url


@pytest.fixture
def between(server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Between]:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with Between(server) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        yield proxy


@pytest.fixture
def copied_school(server: str, between: Between) -> Iterator[House]:
    name = f"records-{uuid4().hex[:12]}"
    make_bucket(server, name)
    with new_house(students(30), classes(2), lake=f"s3://{name}/school") as house:
        yield house


def every(number: int, what: str) -> Fault:
    return lambda _method, _path, count: what if count % number == 0 else None


def first_of(method: str, part: str, what: str) -> Fault:
    """The first request of a method to a path with this in it goes wrong."""
    done: list[str] = []

    def fault(found: str, path: str, _count: int) -> str | None:
        if found == method and part in path and not done:
            done.append(path)
            return what
        return None

    return fault


@pytest.mark.parametrize(
    "fault",
    [
        weekly(lambda *_: None, name="none"),
        pytest.param(every(7, "500"), id="500s"),
        weekly(every(9, "cut"), name="cut"),
        weekly(every(8, "lost"), name="lost"),
        pytest.param(first_of("PUT", "bodies.zst", "cut"), id="body-cut"),
        pytest.param(first_of("PUT", "_mirror/catalog", "lost"), id="catalog-lost"),
        weekly(first_of("PUT", "_mirror/catalog", "500"), name="catalog-500"),
        weekly(first_of("DELETE", "", "lost"), name="delete-lost"),
        weekly(first_of("POST", "delete", "lost"), name="deletes-lost"),
    ],
)
def test_after_any_fault_that_passes_a_restore_gives_the_same_tables(
    copied_school: House, between: Between, tmp_path: Path, fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    between.fault = fault
    with caplog.at_level(logging.WARNING, logger="rollbook.night.listeners"):
        played = ChangingNights(copied_school).play(3)
    assert not [r for r in caplog.records if r.name.startswith("rollbook.night.listeners")]
    assert copied_school.rollbook().listener(Mirror).verify() == []
    again = restored(copied_school, tmp_path / "new")
    assert again.tables() == copied_school.tables() == played.expected.tables()


def test_a_hanging_store_costs_seconds_and_the_next_night_catches_up(
    copied_school: House,
    between: Between,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(mirror, "REQUEST_SECONDS", 1)
    monkeypatch.setattr(mirror, "RETRY_SECONDS", 2)
    played = ChangingNights(copied_school).play(1)
    between.fault, between.slow = lambda *_: "slow", 30.0
    began = time.monotonic()
    with caplog.at_level(logging.WARNING):
        played.play(1)
    assert time.monotonic() - began < 30
    assert "no usable answer" in caplog.text
    between.fault = lambda *_: None
    played.play(1)
    assert restored(copied_school, tmp_path / "new").tables() == played.expected.tables()


def test_refused_credentials_are_reported_without_showing_them(
    copied_school: House, between: Between, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    between.fault = lambda *_: "500"
    monkeypatch.setattr(mirror, "RETRY_SECONDS", 1)
    with caplog.at_level(logging.WARNING):
        copied_school.night(1)
    assert "could not be listed" in caplog.text
    assert "made-up" not in caplog.text
    assert between.url not in caplog.text
