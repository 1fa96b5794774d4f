"""Listeners cannot spoil a night."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from rollbook.errors import HeldError, RollbookError
from rollbook.night import sync
from rollbook.night.listeners import Listener
from rollbook.night.stages import merge, snapshot
from tests.support.nights import House, landed
from tests.support.reading import writable
from tests.support.records import students

pytestmark = [pytest.mark.nights, pytest.mark.every_feature]


class Broken(Listener):
    """Fails at every call, and notes the call."""

    name = "a broken listener"

    def __init__(self) -> None:
        self.told: list[str] = []

    def _fail(self, event: str) -> None:
        self.told.append(event)
        raise ValueError("Maria Example")

    def began(self, at: datetime) -> None:
        self._fail(f"began {at:%H:%M}")

    def before_publish(self, next_file: Path, at: datetime) -> None:
        self._fail(f"before {next_file.is_file()} {at:%H:%M}")

    def on_published(self, at: datetime) -> None:
        self._fail(f"published {at:%H:%M}")

    def failed(self, error: RollbookError, at: datetime) -> None:
        self._fail(f"failed {type(error).__name__} {at:%H:%M}")

    def ended(self, at: datetime) -> None:
        self._fail(f"ended {at:%H:%M}")


def test_a_listener_that_fails_is_told_everything_and_fails_no_night(
    one_class: House, caplog: pytest.LogCaptureFixture
) -> None:
    rollbook, broken = one_class.at(1).rollbook(), Broken()
    rollbook.listeners = replace(rollbook.listeners, each=(broken, *rollbook.listeners))
    one_class.service.students = students(20)
    with caplog.at_level(logging.WARNING):
        sync(rollbook.writer())
    assert broken.told == ["began 02:15", "before True 02:15", "published 02:15", "ended 02:15"]
    assert one_class.query("SELECT COUNT(*) FROM students") == [(20,)]
    assert (one_class.warehouse / "report.html").is_file(), "those after it are told, too"
    assert caplog.text.count("a broken listener could not be brought up to date: ValueError") == 4
    assert "Maria" not in caplog.text
    one_class.at(2).service.students = students(5)
    broken.told.clear()
    with pytest.raises(HeldError):
        sync(rollbook.writer())
    assert broken.told == ["began 02:15", "failed HeldError 02:15", "ended 02:15"]


def test_they_learn_once_of_a_merge_that_fails(one_class: House) -> None:
    one_class.night(1, students(3))
    rollbook, broken = one_class.at(2).rollbook(), Broken()
    rollbook.listeners = replace(rollbook.listeners, each=(broken,))
    with pytest.raises(RollbookError), rollbook.writer().writing():
        snapshot(rollbook.place, landed(rollbook), rollbook.settings, rollbook.clock())
        writable(rollbook.warehouse.published_file).write_bytes(b"somebody's")
        merge(rollbook.place)
    assert [call.split()[0] for call in broken.told] == ["began", "failed", "ended"]
