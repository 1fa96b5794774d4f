"""How `rollbook explore` is started, whom it lets in, and how it ends; what is on its pages is tested in a browser."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from pipelines.errors import ArgumentError
from pipelines.explore import server
from pipelines.explore.server import FOREIGN, WRONG_HOST
from tests.support.processes.commands import run_at
from tests.support.processes.exploring import Explored, exploring
from tests.support.warehouses.school import School

pytestmark = pytest.mark.timeout(300)

UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}


def ask(explored: Explored, headers: Mapping[str, str], path: str = "/", method: str = "GET") -> tuple[int, str]:
    """The status and the text that come back for a request with these headers."""
    connection = http.client.HTTPConnection("127.0.0.1", explored.port, timeout=60)
    connection.putrequest(method, path, skip_host=True)
    body = b"{}" if method == "POST" else b""
    for name, value in {"Host": f"127.0.0.1:{explored.port}", "Content-Length": str(len(body)), **headers}.items():
        connection.putheader(name, value)
    connection.endheaders(body)
    answer = connection.getresponse()
    text = "" if answer.status == 101 else answer.read().decode()
    connection.close()
    return answer.status, text


def test_before_the_first_sync_it_says_what_to_do(tmp_path: Path) -> None:
    done = run_at(tmp_path, "explore")
    missing = f"{tmp_path / 'rollbook.duckdb'} does not exist yet: run `rollbook sync` first"
    assert (done.returncode, done.stderr) == (1, f"Error: {missing}\n")


def test_without_its_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "marimo", None)  # as it is where it was not installed
    with pytest.raises(ArgumentError, match=r"needs the extra `explore`: pip install 'rollbook\[explore\]'"):
        server.serve(3001, print)


def test_of_a_taken_port_it_says_how_to_choose_another(fortnight: School) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run_at(fortnight.warehouse, "explore", "--port", str(port))
    assert (done.returncode, done.stderr) == (
        2,
        f"Error: Port {port} of 127.0.0.1 cannot be opened (Address already in use): choose another one with --port,"
        f" such as `rollbook explore --port {port + 1 if port < 65535 else port - 1}`\n",
    )


def test_only_its_own_pages_get_in_and_only_with_the_token(explored: Explored) -> None:
    own, known = f"http://127.0.0.1:{explored.port}", f"/?access_token={explored.token}"
    assert ask(explored, {"Host": "evil.example"}, known) == (403, WRONG_HOST)
    assert ask(explored, {"Host": f"evil.example:{explored.port}"}, known) == (403, WRONG_HOST)
    for origin in ("http://evil.example", "http://127.0.0.1:1", "null"):
        assert ask(explored, {"Origin": origin}, known) == (403, FOREIGN)
        socketed = f"/ws?session_id=s_1&access_token={explored.token}"
        assert ask(explored, {**UPGRADE, "Origin": origin}, socketed) == (403, FOREIGN)
    as_page = {"Authorization": f"Bearer {explored.token}"}
    assert ask(explored, as_page)[0] == 200
    assert ask(explored, as_page | {"Origin": own})[0] == 200
    # Any account of this machine can reach the port: without the token there is a form that asks for it.
    assert [ask(explored, {}, path)[0] for path in ("/", "/?access_token=guessed")] == [303, 303]
    assert ask(explored, {"Authorization": "Bearer guessed"})[0] == 303
    assert ask(explored, {**UPGRADE, "Origin": own}, "/ws?session_id=s_2")[0] == 403
    # Last: it starts the notebook, and Python 3.11.7 can fail to parse two files at once in two threads (gh-106905).
    assert ask(explored, {**UPGRADE, "Origin": own}, f"/ws?session_id=s_1&access_token={explored.token}")[0] == 101


def test_no_code_that_is_sent_to_it_is_run(explored: Explored) -> None:
    as_page = {"Authorization": f"Bearer {explored.token}", "Content-Type": "application/json"}
    assert ask(explored, as_page)[0] == 200
    for path in ("/api/kernel/run", "/api/kernel/save", "/api/kernel/scratchpad/run", "/api/files/list_files"):
        assert ask(explored, as_page, path, "POST")[0] == 401, path


def test_sigterm_stops_it_with_success_though_pages_are_open(fortnight: School, tmp_path: Path) -> None:
    with exploring(fortnight.warehouse, tmp_path / "run") as explored:
        connection = http.client.HTTPConnection("127.0.0.1", explored.port, timeout=60)
        path = f"/ws?session_id=s_1&access_token={explored.token}"
        connection.request("GET", path, headers={**UPGRADE, "Origin": f"http://127.0.0.1:{explored.port}"})
        assert connection.getresponse().status == 101
        assert explored.stop() == 0
        connection.close()
        assert explored.log.read_text().splitlines()[-1] == "Stopping."
        assert explored.asks_elsewhere() == []
        assert "socket.bind" in explored.asked.read_text()  # the record was kept


def test_it_does_not_wait_long_for_a_page_that_is_still_at_work(fortnight: School) -> None:
    """An interpreter that ends below a query may crash."""
    served = "lambda *_: threading.Thread(target=time.sleep, args=(100,)).start()"
    script = "import threading, time; from pipelines.cli import app; from pipelines.explore import server"
    script = f"{script}; server.serve = {served}; app(['explore'])"
    env = {**os.environ, "ROLLBOOK_WAREHOUSE": str(fortnight.warehouse)}
    assert subprocess.run([sys.executable, "-c", script], env=env, timeout=60, check=False).returncode == 0
