"""One writer at a time (G14)."""

from __future__ import annotations

import os

import pytest

from rollbook.errors import BusyError
from tests.support.nights import Expected, House, night
from tests.support.processes.machines import in_another_process
from tests.support.records import classes, students

pytestmark = pytest.mark.nights


@pytest.mark.story
def test_a_second_writer_that_waited_long_enough_is_refused_in_a_sentence(
    one_class: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rollbook.night.writing.WAIT_SECONDS", 0.2)
    one_class.night(1, students(3))
    with one_class.at(2).rollbook().writer().writing():
        refused = in_another_process(one_class.sync)
    assert isinstance(refused, BusyError)
    assert f"Another sync is still writing (process {os.getpid()} since {night(2)} 02:15:00 UTC)" in refused.message
    assert "Try again when it is done" in refused.message
    one_class.sync()
    assert one_class.tables() == Expected().night(1, students(3), classes(1)).night(2, students(3), classes(1)).tables()
