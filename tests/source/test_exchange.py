"""One exchange with a hostile service: the longest duration, and the largest answer."""

from __future__ import annotations

import gzip
import itertools
import threading
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterable

import pytest
import stamina

from rollbook.errors import KeyRefusedError, NotTheContractError, UnreachableError
from rollbook.source import client as client_module
from rollbook.source.client import Client
from rollbook.source.envelope import UnreadableError
from tests.source.asking import STUDENTS, MakeClient, get_page
from tests.support.tiers import weekly
from tests.support.wire import faults
from tests.support.wire.drips import chunk, head, sending
from tests.support.wire.service import Reply, Service

PAGE = b'{"success": true, "data": [], "pagination": {"page":1,"limit":100,"total_count":0,"total_pages":0}}'
MB = 2**20


def endless(first: bytes, piece: bytes) -> Callable[[], Iterable[bytes]]:
    return lambda: itertools.chain([first], itertools.repeat(piece))


PACKED = head(transfer_encoding="chunked", content_encoding="gzip")
GZIP_WITH_A_NAME = chunk(b"\x1f\x8b\x08\x08" + bytes(6))  # the file's name follows, up to a zero that never comes
DRIPS: dict[str, Callable[[], Iterable[bytes]]] = {
    "a body": endless(head(content_length="1000000"), b" "),
    "a body of unknown length": endless(head(transfer_encoding="chunked"), chunk(b" ")),
    "headers": endless(b"HTTP/1.1 200 OK\r\n", b"X-Wait: a\r\n"),
    "a status line": endless(b"HTTP/1.1 200 ", b"O"),
    "a body until the end": endless(b"HTTP/1.1 200 OK\r\n\r\n" + PAGE, b" "),
    "a gzip field": endless(PACKED + GZIP_WITH_A_NAME, chunk(b"y")),
}


@pytest.mark.parametrize("what", DRIPS)
def test_a_body_that_trickles_without_end_is_given_up_at_the_deadline(
    client_of: MakeClient, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Each byte comes well within the read timeout. A try that begins late gets the time of one try, and no more."""
    monkeypatch.setattr(client_module, "TRY_SECONDS", 0.5)
    with stamina.set_testing(False), sending(DRIPS[what], every=0.05) as service:
        client, began = client_of(service.url, retry_seconds=1), time.monotonic()
        with pytest.raises(UnreachableError, match=r"the answer was not complete after"):
            get_page(client)
        assert 1 <= time.monotonic() - began < 2.5


def test_each_request_has_its_own_deadline(service: Service, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "EXCHANGE_SECONDS", 0.5)
    for _ in range(4):
        service.on(faults.hang(0.2))
        assert get_page(client).parsed.number == 1
    assert (client.retries, service.connections) == (0, 1)


def test_one_thread_keeps_a_shorter_deadline_after_a_longer_one(
    service: Service, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread for each request would take a tenth of a walk's time."""
    threads = set(threading.enumerate())
    for _ in range(3):
        get_page(client)
    (watch,) = [t for t in set(threading.enumerate()) - threads if "_watch" in t.name]
    monkeypatch.setattr(client_module, "EXCHANGE_SECONDS", 1.0)
    service.on(faults.hang(5))
    began = time.monotonic()
    assert get_page(client).parsed.number == 1
    assert client.retries >= 1
    assert time.monotonic() - began < 5
    assert watch.is_alive()
    client.close()
    watch.join(2)
    assert not watch.is_alive()


def test_a_body_too_long_packed_or_unpacked_is_given_up(client_of: MakeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "BODY_BYTES", 8 * MB)
    packing = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = b"".join([*(packing.compress(bytes(MB)) for _ in range(256)), packing.flush()])
    bombs = [head(content_encoding="gzip", content_length=str(len(bomb))) + bomb]
    names = endless(PACKED + GZIP_WITH_A_NAME, chunk(b"y" * 2**16))
    for pieces in (lambda: bombs, names):
        with stamina.set_testing(True, attempts=1), sending(pieces) as service:
            tracemalloc.start()
            with pytest.raises(NotTheContractError, match="the answer is longer than 8 MB"):
                get_page(client_of(service.url))
            assert tracemalloc.get_traced_memory()[1] < 200 * MB
            tracemalloc.stop()


WHERE = {
    "data": b"%s",
    "classes": b'[{"id": 1, "name": "Ana", "classes": [%s]}]',
    "a field that nobody declared": b'[{"id": 1, "name": "Ana", "marks": {"of": [%s]}}]',
}
VALUES = [b"[]", b"1", b"{}", b'"a"', b'{"class_id":7}', b"[[[[]]]]"]


def full_of(value: bytes, where: str, megabytes: int) -> bytes:
    """A page full of one value."""
    values = b",".join([value] * ((megabytes * MB - 1000) // (len(value) + 1)))
    data = WHERE[where] % (b"[%s]" % values if where == "data" else values)
    return b'{"success": true, "data": ' + data + b", " + PAGE.partition(b"[], ")[2]


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("where", WHERE)
def test_a_page_full_of_small_values_takes_little_memory(client_of: MakeClient, value: bytes, where: str) -> None:
    body = full_of(value, where, 1)
    pieces = [head(content_length=str(len(body))) + body]
    with stamina.set_testing(True, attempts=1), sending(lambda: pieces) as service:
        client = client_of(service.url)
        tracemalloc.start()
        with pytest.raises(NotTheContractError, match=r"holds more than|has more than|has a list of more"):
            get_page(client)
        assert tracemalloc.get_traced_memory()[1] < 80 * MB
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize("value", [VALUES[0], *map(weekly, VALUES[1:])])
def test_a_page_of_64_mb_full_of_small_values_is_not_read(client_of: MakeClient, value: bytes) -> None:
    body = full_of(value, "classes", 64)
    pieces = [head(content_length=str(len(body))) + body]
    with stamina.set_testing(True, attempts=1), sending(lambda: pieces) as service:
        began = time.monotonic()
        with pytest.raises(NotTheContractError, match="the answer holds more than 1,000,000 values"):
            get_page(client_of(service.url))
        assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"[%s]" % b",".join([b'{"id": 7}'] * 1000), ""),
        (b"[%s]" % b",".join([b'{"id": 7}'] * 1001), "it has more than 1,000 records on a page"),
        (b"[%s]" % b",".join([b"1"] * 1001), "it has more than 1,000 records on a page"),
        (b'[{"id": 1, "x": "%s", "y": [%s]}]' % (b"," * 2**19, b",".join([b"1"] * 10_000)), ""),
        (
            b'[{"id": 1, "x": "%s", "y": [%s]}]' % (b"," * 2**19, b",".join([b"1"] * 10_001)),
            "a record has a list of more than 10,000 elements",
        ),
    ],
)
def test_a_page_has_a_thousand_records_and_their_lists_ten_thousand_elements(data: bytes, says: str) -> None:
    body = PAGE.replace(b"[]", data)
    if not says:
        assert STUDENTS(body).ids
        return
    with pytest.raises(UnreadableError, match=says):
        STUDENTS(body)


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "identity", "", "br"])
def test_only_gzip_is_unpacked(service: Service, client: Client, encoding: str) -> None:
    packed = gzip.compress(PAGE) if "gzip" in encoding.lower() else PAGE
    service.on(lambda request, reply: Reply(body=packed, headers={"content-encoding": encoding}))
    assert (get_page(client).content, client.bytes_received) == (PAGE, len(packed))
    assert service.requests[0].headers["accept-encoding"] == "gzip"


def test_gzip_that_ends_early_is_retried_and_any_401_is_heard(service: Service, client: Client) -> None:
    service.on(lambda request, reply: Reply(body=gzip.compress(PAGE)[:-20], headers={"content-encoding": "gzip"}))
    get_page(client)
    assert client.retries == 1
    service.on(lambda request, reply: Reply(status=401, body=b"anything", headers={"content-encoding": "br"}))
    with pytest.raises(KeyRefusedError):
        get_page(client)
