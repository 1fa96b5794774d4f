"""Which features the nights of a test have.

A night writes a page and a feed, which take a quarter of it, and which nothing of the core reads. They have tests of
their own; the core's nights do without them, as a school may whose folders they are not in.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import pytest

from rollbook import assembly, feature

# The folders of tests whose nights are of the core alone, unless a file is marked `every_feature`.
OF_THE_CORE = frozenset({"health", "night", "rights", "sandbox", "store", "views"})
LEFT_OUT = frozenset({"feed", "morning"})


@cache
def _some() -> tuple[feature.Feature, ...]:
    return tuple(each for each in feature.present() if each.name not in LEFT_OUT)


@contextmanager
def the_core_alone() -> Iterator[None]:
    """Within the block, a night of this process has no page and no feed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assembly, "present", _some)
        yield


@contextmanager
def every_feature() -> Iterator[None]:
    """Within the block, a night has every feature."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assembly, "present", feature.present)
        yield
