"""What the tests of `source` share: retries without waiting, settings for a service, a sink in memory, a night."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import stamina

from pipelines.errors import RollbookError
from pipelines.landing.manifest import Manifest, Received
from pipelines.landing.raw import RawStore
from pipelines.settings import Settings
from pipelines.source.client import Client
from pipelines.source.fetch import fetch
from tests.support.records import classes, students
from tests.support.service import KEY, Service

# A hanging service costs a test this long, in seconds.
SHORT_TIMEOUTS = httpx.Timeout(connect=2, read=0.3, write=2, pool=2)

NOW = datetime(2026, 11, 20, 2, 15, tzinfo=UTC)
TODAY = date(2026, 11, 20)
YESTERDAY, TOMORROW = TODAY - timedelta(days=1), TODAY + timedelta(days=1)


@pytest.fixture(autouse=True)
def _retries_do_not_wait() -> Iterator[None]:
    """Stamina's test mode: no sleeping, at most six tries. A test that measures waiting turns it off."""
    with stamina.set_testing(True, attempts=6, cap=True):
        yield


def settings_for(service: Service | str, tmp_path: Path | None = None, **over: Any) -> Settings:
    """The settings of a warehouse that reads this service."""
    url = service if isinstance(service, str) else service.url
    values: dict[str, Any] = {"base_url": url, "api_key": KEY, "_env_file": None}
    if tmp_path is not None:
        values["warehouse"] = tmp_path
    return Settings(**(values | over))


@pytest.fixture
def client_of() -> Iterator[Callable[..., Client]]:
    """Makes clients, and closes them."""
    made: list[Client] = []

    def make(service: Service | str, **over: Any) -> Client:
        made.append(Client(settings_for(service, **over), timeouts=SHORT_TIMEOUTS))
        return made[-1]

    yield make
    for client in made:
        client.__exit__(None, None, None)


@dataclass
class Kept:
    """A sink that keeps what it is given: what a landing writer would have put on disk."""

    bodies: list[dict[str, Any]] = field(default_factory=list)

    def expect(self, records: int) -> None:
        pass

    def add(self, received: Received, content: bytes) -> None:
        self.bodies.append({**msgspec.structs.asdict(received), "set_name": received.set, "content": content})

    def told(self, *names: str) -> list[tuple[Any, ...]]:
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
        given: dict[str, Any] = {"clock": lambda: NOW, "timeouts": SHORT_TIMEOUTS, **arguments}
        return fetch(settings, self.raw.begin, published, **given)

    def failed(self, error: type[RollbookError], published: Any = None, **arguments: Any) -> tuple[Any, list[Manifest]]:
        """Fetch, expecting an error; returns it and what was landed."""
        with pytest.raises(error) as caught:
            self.fetch(published, **arguments)
        assert not list(self.warehouse.rglob(".*")), "something half-written was left"
        return caught.value, self.raw.manifests()

    def asked(self) -> list[tuple[str, int]]:
        return [(r.path, r.page) for r in self.service.requests]


@pytest.fixture
def night(tmp_path: Path) -> Iterator[Night]:
    with Service(students(150), classes(3)) as service:
        yield Night(service, tmp_path)
