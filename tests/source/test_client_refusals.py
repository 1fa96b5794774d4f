"""Answers that the client takes for a no and never asks for again, and where the key is never sent (G12 and G13)."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
from contextlib import closing
from pathlib import Path

import pytest
import stamina

from rollbook.errors import KeyRefusedError, RedirectError, RefusedError, SettingError, UnreachableError
from rollbook.source.client import Client
from tests.source.asking import TIMEOUTS, MakeClient, get_page, settings_for
from tests.support.processes.errors import everything_about
from tests.support.records import students
from tests.support.wire import faults
from tests.support.wire.service import KEY, Bend, Reply, Service

# --- a refused key, and an error body --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bend",
    [
        faults.status(401),
        faults.refused(401, "AUTH_REQUIRED", "Anna Muster may not"),
        lambda request, reply: Reply(
            {"error": True, "status_code": 401, "error_code": "AUTH_REQUIRED", "message": "no"}
        ),
        faults.refused(403, "AUTH_REQUIRED"),
    ],
)
def test_a_refused_key_ends_it_at_once_and_says_whom_to_ask(service: Service, client: Client, bend: Bend) -> None:
    service.on(bend, times=None)
    with pytest.raises(KeyRefusedError, match=r"Ask the service representative .* set ROLLBOOK_API_KEY") as caught:
        get_page(client)
    assert (len(service.requests), caught.value.status) == (1, 401)
    assert "Muster" not in everything_about(caught.value)


@pytest.mark.parametrize(
    ("bend", "status"),
    [
        (faults.unsuccessful("Anna Muster is not ready"), 200),
        (faults.unsuccessful("Anna Muster is gone", 404), 404),
        (faults.refused(403, "ANNA_MUSTER", "Anna Muster is not for this key"), 403),
        (faults.status(418), 418),
        (faults.status(505), 505),
    ],
)
def test_a_no_is_told_with_its_status_alone_and_never_asked_again(
    service: Service, client: Client, bend: Bend, status: int
) -> None:
    service.on(bend, times=None)
    with pytest.raises(RefusedError) as caught:
        get_page(client)
    assert len(service.requests) == 1
    host = service.url.removeprefix("http://")
    assert (type(caught.value), caught.value.status) == (RefusedError, status)
    assert caught.value.message == (
        f"The records service at {host} refused /svcapi/v1/students page 1 ({status}). Asking again will not help:"
        " show this to the service representative."
    )
    assert "muster" not in everything_about(caught.value).lower()


# --- redirects, proxies and certificates -----------------------------------------------------------------------------


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_redirect_is_refused_and_the_key_goes_nowhere(client_of: MakeClient, code: int) -> None:
    with Service(students(1)) as service, Service(students(1)) as elsewhere:
        service.on(faults.redirect(f"{elsewhere.url}/svcapi/v1/students?search=anna", code), times=None)
        with pytest.raises(RedirectError, match=r"redirect .* ROLLBOOK_BASE_URL") as caught:
            get_page(client_of(service))
        assert (len(service.requests), elsewhere.requests, elsewhere.connections) == (1, [], 0)
    assert "anna" not in everything_about(caught.value)


def test_plain_http_never_goes_through_a_proxy(client_of: MakeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    with Service(students(1)) as service, Service() as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        assert get_page(client_of(service)).parsed.ids == [1]
        assert (proxy.requests, proxy.connections) == ([], 0)


def test_a_proxy_of_https_sees_a_tunnel_and_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{listening.getsockname()[1]}")
        monkeypatch.delenv("NO_PROXY", raising=False)
        seen: list[bytes] = []

        def proxy() -> None:
            connection, _ = listening.accept()
            with connection:
                seen.append(connection.recv(65_536))
                connection.sendall(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")

        thread = threading.Thread(target=proxy, daemon=True)
        thread.start()
        with (
            stamina.set_testing(True, attempts=1),
            closing(Client(settings_for("https://records.example.org"), timeouts=TIMEOUTS)) as client,
            pytest.raises(UnreachableError, match="the proxy gave no connection"),
        ):
            get_page(client)
        thread.join(5)
    assert seen[0].startswith(b"CONNECT records.example.org:443 ")
    assert KEY.encode() not in seen[0]


def test_an_unusable_proxy_is_one_line_naming_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "gopher://user:pw-canary@proxy.example")
    with pytest.raises(SettingError, match="HTTPS_PROXY") as caught:
        Client(settings_for("https://records.example.org"))
    assert "pw-canary" not in everything_about(caught.value)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes its certificate with openssl")
def test_a_certificate_that_nobody_vouches_for_is_told_at_once(tmp_path: Path) -> None:
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost", "-keyout", tmp_path / "key", "-out", tmp_path / "certificate"],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "certificate", tmp_path / "key")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(5)

        def serve() -> None:
            connection, _ = listening.accept()
            with connection, pytest.raises(ssl.SSLError):
                context.wrap_socket(connection, server_side=True)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        settings = settings_for(f"https://localhost:{listening.getsockname()[1]}")
        with (
            closing(Client(settings)) as client,
            pytest.raises(UnreachableError, match=r"certificate .* SSL_CERT_FILE"),
        ):
            get_page(client)
        assert client.requests == 1
        thread.join(5)
