"""The second process of a large sync: it receives bodies through a pipe while the first process fetches the next page.

Both sides are here. Each message is MessagePack, and a body's bytes follow in a message of their own. The second
process knows neither the key nor the service, holds no lock and decides nothing. It ends when its pipe closes; the
process that holds the writer lock owns the files it has written.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from contextlib import closing, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from traceback import extract_tb
from typing import Any, Literal

import msgspec

from pipelines import flatten
from pipelines.errors import MachineError
from pipelines.ingest.ingest import Ingest, StagedPart
from pipelines.landing.bodies import LandingFolder, Written
from pipelines.landing.manifest import Manifest, Received
from pipelines.machine import NOTHING_LOST
from pipelines.settings import keyless_environment

STOP_WITHIN = 10.0  # seconds

_MAIN = f"from {__name__} import main; main()"


class Request(msgspec.Struct, omit_defaults=True):
    """One request to the second process. All except `begin` and `body` are answered."""

    command: Literal["begin", "body", "flush", "seal", "staged"]
    received: Received | None = None
    folder: str = ""
    aside: str = ""
    manifest: Manifest | None = None


class Reply(msgspec.Struct, omit_defaults=True):
    """The answer: the bodies written, the parts staged, or the error without its text."""

    written: Written = Written(0, "")
    parts: list[StagedPart] | None = None
    ended_by: str = ""
    failed: str = ""
    error: tuple[int | None, str | None, str | None] | None = None  # an OSError's number, text and file


class IngestProcess:
    """An `Ingest` in a process of its own. It may be started before its folders are known."""

    def __init__(self) -> None:
        """Start the process; requests may be sent at once."""
        self.ended_by = ""
        self._pipe, theirs = Pipe()
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

    def begin(self, partial: Path, aside: Path) -> None:
        """Set the folders to write to."""
        self._put(Request("begin", folder=str(partial), aside=str(aside)))

    def add(self, received: Received, content: bytes) -> None:
        """Send one body without waiting for it to be written. Raises the error of an earlier body."""
        if self._pipe.poll():
            self._reply()  # no answer is due, so it is an error
        self._put(Request("body", received), content)

    def flush(self) -> Written:
        """Flush the bodies so far, so that they can be read."""
        return self._ask(Request("flush")).written

    def seal(self) -> Written:
        """Make the bodies durable. No more may be added."""
        return self._ask(Request("seal")).written

    def staged(self, landing: LandingFolder) -> list[StagedPart] | None:
        """Return the parts of a finished landing that count, in order; None if staging ended early."""
        reply = self._ask(Request("staged", folder=str(landing.path), manifest=landing.manifest))
        self.ended_by = reply.ended_by
        return reply.parts

    def close(self) -> None:
        """End the process."""
        self._pipe.close()
        try:
            self._process.wait(STOP_WITHIN)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _ask(self, request: Request) -> Reply:
        self._put(request)
        return self._reply()

    def _put(self, request: Request, *content: bytes) -> None:
        try:
            for message in (msgspec.msgpack.encode(request), *content):
                self._pipe.send_bytes(message)
        except OSError:
            raise self._lost() from None

    def _reply(self) -> Reply:
        """Read one answer. Raises the second process's error, or MachineError if the process is gone."""
        try:
            reply = msgspec.msgpack.decode(self._pipe.recv_bytes(), type=Reply)
        except (EOFError, OSError):
            raise self._lost() from None
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


# -- the second process -----------------------------------------------------------------------------------------------


def main() -> None:
    """Take bodies until the pipe closes."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    flatten.load()
    gc.disable()  # the millions of values never form cycles
    with Connection(int(sys.argv[1])) as pipe, suppress(EOFError, ConnectionError):
        try:
            begun = msgspec.msgpack.decode(pipe.recv_bytes(), type=Request)
            with closing(Ingest(Path(begun.folder), Path(begun.aside))) as ingest:
                _serve(ingest, pipe)
        except (EOFError, ConnectionError):
            raise
        except Exception as error:  # noqa: BLE001 - reported to the first process, without its text
            pipe.send_bytes(msgspec.msgpack.encode(_failed(error)))
            while pipe.recv_bytes() is not None:  # until the first process has read it, and closes
                pass
    os._exit(0)  # all files are closed; a normal exit takes a tenth of a second, for which the first process waits


def _serve(ingest: Ingest, pipe: Connection[Any, Any]) -> None:
    decoder = msgspec.msgpack.Decoder(Request)
    while True:
        request = decoder.decode(pipe.recv_bytes())
        if request.received is not None:
            ingest.add(request.received, pipe.recv_bytes())
        else:
            pipe.send_bytes(msgspec.msgpack.encode(_answer(ingest, request)))


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
