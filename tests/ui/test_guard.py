"""The guard by itself: which requests reach the UI, by the token and by every header that says who is asked and asks."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import unquote

import pytest
from starlette.types import Message, Receive, Scope, Send

from rollbook.errors import SettingError
from rollbook.settings import load
from rollbook.util.address import Address
from rollbook.util.request_guard import FOREIGN, ONLY_POST, WRONG_HOST, Guard

OPEN, TOKEN_OF_OTHER = Address("abc123.localhost", "T0KEN-of_chance"), "the-token-of-explore"
OWN = f"{OPEN.name}:3000"
# A container's port, or a tunnel's, may be another one.
OWNS = (OWN, OPEN.name, OPEN.name.upper(), f"{OPEN.name}:8080")
COOKIE = f"rollbook-3000={OPEN.token}"
PROGRAM = {"authorization": f"Bearer {OPEN.token}"}
JSON = {"content-type": "application/json"}


async def ui(scope: Scope, receive: Receive, send: Send) -> None:
    """In the place of Dagster's webserver."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.accept"})
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"the UI"})


def guarded(*names: str) -> Guard:
    """The UI on port 3000, which browsers also reach by these names."""
    return Guard(ui, lambda: OPEN, 3000, names)


def let_in(method: str) -> str:
    """What comes back for a request to /graphql that the guard lets in."""
    return {"GET": ONLY_POST, "WEBSOCKET": "accepted"}.get(method, "the UI")


def ask(method: str, path: str, *headers: tuple[str, str], guard: Guard | None = None) -> list[Message]:
    """The answer to a request with such headers; a name may come several times."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    websocket = method == "WEBSOCKET"
    scope: dict[str, Any] = {
        "type": "websocket" if websocket else "http",
        "path": unquote(path.partition("?")[0]),
        "query_string": path.partition("?")[2].encode(),
        "headers": [(n.encode(), v.encode("latin-1")) for n, v in headers],
        "extensions": {"websocket.http.response": {}},
    }
    if not websocket:
        scope["method"] = method
    asyncio.run((guard or guarded())(scope, receive, send))
    return sent


def answer(method: str, path: str, headers: dict[str, str], **more: Any) -> str:
    """The text that comes back, or, of a WebSocket, what was sent first."""
    sent = ask(method, path, *headers.items(), **more)
    if sent[0]["type"] == "websocket.accept":
        return "accepted"
    assert sent[0]["status"] == (200 if sent[1]["body"] == b"the UI" else 403), sent
    text: bytes = sent[1]["body"]
    return text.decode()


def is_asked(method: str, headers: dict[str, str], *, path: str = "/", **more: Any) -> bool:
    """Whether a request is asked for the token, and learns neither that nor the own host name."""
    sent = ask(method, path, *headers.items(), **more)
    assert OPEN.token.encode() not in sent[1]["body"]
    assert OPEN.name.encode() not in sent[1]["body"]
    return bool(sent[0]["status"] == 401)


@pytest.mark.parametrize(
    "host",
    [*OWNS, "127.0.0.1:3000", "127.0.0.1", "localhost:3000", "LocalHost:3000", "localhost", "[::1]:3000", "[::1]"],
)
def test_the_ui_answers_to_its_own_name_and_to_this_machines(host: str) -> None:
    assert answer("GET", "/runs", {"host": host, **PROGRAM}) == "the UI"


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:3000", "127.0.0.1.evil.example:3000", "localhost.evil.example", "localhost.:3000",
        "127.0.0.1:8080", "localhost@evil.example", "127.0.0.1:3000, evil.example", "127.0.0.1:03000", "0.0.0.0:3000", "", f"x{OWN}",
        f"{OPEN.name}.evil.example", f"a.{OWN}", "def456.localhost:3000",
    ],
)  # fmt: skip
def test_it_answers_to_no_other_name(host: str) -> None:
    for method in ("GET", "POST", "WEBSOCKET"):
        assert answer(method, "/graphql", {"host": host, "cookie": COOKIE, **PROGRAM} | JSON) == WRONG_HOST


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("ui.example", {"ui.example": True, "ui.example:3000": True, "ui.example:81": False, "a.ui.example": False}),
        ("ui.example:81", {"ui.example:81": True, "ui.example": False, "ui.example:3000": False}),
        ("192.168.1.5", {"192.168.1.5:3000": True, "192.168.1.5": True, "192.168.1.6:3000": False}),
        ("[fe80::1]", {"[fe80::1]:3000": True, "fe80::1": False}),
    ],
)
def test_a_name_that_is_set_has_its_port_or_none(name: str, known: dict[str, bool]) -> None:
    guard = guarded(name)
    answers = {host: answer("GET", "/", {"host": host, **PROGRAM}, guard=guard) for host in known}
    assert answers == {host: "the UI" if is_known else WRONG_HOST for host, is_known in known.items()}


@pytest.mark.parametrize(
    ("origin", "comes_back"),
    [
        (f"http://{OWN}", "the UI"), (f"https://{OWN}", "the UI"), (f"http://{OPEN.name}:8080", FOREIGN),
        ("http://localhost:3000", FOREIGN), (f"http://{OPEN.name}", FOREIGN), ("http://evil.example", FOREIGN), ("null", FOREIGN),
        ("", FOREIGN), (OWN, FOREIGN), (f"http://{OWN}.evil.example", FOREIGN),
    ],
)  # fmt: skip
def test_a_page_is_the_uis_own_or_gets_nothing(origin: str, comes_back: str) -> None:
    headers = {"host": OWN, "origin": origin, "cookie": COOKIE}
    assert answer("POST", "/graphql", headers | JSON) == comes_back
    assert answer("GET", "/runs", headers) == comes_back
    assert answer("POST", "/report_asset_materialization/forged", headers) == comes_back
    assert answer("WEBSOCKET", "/graphql", headers) == ("accepted" if comes_back == "the UI" else comes_back)


@pytest.mark.parametrize(
    ("site", "comes_back"),
    [("same-origin", "the UI"), ("none", "the UI"), ("same-site", FOREIGN), ("cross-site", FOREIGN)],
)
def test_cross_site_requests_that_could_change_something_are_refused(site: str, comes_back: str) -> None:
    assert answer("POST", "/graphql", {"host": OWN, "cookie": COOKIE, "sec-fetch-site": site} | JSON) == comes_back
    assert (
        answer("GET", "/runs", {"host": OWN, "cookie": COOKIE, "sec-fetch-site": site}) == "the UI"
    )  # a link in a mail or a chat


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "OPTIONS"])
@pytest.mark.parametrize("path", ["/graphql", "/graphql/"])
def test_graphql_is_asked_by_post_alone(method: str, path: str) -> None:
    assert answer(method, path, {"host": OWN, "cookie": COOKIE} | JSON) == ONLY_POST


@pytest.mark.parametrize(
    ("content_type", "comes_back"),
    [
        ("application/json", "the UI"), ("Application/JSON; charset=utf-8", "the UI"), ("text/plain", ONLY_POST),
        ("text/plain; application/json", ONLY_POST), ("application/x-www-form-urlencoded", ONLY_POST),
        ("multipart/form-data; boundary=application/json", ONLY_POST), ("application/graphql", ONLY_POST), ("", ONLY_POST),
    ],
)  # fmt: skip
def test_graphql_takes_json_alone(content_type: str, comes_back: str) -> None:
    assert answer("POST", "/graphql", {"host": OWN, "cookie": COOKIE, "content-type": content_type}) == comes_back


@pytest.mark.parametrize("host", [*OWNS, "ui.example"])
@pytest.mark.parametrize("method", ["GET", "POST", "WEBSOCKET"])
def test_a_browser_comes_in_by_a_cookie_named_for_its_port(host: str, method: str) -> None:
    guard = guarded("ui.example")
    asked = {"host": host, "cookie": f"other=1; {COOKIE}"}
    assert answer(method, "/graphql", asked | JSON, guard=guard) == let_in(method)
    for wrong in ("", "rollbook-3000=guessed", f"rollbook-3000={TOKEN_OF_OTHER}", f"rollbook-3001={OPEN.token}"):
        assert is_asked(method, {"host": host, "cookie": wrong} | JSON, guard=guard)


@pytest.mark.parametrize("host", ["127.0.0.1:3000", "localhost:3000", "[::1]:3000", "localhost"])
@pytest.mark.parametrize("method", ["GET", "POST", "WEBSOCKET"])
def test_under_loopbacks_names_only_a_program_comes_in(host: str, method: str) -> None:
    """Under these, a browser sends a cookie to the ports of all accounts."""
    assert answer(method, "/graphql", {"host": host, **PROGRAM} | JSON) == let_in(method)
    assert is_asked(method, {"host": host, "cookie": COOKIE} | JSON)
    sent = ask("GET", f"/?access_token={OPEN.token}", ("host", host))
    assert sent[0]["status"] == 401
    assert OPEN.name.encode() not in sent[1]["body"]


@pytest.mark.parametrize(
    ("given", "passes"),
    [
        (f"Bearer {OPEN.token}", True), (f"bearer  {OPEN.token} ", True), (f"Basic {OPEN.token}", False), ("Bearer", False),
        (OPEN.token, False), (f"Bearer {OPEN.token[:-1]}", False), ("Bearer \xe9", False), ("", False),
    ],
)  # fmt: skip
def test_a_program_sends_the_token(given: str, passes: bool) -> None:
    asked = {"host": OWN, "authorization": given}
    assert (answer("GET", "/", asked) == "the UI") if passes else is_asked("GET", asked)


def test_a_proxys_own_login_does_not_hide_the_cookie() -> None:
    assert answer("GET", "/", {"host": OWN, "authorization": "Basic eDp5", "cookie": COOKIE}) == "the UI"


@pytest.mark.parametrize(
    ("path", "leads_to"),
    [
        ("/?access_token={}", "/"), ("/runs?a=1&access_token={}&b=%C3%A9", "/runs?a=1&b=%C3%A9"),
        ("//evil.example/?access_token={}", "/evil.example/"), ("/\\evil.example/?access_token={}", "/%5Cevil.example/"),
        ("/a%0d%0aX-A:1?access_token={}", "/a%0D%0AX-A%3A1"),
    ],
)  # fmt: skip
def test_the_first_address_sets_the_cookie_and_drops_the_token(path: str, leads_to: str) -> None:
    sent = ask("GET", path.format(OPEN.token), ("host", OWN))[0]
    headers = {name.decode(): value.decode() for name, value in sent["headers"]}
    assert (sent["status"], headers["location"], headers["cache-control"]) == (303, leads_to, "no-store")
    assert headers["set-cookie"] == f"{COOKIE}; HttpOnly; Max-Age=2592000; Path=/; SameSite=lax"
    assert ask("POST", path.format(OPEN.token), ("host", OWN), *JSON.items())[0]["status"] == 401
    assert ask("WEBSOCKET", path.format(OPEN.token), ("host", OWN))[0]["status"] == 401
    sent = ask("GET", path.format("old"), ("host", OWN), ("cookie", COOKIE))[
        0
    ]  # a bookmark of an earlier first address
    assert (sent["status"], dict(sent["headers"])[b"location"].decode()) == (303, leads_to)
    assert b"set-cookie" not in dict(sent["headers"])


def test_behind_https_the_cookie_is_for_https_alone() -> None:
    asked = ("host", "ui.example"), ("x-forwarded-proto", "https")
    sent = ask("GET", f"/?access_token={OPEN.token}", *asked, guard=guarded("ui.example"))[0]
    assert dict(sent["headers"])[b"set-cookie"].endswith(b"; SameSite=lax; Secure")


def test_without_the_token_a_form_keeps_the_pages_address() -> None:
    sent = ask("GET", "/runs?view=%22%3E%3Cscript%3E&access_token=old", ("host", OWN))
    assert (sent[0]["status"], dict(sent[0]["headers"])[b"www-authenticate"]) == (401, b"Bearer")
    shown = sent[1]["body"].decode()
    assert '<input type="hidden" name="view" value="&#34;&gt;&lt;script&gt;">' in shown
    assert shown.count("access_token") == 1
    assert "old" not in shown


@pytest.mark.parametrize("host", [OWN, "evil.example", ""])
def test_whether_it_is_up_is_told_to_everybody_and_nothing_else(host: str) -> None:
    sent = ask("GET", "/health", ("host", host))
    assert (sent[0]["status"], sent[1]["body"]) == (200, b"ok\n")
    assert is_asked("WEBSOCKET", {"host": OWN}, path="/health")
    for path in ("/health/", "/healthy", "/server_info", "//health"):
        assert is_asked("GET", {"host": OWN}, path=path)


def test_a_changed_token_shuts_out_holders_of_the_old_one_and_websockets() -> None:
    now = [OPEN]
    arriving = iter(["the first", "the second"])
    heard: list[Message] = []
    sent: list[Message] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await ui(scope, receive, send)
            return
        await send({"type": "websocket.accept"})
        heard.append(await receive())
        await send({"type": "websocket.send", "text": "told"})
        now[0] = Address("def456.localhost", "another")
        heard.append(await receive())
        await send({"type": "websocket.send", "text": "secret"})
        await send({"type": "websocket.send", "text": "secret"})

    async def receive() -> Message:
        return {"type": "websocket.receive", "text": next(arriving)}

    async def send(message: Message) -> None:
        sent.append(message)

    guard = Guard(app, lambda: now[0], 3000)
    headers = [(b"host", OWN.encode()), (b"cookie", COOKIE.encode())]
    asyncio.run(
        guard({"type": "websocket", "path": "/graphql", "headers": headers, "query_string": b""}, receive, send)
    )
    assert [message.get("text", message["type"]) for message in heard] == ["the first", "websocket.disconnect"]
    assert [message.get("text", message["type"]) for message in sent] == ["websocket.accept", "told", "websocket.close"]
    assert answer("GET", "/", {"host": OWN, "cookie": COOKIE}, guard=guard) == WRONG_HOST
    assert is_asked("GET", {"host": "127.0.0.1:3000", **PROGRAM}, guard=guard)
    new = {"host": "def456.localhost:3000", "cookie": "rollbook-3000=another"}
    assert answer("GET", "/", new, guard=guard) == "the UI"


def test_no_other_site_may_frame_what_is_let_through() -> None:
    assert ask("GET", "/", ("host", OWN), ("cookie", COOKIE))[0]["headers"] == [
        (b"x-frame-options", b"SAMEORIGIN"),
        (b"x-content-type-options", b"nosniff"),
    ]


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("ui.example", ["ui.example"]),
        (" UI.example, 10.0.0.5:81 ,[::2]", ["ui.example", "10.0.0.5:81", "[::2]"]),
        ("", []),
    ],
)
def test_the_setting_holds_names(value: str, names: list[str]) -> None:
    assert load(base_url="https://x.example", api_key="k", ui_hosts=value or None).ui_names == names


@pytest.mark.parametrize(
    "value", ["http://ui.example", "ui.example/path", "me@ui.example", "a,,b", "ui.example:99999", "a b", ","]
)
def test_a_malformed_setting_is_named(value: str) -> None:
    with pytest.raises(SettingError, match="^ROLLBOOK_UI_HOSTS "):
        load(base_url="https://x.example", api_key="k", ui_hosts=value)
