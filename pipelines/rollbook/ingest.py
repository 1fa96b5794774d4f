"""Lands a fetch's bodies: writes each body to `raw/` on arrival, and flattens and stages the rows at the same time.

    StagingWriter      a landing in progress; `finish` returns it with its staged rows
    StagingBodyWriter  writes and stages bodies, in this process
    BodyWriterProcess  the same in a second process, while the next pages of a large set are fetched

Staging is only a head start: staged rows do not count until the bodies are durable and the landing has a verdict.
Without staged rows, the landing is flattened from `raw/`. Each walk's rows are staged separately, since only the end of
the fetch shows which walks count.

Bodies are held until it is known that a set is large. A message to the second process is the name of a method of
`StagingBodyWriter` and the arguments; all except `add` are answered. The second process knows neither the key nor the
service, holds no lock and decides nothing. It ends when its pipe closes; the process that holds the writer lock owns
the files it has written.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import date, datetime
from functools import reduce
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from operator import or_
from pathlib import Path
from queue import SimpleQueue
from threading import Condition, Lock, Thread
from traceback import extract_tb
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rollbook.errors import MachineError
from rollbook.flatten.rows import Batch, Flattener
from rollbook.landing import own
from rollbook.landing.bodies import BodyWriter, LandingFolder, landed
from rollbook.landing.erased import Gate
from rollbook.landing.manifest import Body, Drift, LandedBody, Manifest, Received, Reject, Verdict
from rollbook.landing.own import OWN, Own
from rollbook.landing.raw import RawStore
from rollbook.store.staging import Staging, staged_file
from rollbook.tables import SETS, of_set
from rollbook.util import files
from rollbook.util.imports import light_process
from rollbook.util.machine import MB, NOTHING_LOST, bare_environment
from rollbook.util.text import count_of

log = logging.getLogger(__name__)

# So many records are worth a second process. Fewer are held until the end of the fetch.
LARGE = 5_000
# Bytes that may wait for the second process, which takes longer to start than many a walk.
MAX_WAITING = 64 * MB
STOP_WITHIN = 10.0  # seconds
# Records that came several times are compared, so many at most: enough to say that they differ.
EXAMINED = 1_000
DIFFERENTLY = "records listed several times, differently"


class StagedPart(msgspec.Struct, frozen=True):
    """Staged bodies of a set: the folder of the rows, and the rejects, drift and oddities.

    `values` counts the values of each column, by table.column.
    """

    set: str
    folder: str
    rejects: tuple[Reject, ...] = ()
    drift: tuple[Drift, ...] = ()
    values: dict[str, int] = {}
    oddities: dict[str, int] = {}


@dataclass(frozen=True)
class Flattened:
    """A landing, flattened and staged: the rows in several parts, with rejects and drift.

    Each walk of a set shows the same records again, so what is counted here counts once (G9).
    """

    landing: int
    parts: tuple[StagedPart, ...]

    @property
    def rejects(self) -> list[Reject]:
        """The refused records and values of all parts, in order, each as it came last.

        A record is known by its id. Nothing tells records without a readable id apart, so there are as many as the walk
        with the most of them shows.
        """
        once = dict[tuple[object, ...], Reject]()
        for part in self.parts:
            shown = Counter[tuple[object, ...]]()
            for r in part.rejects:
                place = () if r.id is None else (r.page, r.position)
                # A column may be refused several times in one record: in the entries of a list.
                nth = 0 if r.id is not None and not r.column else shown[(r.id, r.table, r.column, *place)]
                shown[r.id, r.table, r.column, *place] += 1
                once[r.set, r.id, r.table, r.column, nth] = r
        return [*once.values()]

    def of(self, set_name: str) -> list[StagedPart]:
        """Return the parts of a set, in order."""
        return [part for part in self.parts if part.set == set_name]

    def rejected(self) -> dict[str, int]:
        """Return the number of refused records per set that has any."""
        return dict(Counter(r.set for r in self.rejects if not r.column))

    @property
    def values(self) -> Counter[str]:
        """The number of values of each column in all parts, by table.column."""
        return sum((Counter(part.values) for part in self.parts), Counter())

    @property
    def oddities(self) -> Counter[str]:
        """Oddities that were read, by kind: of each set, as many as the part with the most of them has."""
        return sum((reduce(or_, (Counter(part.oddities) for part in self.of(s)), Counter()) for s in SETS), Counter())

    @property
    def drift(self) -> list[Drift]:
        """The undeclared fields, each with how many records had it."""
        seen: Counter[tuple[str, str, str]] = Counter()
        for part in self.parts:
            seen |= Counter({(d.set, d.field, d.type): d.count for d in part.drift})
        return [Drift(s, f, t, n) for s in SETS for (of, f, t), n in sorted(seen.items()) if of == s]


@dataclass(frozen=True)
class Ingested:
    """A finished landing, with the rows that were staged during its fetch; None if it failed or staging did."""

    manifest: Manifest
    flattened: Flattened | None = None


# Given a function that waits for what the walks brought: the landing as it will most likely be, with the rows so far.
WalksOver = Callable[[Callable[[], Ingested]], None]


class PartInProgress:
    """Flattens and stages bodies of a set, in turn."""

    def __init__(self, set_name: str, folder: Path) -> None:
        self._flattener = Flattener(set_name)
        self._staging = Staging(folder)
        self._set_name = set_name
        self._rejects: list[Reject] = []
        self._values: Counter[str] = Counter()
        self._ids: list[pa.ChunkedArray] = []
        self._finished: StagedPart | None = None

    def add(self, body: LandedBody) -> None:
        """Add a body."""
        if (batch := self._flattener.add(body)) is not None:
            self._keep(batch)

    def finish(self) -> StagedPart:
        """Stage the remaining rows and close the files, unless that is done."""
        if self._finished is None:
            last = self._flattener.last()
            self._keep(last)
            self._staging.close()
            if differing := listed_differently(self._set_name, self._staging.folder, self._ids):
                last.oddities[DIFFERENTLY] += differing
            self._finished = StagedPart(
                self._set_name,
                str(self._staging.folder),
                tuple(self._rejects),
                tuple(last.drift),
                dict(self._values),
                dict(last.oddities),
            )
        return self._finished

    def close(self) -> None:
        """Close the files, ignoring I/O errors."""
        self._staging.abandon()

    def _keep(self, batch: Batch) -> None:
        self._staging.add(batch.tables)
        self._rejects += batch.rejects
        self._ids += [batch.tables[own.name][own.parent_key] for own in of_set(self._set_name)[:1]]
        self._values.update(batch.values())


def listed_differently(set_name: str, folder: Path, ids: Iterable[pa.ChunkedArray]) -> int:
    """Return how many records of one walk came several times, and not alike each time, among the first EXAMINED.

    `folder` has the walk's staged rows, `ids` are the ids of its records. What is declared untracked does not count.
    """
    counts = pc.value_counts(pa.chunked_array([chunk for array in ids for chunk in array.chunks], pa.int64()))
    repeated = counts.field("values").filter(pc.greater(counts.field("counts"), 1))[:EXAMINED]
    if not len(repeated):
        return 0
    shown: dict[int, dict[int, set[object]]] = {}
    for table in of_set(set_name):
        columns = [c.name for c in table.versioned]
        rows = pq.read_table(staged_file(folder, table.name), columns=[*columns, "seq"])
        for row in rows.filter(pc.is_in(rows[table.parent_key], value_set=repeated)).to_pylist():
            times = shown.setdefault(row[table.parent_key], {})
            times.setdefault(row.pop("seq"), set()).add((table.name, *row.values()))
    return sum(len({*map(frozenset, times.values())}) > 1 for times in shown.values())


def stage(set_name: str, bodies: Iterable[LandedBody], folder: Path) -> StagedPart:
    """Flatten and stage landed bodies of a set into `folder`."""
    with closing(PartInProgress(set_name, folder)) as part:
        for body in bodies:
            part.add(body)
        return part.finish()


def stage_again(landing: LandingFolder, aside: Path) -> Flattened:
    """Flatten and stage a landing from `raw/`, into the parts that a fetch stages: one a walk. Raises DamagedError."""
    parts = []
    for name in SETS:
        by_walk: dict[int, list[Body]] = {}
        for body in landing.counted(name):
            by_walk.setdefault(body.walk if body.kind == "walk" else 0, []).append(body)
        for number, bodies in (by_walk or {1: []}).items():
            contents = (landed(*each) for each in landing.contents(bodies))
            parts.append(stage(name, contents, aside / f"{name}-{number}"))
    return Flattened(landing.manifest.landing, tuple(parts))


class StagingBodyWriter:
    """Writes the bodies of a landing in progress, and stages their rows.

    `partial` is the folder of the unfinished landing, `aside` an empty folder for staged rows.
    """

    def __init__(self, partial: Path, aside: Path) -> None:
        self._aside = aside
        self._bodies = BodyWriter(partial)
        self._parts: dict[tuple[str, int], PartInProgress] = {}
        # The error that ended staging. Flattening the landing from raw/ will meet a lasting error again.
        self._ended_by: Exception | None = None

    def add(self, received: Received, content: bytes) -> None:
        """Write a body. The rows are staged, except a search's, since only the end shows which searches count, and a
        list's of the school's own, which has no rows of a set.
        """
        self._bodies.add(received, content)
        if received.kind not in ("search", OWN) and self._ended_by is None:
            try:
                self._part(received.set, received.walk).add(landed(received, content))
            except Exception as error:  # noqa: BLE001 - such as a full disk: only the bodies matter, and they are written
                self._ended_by = error

    def flush(self) -> None:
        """Flush, so that written bodies can be read."""
        self._bodies.flush()

    def seal(self) -> None:
        """Make the bodies durable. No more may be added."""
        self._bodies.seal()

    def walked(self, landing: LandingFolder) -> list[StagedPart] | None:
        """Return the parts of a landing whose walks are over, as `staged`; None if staging has failed."""
        try:
            return self.staged(landing)
        except Exception as error:  # noqa: BLE001 - as in `add`
            self._ended_by = error
            return None

    def staged(self, landing: LandingFolder) -> list[StagedPart]:
        """Return the parts of a finished landing that count, in order. Raises the error that ended staging."""
        if self._ended_by is not None:
            raise self._ended_by
        parts = []
        for name in SETS:
            walk = landing.manifest.walk(name)
            parts += [self._part(name, number).finish() for number in (walk.counted if walk else (1,))]
            if landing.manifest.found(name):
                parts.append(stage(name, landing.bodies(name, "search"), self._aside / f"{name}-searches"))
        return parts

    def close(self) -> None:
        """Close all files, ignoring I/O errors."""
        self._bodies.close()
        for part in self._parts.values():
            part.close()

    def _part(self, set_name: str, walk: int) -> PartInProgress:
        if (set_name, walk) not in self._parts:
            self._parts[set_name, walk] = PartInProgress(set_name, self._aside / f"{set_name}-{walk}")
        return self._parts[set_name, walk]


class BodyWriterProcess:
    """A `StagingBodyWriter` in a second process. A thread sends, so that no walk waits for the process to start."""

    def __init__(self) -> None:
        """Start the process, which imports meanwhile. Raises OSError if it cannot be started."""
        self._pipe, theirs = Pipe()
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                [*light_process(__name__), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env=bare_environment(),
                start_new_session=True,  # Ctrl-C goes to the first process, which ends this one
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,  # a traceback might quote a record
            )
        self._waiting: SimpleQueue[tuple[Any, ...] | None] = SimpleQueue()
        self._sent, self._bytes = Condition(), 0
        # The answers that are due, in order, and the error that the process ended with.
        self._due, self._asking = deque[Future[Any]](), Lock()
        self._error: Exception | None = None
        self._threads = [Thread(target=work, daemon=True) for work in (self._send_waiting, self._receive_answers)]
        for thread in self._threads:
            thread.start()

    def open(self, partial: Path, aside: Path) -> None:
        """Begin a landing: `partial` is its unfinished folder, `aside` an empty folder for staged rows."""
        self._waiting.put((partial, aside))

    def add(self, received: Received, content: bytes) -> None:
        """Give a body to the process, waiting only while too many bytes wait. Raises the error of an earlier body."""
        with self._sent:
            self._raise_error()
            while self._bytes > MAX_WAITING:
                self._sent.wait(0.1)
                self._raise_error()
            self._bytes += len(content)
        self._waiting.put(("add", received, content))

    def flush(self) -> None:
        """Flush, so that written bodies can be read."""
        self._ask("flush").result()

    def seal(self) -> None:
        """Make the bodies durable. No more may be added."""
        self._ask("seal").result()

    def walked(self, landing: LandingFolder) -> Future[list[StagedPart] | None]:
        """Ask for the parts of a landing whose walks are over, as `staged`; None if staging has failed."""
        return self._ask("walked", landing)

    def staged(self, landing: LandingFolder) -> list[StagedPart]:
        """Return the parts of a finished landing that count, in order. Raises the error that ended staging."""
        parts: list[StagedPart] = self._ask("staged", landing).result()
        return parts

    def close(self) -> None:
        """End the process."""
        self._waiting.put(None)
        try:
            self._process.wait(STOP_WITHIN)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for thread in self._threads:  # before the pipe's number can be given to another file
            thread.join()
        self._pipe.close()

    def _ask(self, *message: Any) -> Future[Any]:
        """Send a message that is answered. The answer may be the process's error, or MachineError if it is gone."""
        answer = Future[Any]()
        with self._asking:
            if self._error is not None:
                answer.set_exception(self._error)
            else:
                self._due.append(answer)
                self._waiting.put(message)
        return answer

    def _send_waiting(self) -> None:
        """Send until None, which ends the process. If it is gone, the answers that are due say so."""
        with suppress(OSError):
            while True:
                self._pipe.send(message := self._waiting.get())
                if message is None:
                    return
                if message[0] == "add":
                    with self._sent:
                        self._bytes -= len(message[-1])
                        self._sent.notify()

    def _receive_answers(self) -> None:
        """Receive answers until the process fails or ends; then every answer that is due is that error."""
        error: Exception | None = None
        while error is None:
            try:
                answer = self._pipe.recv()
            except (EOFError, OSError):
                error = self._lost()
            else:
                if isinstance(answer, Exception):
                    error = answer
                else:
                    self._due.popleft().set_result(answer)
        with self._asking:
            self._error = error
            for due in self._due:
                due.set_exception(error)
            self._due.clear()

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def _lost(self) -> MachineError:
        code = self._process.wait()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return MachineError(
            f"The sync's second process, which writes what was received, ended unexpectedly ({how}), perhaps for lack"
            f" of memory. Nothing of this sync counts: run it again. {NOTHING_LOST}"
        )


def main() -> None:
    """Take the bodies of a landing until None comes, or the pipe closes."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    gc.disable()  # the millions of values never form cycles
    with Connection(int(sys.argv[1])) as pipe, suppress(EOFError, ConnectionError):
        try:
            messages = iter(pipe.recv, None)
            for partial, aside in messages:  # a landing, if one begins
                with closing(StagingBodyWriter(partial, aside)) as writer:
                    for method, *arguments in messages:
                        answer = getattr(writer, method)(*arguments)
                        if method != "add":
                            pipe.send(answer)
        except (EOFError, ConnectionError):
            raise
        except Exception as error:  # noqa: BLE001 - told to the first process: an OSError whole, others without their text
            last = extract_tb(error.__traceback__)[-1]
            where = f"{type(error).__name__} in {Path(last.filename).name}, line {last.lineno}"
            failed = RuntimeError(f"the second process failed: {where}")
            pipe.send(error if isinstance(error, OSError) else failed)
            while pipe.recv() is not None:  # until the first process has read it, and closes
                pass
    os._exit(0)  # all files are closed; a normal exit takes a tenth of a second, for which the first process waits


def start_process() -> BodyWriterProcess | None:
    """Start a second process; None where there can be none, so that this process does all."""
    try:
        return BodyWriterProcess() if os.name == "posix" else None
    except OSError as error:
        log.warning("A second process could not be started (%s): this one does all, which takes longer", error.strerror)
        return None


@contextmanager
def started_early(records: int) -> Iterator[BodyWriterProcess | None]:
    """A second process that is ready when the first answer of a fetch comes, if the fetch may bring so many records."""
    process = start_process() if records >= LARGE else None
    try:
        yield process
    finally:
        if process is not None:
            process.close()


class StagingWriter:
    """A landing in progress, which also stages the rows of the bodies. `finish` or `abandon` ends the landing."""

    def __init__(
        self,
        raw: RawStore,
        aside: Path,
        day: date,
        *,
        recorded: int = 0,
        own: Own | None = None,
        process: BodyWriterProcess | None = None,
        walks_over: WalksOver | None = None,
    ) -> None:
        """Begin the day's next landing, after those that are `recorded` (`RawStore.reserve`); rows are staged below
        the folder `aside`. The landing holds the school's `own` lists, too.

        A `process` takes the bodies if one was started early. `walks_over` is called once the walks of a large landing
        are over.
        """
        self.snapshot_date = day
        self.landing, self._partial = raw.reserve(day, recorded)
        self._raw = raw
        self._own = own
        self._walks_over = walks_over
        self._gate = Gate(raw.erasure_register.matcher())
        self._erasures = raw.erasure_register.count
        # A folder per process: a killed sync's second process may live a moment longer and must not write here.
        self._aside = files.empty(aside / f"landing={self.landing}-{os.getpid()}")
        # Bodies are held until it is known that they are many.
        self._held = list[tuple[Received, bytes]]()
        self._writer: StagingBodyWriter | BodyWriterProcess | None = None
        if process is not None:
            self._open(process)

    def add(self, received: Received, content: bytes) -> None:
        """Take a body, without erased students."""
        if (admitted := self._gate.admit(received, content)) is None:
            return
        if self._writer is not None:
            self._writer.add(*admitted)
            return
        self._held.append(admitted)
        if sum(body.records for body, _ in self._held) >= LARGE:
            self._open(start_process())

    def _open(self, process: BodyWriterProcess | None = None) -> StagingBodyWriter | BodyWriterProcess:
        """Return the writer, a second process or this one, with the bodies that are held."""
        if self._writer is None:
            if process is not None:
                process.open(self._partial, self._aside)
            self._writer = process or StagingBodyWriter(self._partial, self._aside)
            for body in self._held:
                self._writer.add(*body)
            self._held.clear()
        return self._writer

    def walked(self, draft: Manifest, presumed: Callable[[], Manifest]) -> None:
        """Tell `walks_over` that the walks of a large landing are over. Its rows are asked for now."""
        if self._walks_over is not None and isinstance(self._writer, BodyWriterProcess):
            answer = self._writer.walked(LandingFolder(self._partial, self._numbered(draft)))

            def presumably() -> Ingested:
                parts = answer.result()
                rows = None if parts is None else Flattened(self.landing, tuple(parts))
                return Ingested(self._numbered(presumed()), rows)

            self._walks_over(presumably)

    def bodies(self, draft: Manifest, set_name: str) -> Iterator[LandedBody]:
        """Yield the bodies that would count if the landing were finished now with the manifest `draft`."""
        self._open().flush()
        return LandingFolder(self._partial, self._stamped(draft)).bodies(set_name)

    def finish(self, manifest: Manifest) -> Ingested:
        """Make everything durable and turn the folder into a landing; returns the manifest as written, and the rows."""
        writer = self._open()
        if self._own is not None and manifest.verdict is not Verdict.FAILED:
            self._add_lists(manifest.finished_at)
            manifest = msgspec.structs.replace(manifest, own=dict.fromkeys(self._own, ""))
        writer.seal()
        landing = self._raw.commit(self._partial, self._stamped(manifest))
        if self._gate.recognised:
            log.warning("%d records have the email or reference id of an erased student", self._gate.recognised)
        if kept_out := len({student for _, student in self._gate.taken}):
            log.info(
                "%s left out: the id is an erased student's. `rollbook erase STUDENT --readmit` lets a new person in",
                count_of(kept_out, "record"),
            )
        rows = None
        if manifest.verdict is not Verdict.FAILED:
            try:
                rows = Flattened(self.landing, tuple(writer.staged(landing)))
            except Exception as error:  # noqa: BLE001 - only time is lost: the bodies are durable
                log.warning("Staging during the fetch failed (%s); reading the landing again", type(error).__name__)
        writer.close()
        return Ingested(landing.manifest, rows)

    def _add_lists(self, at: datetime) -> None:
        """Take the school's own lists, as far as they can be read."""
        for page, (name, content) in enumerate(sorted((self._own or {}).items()), start=1):
            if content is not None:
                lines = len(own.read(content).lines)
                received = Received(set=OWN, kind=OWN, page=page, name=name, received_at=at, records=lines)
                self.add(received, content)

    def abandon(self) -> None:
        """Remove everything written."""
        if self._writer is not None:
            self._writer.close()
        self._raw.abandon(self._partial)

    def _numbered(self, manifest: Manifest) -> Manifest:
        return msgspec.structs.replace(manifest, snapshot_date=self.snapshot_date, landing=self.landing)

    def _stamped(self, manifest: Manifest) -> Manifest:
        return self._gate.stamped(self._numbered(manifest), self._partial, self._erasures)
