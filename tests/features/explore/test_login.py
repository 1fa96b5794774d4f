"""Who asks is believed from the proxy alone: with its address and the token, or over its Unix socket."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Sequence
from pathlib import Path

import pytest
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from rollbook.errors import ArgumentError
from rollbook.feature import Feature, present
from rollbook.features.explore import login, server
from rollbook.features.explore.login import Door
from tests.support.processes.asgi import PROXY, TOKEN, ask
from tests.support.warehouses.staff import HEADER, Staff, as_reader, door, staff_room

pytestmark = pytest.mark.nights

HEAD = "head@school.example"


@pytest.fixture(scope="module")
def staff(tmp_path_factory: pytest.TempPathFactory) -> Staff:
    """The school with readers."""
    return staff_room(tmp_path_factory.mktemp("staff") / "w")


@pytest.fixture(scope="module")
def room(staff: Staff) -> Door:
    """Its app, behind the door."""
    return door(staff)


def test_the_proxy_with_the_token_says_who_it_is(room: Door) -> None:
    for name in (HEAD, HEAD.upper(), f" {HEAD} "):
        assert ask(room, "/students", as_reader(name)).status == 200
    assert ask(room, "/students", as_reader(HEAD), client=f"::ffff:{PROXY}").status == 200
    assert ask(room, "/students", as_reader(HEAD), version="1.0").status == 200


@pytest.mark.parametrize("client", ["127.0.0.1", "::1", "10.0.0.10", "", "::ffff:10.0.0.10", None])
@pytest.mark.parametrize("name", [HEADER, HEADER.upper(), HEADER.lower()])
@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_the_header_from_another_address_gets_nothing(room: Door, client: str | None, name: str, version: str) -> None:
    given = [pair for pair in as_reader(HEAD) if pair[0] != HEADER]
    answer = ask(room, "/students", [*given, (name, HEAD)], client=client, version=version)
    assert (answer.status, answer.text) == (401, "Nobody signed in here: open https://rollbook.school.example\n")


@pytest.mark.parametrize(
    "authorization", [(), ("Bearer",), ("Bearer wrong",), (f"Basic {TOKEN}",), (TOKEN,), ("Bearer wrong", "Basic x")]
)
def test_the_proxys_address_alone_gets_nothing(room: Door, authorization: tuple[str, ...]) -> None:
    """As of another account of the proxy's machine."""
    given = [pair for pair in as_reader(HEAD) if pair[0] != "Authorization"]
    sent = [*given, *(("Authorization", each) for each in authorization)]
    assert ask(room, "/students", sent).status == 401
    # What lets a browser in on the server itself does not do so here.
    cookie = ("Cookie", "; ".join(f"rollbook-{port}={TOKEN}" for port in (443, 3001)))
    assert ask(room, f"/students?access_token={TOKEN}", [*sent, cookie]).status == 401


@pytest.mark.parametrize(
    "logins",
    [(), ("",), (" ",), (HEAD, "tutor@school.example"), (HEAD, HEAD), (f"{HEAD}, tutor@school.example",), ("a\x00b",), ("x" * 255,)],
)  # fmt: skip
def test_a_login_that_is_not_one_is_none(room: Door, logins: tuple[str, ...]) -> None:
    given = [pair for pair in as_reader(HEAD) if pair[0] != HEADER]
    for name in (HEADER, HEADER.upper()):
        sent = [*given, *((name if n else HEADER, each) for n, each in enumerate(logins))]
        assert ask(room, "/students", sent).status == 401
    lookalike = [*given, ("Remote_User", HEAD), ("X-Remote-User", HEAD)]
    assert ask(room, "/students", lookalike).status == 401


def test_letters_that_only_look_alike_are_another_login(staff: Staff, tmp_path: Path) -> None:
    own = staff_room(tmp_path / "w")
    (own.warehouse / "readers.csv").write_text("login,sees\nkim@school.example,all\n")
    room = door(own)
    assert [ask(room, "/", as_reader(name)).status for name in ("KIM@school.example", "\u212aim@school.example")] == [
        200,
        403,
    ]


def test_another_host_and_another_site_are_refused(room: Door) -> None:
    for host in ("evil.example", "127.0.0.1:3001", "localhost", "rollbook.school.example.evil.example"):
        assert ask(room, "/students", as_reader(HEAD, Host=host)).status == 403
    assert ask(room, "/students", [pair for pair in as_reader(HEAD) if pair[0] != "Host"], version="1.0").status == 403
    assert ask(room, "/students", as_reader(HEAD, Origin="https://evil.example")).status == 403
    assert ask(room, "/students", as_reader(HEAD, Origin="https://rollbook.school.example")).status == 200
    download = as_reader(HEAD, **{"Sec-Fetch-Site": "cross-site"})
    assert ask(room, "/students?csv=1", download).status == 403
    assert ask(room, "/health", [("Host", "10.1.1.1")], client="10.1.1.1").text == "ok\n"


class Sharing(Feature):
    """Serves one file."""

    def explored(self) -> Sequence[Route]:
        """Says who signed in, if anybody did."""
        return (Route("/own/shared", lambda request: PlainTextResponse(request.scope.get(login.LOGIN, "nobody"))),)


def test_what_a_feature_serves_past_the_door_knows_no_login(staff: Staff, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "present", lambda: (*present(), Sharing()))
    room = server.served(door(staff))
    for headers in ([("Host", "rollbook.school.example")], as_reader(HEAD)):
        answer = ask(room, "/own/shared", headers, client="10.0.0.10")
        assert (answer.status, answer.text) == (200, "nobody")
    for path in (
        "/file/x",
        "/file/../students",
        "/file//students",
        "/file/%2e%2e/students",
        "/own/shared/",
        "/students",
    ):
        assert ask(room, path, [("Host", "rollbook.school.example")], client="10.0.0.10").status == 401


def test_over_a_unix_socket_the_header_is_enough(staff: Staff) -> None:
    room = door(staff, addresses=None)
    given = [pair for pair in as_reader(HEAD) if pair[0] != "Authorization"]
    assert ask(room, "/students", given, client=None).status == 200
    assert ask(room, "/students", [pair for pair in given if pair[0] != HEADER], client=None).status == 401


def test_only_the_folders_group_can_open_the_socket(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir(mode=0o755)
    path = folder / "explore.sock"
    with pytest.raises(ArgumentError, match="Other accounts may enter"), login.unix_socket(path):
        pass
    folder.chmod(0o2750)
    if os.geteuid() == 0:
        os.chown(folder, -1, 65534)
    with login.unix_socket(path):
        found = path.stat()
        assert (stat.S_IMODE(found.st_mode), found.st_gid) == (0o660, folder.stat().st_gid)
        with socket.socket(socket.AF_UNIX) as asked:
            asked.connect(str(path))
        with pytest.raises(ArgumentError, match="is there already"), login.unix_socket(path):
            pass
    assert not path.exists()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    with login.unix_socket(path):
        pass
    path.write_text("a file of somebody's")
    with pytest.raises(ArgumentError, match="is there already"), login.unix_socket(path):
        pass
    with pytest.raises(ArgumentError, match="make its folder first"), login.unix_socket(tmp_path / "none" / "x"):
        pass


@pytest.mark.parametrize(
    ("text", "found"),
    [("10.0.0.7:3001", ("10.0.0.7", 3001)), ("[::]:3001", ("::", 3001)), ("127.0.0.1", None), ("3001", None), ("a:b", None), ("a/b:1", None)],
)  # fmt: skip
def test_where_it_listens_is_an_address_and_a_port(text: str, found: tuple[str, int] | None) -> None:
    if found:
        assert login.host_and_port(text) == found
    else:
        with pytest.raises(ArgumentError, match="Write --listen as ADDRESS:PORT"):
            login.host_and_port(text)
