"""A district's run: a few workers, which take turns with the institutions.

A worker imports once, since starting Python with all imports costs more than a small school's night. The environment of
a worker has no key: an institution's own key comes through a pipe, with the task (a night, a backfill or a check), and
the result goes back. A worker that ends without a result was killed; only the institution is affected, and another
worker takes the next.

The run keeps the outcomes, and alerts about outcomes and late nights: by the institution's own alerts, which record
what was reported, so that nothing is reported twice.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from multiprocessing import Pipe, connection
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

from rollbook import settings
from rollbook.assembly import assemble
from rollbook.errors import DamagedError, RollbookError
from rollbook.features.alerts import alerts
from rollbook.features.alerts.alerts import Alerts
from rollbook.features.district.worker import (
    Backfill,
    Check,
    NightKind,
    NightOutcome,
    Sync,
    Task,
    WorkerResult,
    outcome_of,
)
from rollbook.health.finding import Finding, Level
from rollbook.health.status import freshness
from rollbook.institutions import Registry
from rollbook.landing import formats
from rollbook.landing.raw import RawStore
from rollbook.reading.query import run_query
from rollbook.source.fetch import utc_now
from rollbook.store.database import machine_errors
from rollbook.store.district import DISTRICT_REPORT, DistrictFile
from rollbook.store.statements import statements
from rollbook.util import files, machine, pages
from rollbook.util.imports import light_process
from rollbook.util.text import count_of, printable

log = logging.getLogger(__name__)
sql = statements("rollbook.features.district")

NEVER = "never"
STATES = "state"  # in the district's folder
# A key that was refused on so many nights in a row pauses the institution: a refused key does not recover by itself.
REFUSED_NIGHTS = 3
# Jobs at a time, at most: more would only wait for the disk.
MAX_JOBS = 16
# A night that takes longer hangs: ten thousand pages of a slow service take three hours.
MAX_SECONDS = 6 * 3600.0
# How long a worker may take to end in order when the run is stopped.
STOP_WITHIN = 20.0


class DistrictState(formats.Stored, frozen=True, kw_only=True):
    """An institution's state between two nights.

    `refused` are the last nights in a row on which the key was refused; `paused` is why a person paused the
    institution.
    """

    last: NightOutcome | None = None
    refused: tuple[date, ...] = ()
    paused: str = ""

    def after(self, outcome: NightOutcome) -> DistrictState:
        """The state after another night."""
        refused: tuple[date, ...] = ()
        if outcome.refused and outcome.day is not None:
            refused = tuple(dict.fromkeys((*self.refused, outcome.day)))[-REFUSED_NIGHTS:]
        return msgspec.structs.replace(self, last=outcome, refused=refused)

    def why_paused(self, name: str) -> str:
        """The reason for leaving the institution out; empty if it takes part."""
        if self.paused or len(self.refused) < REFUSED_NIGHTS:
            return self.paused
        return (
            f"the service refused its key on {REFUSED_NIGHTS} nights in a row, the last of them {self.refused[-1]};"
            f" when there is another key: rollbook district resume {name}"
        )


def last_sync(raw: RawStore, state: DistrictState) -> NightOutcome | None:
    """The last sync: of a district's run, unless a sync by Dagster or by hand was decided later."""
    landed = (manifest for day in raw.days()[-1:] for manifest in raw.manifests(day))
    decided = [outcome_of(manifest) for manifest in landed if manifest.verdict is not None]
    return max([*([state.last] if state.last else []), *decided], key=lambda outcome: outcome.at, default=None)


def load_state(district: Path, name: str) -> DistrictState:
    """An institution's state. A file that cannot be read counts as missing, and is logged."""
    path = district / STATES / f"{name}.json"
    try:
        return formats.decode(path.read_bytes(), DistrictState, path)
    except FileNotFoundError:
        pass
    except (OSError, msgspec.MsgspecError) as error:
        log.warning("%s cannot be read (%s); the next night replaces it", path, type(error).__name__)
    return DistrictState()


def record(district: Path, name: str, outcome: NightOutcome) -> DistrictState:
    """Store the outcome of an institution's night; returns the new state. Raises OSError."""
    return _save(district, name, load_state(district, name).after(outcome))


def pause(district: Path, name: str, reason: str) -> None:
    """Leave an institution out of the nights until somebody resumes the institution."""
    _save(
        district, name, msgspec.structs.replace(load_state(district, name), refused=(), paused=" ".join(reason.split()))
    )


def resume(district: Path, name: str) -> bool:
    """End a pause that a person or Rollbook began; returns whether the institution was paused."""
    was_paused = bool(load_state(district, name).why_paused(name))
    if was_paused:
        pause(district, name, "")
    return was_paused


def _save(district: Path, name: str, state: DistrictState) -> DistrictState:
    files.write(files.folder(district / STATES) / f"{name}.json", msgspec.json.encode(state))
    return state


_RESULT: msgspec.json.Decoder[WorkerResult] = msgspec.json.Decoder(WorkerResult)


@dataclass
class _Worker:
    """A process of `features.district.worker`, with the current institution and the end of the time for the task."""

    process: subprocess.Popen[bytes]
    connection: Connection
    name: str = ""
    until: float = 0.0

    @classmethod
    def start(cls, environment: Mapping[str, str]) -> _Worker:
        """Start a worker. The environment has no key, and the process group is new: Ctrl-C is for the run alone."""
        ours, theirs = Pipe()
        with theirs:
            number = theirs.fileno()
            command = [*light_process("rollbook.features.district.worker"), str(number)]
            process = subprocess.Popen(command, env=environment, pass_fds=[number], process_group=0)  # noqa: S603
        return cls(process, ours)

    def begin(self, task: Task, until: float) -> None:
        """Give the worker a task. A worker that was killed meanwhile gives no result."""
        self.name, self.until = task.institution, until
        with suppress(OSError):
            self.connection.send_bytes(msgspec.json.encode(task))

    def result(self) -> WorkerResult | None:
        """The result of the task; None if the worker ended without a result."""
        with suppress(EOFError, OSError):
            return _RESULT.decode(self.connection.recv_bytes())
        return None

    def end(self) -> int:
        """Wait for the process to end, and kill it if it does not; returns the exit code."""
        self.connection.close()
        try:
            return self.process.wait(STOP_WITHIN)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


@dataclass
class Institutions:
    """Runs jobs for the institutions of a registry, or for those named by `only`.

    `jobs` run at a time (default: two per processor, since an institution computes while another waits for the
    service), each for `max_seconds` at most. The moment is `now` (default: this machine's clock). Raises SettingError
    for an unknown name.
    """

    registry: Registry
    only: tuple[str, ...] = ()
    jobs: int | None = None
    now: datetime | None = None
    max_seconds: float = MAX_SECONDS

    def __post_init__(self) -> None:
        self.institutions = {name: self.registry[name] for name in self.only or self.registry.institutions}
        self.path = settings.common_path() / settings.DISTRICT

    def clock(self) -> datetime:
        """The time of the run (UTC)."""
        return self.now or utc_now()

    def sync(
        self,
        day: date | None = None,
        *,
        fresh: bool = False,
        done: Callable[[str, NightOutcome], object] = lambda *_: None,
    ) -> dict[str, NightOutcome]:
        """Sync each institution; returns the outcomes by name.

        An institution whose day is already synced is not fetched again unless `fresh`; paused institutions are left
        out. `done` is called with each outcome at once. An exception of a signal handler propagates once the processes
        have ended. Raises MachineError if the district's folder cannot be written.
        """
        with machine_errors(self.path):
            files.folder(self.path / STATES)
        for says in settings.misspelt():
            log.warning("%s", says)
        alerted = alerts_of(self.institutions, self.clock)
        self._report_late(alerted)
        why = {name: load_state(self.path, name).why_paused(name) for name in self.institutions}
        outcomes = {
            n: NightOutcome(kind=NightKind.PAUSED, at=self.clock(), message=p, fetched=False)
            for n, p in why.items()
            if p
        }
        for name, outcome in outcomes.items():
            done(name, outcome)
        syncing = [name for name in self.institutions if name not in outcomes]
        for name, outcome in self._run(Sync, syncing, day=day, fresh=fresh):
            outcomes[name] = self._record(name, outcome, alerted.get(name))
            done(name, outcomes[name])
        alerts.deliver(alerted)
        return {name: outcomes[name] for name in self.institutions}

    def backfill(self, first: date, last: date, *, confirmed: bool = False) -> Iterator[tuple[str, NightOutcome]]:
        """Rebuild the landed days of a range for each institution; yields each result at once. Needs no key."""
        yield from self._run(Backfill, self.institutions, day=first, last=last, confirmed=confirmed)

    def check(self) -> Iterator[tuple[str, list[Finding]]]:
        """Check whether each institution could be synced here and now; yields each institution's findings at once."""
        for name, answer in self._run(Check, self.institutions):
            yield (
                name,
                [Finding("settings", Level.FAILED, answer.message)] if isinstance(answer, NightOutcome) else answer,
            )

    def watch(self, deliver: Callable[[Mapping[str, Alerts]], None] = alerts.deliver) -> dict[str, datetime]:
        """Report late nights, once each, and deliver alerts; returns the newly late nights by institution."""
        alerted = alerts_of(self.institutions, self.clock)
        late = self._report_late(alerted)
        deliver(alerted)
        return late

    # -- outcomes and alerts ---------------------------------------------------------------------------------------

    def _record(self, name: str, outcome: NightOutcome, own: Alerts | None) -> NightOutcome:
        """Store an institution's outcome and alert about it; returns the outcome, with a note if Rollbook has just
        paused the institution.
        """
        state = load_state(self.path, name)
        if (why := state.after(outcome).why_paused(name)) and not state.why_paused(name):
            message = f"{outcome.message} Rollbook has paused it now: {why}."
            outcome = msgspec.structs.replace(outcome, message=message)
        try:
            if own is not None:
                own.report(
                    alerts.Outcome(
                        f"district {uuid4()}", alerts.AlertKind[outcome.kind.name], outcome.day, outcome.message
                    )
                )
            record(self.path, name, outcome)
        except Exception as error:  # noqa: BLE001 - an error costs neither this night nor another
            log.warning("%s: its outcome could not be noted (%s)", name, type(error).__name__)
        return outcome

    def _report_late(self, alerted: Mapping[str, Alerts]) -> dict[str, datetime]:
        """Report each late night; returns the newly reported nights by institution. `alerts.deliver` sends the reports.

        A paused institution is not late.
        """
        late = {name: own.report_late(partial(self._has_ended, name, own)) for name, own in alerted.items()}
        return {name: night for name, night in late.items() if night is not None}

    def _has_ended(self, name: str, own: Alerts, since: datetime) -> bool:
        """Whether an institution is paused, or has ended a sync since."""
        state = load_state(self.path, name)
        try:
            last = last_sync(own.place.raw, state)
        except (RollbookError, OSError):
            last = state.last
        return bool(state.why_paused(name)) or (last is not None and last.at >= since)

    # -- workers ---------------------------------------------------------------------------------------------------

    def _run(self, task: type[Task], institutions: Iterable[str], **arguments: Any) -> Iterator[tuple[str, Any]]:
        """Give a task for each institution to the next free worker; yields each result at once.

        The next institution is from the host with the fewest running tasks, and on a tie from the host with the most
        waiting.
        """
        limit = self.jobs or min(2 * (os.cpu_count() or 1), MAX_JOBS)
        environment = settings.public_environment() | machine.bare_environment()
        base_url = os.environ.get(f"{settings.PREFIX}BASE_URL", "")
        urls = {name: str(self.registry[name].values.get("base_url", base_url)) for name in institutions}
        # An institution without an address shares no host.
        hosts = {name: url.partition("://")[2].partition("/")[0].casefold() or name for name, url in urls.items()}
        waiting = list(hosts)
        idle: list[_Worker] = []
        busy: dict[Connection, _Worker] = {}
        try:
            while waiting or busy:
                while waiting and len(busy) < limit:
                    running = Counter(hosts[worker.name] for worker in busy.values())
                    left = Counter(hosts[name] for name in waiting)
                    name = min(waiting, key=lambda n: (running[hosts[n]], -left[hosts[n]]))
                    waiting.remove(name)
                    while idle and idle[-1].process.poll() is not None:  # killed between two tasks
                        idle.pop().end()
                    worker = idle.pop() if idle else _Worker.start(environment)
                    busy[worker.connection] = worker
                    worker.begin(self._task(task, name, arguments), time.monotonic() + self.max_seconds)
                rest = min(worker.until for worker in busy.values()) - time.monotonic()
                ready = connection.wait(list(busy), max(rest, 0))
                for each in [each for each in busy if each in ready]:
                    worker = busy.pop(each)
                    result = self._result(worker, arguments.get("day"))
                    if not worker.connection.closed:
                        idle.append(worker)
                    yield worker.name, result
                for worker in busy.values():
                    if worker.until <= time.monotonic():
                        worker.process.kill()  # then its pipe ends
        finally:
            for worker in (*idle, *busy.values()):
                worker.process.terminate()
            for worker in (*idle, *busy.values()):
                worker.end()

    def _task(self, task: type[Task], name: str, arguments: Mapping[str, Any]) -> Task:
        """A task for an institution, with the institution's own secrets alone."""
        own = self.registry[name]  # the worker reads secrets that are in files
        needed = own.variables() | (set() if "api_key" in own.values else {settings.API_KEY})
        given = settings.secrets_in_environment().items()
        secrets = {n: v for n, v in given if settings.is_of_library(n) or (n in needed and task is not Backfill)}
        return task(institution=name, secrets=secrets, now=self.now, **arguments)

    def _result(self, worker: _Worker, day: date | None) -> WorkerResult:
        """A worker's result, or how the worker ended without a result."""
        if (result := worker.result()) is not None:
            return result
        code = worker.end()
        how = {-number: number.name for number in signal.Signals}.get(code, f"exit code {code}")
        message = f"Its process was ended from outside ({how}), perhaps for lack of memory"
        if worker.until <= time.monotonic():
            message = "It was not done in time, and was ended"
        message += ". Nothing is lost: run `rollbook district sync` again."
        return NightOutcome(kind=NightKind.FAILED, at=self.clock(), day=day, message=message)


def alerts_of(institutions: Iterable[str], clock: Callable[[], datetime] = utc_now) -> dict[str, Alerts]:
    """The alerts of each institution that has an address to notify; without institutions whose settings are invalid."""
    own_alerts = {}
    for name in institutions:
        with suppress(RollbookError):
            own = assemble(settings.load(fetches=False, institution=name), clock=clock).find(Alerts)
            if own and own.channels:
                own_alerts[name] = own
    return own_alerts


# -- status ------------------------------------------------------------------------------------------------------------
#
# Read from each institution's state, its newest day's manifests and its published file's list of days, so that a
# thousand take seconds. Also as a page.
#
# The page adds figures and where the contract drifts, from `district.duckdb` if that file is there. The page names
# institutions and no pupils; an undeclared field is named only if several records have it, since a single record's may
# be called anything.

PAGE = DISTRICT_REPORT
# A field that so many records have in one sync comes from the service, and does not describe one pupil.
MIN_RECORDS = 5
_NO_FIGURES: dict[str, Any] = {"built_at": None, "schools": {}, "figures": (), "drift": (), "refused": ()}
# The most urgent come first.
URGENCY = (NightKind.FAILED, NightKind.HELD, "late", NEVER, NightKind.PAUSED, NightKind.SYNCED)


class InstitutionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One institution. Times are UTC; unknown values are null.

    `last` is the last sync, by a district's run or alone; null before the first. `paused` says why the institution is
    paused, and is else empty. `readers_see` is the newest day that was synced, at `synced_at`. `late_by` is the seconds
    since a missed night was due.
    """

    institution: str
    last: NightOutcome | None = None
    paused: str = ""
    readers_see: date | None = None
    synced_at: datetime | None = None
    due: datetime | None = None
    late_by: float | None = None
    refused_nights: int = 0

    @property
    def outcome(self) -> str:
        """The last sync's outcome: synced, held, failed, or never."""
        return str(self.last.kind) if self.last else NEVER

    @property
    def shown(self) -> str:
        """The institution's state in one word."""
        if self.paused:
            return str(NightKind.PAUSED)
        return "late" if self.outcome == NightKind.SYNCED and self.late_by is not None else self.outcome

    @property
    def is_fine(self) -> bool:
        """Whether the institution needs no attention."""
        return self.shown == NightKind.SYNCED

    @property
    def why(self) -> str:
        """Says what happened, and what to do."""
        if self.shown == "late" and self.due is not None:
            return f"the night of {self.due:%Y-%m-%d %H:%M} UTC was not synced: run `rollbook district sync`"
        return self.paused or (self.last.message if self.last else "")


class DistrictStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The output of `rollbook district status`, also as JSON: counts by state, and each institution."""

    counts: dict[str, int]
    institutions: tuple[InstitutionStatus, ...]


def load_overview(district: Institutions) -> DistrictStatus:
    """Read each institution's status. One that cannot be read is shown as failed, with the reason."""
    statuses = tuple(_look(district, name) for name in district.institutions)
    return DistrictStatus(counts=dict(Counter(status.shown for status in statuses)), institutions=statuses)


def _look(district: Institutions, name: str) -> InstitutionStatus:
    state = load_state(district.path, name)
    status = InstitutionStatus(institution=name, paused=state.why_paused(name), refused_nights=len(state.refused))
    try:
        rollbook = assemble(settings.load(fetches=False, institution=name), clock=district.clock)
        last, good = last_sync(rollbook.raw, state), rollbook.newest()
        newest = None
        with suppress(DamagedError):  # the next sync says what is wrong with the file, or makes it again
            newest = max(rollbook.warehouse.merged_days(), default=None)
        shown = rollbook.warehouse.shown([good.snapshot_date] if good else [])
        due, late_by = freshness(rollbook.settings, rollbook.clock(), good, shown)
    except (RollbookError, OSError) as error:
        message = error.message if isinstance(error, RollbookError) else type(error).__name__
        return msgspec.structs.replace(
            status, last=NightOutcome(kind=NightKind.FAILED, at=district.clock(), message=message)
        )
    return msgspec.structs.replace(
        status,
        last=last,
        readers_see=newest,
        synced_at=good.finished_at if good else None,
        due=due.astimezone(UTC),
        late_by=late_by if last else None,  # an institution that was added only recently is not late
    )


def write_page(district: Institutions, out: Path) -> str:
    """Write the page to a file that only the owner can read; returns the summary in one sentence.

    Raises DamagedError for a district.duckdb that cannot be read.
    """
    status = load_overview(district)
    others = ", ".join(f"{status.counts[state]:,} {state}" for state in URGENCY[:-1] if status.counts.get(state))
    total = count_of(len(status.institutions), "institution")
    verdict = f"{status.counts.get(NightKind.SYNCED, 0):,} of {total} up to date{'; ' if others else ''}{others}."
    file = DistrictFile(district.path).path
    page = pages.environment("rollbook.features.district", cell=_cell).get_template("page.html").render(
        at=district.clock(),
        verdict=verdict,
        institutions=sorted(status.institutions, key=lambda s: (URGENCY.index(s.shown), s.institution)),
        **(_figures(file) if file.is_file() else _NO_FIGURES),
    )  # fmt: skip
    files.write(out, page.encode())
    return verdict


def _figures(file: Path) -> dict[str, Any]:
    """The page's figures from district.duckdb; `built_at` is when that was built."""
    figures = """
        SELECT
            institution, snapshot_date, students, active_classes, average_completion_rate, completion_vs_institutions,
            average_score
        FROM main.institutions_compared
        ORDER BY students DESC, institution
    """
    refused = """
        SELECT institution, snapshot_date, rejected
        FROM ops.syncs WHERE outcome = 'synced'
        QUALIFY ROW_NUMBER() OVER (PARTITION BY institution ORDER BY snapshot_date DESC, landing DESC) = 1
            AND rejected > 0
        ORDER BY rejected DESC, institution
        LIMIT 100
    """
    return {
        "built_at": run_query(file, "SELECT published_at FROM spans.version").rows[0][0],
        "schools": dict(run_query(file, "SELECT institution, school_name FROM main.institutions").rows),
        "figures": run_query(file, figures).rows,
        "drift": run_query(file, sql("drift"), {"least": MIN_RECORDS}).rows,
        "refused": run_query(file, refused).rows,
    }


def _cell(value: object) -> str:
    """A value as text; a dash for an unknown value."""
    if value is None:
        return "\N{EN DASH}"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.1f}" if isinstance(value, float) else printable(str(value))
