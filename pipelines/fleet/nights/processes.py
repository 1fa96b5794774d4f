"""The process pool of a fleet's run: each process has the key of its own institution only.

All are forked from a fork server that has imported everything (`warm`), since starting Python with all imports costs
more than a small school's night. The fork server's environment has no keys, so its children inherit none.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from multiprocessing import connection, get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from types import ModuleType

import msgspec

from pipelines import settings
from pipelines.fleet.nights.order import Queue
from pipelines.fleet.nights.worker import Answer, Task, work
from pipelines.institutions import Institution, Registry
from pipelines.source.fetch import utc_now

# A night that takes longer hangs: ten thousand pages of a slow service take three hours.
MOST_SECONDS = 6 * 3600.0
# How long the workers may take to end in order when the run is stopped.
STOP_WITHIN = 20.0
_WARM = "pipelines.fleet.nights.warm"


@dataclass
class _Worker:
    name: str
    process: ForkServerProcess
    answers: Connection
    until: float


class Processes:
    """The processes of one run. A context manager: on exit, running processes are stopped in order."""

    def __init__(
        self,
        registry: Registry,
        jobs: int,
        *,
        clock: Callable[[], datetime] = utc_now,
        most_seconds: float = MOST_SECONDS,
    ) -> None:
        """`jobs` is how many run at a time; one that takes more than `most_seconds` is killed."""
        self._registry = registry
        self._jobs = max(jobs, 1)
        self._clock = clock
        self._most_seconds = most_seconds
        self._running: list[_Worker] = []
        self._context = get_context("forkserver")
        self._environment: dict[str, str] = {}

    def __enter__(self) -> Processes:
        """Remove all keys from the environment, for as long as processes may be started."""
        self._environment = dict(os.environ)
        for name in self._registry.variables() | {settings.API_KEY}:
            os.environ.pop(name, None)
        package = str(Path(__file__).parents[2])
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH", ""))))
        os.environ["PYTHONSAFEPATH"] = "1"  # no modules of the current folder
        self._context.set_forkserver_preload([_WARM])
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._stop()
        finally:
            os.environ.clear()
            os.environ.update(self._environment)

    def run(self, tasks: Mapping[str, Task], hosts: Mapping[str, str]) -> Iterator[tuple[str, Answer]]:
        """Run each institution's task in a process of its own; yields the answers as they come.

        `hosts` has the host of each institution's service.
        """
        queue = Queue({name: hosts[name] for name in tasks})
        while queue or self._running:
            while queue and len(self._running) < self._jobs:
                self._running.append(self._start(tasks[queue.next()]))
            for worker in self._ready():
                answer = _answer(worker)
                self._running.remove(worker)
                queue.done(worker.name)
                yield worker.name, answer

    def _start(self, task: Task) -> _Worker:
        tasks, orders = self._context.Pipe(duplex=False)
        answers, answering = self._context.Pipe(duplex=False)
        with tasks, orders, answering, _without_main():
            process = self._context.Process(target=work, args=(tasks, answering, self._clock), daemon=True)
            process.start()
            secrets = {} if task.what == "backfill" else self._secrets_of(self._registry[task.name])
            with suppress(BrokenPipeError):  # it is already dead, which its answer shows
                orders.send_bytes(msgspec.msgpack.encode(msgspec.structs.replace(task, secrets=secrets)))
        return _Worker(task.name, process, answers, time.monotonic() + self._most_seconds)

    def _secrets_of(self, institution: Institution) -> dict[str, str]:
        """The secrets of one institution that were in the environment. It reads secrets in files itself."""
        names = set(institution.variables())
        if "api_key" not in institution.values:
            names.add(settings.API_KEY)
        return {name: self._environment[name] for name in names if name in self._environment}

    def _ready(self) -> list[_Worker]:
        """Wait until some have answered, ended, or taken too long."""
        first = min(worker.until for worker in self._running)
        handles = [handle for w in self._running for handle in (w.answers, w.process.sentinel)]
        ready = connection.wait(handles, timeout=max(first - time.monotonic(), 0))
        if found := [w for w in self._running if w.answers in ready or w.process.sentinel in ready]:
            return found
        late = [w for w in self._running if w.until <= time.monotonic()]
        for worker in late:
            worker.process.kill()
        return late

    def _stop(self) -> None:
        """Terminate the running processes, and kill those that do not end in time."""
        for worker in self._running:
            worker.process.terminate()
        until = time.monotonic() + STOP_WITHIN
        for worker in self._running:
            worker.process.join(max(until - time.monotonic(), 0))
            if worker.process.exitcode is None:
                worker.process.kill()
                worker.process.join()
            worker.answers.close()
        self._running.clear()


def _answer(worker: _Worker) -> Answer:
    """A process's answer, or how it ended without one. The process has ended when this returns."""
    answer = None
    with worker.answers, suppress(EOFError, OSError, msgspec.MsgspecError):
        if worker.answers.poll():
            answer = msgspec.msgpack.decode(worker.answers.recv_bytes(), type=Answer)
    late = answer is None and worker.until <= time.monotonic()
    worker.process.join(STOP_WITHIN)
    if worker.process.exitcode is None:
        worker.process.kill()
        worker.process.join()
    code = worker.process.exitcode or 0
    worker.process.close()
    if answer is not None:
        return answer
    if late:
        return Answer(ended="it was not done in time, and was ended")
    return Answer(ended=f"its process was ended from outside ({_how(code)}), perhaps for lack of memory")


def _how(code: int) -> str:
    try:
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"
    except ValueError:
        return f"signal {-code}"


@contextmanager
def _without_main() -> Iterator[None]:
    """Hide the main module from multiprocessing, which would import the `rollbook` command again in every worker."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
