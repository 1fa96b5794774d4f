"""The client: one GET at a time, with the key, named timeouts and bounded retries of transient faults.

The caller decides what a body means: a reader, passed to `get`, decides whether a 200 is the contract's answer. No log
line or error made here holds the key, a body or a search's value; no URL holds the key (G12).

Proxies: an https request goes through the environment's proxy (HTTPS_PROXY, NO_PROXY; SSL_CERT_FILE is honoured too),
because institutions have proxies, which cannot read headers inside the TLS tunnel. A plain http request, which can only
go to this machine, never uses a proxy, which would read the key.

Retries: stamina runs the loop and sleeps. The library's back-off adds jitter to a fixed wait and limits neither a
Retry-After nor the total time, so `RetryPolicy` serves as its back-off hook and returns the wait in seconds.

A host that serves several institutions of a registry gets one request at a time, from all processes (`Gate`). A single
school needs no gate: the client sends one request at a time, and the writer lock admits one process.
"""

from __future__ import annotations

import logging
import math
import os
import random
import re
import socket
import ssl
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import urlsplit

import httpx
import stamina
import stamina.instrumentation
from filelock import FileLock

from rollbook import __version__
from rollbook.errors import (
    KeyRefusedError,
    NotTheContractError,
    RedirectError,
    RefusedError,
    ServiceError,
    SettingError,
    UnreachableError,
)
from rollbook.settings import with_secrets_of_libraries
from rollbook.source.envelope import UnreadableError, refused_status
from rollbook.util import files

if TYPE_CHECKING:  # a night is given its settings and does not read any
    from rollbook.settings import Settings

PREFIX = "/svcapi/v1/"
LIMIT = 100
HOSTS = "hosts"  # in a district's folder: one lock file per host
# Seconds. A page takes a service tens of milliseconds; a minute of silence is a dropped connection.
TIMEOUTS = httpx.Timeout(connect=10, read=60, write=30, pool=10)
# From the request to the last byte: headers or a body that trickle in never trip the read timeout.
EXCHANGE_SECONDS = 300.0
# Each try gets at least so long, even if ROLLBOOK_RETRY_SECONDS are almost over.
TRY_SECONDS = 60.0
# Limits a body as received and as decompressed: an endless body, or a gzip bomb, would fill the memory.
BODY_BYTES = 64 * 2**20
# Values in a body, by commas and brackets: read, an empty list takes thirty times its two bytes. A page has a hundred
# records, of some dozens of values and classes each.
MAX_VALUES = 1_000_000
UNAUTHORIZED = 401
GZIP = b"\x1f\x8b"
# Statuses below 500 that may pass by themselves: the service gave up waiting, takes no such request over this
# connection (421), is not ready, or asks for fewer requests.
_TRANSIENT = frozenset({408, 421, 425, 429})
# Not implemented, and HTTP version not supported: the same request will never be answered.
_LASTING = frozenset({501, 505})
_SLOWER = "The service asks for fewer requests: set ROLLBOOK_REQUEST_PAUSE_MS, or sync at another hour."
_PROXY = (
    "A proxy in front of the service answers, and could not reach the service or waited too long. Ask the service's"
    " representative whether it is up, then run the sync again."
)
_CERTIFICATE = (
    "A proxy in front of the service does not trust the service's certificate: tell the service's representative."
)
# Advice about a status that stays. Cloudflare has 520 to 530; 509, 598 and 599 are other proxies' own.
_ADVICE: dict[int, str] = (
    dict.fromkeys((429, 509), _SLOWER)
    | dict.fromkeys((408, 502, 503, 504, *range(520, 531), 598, 599), _PROXY)
    | dict.fromkeys((525, 526), _CERTIFICATE)
    | {507: "The service has no room left: tell its representative, then run the sync again."}
)
_CHECK = "Check that {base_url} is right and the service is up, then run the sync again."
# Encodings whose names may be shown: any other header's value is the service's own words.
_ENCODINGS = frozenset({"gzip", "x-gzip", "deflate", "br", "zstd", "compress", "identity"})
_MEDIA_TYPE = re.compile(r"[a-z]{1,20}/[a-z0-9.+-]{1,60}")

T = TypeVar("T")

# stamina's own hook would log through structlog, if installed, to standard output. `RetryPolicy` logs every retry.
stamina.instrumentation.set_on_retry_hooks([])


@dataclass(frozen=True)
class Answer(Generic[T]):
    """One answer: the body (decompressed), what the reader returned, and when the answer was complete (UTC)."""

    content: bytes
    parsed: T
    received_at: datetime


class Client:
    """A connection to the records service, to be closed. Not thread-safe.

    `requests`, `retries` and `bytes_received` (on the wire) count everything so far, `oddities` the answers of each
    kind that were read although the contract does not foresee them.
    """

    def __init__(self, settings: Settings, *, timeouts: httpx.Timeout = TIMEOUTS) -> None:
        """Does not connect yet. Raises SettingError when the environment's proxy cannot be used."""
        silence_http_logs()
        self.host = urlsplit(settings.base_url).netloc
        # The names of the settings, for messages.
        self.base_url, self.api_key = settings.name_of("base_url"), settings.name_of("api_key")
        self.requests = 0
        self.retries = 0
        self.bytes_received = 0
        self.oddities: Counter[str] = Counter()
        self._base = settings.base_url + PREFIX
        self._retry_seconds = settings.retry_seconds
        self._pause = settings.request_pause_ms / 1000
        self._deadline = _Deadline()
        self._gate = Gate(settings.district_path / HOSTS, self.host, self._pause) if settings.district_path else None
        https = self._base.startswith("https:")
        try:
            with with_secrets_of_libraries():
                self._http = httpx.Client(
                    headers={
                        "X-API-Key": settings.api_key.get_secret_value(),
                        "User-Agent": f"Rollbook/{__version__} (read-only sync)",
                        # Else some frameworks answer as to a browser: a refused key with a redirect to a login.
                        "Accept": "application/json, */*;q=0.5",
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

    def close(self) -> None:
        """End the connection."""
        self._http.close()
        self._deadline.close()

    def get(self, path: str, params: Mapping[str, str | int] | None = None, *, read: Callable[[bytes], T]) -> Answer[T]:
        """GET one path below /svcapi/v1/ and return the answer as read by `read`.

        `read` raises UnreadableError for a body that is not the contract's. Transient faults are retried within
        `retry_seconds`. Raises KeyRefusedError (401), RefusedError (any other refusal), RedirectError,
        UnreachableError (no usable answer) and NotTheContractError (no answer was the contract's). Contract:
        "Endpoints", "Errors".
        """
        # Logs and errors stay when a student is erased, so neither holds a student's id.
        label = PREFIX + _LAST_ID.sub("/ID", path) + (f" page {params['page']}" if params and "page" in params else "")
        policy = RetryPolicy(self._retry_seconds, label)
        fault = TransientError("nothing was sent")
        try:
            for attempt in stamina.retry_context(on=policy, attempts=None, timeout=None):
                with attempt:
                    self.retries += attempt.num > 1
                    began = time.monotonic()
                    with self._gate.request() if self._gate else nullcontext():  # in a district: one at a time
                        policy.excuse(time.monotonic() - began)
                        if self._pause and self._gate is None and self.requests:
                            time.sleep(self._pause)
                        seconds = min(EXCHANGE_SECONDS, max(policy.left, TRY_SECONDS))
                        response, content = self._exchange(path, params, label, seconds)
                    received_at, why = datetime.now(UTC), ""
                    if response.status_code == httpx.codes.MISDIRECTED_REQUEST:
                        self._deadline.hang_up()  # the same connection would be answered so again
                    # A page is too short for so many, and counting would take a tenth of its time.
                    if len(content) > MAX_VALUES < sum(map(content.count, (b",", b"[", b"{"))):
                        raise TransientError(f"the answer holds more than {MAX_VALUES:,} values", contract=True)
                    if response.status_code == httpx.codes.OK:
                        try:
                            return Answer(content, read(content), received_at)
                        except UnreadableError as error:
                            why = str(error)
                    raise self._error_of_reply(label, response, content, why)
        except TransientError as last:
            fault = last
        raise self._give_up(label, fault, policy)

    def _exchange(
        self, path: str, params: Mapping[str, str | int] | None, label: str, seconds: float
    ) -> tuple[httpx.Response, bytes]:
        """Send the request and read the whole body. Raises TransientError for a fault that may pass by itself.

        The timeouts limit each wait, `seconds` the whole exchange, which might trickle in and never trip a timeout.
        """
        self.requests += 1
        content = bytearray()
        failure: Exception
        late = TransientError(f"the answer was not complete after {seconds:.0f} s")
        try:
            with (
                self._deadline.of(seconds, late),
                self._http.stream(
                    "GET", self._base + path, params=params, extensions={"trace": self._deadline.trace}
                ) as response,
            ):
                body = _Body(response.headers.get("content-encoding", "").strip().lower())
                try:
                    # At most 64 kB each, which may unpack to a thousand times as much.
                    for chunk in response.iter_raw():
                        content += body.unpack(chunk)
                        if max(len(content), response.num_bytes_downloaded) > BODY_BYTES:
                            raise TransientError(f"the answer is longer than {BODY_BYTES // 2**20} MB", contract=True)
                    content += body.rest()
                finally:
                    self.bytes_received += response.num_bytes_downloaded
            self.oddities.update(body.oddities)
            return response, bytes(content)
        except zlib.error:
            failure = TransientError("the answer's compression was garbled or cut short")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            failure = self._translate_error(error, label)
        raise failure  # outside the except block: httpx's error, which holds the URL, must not become the context

    def _translate_error(self, error: Exception, label: str) -> Exception:
        """Turn an httpx error into a TransientError, or into an error that no retry can fix. Never quotes the text."""
        if isinstance(error, httpx.ConnectError) and _certificate_refused(error):
            return UnreachableError(
                f"The certificate of {self.host} is not trusted here, so the key was not sent. Check"
                f" {self.base_url}, or name the institution's certificates in SSL_CERT_FILE."
            )
        for kind, reason in _FAULTS:
            if isinstance(error, kind):
                return TransientError(reason)
        return UnreachableError(
            f"{label} could not be requested from {self.host} ({type(error).__name__}). Check"
            f" {self.base_url} and the proxy settings of the environment."
        )

    def _error_of_reply(self, label: str, response: httpx.Response, content: bytes, why: str = "") -> Exception:
        """Return the error for any reply except the contract's 200: a TransientError if a retry may help. `why` says
        why the body could not be read, if that is known.

        The service's own words are not shown: they may name a pupil.
        """
        status, stated = response.status_code, refused_status(content)
        if 300 <= status < 400:
            return RedirectError(
                f"{self.host} answered {label} with a redirect ({status}), which is not followed: the key is sent to"
                f" the configured host only. Set {self.base_url} to the service's own address."
            )
        asks_for_fewer = stated == httpx.codes.TOO_MANY_REQUESTS and status != UNAUTHORIZED
        if stated and (status == httpx.codes.OK or asks_for_fewer):
            status = stated  # an error body under a 200: trust the body
        if UNAUTHORIZED in (status, stated):
            return KeyRefusedError(
                f"The records service at {self.host} does not accept the API key (401). Ask the service representative"
                f" who issued it for one that is accepted, and set {self.api_key}.",
                status=UNAUTHORIZED,
            )
        if status in _TRANSIENT or (status >= 500 and status not in _LASTING):
            return TransientError(
                f"the service answered {status}",
                retry_after=retry_after(response.headers),
                advice=_ADVICE.get(status, _CHECK),
            )
        if status == httpx.codes.NO_CONTENT:
            return RefusedError(
                f"The records service at {self.host} answered {label} without any content ({status}): show this to the"
                " service representative.",
                status=status,
            )
        if status >= 400 or stated is not None:
            return RefusedError(
                f"The records service at {self.host} refused {label} ({status}). Asking again will not help: show this"
                " to the service representative.",
                status=status,
            )
        return TransientError(f"{_described(response, why)} is not the contract's JSON", contract=True)

    def _give_up(self, label: str, fault: TransientError, policy: RetryPolicy) -> ServiceError:
        tried = f"{policy.tries + 1} tries" if policy.tries else "one try"
        within = f"in {tried} over {policy.spent:.0f} s"
        if fault.contract:
            return NotTheContractError(
                f"{self.host} answers {label}, but not as the records service does ({within}; at last"
                f" {fault.reason}). Check that {self.base_url} is the service's address and that no proxy answers for"
                " it."
            )
        wait = f", which asks to wait {policy.too_long:.0f} s" if policy.too_long is not None else ""
        return UnreachableError(
            f"{self.host} gave no usable answer to {label} ({within}; at last {fault.reason}{wait})."
            f" {fault.advice.format(base_url=self.base_url)}"
            " ROLLBOOK_RETRY_SECONDS says how long one request may be tried."
        )


_LAST_ID = re.compile(r"/\d+$")


class _Deadline:
    """Ends an exchange that takes too long, whatever the wait is for, by closing the connection.

    httpx only limits single waits. Its request extension `trace` tells of each connection that is made. One thread
    watches all exchanges, one after the other: a timer for each would take a tenth of a page's time. `_until` is the
    end of the exchange under way, by the monotonic clock, and `_wakes` when the thread looks next.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._socket: socket.socket | None = None
        self._until = self._wakes = math.inf
        self._is_over = self._is_closed = False
        self._thread: threading.Thread | None = None

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Note the connection, once made or encrypted, or to a proxy; a client has one at a time."""
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            with self._changed:
                self._socket = info["return_value"].get_extra_info("socket")

    @contextmanager
    def of(self, seconds: float, error: Exception) -> Iterator[None]:
        """Raise `error` if the block takes longer, also where the block ends as if all had come."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()
        with self._changed:
            self._is_over, self._until = False, time.monotonic() + seconds
            if self._until < self._wakes:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._until = math.inf
            if self._is_over:
                raise error from None

    def hang_up(self) -> None:
        """End the connection, so that the next request makes another."""
        with self._changed, suppress(OSError):  # it may have been lost by itself
            if self._socket is not None:
                self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End the thread."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def _watch(self) -> None:
        with self._changed:
            while not self._is_closed:
                if self._until <= time.monotonic():
                    self._is_over, self._until = True, math.inf
                    self.hang_up()
                self._wakes = self._until
                self._changed.wait(min(self._wakes - time.monotonic(), threading.TIMEOUT_MAX))


class _Body:
    """Unpacks an answer piece by piece, by the first bytes: some proxies pack a body and do not say so, or unpack a
    body and call it packed. A gzip body may have any number of members.
    """

    def __init__(self, encoding: str) -> None:
        """`encoding` is the Content-Encoding header."""
        self.oddities: set[str] = set()
        self._said = {"x-gzip": "gzip", "identity": ""}.get(encoding, encoding)
        self._first = b""
        self._member: Any = None

    def unpack(self, chunk: bytes) -> bytes:
        """Return what a piece unpacks to. Raises zlib.error."""
        if self._member is None:
            chunk = self._first + chunk
            if len(chunk) < len(GZIP):
                self._first = chunk
                return b""
            self._first = b""
            if not chunk.startswith(GZIP):
                self._member = False
            if self._said != ("gzip" if chunk.startswith(GZIP) else ""):
                self.oddities.add("a wrong Content-Encoding")
        if self._member is False:
            return chunk
        content = b""
        while chunk:
            if self._member is None or self._member.eof:
                if self._member is not None:
                    self.oddities.add("gzip of several members")
                self._member = zlib.decompressobj(16 + zlib.MAX_WBITS)
            content += self._member.decompress(chunk)
            chunk = self._member.unused_data
        return content

    def rest(self) -> bytes:
        """Return what is left at the end. Raises zlib.error if the last member was cut short."""
        if self._member and not self._member.eof:
            raise zlib.error
        return self._first


def _described(response: httpx.Response, why: str) -> str:
    """Describe an answer for a person, without the service's own words."""
    media = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    encoding = response.headers.get("content-encoding", "").strip().lower()
    parts = [
        str(response.status_code),
        media if _MEDIA_TYPE.fullmatch(media) else "of no known type",
        *([encoding if encoding in _ENCODINGS else "in an unknown encoding"] if encoding else []),
        *([why] if why else []),
    ]
    return f"the answer ({', '.join(parts)})"


_FAULTS: tuple[tuple[type[Exception], str], ...] = (
    (httpx.ConnectTimeout, "no connection within the timeout"),
    (httpx.TimeoutException, "no answer within the timeout"),
    (httpx.ConnectError, "no connection could be made"),
    (httpx.NetworkError, "the connection was lost"),
    (httpx.RemoteProtocolError, "the answer was cut short or garbled"),
    (httpx.ProxyError, "the proxy gave no connection"),
)


def silence_http_logs() -> None:
    """Stop httpx from logging each URL with the query: a search's value is a pupil's name or email address."""
    for name in ("httpx", "httpcore", "httpx2", "httpcore2"):  # the successor's, too
        logging.getLogger(name).setLevel(logging.WARNING)


def _certificate_refused(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False


log = logging.getLogger(__name__)

# The first wait is between 0 and the bound, which doubles with each further try.
FIRST_SECONDS = 0.5
# No single wait is longer, unless the service asks for more (Retry-After).
MAX_WAIT_SECONDS = 30.0


@dataclass(eq=False)
class TransientError(Exception):
    """A fault that may pass by itself. `reason` says what happened, without a URL, a body or a header's value.

    `contract` is true if there was an answer that is not the contract's, false if there was none. `retry_after` is the
    wait that the service asked for, in seconds. `advice` says what to do if the fault stays.
    """

    reason: str
    contract: bool = False
    retry_after: float = 0.0
    advice: str = _CHECK


class RetryPolicy:
    """The waits of one request: exponential back-off with full jitter, never shorter than Retry-After.

    Call it with the error of a try: the policy returns the seconds to wait before the next one, or False to give up.
    Tries and waits together take at most `ceiling` seconds. In stamina's test mode, which does not sleep, the waits
    that were skipped count instead, so that the ceiling holds there too.
    """

    def __init__(self, ceiling: float, label: str) -> None:
        self.ceiling = ceiling
        self.label = label
        self.tries = 0
        self.waits = 0.0
        self.too_long: float | None = None
        self._started = time.monotonic()

    @property
    def spent(self) -> float:
        """Seconds since the first try began."""
        return max(time.monotonic() - self._started, self.waits)

    @property
    def left(self) -> float:
        """Seconds left in which another try may begin."""
        return max(self.ceiling - self.spent, 0.0)

    def excuse(self, seconds: float) -> None:
        """Exclude seconds from the time spent: another process held the host."""
        self._started += seconds

    def __call__(self, error: Exception) -> float | bool:
        """Return the seconds to wait before the next try, or False to give up."""
        remaining = self.ceiling - self.spent
        if not isinstance(error, TransientError) or remaining <= 0:
            return False
        if error.retry_after > remaining:
            self.too_long = error.retry_after
            return False
        # 2.0 ** 60 is far above the maximum, and far from overflowing.
        bound = min(MAX_WAIT_SECONDS, FIRST_SECONDS * 2.0 ** min(self.tries, 60))
        self.tries += 1
        jittered = random.uniform(0, bound)  # noqa: S311 - spreads clients out, protects nothing
        wait = min(max(jittered, error.retry_after), remaining)
        self.waits += wait
        log.warning("%s: %s; retrying in %.1f s", self.label, error.reason, wait)
        return wait


def retry_after(headers: Mapping[str, str]) -> float:
    """Return the seconds that a Retry-After header asks for; 0 if missing or malformed.

    The header has seconds or a date; some services send the moment as seconds or milliseconds since 1970, or as an ISO
    8601 date. A date without a zone is in UTC.
    """
    stated, now = headers.get("retry-after", "").strip(), datetime.now(UTC)
    if re.fullmatch(r"\d{1,18}(\.\d{1,9})?", stated, re.ASCII):
        seconds = float(stated)
        if seconds >= _EPOCH_FROM * 1000:
            seconds /= 1000
        return seconds if seconds < _EPOCH_FROM else max(seconds - now.timestamp(), 0.0)
    for parse in (parsedate_to_datetime, datetime.fromisoformat):
        with suppress(TypeError, ValueError, IndexError, OverflowError):
            until = parse(stated)
            return max(((until if until.tzinfo else until.replace(tzinfo=UTC)) - now).total_seconds(), 0.0)
    return 0.0


# Thirty years of seconds are no wait: from here on, a number of seconds is a moment.
_EPOCH_FROM = 10**9


# How often a waiting process tries the lock again. A page takes a service tens of milliseconds.
POLL_SECONDS = 0.01


class Gate:
    """Lets one process at a time send a request to a host; a process holds the lock during the pause before the
    request, too.

    The lock is the operating system's: a killed process leaves none behind. `pause` is the time in seconds from the end
    of one request to this host, from any process, to the next.
    """

    def __init__(self, folder: Path, host: str, pause: float = 0.0) -> None:
        """`folder` holds one file per host, named after a digest of the host name."""
        files.folder(folder)
        self.pause = pause
        self._path = folder / f"{sha256(host.casefold().encode()).hexdigest()[:24]}.lock"
        self._lock = FileLock(self._path, mode=files.PRIVATE_FILE)

    @contextmanager
    def request(self) -> Iterator[None]:
        """Wait until the host is free and the pause is over, then hold the lock for the length of the block."""
        with self._lock.acquire(poll_interval=POLL_SECONDS):
            since = time.time() - self._path.stat().st_mtime
            time.sleep(min(max(self.pause - since, 0.0), self.pause))
            try:
                yield
            finally:
                os.utime(self._path)  # the next process reads when the last request ended
