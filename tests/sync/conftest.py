"""What the tests of `sync` share: an empty warehouse whose service has one class."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.nights import House, new_house, without_views
from tests.support.records import classes


@pytest.fixture
def house() -> Iterator[House]:
    with without_views(), new_house(classes=classes(1)) as made:
        yield made
