"""A fleet's run: each institution in a process of its own, which has its own key only, so that none can harm another.

All are forked from a fork server that has imported everything (`warm`), since starting Python with all imports costs
more than a small school's night. The fork server's environment has no keys, so its children inherit none. This process
keeps the outcomes, and alerts about them and about late nights: by the institution's own alerts, which record what was
reported, so that nothing is reported twice.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from multiprocessing import connection, get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from types import ModuleType
from typing import Any
from uuid import uuid4

import msgspec

from pipelines import files, machine, settings
from pipelines.cron import due
from pipelines.errors import RollbookError
from pipelines.fleet import outcomes, worker
from pipelines.fleet.outcomes import Kind, Outcome
from pipelines.institutions import Registry
from pipelines.notify import alerts
from pipelines.notify.alerts import Alerts
from pipelines.operations.doctor import Finding, Level
from pipelines.source.fetch import utc_now

log = logging.getLogger(__name__)

# Jobs at a time, at most: more would only wait for the disk.
MOST_JOBS = 16
# A night that takes longer hangs: ten thousand pages of a slow service take three hours.
MOST_SECONDS = 6 * 3600.0
# How long a worker may take to end in order when the run is stopped.
STOP_WITHIN = 20.0


@dataclass
class _Worker:
    name: str
    process: ForkServerProcess
    until: float


@dataclass
class Fleet:
    """Runs jobs for the institutions of a registry, or for those named by `only`.

    `jobs` run at a time (default: two per processor, since one computes while another waits for its service), each for
    `most_seconds` at most. `tells` is whether a sync sends alerts and looks for late nights; under Dagster the sensor
    does both. Raises SettingError for an unknown name.
    """

    registry: Registry
    only: tuple[str, ...] = ()
    jobs: int | None = None
    clock: Callable[[], datetime] = utc_now
    most_seconds: float = MOST_SECONDS
    tells: bool = True

    def __post_init__(self) -> None:
        self.institutions = {name: self.registry[name] for name in self.only or self.registry.institutions}
        self.path = settings.common_path() / settings.FLEET

    def sync(
        self, day: date | None = None, *, fresh: bool = False, done: Callable[[str, Outcome], object] = lambda *_: None
    ) -> dict[str, Outcome]:
        """Sync each institution; returns the outcomes by name.

        An institution whose day is already synced is not fetched again unless `fresh`; paused ones are left out. `done`
        is called with each outcome as it comes. An exception of a signal handler propagates once the processes have
        ended. Raises MachineError if the fleet's folder cannot be written.
        """
        with machine.translate_errors(self.path):
            files.folder(self.path / outcomes.FOLDER)
        told = alerts.alerts_of(self.institutions, self.clock)
        if self.tells:
            self._report_late(told)
        why = {name: self.state(name).why_paused(name) for name in self.institutions}
        found = {n: Outcome(kind=Kind.PAUSED, at=self.clock(), message=p, asked=False) for n, p in why.items() if p}
        for name, outcome in found.items():
            done(name, outcome)
        syncing = [name for name in self.institutions if name not in found]
        for name, outcome in self._run(worker.sync, syncing, day=day, fresh=fresh):
            found[name] = self._record(name, outcome, told.get(name))
            done(name, found[name])
        if self.tells:
            alerts.deliver(told)
        return {name: found[name] for name in self.institutions}

    def backfill(self, first: date, last: date, *, confirmed: bool = False) -> Iterator[tuple[str, Outcome]]:
        """Rebuild the landed days of a range for each institution; yields the results as they come. Needs no key."""
        yield from self._run(worker.backfill, self.institutions, day=first, last=last, confirmed=confirmed)

    def check(self) -> Iterator[tuple[str, list[Finding]]]:
        """Check whether each institution could be synced here and now; yields the findings as they come."""
        for name, answer in self._run(worker.check, self.institutions):
            yield name, [Finding("settings", Level.FAILED, answer.message)] if isinstance(answer, Outcome) else answer

    def watch(self, *, wait: bool = False) -> dict[str, datetime]:
        """Report late nights, once each, and send undelivered alerts; returns the newly late nights by institution.

        With `wait`, new messages wait for others that they can be sent with.
        """
        told = alerts.alerts_of(self.institutions, self.clock)
        found = self._report_late(told)
        alerts.deliver(told, wait=wait)
        return found

    def state(self, name: str) -> outcomes.State:
        """An institution's state since its last night."""
        return outcomes.load(self.path, name)

    # -- outcomes and alerts ---------------------------------------------------------------------------------------

    def _record(self, name: str, outcome: Outcome, own: Alerts | None) -> Outcome:
        """Store an institution's outcome and alert about it; returns it, with a note if Rollbook paused it now."""
        state = self.state(name)
        if (why := state.after(outcome).why_paused(name)) and not state.why_paused(name):
            message = f"{outcome.message} Rollbook has paused it now: {why}."
            outcome = msgspec.structs.replace(outcome, message=message)
        try:
            if own is not None:
                kind = alerts.Kind[outcome.kind.name]
                own.report(alerts.Outcome(f"fleet {uuid4()}", kind, outcome.day, outcome.message))
            outcomes.record(self.path, name, outcome)
        except Exception as error:  # noqa: BLE001 - it costs neither this night nor the others
            log.warning("%s: its outcome could not be noted (%s)", name, type(error).__name__)
        return outcome

    def _report_late(self, told: Mapping[str, Alerts]) -> dict[str, datetime]:
        """Report each late night; returns the newly reported ones by institution. `alerts.deliver` sends the reports.

        A night is late once its grace period is over and no sync has ended since it began, good or not: a sync that
        ended has reported itself. A paused institution is not late.
        """
        found = {}
        for name, own in told.items():
            night, state = own.missed_night(), self.state(name)
            if night is None or state.why_paused(name):
                continue
            try:
                last = outcomes.last(own.rollbook.raw, state)
            except (RollbookError, OSError):
                last = state.last
            if last is not None and last.at >= night - due(own.settings.cron).slack:
                continue
            message = (
                f"It was due at {night:%H:%M} ({own.settings.timezone}), and no sync has ended since. Check that the"
                " machine was on, and that `rollbook serve` runs or `rollbook fleet sync` is started each night. To"
                " sync now, run `rollbook fleet sync`"
            )
            late = f"late {night.astimezone(UTC):%Y-%m-%dT%H:%M}Z"
            if own.report(alerts.Outcome(late, alerts.Kind.LATE, night.date(), message)):
                found[name] = night
        return found

    # -- processes -------------------------------------------------------------------------------------------------

    def _run(
        self, job: Callable[..., worker.Answer], institutions: Iterable[str], **arguments: Any
    ) -> Iterator[tuple[str, Any]]:
        """Do a job for each institution in a process of its own; yields the answers as they come.

        The next one is from the host with the fewest running jobs, and on a tie from the one with the most waiting.
        """
        jobs = self.jobs or min(2 * (os.cpu_count() or 1), MOST_JOBS)
        context = get_context("forkserver")
        context.set_forkserver_preload(["pipelines.fleet.warm"])
        url = os.environ.get(f"{settings.PREFIX}BASE_URL", "")
        urls = {name: str(self.registry[name].values.get("base_url", url)) for name in institutions}
        # One without an address shares no host.
        hosts = {name: url.partition("://")[2].partition("/")[0].casefold() or name for name, url in urls.items()}
        waiting = list(hosts)
        running: dict[Connection, _Worker] = {}
        with _without_keys(self.registry) as environment:
            try:
                while waiting or running:
                    while waiting and len(running) < jobs:
                        busy = Counter(hosts[w.name] for w in running.values())
                        left = Counter(hosts[name] for name in waiting)
                        name = min(waiting, key=lambda n: (busy[hosts[n]], -left[hosts[n]]))
                        waiting.remove(name)
                        own = self.registry[name]  # it reads secrets in files itself
                        names = own.variables() | (set() if "api_key" in own.values else {settings.API_KEY})
                        secrets = {n: environment[n] for n in names if n in environment and job is not worker.backfill}
                        answers, answering = context.Pipe(duplex=False)
                        with answering:
                            given = (job, name, arguments, secrets, self.clock, answering)
                            process = context.Process(target=worker.work, args=given, daemon=True)
                            process.start()
                        running[answers] = _Worker(name, process, time.monotonic() + self.most_seconds)
                    rest = min(w.until for w in running.values()) - time.monotonic()
                    ready = connection.wait(list(running), max(rest, 0))
                    for answers in [each for each in running if each in ready]:
                        ended = running.pop(answers)
                        yield ended.name, self._answer(ended, answers, arguments.get("day"))
                    for late in running.values():
                        if late.until <= time.monotonic():
                            late.process.kill()  # then its pipe ends
            finally:
                for stopped in running.values():
                    stopped.process.terminate()
                for stopped in running.values():
                    _end(stopped.process)

    def _answer(self, ended: _Worker, answers: Connection, day: date | None) -> worker.Answer:
        """A process's answer, or how it ended without one. The process has ended when this returns."""
        with answers:
            try:
                answer: worker.Answer | None = answers.recv()
            except (EOFError, OSError):
                answer = None
        code = _end(ended.process)
        if answer is not None:
            return answer
        how = {-known: known.name for known in signal.Signals}.get(code, f"exit code {code}")
        message = f"Its process was ended from outside ({how}), perhaps for lack of memory"
        if ended.until <= time.monotonic():
            message = "It was not done in time, and was ended"
        message += ". Nothing is lost: run `rollbook fleet sync` again."
        return Outcome(kind=Kind.FAILED, at=self.clock(), day=day, message=message)


@contextmanager
def _without_keys(registry: Registry) -> Iterator[dict[str, str]]:
    """Take all keys out of the environment for as long as processes may be started; yields the environment before.

    Hides the main module as well, for multiprocessing would import the `rollbook` command again in every worker.
    """
    before, main = dict(os.environ), sys.modules["__main__"]
    keyless = {k: v for k, v in settings.keyless_environment().items() if k not in registry.variables()}
    try:
        sys.modules["__main__"] = ModuleType("__main__")
        os.environ.clear()
        os.environ.update(keyless, PYTHONSAFEPATH="1")  # no modules of the current folder
        yield before
    finally:
        sys.modules["__main__"] = main
        os.environ.clear()
        os.environ.update(before)


def _end(process: ForkServerProcess) -> int:
    """Wait until a process has ended, and kill it if it does not; returns its exit code."""
    process.join(STOP_WITHIN)
    process.kill()
    process.join()
    return process.exitcode or 0
