"""The published file with byte ranges: to whom, which bytes, and of which night."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from array import array
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from rollbook.features.share import served
from rollbook.features.share.served import CHUNK, CLOSED, NO_FILE, NO_TOKEN, NOT_NOW, OTHER_FILE
from rollbook.landing.erased import ERASURES, Erased, ErasureRegister, Pending
from tests.support.processes.accounts import NOBODY, ask_raw
from tests.support.processes.desks import WORDS, Desk, Nights
from tests.support.processes.servers import until

SIZE = 4 * (WORDS + 2)


def test_a_program_gets_the_size_and_any_range_of_one_night(nights: Nights, port: int) -> None:
    desk = Desk(port, nights.token())
    assert desk.attach() == SIZE
    first = desk.read(0, 11)
    assert (first.status, first.body) == (206, array("I", [2, 2, 2]).tobytes())
    kept = {name: first.headers[name] for name in ("Content-Range", "Accept-Ranges", "Cache-Control", "Content-Type")}
    assert kept == {
        "Content-Range": f"bytes 0-11/{SIZE}",
        "Accept-Ranges": "bytes",
        "Cache-Control": "private, no-store, no-transform",
        "Content-Type": "application/octet-stream",
    }
    assert desk.numbers(SIZE) == {2}
    whole = desk.ask()
    assert (whole.status, len(whole.body), {*array("I", whole.body)}) == (200, SIZE, {2})
    assert whole.headers["ETag"] == first.headers["ETag"]


def test_one_range_is_answered_within_the_file(nights: Nights, port: int) -> None:
    desk = Desk(port, nights.token())
    desk.attach()
    content = array("I", [2] * (WORDS + 2)).tobytes()
    for asked, first, last in (
        ("bytes=0-0", 0, 0),
        ("bytes=5-", 5, SIZE - 1),
        (f"bytes={SIZE - 1}-", SIZE - 1, SIZE - 1),
        ("bytes=-3", SIZE - 3, SIZE - 1),
        (f"bytes=-{10**30}", 0, SIZE - 1),
        (f"bytes=0-{2**64 - 1}", 0, SIZE - 1),
        ("Bytes=1-2", 1, 2),
        (f"bytes=7-{7 + CHUNK}", 7, 7 + CHUNK),
    ):
        answer = desk.ask(headers={"Range": asked})
        assert (answer.status, answer.headers["Content-Range"]) == (206, f"bytes {first}-{last}/{SIZE}")
        assert answer.body == content[first : last + 1]


def test_of_other_ranges_it_gives_the_size_and_no_byte(nights: Nights, port: int) -> None:
    desk = Desk(port, nights.token())
    desk.attach()
    beyond = (f"bytes={SIZE}-", f"bytes={SIZE}-{SIZE + 5}", f"bytes={'9' * 40}-", f"bytes={'9' * 6000}-", "bytes=-0")
    malformed = (
        "bytes=-",
        "bytes=",
        "bytes=5-2",
        "bytes=a-b",
        "bytes=-1-2",
        "bytes=+1-2",
        "bytes=0x1-2",
        "bytes=1_0-2",
    )
    for asked in (*beyond, *malformed, "bytes=0-1,4-5", "bytes=0-1, 0-1"):
        answer = desk.ask(headers={"Range": asked})
        refused = answer.status, answer.body, answer.headers["Content-Range"]
        assert refused == (416, b"", f"bytes */{SIZE}"), asked


def test_a_range_that_a_server_must_ignore_gives_the_whole_file(nights: Nights, port: int) -> None:
    desk = Desk(port, nights.token())
    assert len(desk.ask(headers={"Range": "lines=0-1"}).body) == SIZE
    head = desk.ask("HEAD", {"Range": "bytes=0-1"})
    assert (head.status, head.headers["Content-Length"], head.body) == (200, str(SIZE), b"")


def test_without_a_token_of_the_list_nobody_gets_a_byte(nights: Nights, port: int) -> None:
    token = nights.token()
    (reader,) = nights.register.read()
    desk = Desk(port, token)
    for given in (
        "",
        token,
        "Bearer",
        "Bearer ",
        f"Basic {token}",
        f"Token {token}",
        f"Bearer {token}x",
        f"Bearer {token} {token}",
        f"Bearer {reader.digest}",
        "Bearer \xe9\xff\x80",
        "Bearer '; DROP TABLE students",
    ):
        for more in ({}, {"Range": "bytes=0-1"}, {"Remote-User": "head@school.example", "Cookie": f"token={token}"}):
            refused = desk.ask(headers={"Authorization": given, **more})
            assert (refused.status, refused.body.decode()) == (401, NO_TOKEN), given
            assert refused.headers["WWW-Authenticate"] == "Bearer"
    assert desk.ask("HEAD", {"Authorization": f"bearer  {token} "}).status == 200


def test_two_tokens_in_one_request_let_nobody_in(nights: Nights, port: int) -> None:
    token = nights.token()
    lines = f"Authorization: Bearer {token}\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=30) as opened:
        request = f"GET /file/rollbook.duckdb HTTP/1.1\r\nHost: x\r\n{lines}{lines}Connection: close\r\n\r\n"
        assert ask_raw(opened, request.encode()).startswith(b"HTTP/1.1 401 ")


def test_a_program_of_the_first_http_is_answered_likewise(nights: Nights, port: int) -> None:
    token = nights.token()

    def ask(method: str, more: str = "") -> bytes:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as opened:
            request = f"{method} /file/rollbook.duckdb HTTP/1.0\r\nAuthorization: Bearer {token}\r\n{more}\r\n"
            return ask_raw(opened, request.encode())

    head, _, body = ask("HEAD").partition(b"\r\n\r\n")
    assert (head.startswith(b"HTTP/1.1 200 "), body) == (True, b"")
    assert f"content-length: {SIZE}".encode() in head
    head, _, body = ask("GET", "Range: bytes=4-11\r\n").partition(b"\r\n\r\n")
    assert (head.startswith(b"HTTP/1.1 206 "), body) == (True, array("I", [2, 2]).tobytes())


def test_nothing_else_is_there(nights: Nights, port: int) -> None:
    desk = Desk(port, nights.token())
    version = nights.versions.newest()
    assert version is not None
    for path in (
        "/file/",
        "/file/rollbook.duckdb.wal",
        "/file/rollbook-pseudonymous.duckdb",
        "/file/private/shares.json",
        "/file/../private/shares.json",
        "/file/..%2fprivate%2fshares.json",
        f"/file/published/{version.name}",
        "/file/rollbook.duckdb/",
        "/file/ROLLBOOK.duckdb",
    ):
        answer = desk.ask(path=path)
        assert (answer.status, answer.body.decode()) == (404, OTHER_FILE.format(file="rollbook.duckdb")), path
        assert desk.ask(path=path, headers={"Authorization": ""}).status == 401
    assert desk.ask("POST").status == 405


def test_the_pseudonymous_token_opens_that_file_alone(nights: Nights, port: int) -> None:
    token = nights.token(names=False)
    assert Desk(port, token).ask().body.decode() == OTHER_FILE.format(file="rollbook-pseudonymous.duckdb")
    missing = Desk(port, token, "rollbook-pseudonymous.duckdb").ask("GET")
    assert (missing.status, missing.body.decode()) == (404, NO_FILE)
    (nights.root / "rollbook-pseudonymous.duckdb").write_bytes(b"codes")
    assert Desk(port, token, "rollbook-pseudonymous.duckdb").ask().body == b"codes"


def test_a_program_keeps_its_night_until_it_attaches_again(nights: Nights, port: int) -> None:
    ash, elm = Desk(port, nights.token("ash")), Desk(port, nights.token("elm"))
    size = ash.attach()
    tag = ash.read(0, 3).headers["ETag"]
    for number in range(3, 9):  # the version is retired meanwhile
        nights.publish(number)
    assert ash.numbers(size) == {2}
    assert ash.read(size, size + 4).status == 416
    assert elm.numbers(elm.attach()) == {8}
    assert ash.read(0, 3).headers["ETag"] == tag
    assert ash.numbers(ash.attach()) == {8}
    assert ash.read(0, 3).headers["ETag"] != tag


def test_a_range_without_a_beginning_gets_no_byte(nights: Nights, port: int) -> None:
    refused = Desk(port, nights.token()).read(0, 3)
    assert (refused.status, refused.body.decode()) == (410, CLOSED)


def test_a_condition_is_compared_with_the_pinned_night(nights: Nights, port: int) -> None:
    desk = Desk(port, nights.token())
    desk.attach()
    tag = desk.read(0, 3).headers["ETag"]
    for number in (3, 4):
        nights.publish(number)
    same = desk.ask(headers={"Range": "bytes=0-3", "If-Range": tag})
    assert (same.status, same.body, same.headers["ETag"]) == (206, array("I", [2]).tobytes(), tag)
    # Another or a weak one, or a date, wants the whole of what there is: the newest.
    for number, other in enumerate(("W/{tag}", '"another"', "Fri, 20 Nov 2026 08:30:00 GMT", "*", "{tag}, {tag}"), 5):
        desk.attach()
        tag = desk.read(0, 3).headers["ETag"]
        nights.publish(number)
        whole = desk.ask(headers={"Range": "bytes=0-3", "If-Range": other.format(tag=tag)})
        assert (whole.status, {*array("I", whole.body)}) == (200, {number})


def test_two_heads_in_a_row_begin_with_the_later_night(nights: Nights, port: int) -> None:
    desk = Desk(port, nights.token())
    desk.attach()
    nights.publish(3)
    assert desk.numbers(desk.attach()) == {3}


def test_a_proxy_that_drops_ranges_gives_whole_nights(nights: Nights, port: int) -> None:
    desk = Desk(port, nights.token())
    for number in range(3, 6):
        nights.publish(number)
        whole = desk.ask()
        assert (whole.status, {*array("I", whole.body)}) == (200, {number})


def test_a_file_that_somebody_writes_into_is_closed(nights: Nights, port: int) -> None:
    desk = Desk(port, nights.token())
    size = desk.attach()
    newest = nights.versions.newest()
    assert newest is not None
    newest.chmod(0o600)
    with newest.open("r+b") as file:
        file.write(b"other")
    assert desk.read(0, 3).status == 410
    newest.write_bytes(b"short")
    assert desk.read(0, 3).status == 410
    assert (desk.attach(), size) == (5, SIZE)


def test_of_a_missing_file_no_folder_is_named(nights: Nights, port: int) -> None:
    desk = Desk(port, nights.token())
    nights.versions.link.unlink()
    gone = desk.ask()
    assert (gone.status, gone.body.decode()) == (404, NO_FILE)
    nights.versions.link.symlink_to("published/of-no-night.duckdb")
    assert desk.ask("HEAD").status == 404
    nights.versions.link.unlink()
    nights.versions.link.mkdir()
    assert desk.ask("HEAD").status == 404


def test_a_removed_reader_gets_no_byte_of_what_was_open(nights: Nights, port: int) -> None:
    ash, elm = Desk(port, nights.token("ash")), Desk(port, nights.token("elm"))
    sizes = ash.attach(), elm.attach()
    nights.register.remove("ash")
    for method, headers in (("HEAD", {}), ("GET", {}), ("GET", {"Range": "bytes=0-3"})):
        assert ash.ask(method, headers).status == 401
    nights.token("ash")  # another token, with which the old one has nothing to do
    assert ash.read(0, 3).status == 401
    assert elm.numbers(sizes[1]) == {2}


@pytest.mark.parametrize(
    "content", [b"", b'{"format":1,"readers":[{"name"', b"\0" * 100, b'{"format":999,"readers":[]}']
)
def test_a_damaged_list_lets_nobody_in(nights: Nights, port: int, content: bytes) -> None:
    desk = Desk(port, nights.token())
    desk.attach()
    kept = nights.register.path.read_bytes()
    nights.register.path.write_bytes(content)
    for headers in ({}, {"Range": "bytes=0-3"}, {"Authorization": ""}):
        refused = desk.ask(headers=headers)
        assert (refused.status, refused.body.decode()) == (503, NOT_NOW)
    nights.register.path.write_bytes(kept)
    assert desk.read(0, 3).status == 410  # nobody knows what happened meanwhile
    assert desk.numbers(desk.attach()) == {2}


class Erasing:
    """An erasure, as far as the register shows it."""

    def __init__(self, root: Path) -> None:
        self.register = ErasureRegister(root / "private" / ERASURES)

    def begin(self) -> None:
        """Record a student and the work under way, in one step."""
        content, at = self.register.begun(), datetime.now(UTC)
        erased = Erased(id="00", words=(), erased_at=at)
        pending = Pending(reason="case 12", began_at=at, counts={}, home="")
        self.register.write(msgspec.structs.replace(content, erased=(*content.erased, erased), pending=pending))

    def end(self) -> None:
        """Record that it is done."""
        self.register.write(msgspec.structs.replace(self.register.read(), pending=None))


@pytest.mark.parametrize("is_seen", [True, False])
def test_an_erasure_closes_every_version_that_was_open(nights: Nights, port: int, is_seen: bool) -> None:
    desks = [Desk(port, nights.token(name)) for name in ("ash", "elm", "oak")]
    sizes = [desk.attach() for desk in desks]
    erasing = Erasing(nights.root)
    erasing.begin()
    if is_seen:
        for method, headers in (("HEAD", {}), ("GET", {}), ("GET", {"Range": "bytes=0-3"})):
            refused = desks[0].ask(method, headers)
            assert (refused.status, refused.headers["Retry-After"]) == (503, "60")
    nights.publish(3)  # the file without the student
    erasing.end()
    for desk, size in zip(desks, sizes, strict=True):
        refused = desk.read(0, size)
        assert (refused.status, refused.body.decode()) == (410, CLOSED)
        assert desk.numbers(desk.attach()) == {3}


@pytest.mark.parametrize("happens", ["an erasure", "a removal"])
def test_a_long_answer_ends_in_the_middle_when_its_version_closes(nights: Nights, port: int, happens: str) -> None:
    newest = nights.versions.newest()
    assert newest is not None
    newest.chmod(0o600)
    with newest.open("r+b") as file:
        file.truncate(400 * CHUNK)  # far more than the buffers between them hold
    token = nights.token()
    with socket.create_connection(("127.0.0.1", port), timeout=30) as opened:
        opened.sendall(f"GET /file/rollbook.duckdb HTTP/1.0\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
        received = len(opened.recv(1024))
        if happens == "an erasure":
            Erasing(nights.root).begin()
        else:
            nights.register.remove("ash")
        while part := opened.recv(2**20):
            received += len(part)
    assert received < 300 * CHUNK


def test_each_attach_is_a_line_of_the_access_log(nights: Nights, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(port, nights.token("ash-excel"))

    def told() -> list[tuple[str, int | None, str]]:
        (log,) = (nights.root / "private").glob("access-*.jsonl")
        assert desk.token not in log.read_text()
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        return [(line["kind"], line.get("students"), line["what"]) for line in lines]

    line = ("share", None, "rollbook.duckdb to ash-excel")
    for _ in range(2):  # as DuckDB does for one ATTACH
        desk.attach()
    desk.numbers(SIZE)
    desk.ask(headers={"Authorization": "Bearer guessed"})
    assert told() == [line]
    nights.publish(3)
    desk.attach()
    assert told() == [line] * 2
    monkeypatch.setattr(served, "ONE_ATTACH", 0)
    desk.ask()
    assert told() == [line] * 3


def test_a_version_that_nobody_asks_for_is_let_go(nights: Nights, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_open() -> bool:
        links = (f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd"))  # noqa: PTH208 - names alone
        return any(f"{nights.root}/published/" in os.path.realpath(link) for link in links)

    monkeypatch.setattr(served, "LOOK_AGAIN", 0.05)
    desk = Desk(port, nights.token())
    desk.attach()
    time.sleep(0.2)
    assert is_open()
    nights.register.remove("ash")
    until(lambda: not is_open(), 10, 0.05)
    nights.token("elm")
    desk = Desk(port, nights.token("oak"))
    desk.attach()
    monkeypatch.setattr(served, "PIN_FOR", 0)
    until(lambda: not is_open(), 10, 0.05)
    assert desk.read(0, 3).status == 410


def test_an_account_that_cannot_read_the_list_lets_nobody_in(nights: Nights, port: int) -> None:
    if os.geteuid() != 0:
        pytest.skip("only the superuser can serve as another account: run this test as root")
    desk = Desk(port, nights.token())
    desk.attach()
    try:
        os.seteuid(NOBODY)
        assert [desk.ask("HEAD").status, desk.read(0, 3).status] == [503, 503]
    finally:
        os.seteuid(0)


def test_what_cannot_be_logged_is_not_opened(nights: Nights, port: int) -> None:
    desk = Desk(port, nights.token())
    desk.attach()
    (log,) = (nights.root / "private").glob("access-*.jsonl")
    nights.publish(3)
    log.unlink()
    log.mkdir()
    assert [desk.ask(method).status for method in ("HEAD", "GET")] == [503, 503]
    assert desk.numbers(SIZE) == {2}
    log.rmdir()
    assert desk.numbers(desk.attach()) == {3}


def read_through(nights: Nights, port: int, readers: int, publishes: int) -> list[int]:
    """Read by so many programs, none of which looks at ETags, through so many publishes; returns the nights read."""
    desks = [Desk(port, nights.token(f"reader-{number}")) for number in range(readers)]
    is_over = threading.Event()

    def work(desk: Desk) -> list[int]:
        read = []
        while not is_over.is_set():
            size = desk.attach()
            (number,) = desk.numbers(size)
            assert size == 4 * (WORDS + number)
            read.append(number)
        desk.close()
        return read

    with ThreadPoolExecutor(readers) as pool:
        working = [pool.submit(work, desk) for desk in desks]
        for number in range(3, 3 + publishes):
            nights.publish(number)
            is_over.wait(0.1)
        is_over.set()
        return [number for each in working for number in each.result()]


def test_no_reader_mixes_two_nights_through_fifteen_publishes(nights: Nights, port: int) -> None:
    read = read_through(nights, port, 8, 15)
    assert len(read) > 15
    assert len({*read}) > 5


@pytest.mark.slow
def test_fifty_readers_mix_no_nights_through_a_hundred_publishes(nights: Nights, port: int) -> None:
    read = read_through(nights, port, 50, 100)
    assert len(read) > 200
    assert len({*read}) > 20
