"""Flattens bodies without a landing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rollbook.flatten.rows import Batch, Flattener
from rollbook.landing.manifest import LandedBody


def flatten(set_name: str, bodies: Iterable[LandedBody]) -> Iterator[Batch]:
    """Flatten the landed bodies of one set, in order; yields at least one batch."""
    flattener = Flattener(set_name)
    for body in bodies:
        if (batch := flattener.add(body)) is not None:
            yield batch
    yield flattener.last()
