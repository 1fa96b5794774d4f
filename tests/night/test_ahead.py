"""The day of a large landing is composed, compared and merged while its vanished records are searched for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from rollbook.errors import KeyRefusedError
from rollbook.night import stages
from rollbook.night.stages import Merged
from tests.support.consumer import Consumer
from tests.support.nights import House
from tests.support.reading import opened
from tests.support.records import student, students
from tests.support.warehouses.holds import first_night, is_held
from tests.support.wire import faults
from tests.support.wire.service import Asked

pytestmark = [pytest.mark.nights, pytest.mark.every_feature]

Merges = Callable[[], AbstractContextManager[list[bool]]]


@pytest.fixture(autouse=True)
def _large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rollbook.ingest.LARGE", 1)


@pytest.fixture
def slow_searches(one_class: House, monkeypatch: pytest.MonkeyPatch) -> Merges:
    """Within such a block a search is answered once the next file is merged, or after 20 seconds. Yields for each merge
    whether it was done before the service had answered all that it was asked.
    """
    merged = stages.merge_into

    @contextmanager
    def block() -> Iterator[list[bool]]:
        merges, is_merged, is_waiting = list[bool](), threading.Event(), threading.Event()

        def merge_into(*given: Any, **options: Any) -> Merged:
            done = merged(*given, **options)
            merges.append(is_waiting.is_set())
            is_merged.set()
            return done

        def waits(request: Asked) -> None:
            if request.search is not None:
                is_waiting.set()
                is_merged.wait(20)
                is_waiting.clear()

        with monkeypatch.context() as patched:
            patched.setattr(stages, "merge_into", merge_into)
            one_class.service.before = waits
            yield merges
            one_class.service.before = None

    return block


def test_a_day_is_merged_while_a_vanished_student_is_searched_for(one_class: House, slow_searches: Merges) -> None:
    expected = first_night(one_class, students(12))
    reader = Consumer()
    with opened(one_class.published) as con:
        reader.poll(con)
    with slow_searches() as merges:
        one_class.night(2, students(11))
    assert merges == [True]
    assert one_class.tables() == expected.night(2, students(11), one_class.service.classes).tables()
    assert one_class.rollbook().place.recovery.is_current()
    with opened(one_class.published) as con:
        reader.poll(con)
        assert reader.differences(con) == []
    assert reader.whole == 1


@pytest.mark.story
def test_a_day_that_a_search_changes_is_merged_again(one_class: House, slow_searches: Merges) -> None:
    expected = first_night(one_class, students(60))
    one_class.service.hide(7, 8)
    tonight = [*students(60), student(99)]
    with slow_searches() as merges:
        done = one_class.night(2, tonight)
    assert merges == [True, False]
    assert {a.answer for a in done.manifest.absences} == {"found_by_search"}
    assert one_class.tables() == expected.night(2, tonight, one_class.service.classes).tables()


def test_a_day_that_was_merged_and_is_held_changes_nothing(one_class: House, slow_searches: Merges) -> None:
    expected = first_night(one_class, students(60))
    with slow_searches() as merges:
        is_held(one_class, 2, students(50))
    assert merges == [True]
    assert not one_class.rollbook().warehouse.next.exists()
    one_class.at(2).approve()
    assert one_class.tables() == expected.night(2, students(50), one_class.service.classes).tables()


def test_a_second_landing_of_a_day_is_composed_of_both(one_class: House) -> None:
    expected = first_night(one_class, students(12))
    one_class.night(2, students(12))
    one_class.night(2, students(11), fresh=True)
    assert one_class.tables() == expected.night(2, students(11), one_class.service.classes).tables()


def test_a_night_that_fails_during_its_searches_ends_the_work_ahead(one_class: House, slow_searches: Merges) -> None:
    expected = first_night(one_class, students(12))
    one_class.service.on(faults.refused(401, "UNAUTHORIZED"), path="students", search=True)
    with slow_searches() as merges, pytest.raises(KeyRefusedError):
        one_class.night(2, students(11))
    assert merges == [True]
    assert not one_class.rollbook().warehouse.next.exists()
    assert [t.name for t in threading.enumerate() if t.name.startswith("ahead")] == []
    one_class.service.mend()
    one_class.night(2, students(11))
    assert one_class.tables() == expected.night(2, students(11), one_class.service.classes).tables()
