"""The UI of a real `rollbook serve` and its token: who gets in, by which name, and who an approval is by."""

from __future__ import annotations

import json
import re
import socket
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin, Subprotocol

from rollbook.defs.jobs import UI
from rollbook.errors import HeldError
from rollbook.night import approvals
from tests.support.nights import House, new_house
from tests.support.processes.accounts import NOBODY, ask_raw, connected
from tests.support.processes.commands import run_command
from tests.support.processes.servers import Served, free_port, serving, until
from tests.support.records import classes, students

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

LAUNCH = """mutation($config: RunConfigData!, $tags: [ExecutionTag!]) { launchRun(executionParams: {
  selector: {repositoryLocationName: "rollbook", repositoryName: "__repository__", jobName: "approve_held"},
  runConfigData: $config, executionMetadata: {tags: $tags}}) { __typename } }"""


def launch(house: House) -> dict[str, Any]:
    """A launch that approves what is held today, and says that the superintendent asked for it."""
    (held,) = approvals.to_approve(house.rollbook().place)
    options = {"held": [held.hold_digest], "reason": "as told"}
    tags = [{"key": "rollbook/by", "value": "superintendent"}]
    return {"query": LAUNCH, "variables": {"config": {"ops": {"approve": {"config": options}}}, "tags": tags}}


def post(served: Served, asked: dict[str, Any], *headers: str, account: int | None = None) -> bytes:
    """The answer to a query, of this account or another one."""
    body = json.dumps(asked).encode()
    lines = (f"Host: 127.0.0.1:{served.port}", "Content-Type: application/json", f"Content-Length: {len(body)}")
    head = "\r\n".join(("POST /graphql HTTP/1.1", *lines, "Connection: close", *headers, "", ""))
    with connected(served.port, account=account) as opened:
        return ask_raw(opened, head.encode() + body)


def subscribed(served: Served, host: str, **headers: str) -> ClientConnection:
    """A WebSocket as the UI opens it, under a host name. Raises InvalidStatus."""
    return connect(
        f"ws://{host}:{served.port}/graphql",
        sock=socket.create_connection(("127.0.0.1", served.port), timeout=30),
        origin=Origin(f"http://{host}:{served.port}"),
        additional_headers=headers,
        subprotocols=[Subprotocol("graphql-ws")],
    )


def hold(house: House) -> None:
    """A night of today whose landing is held."""
    house.now = datetime.now(UTC) - timedelta(days=1)
    house.sync()
    house.now = datetime.now(UTC)
    house.service.students = students(20)
    with pytest.raises(HeldError):
        house.sync(fresh=True)


def opened(served: Served, *options: str) -> str:
    """What `rollbook open` prints."""
    done = run_command("open", *options, env={"DAGSTER_HOME": str(served.log.parent)})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_only_the_token_lets_in_and_an_approval_is_the_uis(tmp_path: Path) -> None:
    home, port = tmp_path / "home", free_port()
    with new_house(students(60), classes(1)) as house:
        hold(house)
        env = house.environment(cron="0 0 1 1 *", ui_hosts="rollbook.school.example")
        with serving(home, env, port=port) as served:
            first = served.address
            own, token = first.removeprefix("http://").split(":")[0], first.rpartition("=")[2]
            cookie, bearer = f"rollbook-{port}={token}", f"Authorization: Bearer {token}"
            assert opened(served) == f"Open {first} in a browser on this machine.\n"
            log = served.log.read_text()
            assert f"The UI is ready on port {port} (`rollbook open` opens it);" in log
            assert (own in log, token in log) == (False, False)
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=30) as answer:
                assert answer.read() == b"ok\n"

            forged = launch(house)
            for account in (None, NOBODY):
                for tried in ((), (f"Cookie: {cookie}",), ("Authorization: Bearer guessed",)):
                    assert post(served, forged, *tried, account=account).startswith(b"HTTP/1.1 401 ")
            for host in (own, "127.0.0.1"):
                with pytest.raises(InvalidStatus, match="401"):
                    subscribed(served, host)
            with pytest.raises(InvalidStatus, match="401"):
                subscribed(served, "127.0.0.1", Cookie=cookie)
            with pytest.raises(InvalidStatus, match="403"):
                subscribed(served, "evil.example", Cookie=cookie)
            assert served.runs() == []

            assert b"LaunchRunSuccess" in post(served, forged, bearer, "X-Forwarded-User: superintendent")
            until(lambda: [run["status"] for run in served.runs()] == ["SUCCESS"], 180)
            assert (approval := house.landings(house.now.date())[-1].approval)
            assert (approval.by, approval.reason) == (UI, "as told")

            # Behind a proxy, which passes the host name on and sends the token, or leaves it to the browser.
            for given in ({"Authorization": f"Bearer {token}"}, {"Cookie": cookie}):
                with subscribed(served, "rollbook.school.example", **given) as listening:
                    listening.send('{"type": "connection_init"}')
                    assert "connection_ack" in str(listening.recv(30))
            with subscribed(served, own, Cookie=cookie) as listening:
                listening.send('{"type": "connection_init"}')
                assert "connection_ack" in str(listening.recv(30))
                new = opened(served, "--new").split()[1]
                with pytest.raises(ConnectionClosed):
                    listening.send('{"type": "connection_init"}')
                    listening.recv(30)
            assert post(served, forged, bearer).startswith(b"HTTP/1.1 401 ")
            assert not {own, token} & set(re.split(r"[/:=]", new))
            assert served.runs()[0]["status"] == "SUCCESS"
            served.stop()
        with serving(home, env, port=port) as served:
            assert served.address == new
            assert opened(served) == f"Open {new} in a browser on this machine.\n"
            with pytest.raises(urllib.error.HTTPError, match="401"):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/server_info", timeout=30)
