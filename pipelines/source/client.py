"""The client: one GET at a time, with the key, named timeouts and bounded retries of transient faults.

What the bodies mean is for the caller: `get` is handed the reader that decides whether a 200 is the contract's
answer. No log line, error or URL made here holds the key, a body or a search's value (G12).

Proxies: an https address goes through the proxy that the environment names (HTTPS_PROXY, NO_PROXY; SSL_CERT_FILE is
honoured too), because institutions have them and a tunnel shows them no header. A plain http address, which can only
be this machine, never does: there the proxy would read the key.
"""

from __future__ import annotations

import logging
import re
import ssl
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Generic, TypeVar
from urllib.parse import urlsplit

import httpx
import msgspec
import stamina
import stamina.instrumentation

from pipelines import __version__
from pipelines.errors import (
    KeyRefusedError,
    NotTheContractError,
    RedirectError,
    RefusedError,
    ServiceError,
    SettingError,
    UnreachableError,
)
from pipelines.settings import Settings
from pipelines.source.deadline import Deadline, bound
from pipelines.source.envelope import Refusal, refusal
from pipelines.source.retry import RetryPolicy, TransientError, retry_after

PREFIX = "/svcapi/v1/"
LIMIT = 100
# Seconds. A page takes a service tens of milliseconds; a minute of silence is a dropped connection.
TIMEOUTS = httpx.Timeout(connect=10, read=60, write=30, pool=10)
# From connecting to the last byte: what trickles in never trips the read timeout.
EXCHANGE_SECONDS = 300.0
# What a try gets that begins when ROLLBOOK_RETRY_SECONDS are almost over.
TRY_SECONDS = 60.0
# A body without an end, or one packed a thousandfold, fills the memory: as it comes, and unpacked, it is no longer.
BODY_BYTES = 256 * 2**20
PIECE_BYTES = 2**16
TRANSIENT = frozenset({429, 500, 501, 502, 503, 504})
UNAUTHORIZED = 401

T = TypeVar("T")

# stamina's own hook would write through structlog where that is installed, to standard output. `RetryPolicy` says all.
stamina.instrumentation.set_on_retry_hooks([])


@dataclass(frozen=True)
class Answer(Generic[T]):
    """One answer: the body as received (compression undone), what its reader made of it, and when it was whole."""

    content: bytes
    said: T
    received_at: datetime


@dataclass(frozen=True)
class _Reply:
    status: int
    headers: httpx.Headers
    content: bytes


class Client:
    """A connection to the records service. A context manager; not for threads.

    `requests`, `retries` and `bytes_received` (as they came over the wire) count what was asked so far.
    """

    def __init__(self, settings: Settings, *, timeouts: httpx.Timeout = TIMEOUTS) -> None:
        """Open nothing yet. Raises SettingError when the address or the environment's proxy cannot be used."""
        silence()
        self.host = urlsplit(settings.base_url).netloc
        self.requests = 0
        self.retries = 0
        self.bytes_received = 0
        self._base = settings.base_url + PREFIX
        self._key = settings.api_key.get_secret_value()
        self._ceiling = settings.retry_seconds
        self._pause = settings.request_pause_ms / 1000
        self._ready_at = 0.0
        https = self._base.startswith("https:")
        try:
            httpx.URL(self._base)
        except httpx.InvalidURL:
            raise SettingError("ROLLBOOK_BASE_URL must be an address such as https://records.example.org") from None
        try:
            self._http = httpx.Client(
                headers={
                    "X-API-Key": self._key,
                    "User-Agent": f"Rollbook/{__version__} (read-only sync)",
                    "Accept-Encoding": "gzip",  # of httpx's own list, only this one is unpacked here, piece by piece
                },
                timeout=timeouts,
                limits=httpx.Limits(max_connections=1, max_keepalive_connections=1),
                follow_redirects=False,
                # Without TLS no certificates need be read (0.1 s); the empty context would trust nobody.
                verify=True if https else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
                trust_env=https,
            )
        except (ImportError, ValueError, OSError):
            raise SettingError(
                "the proxy or certificates named in the environment (HTTPS_PROXY, ALL_PROXY, SSL_CERT_FILE) cannot"
                " be used: correct or unset them"
            ) from None
        self._deadline = Deadline()
        bound(self._http, self._deadline)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def get(self, path: str, params: Mapping[str, str | int] | None = None, *, read: Callable[[bytes], T]) -> Answer[T]:
        """Ask for one path below /svcapi/v1/ and return the answer, once `read` finds it to be the contract's.

        `read` raises msgspec.DecodeError for a body that is not. Transient faults are tried again within
        `retry_seconds`. Raises KeyRefusedError (401), RefusedError (any other no), RedirectError, UnreachableError
        (no usable answer) and NotTheContractError (never the contract's). Contract: "Endpoints", "Errors".
        """
        what = PREFIX + path + (f" page {params['page']}" if params and "page" in params else "")
        patience = RetryPolicy(self._ceiling, what)
        request = _Request(path, params or {}, what)
        fault = TransientError("nothing was asked")
        try:
            for attempt in stamina.retry_context(on=patience, attempts=None, timeout=None):
                with attempt:
                    self.retries += attempt.num > 1
                    self._deadline.begin(min(EXCHANGE_SECONDS, max(patience.left, TRY_SECONDS)))
                    return self._once(request, read)
        except TransientError as last:
            fault = last
        raise self._given_up(request, fault, patience)

    def _once(self, request: _Request, read: Callable[[bytes], T]) -> Answer[T]:
        """One try. Raises TransientError for what may pass by itself."""
        reply = self._exchange(request)
        received_at = datetime.now(UTC)
        if reply.status == httpx.codes.OK:
            try:
                return Answer(reply.content, read(reply.content), received_at)
            except (msgspec.DecodeError, RecursionError):
                pass  # raised below, where no context can carry a piece of the body along
        raise self._meaning(request, reply)

    def _exchange(self, request: _Request) -> _Reply:
        """Send the request and read the whole body."""
        if self._pause and (wait := self._ready_at - time.monotonic()) > 0:
            time.sleep(wait)
        self.requests += 1
        failure: Exception
        try:
            with self._http.stream("GET", self._base + request.path, params=request.params) as response:
                return self._read(response)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            failure = self._in_words(error, request)
        finally:
            self._ready_at = time.monotonic() + self._pause
        raise failure  # out here, so that httpx's own error, which holds the URL, is not its context

    def _read(self, response: httpx.Response) -> _Reply:
        packed = response.headers.get("content-encoding", "").strip().lower()
        if packed not in ("", "identity", "gzip"):
            if response.status_code == httpx.codes.OK:
                raise TransientError("the answer is packed in a way that was not asked for", contract=True)
            return _Reply(response.status_code, response.headers, b"")
        chunks, size = [], 0
        try:
            for chunk in _unpacked(response) if packed == "gzip" else _received(response):
                chunks.append(chunk)
                size += len(chunk)
                if size > BODY_BYTES:
                    raise _too_long()
        finally:
            self.bytes_received += response.num_bytes_downloaded
        return _Reply(response.status_code, response.headers, chunks[0] if len(chunks) == 1 else b"".join(chunks))

    def _in_words(self, error: Exception, request: _Request) -> Exception:
        """What an httpx error means: a TransientError, or what a retry cannot mend. Never its own text."""
        if isinstance(error, httpx.ConnectError) and _certificate_refused(error):
            return UnreachableError(
                f"The certificate of {self.host} is not trusted here, so the key was not sent. Check"
                " ROLLBOOK_BASE_URL, or name the institution's certificates in SSL_CERT_FILE."
            )
        if isinstance(error, httpx.TimeoutException) and self._deadline.left <= 0:
            return TransientError(f"the answer was not whole after {self._deadline.seconds:.0f} s")
        for kind, words in _FAULTS:
            if isinstance(error, kind):
                return TransientError(words)
        return UnreachableError(
            f"{request.what} could not be asked of {self.host} ({type(error).__name__}). Check ROLLBOOK_BASE_URL and"
            " the proxy settings of the environment."
        )

    def _meaning(self, request: _Request, reply: _Reply) -> Exception:
        """What an answer other than the contract's 200 means: a TransientError, or the final word."""
        if 300 <= reply.status < 400:
            return RedirectError(
                f"{self.host} answered {request.what} with a redirect {self._target(reply)} ({reply.status}), which is"
                " not followed: the key is sent to the configured host only. Set ROLLBOOK_BASE_URL to the service's"
                " own address."
            )
        no = refusal(reply.content)
        status = reply.status
        if status == httpx.codes.OK and no is not None and no.status:
            status = no.status  # an error body under a 200: the body knows better
        if status == UNAUTHORIZED or (no and no.error_code == "AUTH_REQUIRED"):
            return self._key_refused(request, no)
        if status in TRANSIENT:
            return TransientError(f"the service answered {status}", retry_after=retry_after(reply.headers))
        if status >= 400 or no:
            return self._refused(request, status, no)
        return TransientError(f"the answer ({status}) is not the contract's JSON", contract=True)

    def _key_refused(self, request: _Request, no: Refusal | None) -> KeyRefusedError:
        return KeyRefusedError(
            f"The records service at {self.host} does not accept the API key (401). Ask the service representative"
            " who issued it for one that is accepted, and set ROLLBOOK_API_KEY.",
            status=UNAUTHORIZED,
            error_code=self._code(request, no),
        )

    def _refused(self, request: _Request, status: int, no: Refusal | None) -> RefusedError:
        code = self._code(request, no)
        told = f"{status} {code}".strip()
        return RefusedError(
            f"The records service at {self.host} refused {request.what} ({told}). Asking again will not help: show"
            " this to the service representative.",
            status=status,
            error_code=code,
        )

    def _given_up(self, request: _Request, fault: TransientError, patience: RetryPolicy) -> ServiceError:
        tried = f"{patience.tries + 1} tries" if patience.tries else "one try"
        within = f"in {tried} over {patience.spent:.0f} s"
        if fault.contract:
            return NotTheContractError(
                f"{self.host} answers {request.what}, but not as the records service does ({within}; at last"
                f" {fault.words}). Check that ROLLBOOK_BASE_URL is the service's address and nothing stands between."
            )
        asked = f", which asks to wait {patience.too_long:.0f} s" if patience.too_long is not None else ""
        return UnreachableError(
            f"{self.host} gave no usable answer to {request.what} ({within}; at last {fault.words}{asked}). Check that"
            " ROLLBOOK_BASE_URL is right and the service is up, then run the sync again; ROLLBOOK_RETRY_SECONDS says"
            " how long one request may be tried."
        )

    def _code(self, request: _Request, no: Refusal | None) -> str:
        """The service's error code, if it has the form of one and repeats nothing that was sent.

        All else that a service says of an error is its own words, which may name a pupil: none of it is told.
        """
        if no is None or not _CODE.fullmatch(no.error_code):
            return ""
        sent = (self._key, str(request.params.get("search", "")))
        return "" if any(_repeats(no.error_code, text) for text in sent) else no.error_code

    def _target(self, reply: _Reply) -> str:
        """Where a redirect points, without its words."""
        location = reply.headers.get("location", "")
        try:
            host = httpx.URL(location).netloc.decode()
        except (httpx.InvalidURL, UnicodeDecodeError):
            return "to another host"
        if host and host != self.host:
            return "to another host"
        return "to another path of its own" if location else "that names no target"


@dataclass(frozen=True)
class _Request:
    """What is asked: the path below the prefix, the query, and both in words that may be shown."""

    path: str
    params: Mapping[str, str | int]
    what: str


# As in AUTH_REQUIRED. Longer ones are sentences.
_CODE = re.compile(r"[A-Z][A-Z0-9_]{0,39}")
_FAULTS: tuple[tuple[type[Exception], str], ...] = (
    (httpx.ConnectTimeout, "no connection within the timeout"),
    (httpx.TimeoutException, "no answer within the timeout"),
    (httpx.ConnectError, "no connection could be made"),
    (httpx.NetworkError, "the connection was lost"),
    (httpx.RemoteProtocolError, "the answer was cut short or garbled"),
    (httpx.ProxyError, "the proxy gave no connection"),
)


def _repeats(code: str, sent: str) -> bool:
    """Whether a code holds what was sent, or a part of it, in whatever spelling."""
    code, sent = ("".join(filter(str.isalnum, text)).casefold() for text in (code, sent))
    return bool(sent) and (sent in code or code in sent)


def _received(response: httpx.Response) -> Iterator[bytes]:
    """The body as it comes over the wire."""
    for chunk in response.iter_raw():
        if response.num_bytes_downloaded > BODY_BYTES:
            raise _too_long()
        yield chunk


def _unpacked(response: httpx.Response) -> Iterator[bytes]:
    """A gzip body, unpacked no further than it is taken: a few kilobytes may hold gigabytes."""
    unpacking, anything = zlib.decompressobj(16 + zlib.MAX_WBITS), False
    try:
        for chunk in _received(response):
            anything = True
            while chunk and not unpacking.eof:
                yield unpacking.decompress(chunk, PIECE_BYTES)
                chunk = unpacking.unconsumed_tail  # noqa: PLW2901 - what is left of it
        yield unpacking.flush()
    except zlib.error:
        raise _garbled() from None
    if anything and not unpacking.eof:
        raise _garbled()


def _too_long() -> TransientError:
    return TransientError(f"the answer is longer than {BODY_BYTES // 2**20} MB", contract=True)


def _garbled() -> TransientError:
    return TransientError("the answer's compression was garbled")


def silence() -> None:
    """Keep httpx from logging each URL with its query: a search's value is a pupil's name or address."""
    for name in ("httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)


def _certificate_refused(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False
