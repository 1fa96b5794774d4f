"""`rollbook explore --listen` behind real proxies, set up as dagster_home/deploy says: nobody can say who they are."""

from __future__ import annotations

import re
import socket
import tempfile
from pathlib import Path

import pytest

from tests.support.processes.accounts import NOBODY, ask_raw, connected
from tests.support.processes.commands import run_at
from tests.support.processes.proxies import DEPLOY, HOST, SIGNED_IN, get, listening, proxied, token_in
from tests.support.processes.servers import free_port
from tests.support.warehouses.staff import HEADER, STUDENTS, URL, Staff, staff_room

pytestmark = [pytest.mark.nights, pytest.mark.slow, pytest.mark.timeout(300)]

HEAD, TUTOR = "head@school.example", "tutor@school.example"
SETTINGS = {"ROLLBOOK_LOGIN_HEADER": HEADER, "ROLLBOOK_EXPLORE_URL": URL, "ROLLBOOK_LOGIN_PROXIES": "127.0.0.1"}


@pytest.fixture(scope="module")
def staff(tmp_path_factory: pytest.TempPathFactory) -> Staff:
    """The school with readers."""
    return staff_room(tmp_path_factory.mktemp("staff") / "w")


def students(text: str) -> set[int]:
    return {int(number) for number in re.findall(r"zq(\d{3})", text)}


@pytest.mark.parametrize("kind", ["nginx", "caddy"])
def test_behind_a_proxy_each_sees_theirs_whatever_they_send(staff: Staff, kind: str) -> None:
    # A Unix socket's path is short, and that of a test is not.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (run := folder / "run").mkdir(mode=0o750)
        path = run / "explore.sock"
        with listening(staff.warehouse, folder, f"unix:{path}", SETTINGS):
            try:
                with proxied(kind, folder, path) as port:
                    _attack(staff, port)
            except LookupError as missing:
                pytest.skip(str(missing))


def _attack(staff: Staff, port: int) -> None:
    tutor = ("Cookie", f"{SIGNED_IN}={TUTOR}")
    forged = [
        [],
        [(HEADER, HEAD)],
        [(HEADER, HEAD), (HEADER, HEAD)],
        [(HEADER.upper(), HEAD), (HEADER.lower(), HEAD)],
        [("Remote_User", HEAD)],
        [("X-Auth-Request-Email", HEAD), ("X-Forwarded-User", HEAD)],
        [("Authorization", "Bearer x"), (HEADER, HEAD)],
        [("X-Forwarded-For", "127.0.0.1"), (HEADER, HEAD)],
    ]
    for headers in forged:
        status, text, _ = get(port, "/students?csv=1", tutor, *headers)
        assert (status, students(text)) == (200, staff.students(TUTOR)), headers
        status, text, location = get(port, "/students", *headers)
        assert (status, students(text), location.partition("?")[0]) == (302, set(), "/oauth2/sign_in"), headers
        for path in ("/file/students", "/file/../students", "/file/%2e%2e/students"):
            assert students(get(port, path, *headers)[1]) == set()
    hop = [
        ("Connection", f"close, {HEADER}"),
        (HEADER, HEAD),
    ]  # a proxy may then leave the header out: nobody signed in
    assert students(get(port, "/students?csv=1", tutor, *hop)[1]) in (set(), staff.students(TUTOR))
    assert students(get(port, "/students?csv=1", ("Cookie", f"{SIGNED_IN}={HEAD}"))[1]) == {*STUDENTS} - {21, 22}
    with socket.create_connection(("127.0.0.1", port), timeout=30) as opened:
        old = f"GET /students HTTP/1.0\r\nHost: {HOST}\r\n{HEADER}: {HEAD}\r\n\r\n"
        assert students(ask_raw(opened, old.encode()).decode()) == set()


def test_over_a_port_every_account_gets_nothing_without_the_token(staff: Staff, tmp_path: Path) -> None:
    port, folder = free_port(), tmp_path
    with listening(staff.warehouse, folder, f"127.0.0.1:{port}", SETTINGS) as said:
        token = token_in(folder)
        assert len(token) > 20
        assert token not in said.read_text()
        right = ("Authorization", f"Bearer {token}")
        status, text, _ = get(port, "/students?csv=1", right, (HEADER, TUTOR))
        assert (status, students(text)) == (200, staff.students(TUTOR))
        for headers in (
            [],
            [(HEADER, HEAD)],
            [("Authorization", "Bearer x"), (HEADER, HEAD)],
            [right],
            [right, (HEADER, HEAD), (HEADER.lower(), TUTOR)],
        ):
            assert get(port, "/students", *headers)[0] == 401, headers
        assert get(port, "/students", right, (HEADER, HEAD), host=f"127.0.0.1:{port}")[0] == 403
        with connected(port, account=NOBODY) as opened:
            wanted = f"GET /students HTTP/1.0\r\nHost: {HOST}\r\n{HEADER}: {HEAD}\r\nX-Forwarded-For: 127.0.0.1\r\n\r\n"
            assert b" 401 " in ask_raw(opened, wanted.encode()).partition(b"\r\n")[0]
    (log,) = (staff.warehouse / "private").glob("access-*.jsonl")
    assert f'"reader":"{TUTOR}"' in log.read_text()
    assert TUTOR in run_at(staff.warehouse, "access", COLUMNS="200").stdout


@pytest.mark.parametrize(
    ("listen", "settings", "missing"),
    [
        ("10.0.0.7:3001", {}, "ROLLBOOK_LOGIN_HEADER and ROLLBOOK_LOGIN_PROXIES and ROLLBOOK_EXPLORE_URL"),
        ("unix:/nowhere/x", {"ROLLBOOK_EXPLORE_URL": URL}, "ROLLBOOK_LOGIN_HEADER"),
        ("10.0.0.7:3001", SETTINGS | {"ROLLBOOK_LOGIN_PROXIES": ""}, "ROLLBOOK_LOGIN_PROXIES"),
        ("10.0.0.7", SETTINGS, "Write --listen as ADDRESS:PORT"),
        ("unix:/nowhere/x", SETTINGS, "make its folder first"),
        ("10.0.0.7:3001", SETTINGS | {"ROLLBOOK_EXPLORE_URL": "http://rollbook.school.example"}, "must begin with https://"),
        ("10.0.0.7:3001", SETTINGS | {"ROLLBOOK_LOGIN_HEADER": "Cookie"}, "must be the name of a header"),
        ("10.0.0.7:3001", SETTINGS | {"ROLLBOOK_LOGIN_PROXIES": "proxy"}, "must be an address such as 127.0.0.1"),
    ],
)  # fmt: skip
def test_it_does_not_listen_without_a_sign_in(
    staff: Staff, listen: str, settings: dict[str, str], missing: str
) -> None:
    done = run_at(staff.warehouse, "explore", "--listen", listen, **settings)
    assert (done.returncode, missing in " ".join(done.stderr.split())) == (2, True), done.stderr


def test_the_recipes_name_the_same_socket_and_header() -> None:
    for name in ("explore.nginx", "explore.caddy"):
        recipe = (DEPLOY / name).read_text()
        assert "/run/rollbook/explore.sock" in recipe
        assert HEADER in recipe
    assert "--listen unix:/run/rollbook/explore.sock" in (DEPLOY / "rollbook-explore.service").read_text()
