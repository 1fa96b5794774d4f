"""Shared by the tests of `source`: settings for a service, a page asked of a client, a sink in memory, a night."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import partial
from inspect import get_annotations
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from rollbook.errors import RollbookError
from rollbook.ingest import Ingested, StagingWriter
from rollbook.landing.manifest import Manifest, Proof, Received, Walk
from rollbook.landing.raw import RawStore
from rollbook.settings import Settings
from rollbook.source.client import Answer, Client
from rollbook.source.envelope import Page, page_of
from rollbook.source.fetch import FetchPlan, fetch
from rollbook.tables import SETS
from tests.support.wire.service import KEY, Service

# Far longer than a busy machine needs for an answer: only a test of a hanging service sets a short timeout.
TIMEOUTS = httpx.Timeout(20)

NOW = datetime(2026, 11, 20, 2, 15, tzinfo=UTC)
TODAY = date(2026, 11, 20)
YESTERDAY, TOMORROW = TODAY - timedelta(days=1), TODAY + timedelta(days=1)


MakeClient = Callable[..., Client]
STUDENTS = page_of(SETS["students"])


def get_page(client: Client, page: int = 1, *, search: str = "") -> Answer[Page]:
    sought = {"search": search} if search else {}
    return client.get("students", {**sought, "page": page, "limit": 100}, read=STUDENTS)


def settings_for(service: Service | str, tmp_path: Path | None = None, **over: Any) -> Settings:
    """The settings of a warehouse that reads the service."""
    url = service if isinstance(service, str) else service.url
    values: dict[str, Any] = {"base_url": url, "api_key": KEY, "_env_file": None}
    if tmp_path is not None:
        values["warehouse"] = tmp_path
    return Settings(**(values | over))


def proof(count: int, pages: int = 1, *, of: str = "students", walk: int = 1, limit: int = 100) -> Proof:
    """That so many records came, on so many pages."""
    return Proof(set=of, walk=walk, total_count=count, unique_ids=count, pages=pages, limit=limit)


def whole(count: int, pages: int = 1, *, of: str = "students") -> Walk:
    """A set that one walk has proven."""
    proven = proof(count, pages, of=of)
    return Walk(set=of, walks=1, counted=(1,), proof=proven, total_count=count, received=count, distinct=count)


@dataclass
class Kept:
    """A sink that keeps everything: what a landing writer would have put on disk."""

    bodies: list[dict[str, Any]] = field(default_factory=list)

    def add(self, received: Received, content: bytes) -> None:
        self.bodies.append({**msgspec.structs.asdict(received), "set_name": received.set, "content": content})

    def columns(self, *names: str) -> list[tuple[Any, ...]]:
        return [tuple(body.get(name) for name in names) for body in self.bodies]


class Night:
    """A service, an empty raw folder, and a fetch to be made."""

    def __init__(self, service: Service, tmp_path: Path) -> None:
        self.service = service
        self.warehouse = tmp_path / "warehouse"
        self.raw = RawStore(self.warehouse / "raw")
        service.now = lambda: NOW

    def fetch(self, published: Any = None, *, over: dict[str, Any] | None = None, **arguments: Any) -> Manifest:
        settings = settings_for(self.service, self.warehouse, **(over or {}))
        of_plan = {name: arguments.pop(name) for name in get_annotations(FetchPlan) if name in arguments}
        given: dict[str, Any] = {"clock": lambda: NOW, "timeouts": TIMEOUTS, **arguments}
        begin = partial(StagingWriter, self.raw, self.warehouse / "build" / "aside")
        ingested: Ingested = fetch(settings, begin, FetchPlan(**of_plan), published, **given)
        return ingested.manifest

    def failed(self, error: type[RollbookError], published: Any = None, **arguments: Any) -> tuple[Any, list[Manifest]]:
        """Fetch, expecting an error; returns the error and the landing."""
        with pytest.raises(error) as caught:
            self.fetch(published, **arguments)
        assert not list(self.warehouse.rglob(".*")), "something half-written was left"
        return caught.value, self.raw.manifests()

    def asked(self) -> list[tuple[str, int]]:
        return [(r.path, r.page) for r in self.service.requests]
