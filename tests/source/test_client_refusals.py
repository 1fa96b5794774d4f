"""What the client takes for a no and never asks for again, and where it never sends the key (G12 and G13)."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
from pathlib import Path

import pytest
import stamina

from pipelines.errors import KeyRefusedError, RedirectError, RefusedError, SettingError, UnreachableError
from pipelines.source.client import Client
from tests.source.asking import SHORT_TIMEOUTS, MakeClient, get_page, settings_for
from tests.support.processes.errors import everything_about
from tests.support.records import students
from tests.support.wire import faults
from tests.support.wire.service import KEY, Bend, Reply, Service

# --- a refused key, and an error body --------------------------------------------------------------------------------


def test_a_refused_key_ends_it_at_once_and_says_whom_to_ask(client_of: MakeClient) -> None:
    with Service(key="another") as service:
        with pytest.raises(KeyRefusedError, match=r"Ask the service representative .* set ROLLBOOK_API_KEY") as caught:
            get_page(client_of(service))
        assert len(service.requests) == 1
    assert (caught.value.status, caught.value.error_code) == (401, "AUTH_REQUIRED")
    assert "A valid API key" not in everything_about(caught.value)


@pytest.mark.parametrize(
    "bend",
    [
        faults.status(401),
        lambda asked, reply: Reply({"error": True, "status_code": 401, "error_code": "AUTH_REQUIRED", "message": "no"}),
        faults.refused(403, "AUTH_REQUIRED"),
    ],
)
def test_a_refused_key_is_known_by_status_or_by_code(service: Service, client: Client, bend: Bend) -> None:
    service.on(bend, times=None)
    with pytest.raises(KeyRefusedError):
        get_page(client)
    assert len(service.requests) == 1


@pytest.mark.parametrize(
    ("bend", "status", "code"),
    [
        (faults.unsuccessful("The report is not ready"), 200, "NOT_READY"),
        (faults.unsuccessful("Gone", 404), 404, "NOT_READY"),
        (faults.refused(403, "FORBIDDEN", "Not for this key"), 403, "FORBIDDEN"),
        (faults.refused(422, "BAD_LIMIT", "limit"), 422, "BAD_LIMIT"),
        (faults.refused(400, "E42", ""), 400, "E42"),
        (faults.status(404), 404, ""),
        (faults.status(408), 408, ""),
        (faults.status(505), 505, ""),
    ],
)
def test_a_no_is_told_with_status_and_code_and_never_asked_again(
    service: Service, client: Client, bend: Bend, status: int, code: str
) -> None:
    service.on(bend, times=None)
    with pytest.raises(RefusedError) as caught:
        get_page(client)
    assert len(service.requests) == 1
    host = service.url.removeprefix("http://")
    error = caught.value
    assert (type(error), error.status, error.error_code) == (RefusedError, status, code)
    assert error.message == (
        f"The records service at {host} refused /svcapi/v1/students page 1 ({f'{status} {code}'.strip()}). Asking"
        " again will not help: show this to the service representative."
    )


@pytest.mark.parametrize(
    "code",
    [
        "Anna Muster",
        "anna_muster",
        "ANNA MUSTER",
        "ANNA-MUSTER",
        "\N{LATIN CAPITAL LETTER A WITH DIAERESIS}NNE",
        "<!channel>",
        "X" * 41,
        "4711",
        "_",
        "",
        "FORBIDDEN\n",
        "\x1b[31mFORBIDDEN",
    ],
)
def test_an_error_code_of_another_form_is_not_told(service: Service, client: Client, code: str) -> None:
    service.on(faults.refused(403, code, "Anna Muster may not"), times=None)
    with pytest.raises(RefusedError) as caught:
        get_page(client)
    assert (caught.value.error_code, "(403)" in caught.value.message) == ("", True)
    assert "Muster" not in everything_about(caught.value)


@pytest.mark.parametrize(
    ("key", "search", "code"),
    [
        ("K3Y_OF_A_SCHOOL", "", "K3Y_OF_A_SCHOOL"),
        ("K3Y_OF_A_SCHOOL", "", "BAD_KEY_K3Y_OF_A_SCHOOL"),
        ("K3Y_OF_A_SCHOOL", "", "K3Y_OF"),
        ("k3y-of-a-school", "", "K3Y_OF_A_SCHOOL"),
        ("k3y", "R-4711", "R_4711_UNKNOWN"),
        ("k3y", "Anna Muster", "NO_ANNA_MUSTER"),
        ("k3y", "Anna Muster", "ANNA"),
    ],
)
def test_an_error_code_that_repeats_what_was_sent_is_not_told(
    client_of: MakeClient, key: str, search: str, code: str
) -> None:
    with Service(key=key) as service:
        service.on(faults.refused(400, code), search=None, times=None)
        with pytest.raises(RefusedError) as caught:
            get_page(client_of(service, api_key=key), search=search)
    assert caught.value.error_code == ""
    assert code not in everything_about(caught.value)


# --- redirects, proxies and certificates -----------------------------------------------------------------------------


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_redirect_is_refused_and_the_key_goes_nowhere(client_of: MakeClient, code: int) -> None:
    with Service(students(1)) as service, Service(students(1)) as elsewhere:
        service.on(faults.redirect(f"{elsewhere.url}/svcapi/v1/students?search=anna", code), times=None)
        with pytest.raises(RedirectError, match=r"redirect .* ROLLBOOK_BASE_URL") as caught:
            get_page(client_of(service))
        assert (len(service.requests), elsewhere.requests, elsewhere.connections) == (1, [], 0)
    assert "svcapi/v1/students?" not in caught.value.message


@pytest.mark.parametrize(
    ("location", "where"),
    [
        ("https://anna-muster.example/", "to another host"),
        ("//anna-muster.example/", "to another host"),
        ("https://[anna muster", "to another host"),
        ("/login?next=anna", "to another path of its own"),
        ("", "that names no target"),
    ],
)
def test_where_a_redirect_points_is_told_without_the_services_words(
    service: Service, client: Client, location: str, where: str
) -> None:
    service.on(faults.redirect(location), times=None)
    with pytest.raises(RedirectError) as caught:
        get_page(client)
    assert f"with a redirect {where} (302)" in caught.value.message
    assert "anna" not in everything_about(caught.value)


def test_plain_http_never_goes_through_a_proxy(client_of: MakeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    with Service(students(1)) as service, Service() as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        assert get_page(client_of(service)).said.ids == [1]
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
            Client(settings_for("https://records.example.org"), timeouts=SHORT_TIMEOUTS) as client,
            pytest.raises(UnreachableError, match="the proxy gave no connection"),
        ):
            get_page(client)
        thread.join(5)
    assert seen[0].startswith(b"CONNECT records.example.org:443 ")
    assert KEY.encode() not in seen[0]


def test_a_proxy_that_cannot_be_used_is_one_line_that_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
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
        with Client(settings) as client, pytest.raises(UnreachableError, match=r"certificate .* SSL_CERT_FILE"):
            get_page(client)
        assert client.requests == 1
        thread.join(5)
