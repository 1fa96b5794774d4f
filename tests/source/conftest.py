"""What the tests of `source` share: retries without waiting, settings for a service, a sink in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import stamina

from pipelines.settings import Settings
from pipelines.source.client import Client
from tests.support.service import KEY, Service

# A hanging service costs a test this long, in seconds.
SHORT_TIMEOUTS = httpx.Timeout(connect=2, read=0.3, write=2, pool=2)


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

    def add(self, **body: Any) -> None:
        self.bodies.append(body)

    def told(self, *names: str) -> list[tuple[Any, ...]]:
        return [tuple(body.get(name) for name in names) for body in self.bodies]
