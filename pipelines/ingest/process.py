"""The second process of a large sync: it receives bodies over a socket while the first process fetches the next page.

Both sides are here. A frame is a header (MessagePack) and, with a body, its bytes. The first process does not block
while it fetches: it buffers up to PENDING bytes that the socket cannot take yet. The second process knows neither the
key nor the service, holds no lock and decides nothing. It ends when its socket closes; the process that holds the
writer lock owns the files it has written.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import struct
import subprocess
import sys
from collections import deque
from contextlib import closing
from io import BufferedReader
from pathlib import Path
from socket import SocketIO
from traceback import extract_tb
from typing import Any, Literal, Protocol

import msgspec

from pipelines import flatten
from pipelines.errors import MachineError
from pipelines.ingest.ingest import Ingest, StagedPart
from pipelines.landing.bodies import LandingFolder, Written
from pipelines.landing.manifest import Manifest, Received
from pipelines.machine import NOTHING_LOST
from pipelines.settings import keyless_environment

# Bytes of bodies that may wait for the second process, which takes half a second to start.
PENDING = 64 * 2**20
# Bytes of the socket's own buffer, so that the second process need not wait for the next page.
SOCKET_BYTES = 2**20
STOP_WITHIN = 10.0  # seconds

_MAIN = f"from {__name__} import main; main()"
_LENGTHS = struct.Struct("!II")


class Readable(Protocol):
    """A source of bytes."""

    def readinto(self, buffer: Any, /) -> int | None:
        """Read into the buffer; returns how many bytes, 0 at the end."""


class Request(msgspec.Struct, omit_defaults=True):
    """One request to the second process. All except `begin` and `body` are answered."""

    command: Literal["begin", "body", "flush", "seal", "staged"]
    received: Received | None = None
    folder: str = ""
    aside: str = ""
    manifest: Manifest | None = None


class Reply(msgspec.Struct, omit_defaults=True):
    """The answer: the bodies written, the parts staged, or the error without its text."""

    written: Written | None = None
    parts: list[StagedPart] | None = None
    ended_by: str = ""
    failed: str = ""
    error: tuple[int | None, str | None, str | None] | None = None  # an OSError's number, text and file


class IngestProcess:
    """An `Ingest` in a process of its own. It may be started before its folders are known."""

    def __init__(self) -> None:
        """Start the process; requests may be sent at once."""
        self.ended_by = ""
        self._socket, theirs = socket.socketpair()
        for end in (self._socket, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES)
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, "-P", "-c", _MAIN, str(theirs.fileno())],  # -P: no modules of the current folder
                pass_fds=[theirs.fileno()],
                env=keyless_environment(),
                start_new_session=True,  # Ctrl-C goes to the first process, which ends this one
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,  # a traceback might quote a record
            )
        self._waiting: deque[memoryview] = deque()
        self._pending = 0

    def begin(self, partial: Path, aside: Path) -> None:
        """Set the folders to write to."""
        self._put(Request("begin", folder=str(partial), aside=str(aside)))

    def add(self, received: Received, content: bytes) -> None:
        """Send one body without waiting for it to be written. Raises the error of an earlier body."""
        if select.select([self._socket], [], [], 0)[0]:
            self._reply()  # no answer is due, so it is an error
        self._put(Request("body", received), content)
        self._send(PENDING)

    def flush(self) -> Written:
        """Flush the bodies so far, so that they can be read."""
        return self._written("flush")

    def seal(self) -> Written:
        """Make the bodies durable. No more may be added."""
        return self._written("seal")

    def staged(self, landing: LandingFolder) -> list[StagedPart] | None:
        """Return the parts of a finished landing that count, in order; None if staging ended early."""
        reply = self._ask(Request("staged", folder=str(landing.path), manifest=landing.manifest))
        self.ended_by = reply.ended_by
        return reply.parts

    def close(self) -> None:
        """End the process."""
        self._socket.close()
        try:
            self._process.wait(STOP_WITHIN)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _written(self, command: Literal["flush", "seal"]) -> Written:
        written = self._ask(Request(command)).written
        if written is None:
            raise AssertionError(f"unexpected answer to {command}")
        return written

    def _ask(self, request: Request) -> Reply:
        self._put(request)
        self._send(0)
        return self._reply()

    def _put(self, request: Request, content: bytes = b"") -> None:
        for piece in _frame(request, content):
            self._waiting.append(memoryview(piece))
            self._pending += len(piece)

    def _send(self, most: int) -> None:
        """Send as much as the socket takes; blocks while more than `most` bytes are pending."""
        while self._waiting:
            piece = self._waiting[0]
            try:
                sent = self._socket.send(piece, socket.MSG_DONTWAIT)
            except BlockingIOError:
                if self._pending <= most:
                    return
                select.select([], [self._socket], [])
                continue
            except OSError:
                raise self._lost() from None
            self._pending -= sent
            if sent == len(piece):
                self._waiting.popleft()
            else:
                self._waiting[0] = piece[sent:]

    def _reply(self) -> Reply:
        """Read one answer. Raises the second process's error, or MachineError if the process is gone."""
        try:
            header, _ = _read(SocketIO(self._socket, "r"))
        except (EOFError, OSError):
            raise self._lost() from None
        reply = msgspec.msgpack.decode(header, type=Reply)
        if reply.error is not None:
            raise OSError(*reply.error[:2], reply.error[2])
        if reply.failed:
            raise RuntimeError(f"the second process failed: {reply.failed}")
        return reply

    def _lost(self) -> MachineError:
        self.close()
        code = self._process.returncode
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return MachineError(
            f"The sync's second process, which writes what was received, ended unexpectedly ({how}), perhaps for lack"
            f" of memory. Nothing of this sync counts: run it again. {NOTHING_LOST}"
        )


def _frame(header: Request | Reply, content: bytes = b"") -> tuple[bytes, ...]:
    encoded = msgspec.msgpack.encode(header)
    lengths = _LENGTHS.pack(len(encoded), len(content))
    return (lengths + encoded, content) if content else (lengths + encoded,)


def _read(file: Readable) -> tuple[bytes, bytes]:
    """Read one frame: header and content. Raises EOFError at the end."""
    header, content = _LENGTHS.unpack(_exactly(file, _LENGTHS.size))
    return _exactly(file, header), _exactly(file, content)


def _exactly(file: Readable, length: int) -> bytes:
    content = bytearray(length)
    view, read = memoryview(content), 0
    while read < length:
        count = file.readinto(view[read:])
        if not count:
            raise EOFError
        read += count
    return bytes(content)


# -- the second process -----------------------------------------------------------------------------------------------


def main() -> None:
    """Take bodies until the socket closes."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    flatten.load()
    gc.disable()  # the millions of values never form cycles
    with (
        socket.socket(fileno=int(sys.argv[1])) as connection,
        BufferedReader(SocketIO(connection, "r"), SOCKET_BYTES) as file,
    ):
        try:
            begun = msgspec.msgpack.decode(_read(file)[0], type=Request)
            with closing(Ingest(Path(begun.folder), Path(begun.aside))) as ingest:
                _serve(ingest, connection, file)
        except EOFError:
            pass
        except Exception as error:  # noqa: BLE001 - reported to the first process, without its text
            connection.sendall(b"".join(_frame(_failed(error))))
            while file.read(SOCKET_BYTES):  # until the first process has read it, and closes
                pass
    os._exit(0)  # all files are closed; a normal exit takes a tenth of a second, for which the first process waits


def _serve(ingest: Ingest, connection: socket.socket, file: Readable) -> None:
    decoder = msgspec.msgpack.Decoder(Request)
    while True:
        header, content = _read(file)
        request = decoder.decode(header)
        if request.received is not None:
            ingest.add(request.received, content)
            continue
        connection.sendall(b"".join(_frame(_answer(ingest, request))))


def _answer(ingest: Ingest, request: Request) -> Reply:
    if request.manifest is not None:
        parts = ingest.staged(LandingFolder(Path(request.folder), request.manifest))
        return Reply(parts=parts, ended_by=ingest.ended_by)
    return Reply(written=ingest.flush() if request.command == "flush" else ingest.seal())


def _failed(error: Exception) -> Reply:
    """Return the reply for an error: an OSError complete, any other by its type and place only."""
    if isinstance(error, OSError):
        file = error.filename if isinstance(error.filename, str) else None
        return Reply(failed="OSError", error=(error.errno, error.strerror, file))
    last = extract_tb(error.__traceback__)[-1]
    return Reply(failed=f"{type(error).__name__} in {Path(last.filename).name}, line {last.lineno}")
