"""Makes bodies, and flattens them without a landing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from rollbook.flatten.rows import Batch, Flattener
from rollbook.landing.manifest import LandedBody


def page(*records: Any, number: int = 1, set_name: str = "students", **more: Any) -> LandedBody:
    """A page with some records, as it was landed."""
    body = json.dumps({"success": True, "data": list(records)}).encode()
    return LandedBody(set=set_name, kind=more.pop("kind", "walk"), page=number, content=body, **more)


def flatten(set_name: str, bodies: Iterable[LandedBody]) -> Iterator[Batch]:
    """Flatten the landed bodies of one set, in order; yields at least one batch."""
    flattener = Flattener(set_name)
    for body in bodies:
        if (batch := flattener.add(body)) is not None:
            yield batch
    yield flattener.last()
