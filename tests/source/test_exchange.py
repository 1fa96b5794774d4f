"""One exchange with a hostile service: how long it may last, and how much it may send."""

from __future__ import annotations

import gzip
import itertools
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterable, Iterator

import pytest
import stamina

from pipelines.errors import KeyRefusedError, NotTheContractError, RedirectError, UnreachableError
from pipelines.source import client as client_module
from pipelines.source.client import Client
from tests.source.asking import MakeClient, get_page
from tests.support.wire import faults
from tests.support.wire.drips import chunk, head, sending
from tests.support.wire.service import Reply, Service

PAGE = b'{"success": true, "data": [], "pagination": {"page":1,"limit":100,"total_count":0,"total_pages":0}}'
MB = 2**20


# --- how long --------------------------------------------------------------------------------------------------------


def endless(first: bytes, piece: bytes) -> Callable[[], Iterable[bytes]]:
    return lambda: itertools.chain([first], itertools.repeat(piece))


GZIP_WITH_A_NAME = b"\x1f\x8b\x08\x08" + bytes(6)  # the file's name follows, up to a zero that never comes
DRIPS: dict[str, Callable[[], Iterable[bytes]]] = {
    "the status line": endless(b"HTTP/1.1 200 ", b"y"),
    "a header": endless(b"HTTP/1.1 200 OK\r\nx-anything: ", b"y"),
    "headers": endless(b"HTTP/1.1 200 OK\r\n", b"x: y\r\n"),
    "answers before the answer": endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "a body": endless(head(content_length="1000000"), b" "),
    "a body of unknown length": endless(head(transfer_encoding="chunked"), chunk(b" ")),
    "the length of a chunk": endless(head(transfer_encoding="chunked") + b"1", b";y"),
    "a gzip field": endless(
        head(transfer_encoding="chunked", content_encoding="gzip") + chunk(GZIP_WITH_A_NAME), chunk(b"y")
    ),
    "what follows the gzip": endless(
        head(transfer_encoding="chunked", content_encoding="gzip") + chunk(gzip.compress(PAGE)), chunk(b"y")
    ),
}


@pytest.mark.parametrize("what", DRIPS)
def test_what_trickles_in_without_end_is_given_up_at_the_deadline(
    client_of: MakeClient, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Each byte comes well within the read timeout."""
    monkeypatch.setattr(client_module, "EXCHANGE_SECONDS", 0.8)
    with stamina.set_testing(True, attempts=1), sending(DRIPS[what], every=0.05) as service:
        began = time.monotonic()
        with pytest.raises(UnreachableError, match=r"the answer was not complete after 1 s"):
            get_page(client_of(service.url))
        assert 0.7 < time.monotonic() - began < 2.5


def test_all_tries_of_a_request_end_soon_after_the_retries_do(
    client_of: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A try that begins late gets the time of one try, and no more."""
    monkeypatch.setattr(client_module, "TRY_SECONDS", 0.5)
    with stamina.set_testing(False), sending(DRIPS["a header"], every=0.05) as service:
        client, began = client_of(service.url, retry_seconds=1), time.monotonic()
        with pytest.raises(UnreachableError, match=r"the answer was not complete after"):
            get_page(client)
        assert 1 <= time.monotonic() - began < 2.5


def test_an_answer_that_is_slow_but_whole_in_time_is_taken(client_of: MakeClient) -> None:
    answer = head(content_length=str(len(PAGE))) + PAGE
    with sending(lambda: [answer[i : i + 20] for i in range(0, len(answer), 20)], every=0.02) as service:
        assert get_page(client_of(service.url)).content == PAGE


def test_each_request_has_its_own_deadline(service: Service, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "EXCHANGE_SECONDS", 0.5)
    for _ in range(4):
        service.on(faults.hang(0.2))
        assert get_page(client).said.number == 1
    assert (client.retries, service.connections) == (0, 1)


# --- how much --------------------------------------------------------------------------------------------------------


def zeros(size: int) -> Iterator[bytes]:
    """So many zeros, packed a thousandfold."""
    packing = zlib.compressobj(9, zlib.DEFLATED, 31)
    for _ in range(size // MB):
        yield packing.compress(bytes(MB))
    yield packing.flush()


@pytest.mark.slow
def test_a_gzip_bomb_is_unpacked_no_further_than_a_body_may_go(
    client_of: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A megabyte on the wire, a gigabyte in memory; the limit is 8 MB here."""
    monkeypatch.setattr(client_module, "BODY_BYTES", 8 * MB)
    bomb = b"".join(zeros(1024 * MB))
    answer = head(content_encoding="gzip", content_length=str(len(bomb))) + bomb
    with stamina.set_testing(True, attempts=1), sending(lambda: [answer]) as service:
        client = client_of(service.url)
        tracemalloc.start()
        try:
            with pytest.raises(NotTheContractError, match="the answer is longer than 8 MB"):
                get_page(client)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 24 * MB


def test_a_body_that_unpacks_to_nothing_is_no_longer_than_a_body_may_be(
    client_of: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "BODY_BYTES", MB)
    first = head(transfer_encoding="chunked", content_encoding="gzip") + chunk(GZIP_WITH_A_NAME)
    with (
        stamina.set_testing(True, attempts=1),
        sending(endless(first, chunk(b"y" * 2**16))) as service,
        pytest.raises(NotTheContractError, match="the answer is longer than 1 MB"),
    ):
        get_page(client_of(service.url))


ENCODED = {
    "gzip, gzip": gzip.compress(gzip.compress(PAGE)),
    "gzip,identity": gzip.compress(PAGE),
    "deflate": zlib.compress(PAGE),
    "br": b"\x8b\x02\x80abc\x03",
    "zstd": b"anything",
    "Anna Muster": PAGE,
}


@pytest.mark.parametrize("encoding", ENCODED)
def test_any_encoding_but_gzip_is_not_the_contracts(client_of: MakeClient, encoding: str) -> None:
    with Service() as service:
        service.on(lambda asked, reply: Reply(body=ENCODED[encoding], headers={"content-encoding": encoding}), times=2)
        with (
            stamina.set_testing(True, attempts=2),
            pytest.raises(NotTheContractError, match="compressed in a way that was not requested") as caught,
        ):
            get_page(client_of(service))
        assert encoding not in caught.value.message
        assert [r.headers["accept-encoding"] for r in service.requests] == ["gzip", "gzip"]
        assert get_page(client_of(service)).said.ids == []


def test_two_encoding_headers_are_two_encodings(client_of: MakeClient) -> None:
    body = gzip.compress(gzip.compress(PAGE))
    answer = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-encoding: gzip\r\n"
    answer += b"content-length: %d\r\n\r\n%s" % (len(body), body)
    with (
        stamina.set_testing(True, attempts=1),
        sending(lambda: [answer]) as service,
        pytest.raises(NotTheContractError, match="compressed in a way that was not requested"),
    ):
        get_page(client_of(service.url))


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", " gzip ", "identity", ""])
def test_gzip_and_none_are_known(service: Service, client: Client, encoding: str) -> None:
    packed = gzip.compress(PAGE) if "gzip" in encoding.lower() else PAGE
    service.on(lambda asked, reply: Reply(body=packed, headers={"content-encoding": encoding}))
    assert (get_page(client).content, client.bytes_received) == (PAGE, len(packed))


def test_gzip_that_ends_early_is_garbled(service: Service, client: Client) -> None:
    with stamina.set_testing(True, attempts=1):
        service.on(lambda asked, reply: Reply(body=gzip.compress(PAGE)[:-9], headers={"content-encoding": "gzip"}))
        with pytest.raises(UnreachableError, match="the answer's compression was garbled"):
            get_page(client)


def test_a_status_that_says_it_all_is_heard_though_its_body_cannot_be_unpacked(
    service: Service, client: Client
) -> None:
    service.on(lambda asked, reply: Reply(status=401, body=b"anything", headers={"content-encoding": "br"}))
    with pytest.raises(KeyRefusedError):
        get_page(client)
    redirect = {"location": "/x", "content-encoding": "gzip"}
    service.on(lambda asked, reply: Reply(status=302, body=b"", headers=redirect))
    with pytest.raises(RedirectError):
        get_page(client)
