"""The published file over HTTP with byte ranges, as DuckDB attaches it.

A reader never gets bytes of two nights: a token is given one version by a HEAD, or a GET without a range, and keeps it
until its next one. Size, ETag and bytes come from one open descriptor, so the version stays whole when a publish
retires the file. A range without such a beginning gets nothing: DuckDB compares ETags, other programs would mix.

An erasure, and the removal of a reader, close the versions at once. Another process records them, so each request looks
for them, and each part of a long answer; once a minute, versions that nobody may read any more are let go.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.types import Send

from rollbook.errors import BusyError, RollbookError
from rollbook.features.share.register import Reader, Register, digest
from rollbook.landing.erased import ERASURES, PRIVATE, ErasureRegister
from rollbook.reading import access
from rollbook.util import files

CHUNK = 2**18  # bytes
PIN_FOR = 12 * 3600  # seconds after the last request
LOOK_AGAIN = 60  # seconds
ONE_ATTACH = 10  # seconds, in which DuckDB asks for the beginning twice
_RANGE = re.compile(r"bytes=([0-9]{0,40})-([0-9]{0,40})", re.IGNORECASE)
_HEADERS = {
    "Accept-Ranges": "bytes",
    "Cache-Control": "private, no-store, no-transform",
    "X-Content-Type-Options": "nosniff",
}

NO_TOKEN = "This needs a token: the person who runs Rollbook makes one with `rollbook share add`.\n"  # noqa: S105 - a message
OTHER_FILE = "This token opens {file} only.\n"
NO_FILE = "This file is not there: `rollbook share list`, where Rollbook runs, says why.\n"
CLOSED = "The version that this token was reading is closed. Attach the file again: that begins with the newest.\n"
NOT_NOW = "This cannot be opened now: `rollbook share list`, where Rollbook runs, says why.\n"


class RefusedError(Exception):
    """A request that gets no byte of the file, with its answer."""

    def __init__(self, status: int, says: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(says)
        self.answer = PlainTextResponse(says, status, headers={**_HEADERS, **(headers or {})})


class ClosedError(Exception):
    """A version was closed in the middle of an answer."""


class Version:
    """A version of the file, open for as long as somebody reads it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.identity = files.identity(os.fstat(fd))
        self.size = self.identity[2]
        self.tag = '"{:x}-{:x}-{:x}"'.format(*self.identity)

    def __del__(self) -> None:
        os.close(self._fd)

    @property
    def is_unchanged(self) -> bool:
        """Whether nobody has written to the file since it was opened."""
        return files.identity(os.fstat(self._fd)) == self.identity

    def read(self, at: int, most: int) -> bytes:
        """Bytes from a place on."""
        return os.pread(self._fd, most, at)


@dataclass
class Pin:
    """The version that a token reads, how many erasures there were when it was opened, when it was asked for last."""

    version: Version
    erasures: int
    noted: float
    asked: float


class Share:
    """The files of the warehouse at `root`, for those who have a token."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._register = Register(root)
        self._erasures = ErasureRegister(root / PRIVATE / ERASURES)
        self._pins: dict[str, Pin] = {}  # by the digest of the token
        self._lock = Lock()
        self._timer: asyncio.TimerHandle | None = None

    async def answer(self, request: Request) -> Response:
        """Answer a request."""
        try:
            return await run_in_threadpool(self._answer, request)
        except RefusedError as refused:
            return refused.answer
        except (RollbookError, OSError):  # whose message names folders of this machine
            return RefusedError(503, NOT_NOW, {"Retry-After": "60"}).answer
        finally:
            self._look_later()

    def _answer(self, request: Request) -> Response:
        readers, erasures = self._now()
        token = _digest(request.headers)
        reader = readers.get(token)
        if reader is None:
            raise RefusedError(401, NO_TOKEN, {"WWW-Authenticate": "Bearer"})
        if request.path_params["name"] != reader.file:
            raise RefusedError(404, OTHER_FILE.format(file=reader.file))
        pin = self._pins.get(token)
        if not (asked := _range(request, pin)):
            pin = self._begin(token, reader, erasures)
        elif pin is None:
            raise RefusedError(410, CLOSED)
        pin.asked = time.monotonic()
        version = pin.version
        headers = {**_HEADERS, "ETag": version.tag}
        first, last = 0, version.size - 1
        if asked:
            first, last = _span(asked, version.size)
            if first > last:
                raise RefusedError(416, "", headers | {"Content-Range": f"bytes */{version.size}"})
            headers["Content-Range"] = f"bytes {first}-{last}/{version.size}"
        headers["Content-Length"] = str(last - first + 1)
        parts = iter(()) if request.method == "HEAD" else self._parts(token, pin, first, last)
        return _Bytes(parts, 206 if asked else 200, headers, "application/octet-stream")

    def _now(self) -> tuple[dict[str, Reader], int]:
        """The readers by digest, and how many were erased. Lets go what nobody may read any more.

        Raises RollbookError where that cannot be known, and while an erasure is under way.
        """
        try:
            readers = {each.digest: each for each in self._register.read()}
            content = self._erasures.read()
            if content.pending is not None:
                raise BusyError("An erasure is under way")
        except RollbookError:
            with self._lock:
                self._pins = {}
            raise
        with self._lock:
            self._pins = {
                token: pin
                for token, pin in self._pins.items()
                if token in readers
                and pin.erasures == len(content.erased)
                and pin.asked + PIN_FOR > time.monotonic()
                and pin.version.is_unchanged
            }
        return readers, len(content.erased)

    def _begin(self, token: str, reader: Reader, erasures: int) -> Pin:
        """Give a token the newest version from now on."""
        path = self.root / reader.file
        if not path.is_file():
            raise RefusedError(404, NO_FILE)
        version, now = Version(os.open(path, os.O_RDONLY)), time.monotonic()
        pin = self._pins.get(token)
        if pin is not None and pin.version.identity == version.identity and now < pin.noted + ONE_ATTACH:
            return pin
        access.note(self.root, "share", what=f"{reader.file} to {reader.name}")
        with self._lock:
            others = (pin.version for pin in self._pins.values())
            version = next((each for each in others if each.identity == version.identity), version)
            pin = self._pins[token] = Pin(version, erasures, noted=now, asked=now)
        return pin

    def _parts(self, token: str, pin: Pin, at: int, last: int) -> Iterator[bytes]:
        while at <= last:
            readers, erasures = self._now()
            part = pin.version.read(at, min(CHUNK, last - at + 1))
            if token not in readers or pin.erasures != erasures or not pin.version.is_unchanged:
                raise ClosedError
            at += len(part)
            yield part

    def _look_later(self) -> None:
        if self._pins and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LOOK_AGAIN, self._look)

    def _look(self) -> None:
        self._timer = None
        with suppress(RollbookError):
            self._now()
        self._look_later()


class _Bytes(StreamingResponse):
    """Parts of a version. If it is closed in their middle, the connection is cut: the length was promised."""

    async def stream_response(self, send: Send) -> None:
        with suppress(ClosedError, RollbookError):
            await super().stream_response(send)


def _digest(headers: Headers) -> str:
    """The digest of the token that a request sends; of none, if it sends several or another kind."""
    given = headers.getlist("authorization")
    kind, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    return digest(token.strip()) if kind.lower() == "bearer" else ""


def _range(request: Request, pin: Pin | None) -> str:
    """The range that a request asks for; empty if it gets the whole file, which is always the newest."""
    condition = request.headers.get("if-range")
    if request.method == "HEAD" or (condition is not None and (pin is None or condition != pin.version.tag)):
        return ""
    asked = ", ".join(request.headers.getlist("range"))
    return asked if asked.partition("=")[0].strip().lower() == "bytes" else ""


def _span(asked: str, size: int) -> tuple[int, int]:
    """The first and the last byte of a range; of one that cannot be served, of several, or a malformed one, the last
    lies before the first.
    """
    match = _RANGE.fullmatch(asked)
    if match is None or not (match[1] or match[2]):
        return 1, 0
    if not match[1]:
        return max(size - int(match[2]), 0), size - 1
    return int(match[1]), min(int(match[2] or size), size - 1)
