"""The guard by itself: which requests reach the UI, by every header that says who is asked and who asks."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from rollbook.errors import SettingError
from rollbook.settings import load
from rollbook.util import machine, peers
from rollbook.util.request_guard import ACCOUNT, FOREIGN, ONLY_POST, OTHER_ACCOUNT, WRONG_HOST, Guard, allowed_hosts
from tests.support.processes.accounts import NOBODY

EVERYWHERE = "0.0.0.0"  # noqa: S104 - a name, and nothing listens
OWN = "127.0.0.1:3000"
JSON = {"content-type": "application/json"}


async def ui(scope: Scope, receive: Receive, send: Send) -> None:
    """In the place of Dagster's webserver."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.accept"})
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"the UI"})


def ask(
    method: str, path: str, *headers: tuple[str, str], known: set[str] | None = None, guard: Guard | None = None
) -> list[Message]:
    """The answer to a request with such headers; a name may come several times."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    websocket = method == "WEBSOCKET"
    scope: dict[str, Any] = {
        "type": "websocket" if websocket else "http",
        "path": path,
        "headers": [(n.encode(), v.encode()) for n, v in headers],
        "extensions": {"websocket.http.response": {}},
    }
    if not websocket:
        scope["method"] = method
    guard = guard or Guard(ui, known or allowed_hosts("127.0.0.1", 3000))
    asyncio.run(guard(scope, receive, send))
    return sent


def answer(method: str, path: str, headers: dict[str, str], **more: Any) -> str:
    """The text that comes back, or, of a WebSocket, what was sent first."""
    sent = ask(method, path, *headers.items(), **more)
    if sent[0]["type"] == "websocket.accept":
        return "accepted"
    assert sent[0]["status"] == (200 if sent[1]["body"] == b"the UI" else 403)
    text: bytes = sent[1]["body"]
    return text.decode()


@pytest.mark.parametrize(
    "host", [OWN, "127.0.0.1", "localhost:3000", "LocalHost:3000", "localhost", "[::1]:3000", "[::1]"]
)
def test_the_ui_answers_to_this_machines_own_names(host: str) -> None:
    assert answer("GET", "/runs", {"host": host}) == "the UI"


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:3000", "127.0.0.1.evil.example:3000", "localhost.evil.example", "localhost.:3000",
        "127.0.0.1:8080", "localhost@evil.example", "127.0.0.1:3000, evil.example", "127.0.0.1:03000", "0.0.0.0:3000", "",
    ],
)  # fmt: skip
def test_it_answers_to_no_other_name(host: str) -> None:
    for method in ("GET", "POST", "WEBSOCKET"):
        assert answer(method, "/graphql", {"host": host} | JSON) == WRONG_HOST


@pytest.mark.parametrize(
    ("host", "names", "asked"),
    [
        (EVERYWHERE, (), {"localhost:3000": "the UI", "0.0.0.0:3000": WRONG_HOST, "192.168.1.5:3000": WRONG_HOST}),
        ("192.168.1.5", (), {"192.168.1.5:3000": "the UI", "192.168.1.5": "the UI", "192.168.1.6:3000": WRONG_HOST}),
        ("fe80::1", (), {"[fe80::1]:3000": "the UI", "fe80::1": WRONG_HOST}),
        ("::", (), {"[::1]:3000": "the UI", "[::]:3000": WRONG_HOST}),
        ("127.0.0.1", ("ui.example",), {"ui.example": "the UI", "ui.example:3000": "the UI", "ui.example:81": WRONG_HOST}),
        ("127.0.0.1", ("ui.example:81",), {"ui.example:81": "the UI", "ui.example": WRONG_HOST}),
    ],
)  # fmt: skip
def test_the_guard_knows_its_addresses_and_the_names_set(
    host: str, names: tuple[str, ...], asked: dict[str, str]
) -> None:
    hosts = allowed_hosts(host, 3000, names)
    assert {name: answer("GET", "/", {"host": name}, known=hosts) for name in asked} == asked


@pytest.mark.parametrize(
    ("origin", "comes_back"),
    [
        ("http://127.0.0.1:3000", "the UI"), ("https://127.0.0.1:3000", "the UI"), ("http://127.0.0.1:8080", FOREIGN),
        ("http://localhost:3000", FOREIGN), ("http://127.0.0.1", FOREIGN), ("http://evil.example", FOREIGN), ("null", FOREIGN),
        ("", FOREIGN), ("127.0.0.1:3000", FOREIGN), ("http://127.0.0.1:3000.evil.example", FOREIGN),
    ],
)  # fmt: skip
def test_a_page_is_the_uis_own_or_gets_nothing(origin: str, comes_back: str) -> None:
    headers = {"host": OWN, "origin": origin}
    assert answer("POST", "/graphql", headers | JSON) == comes_back
    assert answer("GET", "/runs", headers) == comes_back
    assert answer("POST", "/report_asset_materialization/forged", headers) == comes_back
    assert answer("WEBSOCKET", "/graphql", headers) == ("accepted" if comes_back == "the UI" else comes_back)


@pytest.mark.parametrize(
    ("site", "comes_back"),
    [("same-origin", "the UI"), ("none", "the UI"), ("same-site", FOREIGN), ("cross-site", FOREIGN)],
)
def test_cross_site_requests_that_could_change_something_are_refused(site: str, comes_back: str) -> None:
    assert answer("POST", "/graphql", {"host": OWN, "sec-fetch-site": site} | JSON) == comes_back
    assert answer("GET", "/runs", {"host": OWN, "sec-fetch-site": site}) == "the UI"  # a link in a mail or a chat


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "OPTIONS"])
@pytest.mark.parametrize("path", ["/graphql", "/graphql/"])
def test_graphql_is_asked_by_post_alone(method: str, path: str) -> None:
    assert answer(method, path, {"host": OWN} | JSON) == ONLY_POST


@pytest.mark.parametrize(
    ("content_type", "comes_back"),
    [
        ("application/json", "the UI"), ("Application/JSON; charset=utf-8", "the UI"), ("text/plain", ONLY_POST),
        ("text/plain; application/json", ONLY_POST), ("application/x-www-form-urlencoded", ONLY_POST),
        ("multipart/form-data; boundary=application/json", ONLY_POST), ("application/graphql", ONLY_POST), ("", ONLY_POST),
    ],
)  # fmt: skip
def test_graphql_takes_json_alone(content_type: str, comes_back: str) -> None:
    assert answer("POST", "/graphql", {"host": OWN, "content-type": content_type}) == comes_back


@pytest.mark.parametrize(
    ("asking", "named", "comes_back"),
    [
        (None, (), ""),  # another machine's, or not on Linux
        (os.geteuid(), (), machine.account()),
        (0, (), "root"),
        (NOBODY, (), OTHER_ACCOUNT),
        (NOBODY, (machine.name_of_account(NOBODY),), machine.name_of_account(NOBODY)),
        (NOBODY, (str(NOBODY), "somebody"), OTHER_ACCOUNT),
        (peers.CLOSED, ("-1", "root"), OTHER_ACCOUNT),
    ],
)
def test_only_permitted_accounts_pass_and_the_asking_account_is_named(
    monkeypatch: pytest.MonkeyPatch, asking: int | None, named: tuple[str, ...], comes_back: str
) -> None:
    monkeypatch.setattr(peers, "holder", lambda client, server: asking)
    calls: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        calls.append(Headers(scope=scope).get(ACCOUNT, ""))
        await ui(scope, receive, send)

    guard = Guard(app, [OWN], accounts=named)
    sent = ask("GET", "/", ("host", OWN), (ACCOUNT, "forged"), guard=guard)
    assert (calls or [sent[1]["body"].decode()]) == [comes_back]


def test_no_other_site_may_frame_what_is_let_through() -> None:
    assert ask("GET", "/", ("host", OWN))[0]["headers"] == [
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


def test_the_setting_of_accounts_holds_names() -> None:
    settings = load(base_url="https://x.example", api_key="k", ui_accounts=" head , www-data")
    assert settings.account_names == ["head", "www-data"]
    with pytest.raises(SettingError, match="^ROLLBOOK_UI_ACCOUNTS "):
        load(base_url="https://x.example", api_key="k", ui_accounts="a,,b")


@pytest.mark.parametrize(
    "value", ["http://ui.example", "ui.example/path", "me@ui.example", "a,,b", "ui.example:99999", "a b", ","]
)
def test_a_malformed_setting_is_named(value: str) -> None:
    with pytest.raises(SettingError, match="^ROLLBOOK_UI_HOSTS "):
        load(base_url="https://x.example", api_key="k", ui_hosts=value)
