"""The client (G12 and G13): what is tried again, how long, and what is never said."""

from __future__ import annotations

import gzip
import logging
import re
import time
from itertools import pairwise

import httpx
import pytest
import stamina

from rollbook import __version__
from rollbook.errors import NotTheContractError, RefusedError, ServiceError, UnreachableError
from rollbook.source.client import Client
from rollbook.source.envelope import Page
from tests.source.asking import MakeClient, get_page
from tests.support.processes.errors import everything_about
from tests.support.records import student, students
from tests.support.wire import faults
from tests.support.wire.service import KEY, Bend, Reply, Service

# --- one good request ------------------------------------------------------------------------------------------------


def test_a_request_carries_the_key_and_says_who_asks(client_of: MakeClient) -> None:
    with Service(students(3)) as service:
        answer = get_page(client_of(service))
        (request,) = service.requests
    assert (request.path, request.params) == ("students", {"page": "1", "limit": "100"})
    assert request.headers["x-api-key"] == KEY
    assert request.headers["user-agent"] == f"Rollbook/{__version__} (read-only sync)"
    assert request.headers["accept-encoding"] == "gzip"
    assert request.headers["accept"] == "application/json, */*;q=0.5"
    assert answer.parsed == Page(
        number=1, limit=100, total_count=3, total_pages=1, ids=[1, 2, 3], has_next=False, has_prev=False
    )


# --- what is tried again ---------------------------------------------------------------------------------------------

TRANSIENT: dict[str, Bend] = {
    "reset": faults.reset(),
    "cut short": faults.cut_short(),
    "silence": faults.hang(3.0),
    **{
        str(code): faults.status(code)
        for code in (408, 421, 425, 429, 500, 502, 503, 504, 507, 509, *range(520, 531), 561, 598, 599)
    },
    "429 with seconds": faults.unavailable(429, 3),
    "503 with a date": faults.unavailable(503, 3, dated=True),
    "error body under 503": faults.refused(503, "BUSY", "Come back"),
    "error body 503 under 200": lambda request, reply: Reply(
        {"error": True, "status_code": 503, "error_code": "BUSY", "message": "x"}
    ),
    "success false under 500": faults.unsuccessful(code=500),
    "a rate limit under 200": faults.unsuccessful("API rate limit exceeded for Anna Muster"),
    "too many requests under 403": faults.refused(403, "TOO_MANY_REQUESTS"),
    "html": faults.html(),
    "half a JSON": faults.not_json(),
    "another envelope": faults.wrong_envelope(),
    "no data": faults.wrong_envelope({"success": True, "pagination": {"page": 1}}),
    "a list": faults.wrong_envelope([]),
    "no gzip under gzip": lambda request, reply: Reply(body=b"no gzip at all", headers={"content-encoding": "gzip"}),
    "garbled compression": lambda request, reply: Reply(body=b"\x1f\x8b garbled", headers={"content-encoding": "gzip"}),
    "half a compression": faults.packed_by(lambda content: gzip.compress(content)[:-9]),
    "another compression": lambda request, reply: Reply(body=b"x", headers={"content-encoding": "br"}),
    "garbled head": lambda request, reply: Reply(body=b"", headers={"content-length": "minus one"}),
}
NOT_THE_CONTRACT = (
    "html",
    "half a JSON",
    "another envelope",
    "no data",
    "a list",
    "no gzip under gzip",
    "another compression",
)


def client_for(name: str, service: Service, client_of: MakeClient) -> Client:
    """A client that waits a second for an answer, where the fault is that none comes."""
    return client_of(service, timeouts=httpx.Timeout(1)) if name == "silence" else client_of(service)


@pytest.mark.parametrize("name", TRANSIENT)
def test_a_passing_fault_is_retried_and_a_lasting_one_ends_with_advice(
    service: Service, client_of: MakeClient, name: str
) -> None:
    client = client_for(name, service, client_of)
    service.on(TRANSIENT[name], times=2)
    assert get_page(client).parsed.ids == list(range(1, 101))
    assert (len(service.requests), client.requests, client.retries) == (3, 3, 2)
    service.on(TRANSIENT[name], times=None)
    with pytest.raises(ServiceError) as caught:
        get_page(client)
    assert len(service.requests) == 3 + 6  # what the test mode allows
    assert type(caught.value) is (NotTheContractError if name in NOT_THE_CONTRACT else UnreachableError)
    assert "/svcapi/v1/students page 1" in caught.value.message
    assert "ROLLBOOK_" in caught.value.message


def test_a_request_that_was_misdirected_is_asked_again_over_another_connection(
    service: Service, client: Client
) -> None:
    service.on(faults.status(421))
    get_page(client)
    assert [request.connection for request in service.requests] == [1, 2]


# --- waiting ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dated", [False, True])
def test_retry_after_is_waited_out(service: Service, client: Client, dated: bool) -> None:
    with stamina.set_testing(False):
        service.on(faults.unavailable(503, 2 if dated else 1, dated=dated))
        get_page(client)
        first, second = service.requests
    # A date has whole seconds, so that two from now may mean hardly more than a second.
    assert 1.0 <= (second.at - first.at).total_seconds() < 3.5


def test_a_longer_retry_after_than_may_be_waited_ends_it_at_once(service: Service, client_of: MakeClient) -> None:
    with stamina.set_testing(False):
        service.on(faults.unavailable(429, 3600), times=None)
        began = time.monotonic()
        with pytest.raises(UnreachableError, match=r"429, which asks to wait 3600 s\). .* ROLLBOOK_RETRY_SECONDS"):
            get_page(client_of(service, retry_seconds=300))
        assert time.monotonic() - began < 2
        assert len(service.requests) == 1


def test_a_pause_is_kept_between_requests_and_tries(service: Service, client_of: MakeClient) -> None:
    service.on(faults.status(503), page=2)
    client = client_of(service, request_pause_ms=60)
    for page in (1, 2, 3):
        get_page(client, page)
    moments = [r.at for r in service.requests]
    assert len(moments) == 4
    assert all((b - a).total_seconds() >= 0.06 for a, b in pairwise(moments))


# --- what is never said ----------------------------------------------------------------------------------------------

NAME = "Zebedee-Canary O'Hara"
EMAIL = "zebedee.canary@pupils.example"


def assert_silent(text: str) -> None:
    for canary in (KEY, "Zebedee", "zebedee", "Hara", EMAIL, "students?"):
        assert canary not in text, canary


ECHO = f"{KEY} may not look for {NAME} <{EMAIL}>"
LOUD: dict[str, Bend] = {
    **TRANSIENT,
    "echo": faults.refused(400, KEY, ECHO),
    "echoed code": faults.refused(400, NAME, ""),
    "echoed success false": faults.unsuccessful(ECHO),
    "echo under 401": faults.refused(401, "AUTH_REQUIRED", ECHO),
    "echo under 500": faults.refused(500, "OOPS", ECHO),
    "echo under 200": lambda request, reply: Reply(body=ECHO.encode()),
    "redirect": faults.redirect(f"https://{KEY}@elsewhere.example/{KEY}?search={EMAIL}"),
    "redirect to a host": faults.redirect(f"https://{KEY}.example/"),
    "redirect to nonsense": faults.redirect(f"https://[{EMAIL}"),
}


@pytest.mark.parametrize("name", LOUD)
def test_no_log_or_error_has_the_key_or_a_name(
    client_of: MakeClient, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], name: str
) -> None:
    caplog.set_level(logging.DEBUG)
    logging.getLogger("httpx").setLevel(
        logging.DEBUG
    )  # as a logging configuration might; a client silences the logger again
    with Service([student(1, name=NAME, email=EMAIL)]) as service:
        client = client_for(name, service, client_of)
        get_page(client, search=EMAIL)
        service.on(LOUD[name], times=None, search=True)
        with pytest.raises(ServiceError) as caught:
            get_page(client, search=NAME)
        assert [r.search for r in service.requests[:2]] == [EMAIL, NAME]
    captured = capfd.readouterr()
    assert_silent(everything_about(caught.value))
    assert_silent(caplog.text + "".join(repr(vars(r)) for r in caplog.records) + captured.out + captured.err)


def test_an_error_beyond_retry_does_not_carry_the_request(service: Service, client: Client) -> None:
    with pytest.raises(UnreachableError, match="InvalidURL") as caught:
        get_page(client, search=NAME * 10_000)
    assert service.requests == []
    assert caught.value.__context__ is None
    assert_silent(everything_about(caught.value))


def test_a_retry_is_logged_with_the_page_and_what_happened(
    service: Service, client: Client, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """And nowhere else: stamina's own hook would print the wait, for instance into the JSON of a command."""
    service.on(faults.status(502))
    get_page(client)
    assert capfd.readouterr() == ("", "")
    (message,) = [r.getMessage() for r in caplog.records if r.name.startswith("rollbook")]
    assert re.fullmatch(r"/svcapi/v1/students page 1: the service answered 502; retrying in \d\.\d s", message)


# --- how a body is packed --------------------------------------------------------------------------------------------

PACKED: dict[str, tuple[Bend, dict[str, int]]] = {
    "one member": (faults.packed_by(gzip.compress), {}),
    "two members": (
        faults.packed_by(lambda content: gzip.compress(content[:70]) + gzip.compress(content[70:])),
        {"gzip of several members": 1},
    ),
    "members after empty ones": (
        faults.packed_by(lambda content: gzip.compress(b"") + gzip.compress(content) + gzip.compress(b"")),
        {"gzip of several members": 1},
    ),
    "gzip that no header names": (faults.packed_by(gzip.compress, None), {"a wrong Content-Encoding": 1}),
    "gzip under another header": (faults.packed_by(gzip.compress, "UTF-8"), {"a wrong Content-Encoding": 1}),
    "x-gzip": (faults.packed_by(gzip.compress, "x-gzip"), {}),
    "plain text that is called gzip": (faults.packed_by(bytes, "gzip"), {"a wrong Content-Encoding": 1}),
    "plain text that is called br": (faults.packed_by(bytes, "br"), {"a wrong Content-Encoding": 1}),
    "identity": (faults.packed_by(bytes, "identity"), {}),
}


@pytest.mark.parametrize("name", PACKED)
def test_a_body_is_unpacked_by_its_first_bytes_whatever_its_header_says(
    service: Service, client: Client, name: str
) -> None:
    bend, oddities = PACKED[name]
    service.on(bend)
    assert get_page(client).parsed.ids == list(range(1, 101))
    assert (client.retries, client.oddities) == (0, oddities)


@pytest.mark.parametrize(
    ("bend", "says"),
    [
        (faults.html(), r"at last the answer \(200, application/json, unreadable at byte 0\) is not the contract's"),
        (
            faults.packed_by(lambda content: b"{!" + content, "secret words"),
            r"\(200, of no known type, in an unknown encoding, unreadable at byte 1\)",
        ),
        (
            faults.packed_by(lambda content: b"x" + content, "zstd"),
            r"\(200, of no known type, zstd, unreadable at byte 0\)",
        ),
        (
            lambda request, reply: Reply(body=b"<html>", headers={"content-type": f"text/{EMAIL}"}),
            r"\(200, of no known type, unreadable at byte 0\)",
        ),
    ],
)
def test_an_answer_that_cannot_be_read_is_described(service: Service, client: Client, bend: Bend, says: str) -> None:
    service.on(bend, times=None)
    with pytest.raises(NotTheContractError, match=says):
        get_page(client)


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (429, "set ROLLBOOK_REQUEST_PAUSE_MS"),
        (421, "Check that ROLLBOOK_BASE_URL is right"),
        (408, "A proxy in front of the service answers"),
        (522, "A proxy in front of the service answers"),
        (526, "does not trust the service's certificate"),
        (507, "no room left"),
        (500, "Check that ROLLBOOK_BASE_URL is right"),
    ],
)
def test_the_advice_fits_the_status(service: Service, client: Client, code: int, advice: str) -> None:
    service.on(faults.status(code), times=None)
    with pytest.raises(UnreachableError, match=advice):
        get_page(client)


@pytest.mark.parametrize("code", [501, 505, 204, 404, 418])
def test_a_status_that_lasts_is_asked_once(service: Service, client: Client, code: int) -> None:
    service.on(lambda request, reply: Reply(status=code, body=b""), times=None)
    with pytest.raises(RefusedError) as caught:
        get_page(client)
    assert (len(service.requests), caught.value.status) == (1, code)
