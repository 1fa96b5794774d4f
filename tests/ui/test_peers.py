"""The other end of a connection on this machine: real sockets, of two accounts."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rollbook.util.peers import CLOSED, holder
from tests.support.processes.accounts import NOBODY, connected

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux says whose a connection is")


@contextmanager
def listening(host: str = "127.0.0.1") -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family, dualstack_ipv6=host == "::") as opened:
        yield opened


def ends(accepted: socket.socket) -> tuple[tuple[str, int], tuple[str, int]]:
    """The ends of a connection, as a web server knows them."""
    return accepted.getpeername()[:2], accepted.getsockname()[:2]


@pytest.mark.parametrize(("host", "to"), [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("::", "127.0.0.1")])
@pytest.mark.parametrize("account", [None, NOBODY])
def test_the_account_that_opened_a_connection_holds_it(host: str, to: str, account: int | None) -> None:
    with listening(host) as server, connected(server.getsockname()[1], to, account=account) as opened:
        accepted, _ = server.accept()
        with accepted:
            assert holder(*ends(accepted)) == (os.geteuid() if account is None else account)
            opened.shutdown(socket.SHUT_WR)
            assert holder(*ends(accepted)) == (os.geteuid() if account is None else account)


def test_a_closed_connection_has_no_holder() -> None:
    with listening() as server:
        with connected(server.getsockname()[1], account=NOBODY) as opened:
            accepted, _ = server.accept()
            opened.close()
            assert holder(*ends(accepted)) == CLOSED
            accepted.close()
        assert holder(("127.0.0.1", 1), server.getsockname()[:2]) == CLOSED


def test_of_another_machine_or_none_it_cannot_be_known() -> None:
    assert holder(("192.0.2.1", 4711), ("192.0.2.2", 3000)) is None
    assert holder(None, ("127.0.0.1", 3000)) is None
