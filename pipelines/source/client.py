"""The client: one GET at a time, with the key, named timeouts and bounded retries of transient faults.

The caller decides what a body means: it passes `get` a reader, which decides whether a 200 is the contract's answer.
No log line or error made here holds the key, a body or a search's value; no URL holds the key (G12).

Proxies: an https request goes through the environment's proxy (HTTPS_PROXY, NO_PROXY; SSL_CERT_FILE is honoured too),
because institutions have proxies, and these cannot read headers inside the TLS tunnel. A plain http request, which can
only go to this machine, never uses a proxy: it would read the key.
"""

from __future__ import annotations

import logging
import re
import ssl
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
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
from pipelines.source.gate import Gate
from pipelines.source.retry import RetryPolicy, TransientError, retry_after

PREFIX = "/svcapi/v1/"
LIMIT = 100
HOSTS = "hosts"  # in a fleet's folder: one lock file per host
# Seconds. A page takes a service tens of milliseconds; a minute of silence is a dropped connection.
TIMEOUTS = httpx.Timeout(connect=10, read=60, write=30, pool=10)
# From connecting to the last byte: a response that trickles in never trips the read timeout.
EXCHANGE_SECONDS = 300.0
# Each try gets at least this long, even if ROLLBOOK_RETRY_SECONDS are almost over.
TRY_SECONDS = 60.0
# Limits a body as received and as decompressed: an endless body, or a gzip bomb, would fill the memory.
BODY_BYTES = 256 * 2**20
PIECE_BYTES = 2**16  # decompressed at a time
TRANSIENT = frozenset({429, 500, 501, 502, 503, 504})
UNAUTHORIZED = 401

T = TypeVar("T")

# stamina's own hook would log through structlog, if installed, to standard output. `RetryPolicy` logs every retry.
stamina.instrumentation.set_on_retry_hooks([])


@dataclass(frozen=True)
class Answer(Generic[T]):
    """One answer: the body (decompressed), what its reader returned for it, and when it was complete (UTC)."""

    content: bytes
    said: T
    received_at: datetime


@dataclass(frozen=True)
class _Reply:
    status: int
    headers: httpx.Headers
    content: bytes


class Client:
    """A connection to the records service. A context manager; not thread-safe.

    `requests`, `retries` and `bytes_received` (on the wire) count everything so far.
    """

    def __init__(self, settings: Settings, *, timeouts: httpx.Timeout = TIMEOUTS) -> None:
        """Does not connect yet. Raises SettingError when the address or the environment's proxy cannot be used."""
        silence_http_logs()
        self.host = urlsplit(settings.base_url).netloc
        self.requests = 0
        self.retries = 0
        self.bytes_received = 0
        self._base = settings.base_url + PREFIX
        self._key = settings.api_key.get_secret_value()
        self._retry_seconds = settings.retry_seconds
        self._pause = settings.request_pause_ms / 1000
        self._gate = Gate(settings.fleet_path / HOSTS, self.host, self._pause) if settings.fleet_path else None
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
                    "Accept-Encoding": "gzip",  # the only encoding that is decompressed here, piece by piece
                },
                timeout=timeouts,
                limits=httpx.Limits(max_connections=1, max_keepalive_connections=1),
                follow_redirects=False,
                # Without TLS, loading certificates (0.1 s) is needless; an empty context trusts no server.
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
        """GET one path below /svcapi/v1/ and return the answer as read by `read`.

        `read` raises msgspec.DecodeError for a body that is not the contract's. Transient faults are retried within
        `retry_seconds`. Raises KeyRefusedError (401), RefusedError (any other refusal), RedirectError,
        UnreachableError (no usable answer) and NotTheContractError (no answer was the contract's). Contract:
        "Endpoints", "Errors".
        """
        label = PREFIX + path + (f" page {params['page']}" if params and "page" in params else "")
        policy = RetryPolicy(self._retry_seconds, label)
        request = _Request(path, params or {}, label)
        fault = TransientError("nothing was sent")
        try:
            for attempt in stamina.retry_context(on=policy, attempts=None, timeout=None):
                with attempt:
                    self.retries += attempt.num > 1
                    with self._turn(policy):
                        self._deadline.begin(min(EXCHANGE_SECONDS, max(policy.left, TRY_SECONDS)))
                        reply = self._exchange(request)
                    return self._read_answer(request, reply, read)
        except TransientError as last:
            fault = last
        raise self._give_up(request, fault, policy)

    @contextmanager
    def _turn(self, policy: RetryPolicy) -> Iterator[None]:
        """Wait until a request may be sent: for the pause, and in a fleet for other processes' requests to the host."""
        if self._gate is None:
            if self._pause and (wait := self._ready_at - time.monotonic()) > 0:
                time.sleep(wait)
            try:
                yield
            finally:
                self._ready_at = time.monotonic() + self._pause
            return
        began = time.monotonic()
        with self._gate.request():
            policy.excuse(time.monotonic() - began)
            yield

    def _read_answer(self, request: _Request, reply: _Reply, read: Callable[[bytes], T]) -> Answer[T]:
        """Return the answer. Raises TransientError for a fault that may pass by itself."""
        received_at = datetime.now(UTC)
        if reply.status == httpx.codes.OK:
            try:
                return Answer(reply.content, read(reply.content), received_at)
            except (msgspec.DecodeError, RecursionError):
                pass  # raised below: the exception's context would hold a piece of the body
        raise self._error_of_reply(request, reply)

    def _exchange(self, request: _Request) -> _Reply:
        """Send the request and read the whole body. Raises TransientError for a fault that may pass by itself."""
        self.requests += 1
        failure: Exception
        try:
            with self._http.stream("GET", self._base + request.path, params=request.params) as response:
                return self._read(response)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            failure = self._translate_error(error, request)
        raise failure  # outside the except block: httpx's error, which holds the URL, must not become its context

    def _read(self, response: httpx.Response) -> _Reply:
        encoding = response.headers.get("content-encoding", "").strip().lower()
        if encoding not in ("", "identity", "gzip"):
            if response.status_code == httpx.codes.OK:
                raise TransientError("the answer is compressed in a way that was not requested", contract=True)
            return _Reply(response.status_code, response.headers, b"")
        chunks, size = [], 0
        try:
            for chunk in _decompressed(response) if encoding == "gzip" else _raw_chunks(response):
                chunks.append(chunk)
                size += len(chunk)
                if size > BODY_BYTES:
                    raise _too_long()
        finally:
            self.bytes_received += response.num_bytes_downloaded
        return _Reply(response.status_code, response.headers, chunks[0] if len(chunks) == 1 else b"".join(chunks))

    def _translate_error(self, error: Exception, request: _Request) -> Exception:
        """Turn an httpx error into a TransientError, or into an error that no retry can fix. Never quotes its text."""
        if isinstance(error, httpx.ConnectError) and _certificate_refused(error):
            return UnreachableError(
                f"The certificate of {self.host} is not trusted here, so the key was not sent. Check"
                " ROLLBOOK_BASE_URL, or name the institution's certificates in SSL_CERT_FILE."
            )
        if isinstance(error, httpx.TimeoutException) and self._deadline.left <= 0:
            return TransientError(f"the answer was not complete after {self._deadline.seconds:.0f} s")
        for kind, reason in _FAULTS:
            if isinstance(error, kind):
                return TransientError(reason)
        return UnreachableError(
            f"{request.label} could not be requested from {self.host} ({type(error).__name__}). Check"
            " ROLLBOOK_BASE_URL and the proxy settings of the environment."
        )

    def _error_of_reply(self, request: _Request, reply: _Reply) -> Exception:
        """Return the error for any reply except the contract's 200: a TransientError if a retry may help."""
        if 300 <= reply.status < 400:
            return RedirectError(
                f"{self.host} answered {request.label} with a redirect {self._target(reply)} ({reply.status}), which is"
                " not followed: the key is sent to the configured host only. Set ROLLBOOK_BASE_URL to the service's"
                " own address."
            )
        refused = refusal(reply.content)
        status = reply.status
        if status == httpx.codes.OK and refused is not None and refused.status:
            status = refused.status  # an error body under a 200: trust the body
        if status == UNAUTHORIZED or (refused and refused.error_code == "AUTH_REQUIRED"):
            return self._key_refused(request, refused)
        if status in TRANSIENT:
            return TransientError(f"the service answered {status}", retry_after=retry_after(reply.headers))
        if status >= 400 or refused:
            return self._refused(request, status, refused)
        return TransientError(f"the answer ({status}) is not the contract's JSON", contract=True)

    def _key_refused(self, request: _Request, refused: Refusal | None) -> KeyRefusedError:
        return KeyRefusedError(
            f"The records service at {self.host} does not accept the API key (401). Ask the service representative"
            " who issued it for one that is accepted, and set ROLLBOOK_API_KEY.",
            status=UNAUTHORIZED,
            error_code=self._error_code(request, refused),
        )

    def _refused(self, request: _Request, status: int, refused: Refusal | None) -> RefusedError:
        code = self._error_code(request, refused)
        answer = f"{status} {code}".strip()
        return RefusedError(
            f"The records service at {self.host} refused {request.label} ({answer}). Asking again will not help: show"
            " this to the service representative.",
            status=status,
            error_code=code,
        )

    def _give_up(self, request: _Request, fault: TransientError, policy: RetryPolicy) -> ServiceError:
        tried = f"{policy.tries + 1} tries" if policy.tries else "one try"
        within = f"in {tried} over {policy.spent:.0f} s"
        if fault.contract:
            return NotTheContractError(
                f"{self.host} answers {request.label}, but not as the records service does ({within}; at last"
                f" {fault.reason}). Check that ROLLBOOK_BASE_URL is the service's address and that no proxy answers for"
                " it."
            )
        asked = f", which asks to wait {policy.too_long:.0f} s" if policy.too_long is not None else ""
        return UnreachableError(
            f"{self.host} gave no usable answer to {request.label} ({within}; at last {fault.reason}{asked}). Check"
            " that ROLLBOOK_BASE_URL is right and the service is up, then run the sync again; ROLLBOOK_RETRY_SECONDS"
            " says how long one request may be tried."
        )

    def _error_code(self, request: _Request, refused: Refusal | None) -> str:
        """Return the service's error code if it is well-formed and repeats nothing that was sent; else "".

        The rest of the service's error is never shown: it may name a pupil.
        """
        if refused is None or not _CODE.fullmatch(refused.error_code):
            return ""
        sent = (self._key, str(request.params.get("search", "")))
        return "" if any(_repeats(refused.error_code, text) for text in sent) else refused.error_code

    def _target(self, reply: _Reply) -> str:
        """Describe where a redirect points, without quoting it."""
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
    """One request: the path below the prefix, the query, and a label that may appear in logs and errors."""

    path: str
    params: Mapping[str, str | int]
    label: str


# Such as AUTH_REQUIRED. Anything longer may be a sentence.
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
    """Whether a code contains the sent text or a part of it, ignoring case and punctuation."""
    code, sent = ("".join(filter(str.isalnum, text)).casefold() for text in (code, sent))
    return bool(sent) and (sent in code or code in sent)


def _raw_chunks(response: httpx.Response) -> Iterator[bytes]:
    """Yield the body as it comes over the wire."""
    for chunk in response.iter_raw():
        if response.num_bytes_downloaded > BODY_BYTES:
            raise _too_long()
        yield chunk


def _decompressed(response: httpx.Response) -> Iterator[bytes]:
    """Yield a gzip body, decompressed piece by piece: a few kilobytes may hold gigabytes."""
    decompressor, is_empty = zlib.decompressobj(16 + zlib.MAX_WBITS), True
    try:
        for chunk in _raw_chunks(response):
            is_empty = False
            while chunk and not decompressor.eof:
                yield decompressor.decompress(chunk, PIECE_BYTES)
                chunk = decompressor.unconsumed_tail  # noqa: PLW2901 - the rest of it
        yield decompressor.flush()
    except zlib.error:
        raise _garbled() from None
    if not is_empty and not decompressor.eof:
        raise _garbled()


def _too_long() -> TransientError:
    return TransientError(f"the answer is longer than {BODY_BYTES // 2**20} MB", contract=True)


def _garbled() -> TransientError:
    return TransientError("the answer's compression was garbled")


def silence_http_logs() -> None:
    """Stop httpx from logging each URL with its query: a search's value is a pupil's name or email address."""
    for name in ("httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)


def _certificate_refused(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False
