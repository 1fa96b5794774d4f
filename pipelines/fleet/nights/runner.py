"""A fleet's run: each institution in a process of its own, so that none can harm another."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime
from urllib.parse import urlsplit

import msgspec

from pipelines import files, settings
from pipelines.errors import RollbookError, SettingError
from pipelines.fleet.nights import backfilling, outcomes, watching
from pipelines.fleet.nights.backfilling import Rebuilt
from pipelines.fleet.nights.outcomes import Kind, Outcome
from pipelines.fleet.nights.processes import MOST_SECONDS, Processes
from pipelines.fleet.nights.worker import Answer, Finding, Task
from pipelines.institutions import Institution, Registry
from pipelines.landing.raw import RawStore
from pipelines.notify import together
from pipelines.source.fetch import utc_now
from pipelines.sync.policy import counted

# More would only wait for the disk.
MOST_JOBS = 16

Done = Callable[[str, Outcome], None]


def default_jobs() -> int:
    """How many institutions run at a time: while one waits for its service, another one computes."""
    return min(2 * (os.cpu_count() or 1), MOST_JOBS)


@dataclass
class Fleet:
    """Runs tasks for the institutions of a registry, or for those named by `only`.

    `jobs` run at a time, each for `most_seconds` at most. `tells` is whether a sync sends alerts and looks for late
    nights; under Dagster the sensor does both. Raises SettingError for an unknown name.
    """

    registry: Registry
    only: tuple[str, ...] = ()
    jobs: int = field(default_factory=default_jobs)
    clock: Callable[[], datetime] = utc_now
    most_seconds: float = MOST_SECONDS
    tells: bool = True

    def __post_init__(self) -> None:
        names = dict.fromkeys(self.only or self.registry.institutions)
        self.institutions = {name: self.registry[name] for name in names}
        self.root = settings.common_path()
        self.path = self.root / settings.FLEET
        self.hosts = {name: _host(institution) for name, institution in self.institutions.items()}

    def sync(self, day: date | None = None, *, fresh: bool = False, done: Done | None = None) -> dict[str, Outcome]:
        """Sync each institution; returns the outcomes by name.

        An institution whose day is already synced is not fetched again unless `fresh`; paused ones are left out. `done`
        is called with each outcome as it comes. An exception of a signal handler propagates once the processes have
        ended. Raises SettingError if the fleet's folder cannot be written.
        """
        self._make_folder()
        found: dict[str, Outcome] = {}

        def add(name: str, outcome: Outcome) -> None:
            found[name] = outcome
            if done is not None:
                done(name, outcome)

        alerts = watching.alerts_of(self.institutions, self.clock) if self.tells else {}
        watching.report_late(alerts, self.institutions, self.path)
        tasks = {}
        for name in self.institutions:
            known = self._needs_nothing(name, day, fresh=fresh)
            if known is not None:
                add(name, known)
            else:
                tasks[name] = Task(what="sync", name=name, day=day, fresh=fresh)
        killed: dict[str, Outcome] = {}
        with self._processes() as processes:
            for name, answer in processes.run(tasks, self.hosts):
                outcome = answer.outcome or self._ended(answer, day)
                if not answer.is_noted:
                    with suppress(OSError):
                        outcomes.record(self.path, name, outcome)
                if answer.outcome is None:
                    killed[name] = outcome
                add(name, outcome)
            told = {name: Task(what="alert", name=name, outcome=outcome) for name, outcome in killed.items()}
            for _ in processes.run(told, self.hosts):
                pass
        together.deliver(alerts)
        return {name: found[name] for name in self.institutions}

    def watch(self, *, wait: bool = False) -> dict[str, datetime]:
        """Report late nights, once each, and send undelivered alerts; returns the newly late nights by institution.

        With `wait`, new messages wait for others that they can be sent with.
        """
        alerts = watching.alerts_of(self.institutions, self.clock)
        found = watching.report_late(alerts, self.institutions, self.path)
        together.deliver(alerts, wait=wait)
        return found

    def backfill(self, first: date, last: date, *, confirmed: bool = False) -> Iterator[tuple[str, Rebuilt]]:
        """Rebuild the landed days of a range for each institution; yields the results as they come."""
        with self._processes() as processes:
            tasks = {
                n: Task(what="backfill", name=n, day=first, last=last, confirmed=confirmed) for n in self.institutions
            }
            for name, answer in processes.run(tasks, self.hosts):
                ended = Rebuilt(kind=backfilling.Kind.FAILED, message=self._ended(answer, first).message)
                yield name, answer.rebuilt or ended

    def check(self) -> Iterator[tuple[str, tuple[Finding, ...]]]:
        """Check whether each institution could be synced here and now; yields the findings as they come."""
        with self._processes() as processes:
            tasks = {name: Task(what="check", name=name) for name in self.institutions}
            for name, answer in processes.run(tasks, self.hosts):
                yield name, answer.findings or (Finding("check", "failed", answer.ended),)

    def _make_folder(self) -> None:
        try:
            files.folder(self.path)
            if not os.access(self.path, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, "")
        except OSError as error:
            raise SettingError(
                f"{self.path} cannot be written ({os.strerror(error.errno or 0)}): set {settings.PREFIX}WAREHOUSE to a"
                " folder that can"
            ) from None

    def _processes(self) -> Processes:
        return Processes(self.registry, self.jobs, clock=self.clock, most_seconds=self.most_seconds)

    def _needs_nothing(self, name: str, day: date | None, *, fresh: bool) -> Outcome | None:
        """The outcome of an institution that needs no process: it is paused, or this day is already synced."""
        state = outcomes.load(self.path, name)
        if paused := self.institutions[name].paused or state.paused:
            return Outcome(kind=Kind.PAUSED, at=self.clock(), message=paused, asked=False)
        last = state.last
        if fresh or last is None or last.kind is not Kind.SYNCED:
            return None
        try:
            zone = settings.load(fetches=False, institution=name).zone
            wanted = day or self.clock().astimezone(zone).date()
            # The state file is not enough: the warehouse may have been restored, or the landing discarded.
            there = last.day == wanted and counted(RawStore(self.root / name / "raw").manifests(wanted))
        except (RollbookError, OSError):
            return None  # its own process says what is wrong
        return msgspec.structs.replace(last, asked=False, requests=0, seconds=0.0) if there else None

    def _ended(self, answer: Answer, day: date | None) -> Outcome:
        """The outcome of a process that ended without one. The next run finishes its work."""
        message = f"{answer.ended[:1].upper()}{answer.ended[1:]}. Nothing is lost: run `rollbook fleet sync` again."
        return Outcome(kind=Kind.FAILED, at=self.clock(), day=day, message=message)


def _host(institution: Institution) -> str:
    """The host of an institution's service; without one, the institution's name, so that it shares no host."""
    url = str(institution.values.get("base_url") or os.environ.get(f"{settings.PREFIX}BASE_URL", ""))
    try:
        return urlsplit(url).netloc.casefold() or institution.name
    except ValueError:
        return institution.name
