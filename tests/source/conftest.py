"""The fixtures of the tests of `source`: retries without waiting, clients, a night."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import stamina

from rollbook.source.client import Client
from tests.source.asking import TIMEOUTS, MakeClient, Night, settings_for
from tests.support.records import classes, students
from tests.support.wire.service import Service


@pytest.fixture(autouse=True)
def _retries_do_not_wait() -> Iterator[None]:
    """Stamina's test mode: no sleeping, at most six tries. A test that measures waiting turns that off."""
    with stamina.set_testing(True, attempts=6, cap=True):
        yield


@pytest.fixture
def client_of() -> Iterator[MakeClient]:
    """Makes and closes clients."""
    clients: list[Client] = []

    def make(service: Service | str, *, timeouts: httpx.Timeout = TIMEOUTS, **over: Any) -> Client:
        clients.append(Client(settings_for(service, **over), timeouts=timeouts))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def service() -> Iterator[Service]:
    """Three pages of students."""
    with Service(students(250)) as running:
        yield running


@pytest.fixture
def client(client_of: MakeClient, service: Service) -> Client:
    return client_of(service)


@pytest.fixture
def night(tmp_path: Path) -> Iterator[Night]:
    with Service(students(150), classes(3)) as service:
        yield Night(service, tmp_path)
