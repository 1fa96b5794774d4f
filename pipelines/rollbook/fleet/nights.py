"""A fleet's run: each institution in a process of its own, which has its own key only, so that none can harm another.

All are forked from a fork server that has imported everything (`warm`), since starting Python with all imports costs
more than a small school's night. The fork server's environment has no keys, so its children inherit none. A process
receives its own institution's key through a pipe, does one job (a night, a backfill or a check), answers through a
second pipe, and ends. One that ends without an answer was killed, and only its own institution is affected.

The run keeps the outcomes, and alerts about them and about late nights: by the institution's own alerts, which record
what was reported, so that nothing is reported twice.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from enum import StrEnum
from functools import partial
from multiprocessing import connection, get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from multiprocessing.process import parent_process
from pathlib import Path
from threading import Thread
from traceback import extract_tb
from types import ModuleType
from typing import Any
from uuid import uuid4

import msgspec

from rollbook import settings
from rollbook.assembly import assemble
from rollbook.errors import (
    ArgumentError,
    HeldError,
    KeyRefusedError,
    NothingLandedError,
    OtherInstitutionError,
    RollbookError,
    unexpected_error,
)
from rollbook.export.query import run_query
from rollbook.institutions import Registry
from rollbook.landing import formats
from rollbook.landing.manifest import Manifest
from rollbook.landing.raw import RawStore
from rollbook.operations.doctor import Finding, Level, examine
from rollbook.operations.status import freshness
from rollbook.outputs.notify import alerts
from rollbook.outputs.notify.alerts import Alerts
from rollbook.source.fetch import utc_now, why_refused
from rollbook.store.database import machine_errors
from rollbook.store.fleet import FleetFile
from rollbook.store.statements import statements
from rollbook.sync import past
from rollbook.sync.past import always, within_hold
from rollbook.sync.rollbook import Rollbook
from rollbook.util import files, machine, pages
from rollbook.util.text import count_of, naming, printable

log = logging.getLogger(__name__)
sql = statements("rollbook.fleet")

NEVER = "never"
STATES = "state"  # in the fleet's folder
# A key that was refused on this many nights in a row pauses its institution: it will not recover by itself.
REFUSED_NIGHTS = 3
# Jobs at a time, at most: more would only wait for the disk.
MAX_JOBS = 16
# A night that takes longer hangs: ten thousand pages of a slow service take three hours.
MAX_SECONDS = 6 * 3600.0
# How long a worker may take to end in order when the run is stopped.
STOP_WITHIN = 20.0


class NightKind(StrEnum):
    """How an institution's night or backfill ended. `skipped`: no day was landed; `paused`: left out."""

    SYNCED = "synced"
    REBUILT = "rebuilt"
    SKIPPED = "skipped"
    HELD = "held"
    FAILED = "failed"
    PAUSED = "paused"


class NightOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """One night of one institution. `message` says what happened and what to do next; `at` is when it ended (UTC).

    `received` counts records per set, `requests` the requests to the service; `asked` is false if the day was already
    synced, so that nothing was fetched. `refused`: the service did not accept the key. Of a backfill, `days` were
    rebuilt, and `skipped` says why others were not.
    """

    kind: NightKind
    at: datetime
    day: date | None = None
    message: str = ""
    seconds: float = 0.0
    requests: int = 0
    received: dict[str, int] = {}
    rejected: int = 0
    asked: bool = True
    refused: bool = False
    days: tuple[date, ...] = ()
    skipped: dict[date, str] = {}


def outcome_of(manifest: Manifest, *, asked: bool = True) -> NightOutcome:
    """The outcome of a landing that was decided; `asked` is whether it was fetched just now."""
    ended = manifest.judged_at or manifest.finished_at
    return NightOutcome(
        kind=NightKind(manifest.verdict.outcome) if manifest.verdict else NightKind.FAILED,
        at=ended,
        day=manifest.snapshot_date,
        message=manifest.reason,
        seconds=round((ended - manifest.started_at).total_seconds(), 3),
        requests=manifest.requests if asked else 0,
        received=manifest.received,
        rejected=sum(manifest.rejected.values()),
        asked=asked,
    )


class FleetState(formats.Stored, frozen=True, kw_only=True):
    """An institution's state between two nights.

    `refused` are the last nights in a row on which its key was refused; `paused` is why a person paused it.
    """

    last: NightOutcome | None = None
    refused: tuple[date, ...] = ()
    paused: str = ""

    def after(self, outcome: NightOutcome) -> FleetState:
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
            f" when there is another key: rollbook fleet resume {name}"
        )


def last_sync(raw: RawStore, state: FleetState) -> NightOutcome | None:
    """The last sync: the last one of a fleet's run, unless one by Dagster or by hand was decided later."""
    landed = (manifest for day in raw.days()[-1:] for manifest in raw.manifests(day))
    decided = [outcome_of(manifest) for manifest in landed if manifest.verdict is not None]
    return max([*([state.last] if state.last else []), *decided], key=lambda outcome: outcome.at, default=None)


def load_state(fleet: Path, name: str) -> FleetState:
    """An institution's state. A file that cannot be read counts as missing, and is logged."""
    path = fleet / STATES / f"{name}.json"
    try:
        return formats.decode(path.read_bytes(), FleetState, path)
    except FileNotFoundError:
        pass
    except (OSError, msgspec.MsgspecError) as error:
        log.warning("%s cannot be read (%s); the next night replaces it", path, type(error).__name__)
    return FleetState()


def record(fleet: Path, name: str, outcome: NightOutcome) -> FleetState:
    """Store the outcome of an institution's night; returns the new state. Raises OSError."""
    return _save(fleet, name, load_state(fleet, name).after(outcome))


def pause(fleet: Path, name: str, reason: str) -> None:
    """Leave an institution out of the nights until it is resumed."""
    _save(fleet, name, msgspec.structs.replace(load_state(fleet, name), refused=(), paused=" ".join(reason.split())))


def resume(fleet: Path, name: str) -> bool:
    """End a pause that a person or Rollbook began; returns whether there was one."""
    was_paused = bool(load_state(fleet, name).why_paused(name))
    if was_paused:
        pause(fleet, name, "")
    return was_paused


def _save(fleet: Path, name: str, state: FleetState) -> FleetState:
    files.write(files.folder(fleet / STATES) / f"{name}.json", msgspec.json.encode(state))
    return state


@dataclass
class _Worker:
    name: str
    process: ForkServerProcess
    until: float


@dataclass
class Fleet:
    """Runs jobs for the institutions of a registry, or for those named by `only`.

    `jobs` run at a time (default: two per processor, since one computes while another waits for its service), each for
    `max_seconds` at most. `sends_alerts` is whether a sync sends alerts and looks for late nights; under Dagster the
    sensor does both. Raises SettingError for an unknown name.
    """

    registry: Registry
    only: tuple[str, ...] = ()
    jobs: int | None = None
    clock: Callable[[], datetime] = utc_now
    max_seconds: float = MAX_SECONDS
    sends_alerts: bool = True

    def __post_init__(self) -> None:
        self.institutions = {name: self.registry[name] for name in self.only or self.registry.institutions}
        self.path = settings.common_path() / settings.FLEET

    def sync(
        self,
        day: date | None = None,
        *,
        fresh: bool = False,
        done: Callable[[str, NightOutcome], object] = lambda *_: None,
    ) -> dict[str, NightOutcome]:
        """Sync each institution; returns the outcomes by name.

        An institution whose day is already synced is not fetched again unless `fresh`; paused ones are left out. `done`
        is called with each outcome as it comes. An exception of a signal handler propagates once the processes have
        ended. Raises MachineError if the fleet's folder cannot be written.
        """
        with machine_errors(self.path):
            files.folder(self.path / STATES)
        for says in settings.misspelt():
            log.warning("%s", says)
        told = alerts_of(self.institutions, self.clock)
        if self.sends_alerts:
            self._report_late(told)
        why = {name: load_state(self.path, name).why_paused(name) for name in self.institutions}
        found = {
            n: NightOutcome(kind=NightKind.PAUSED, at=self.clock(), message=p, asked=False) for n, p in why.items() if p
        }
        for name, outcome in found.items():
            done(name, outcome)
        syncing = [name for name in self.institutions if name not in found]
        for name, outcome in self._run(sync, syncing, day=day, fresh=fresh):
            found[name] = self._record(name, outcome, told.get(name))
            done(name, found[name])
        if self.sends_alerts:
            alerts.deliver(told)
        return {name: found[name] for name in self.institutions}

    def backfill(self, first: date, last: date, *, confirmed: bool = False) -> Iterator[tuple[str, NightOutcome]]:
        """Rebuild the landed days of a range for each institution; yields the results as they come. Needs no key."""
        yield from self._run(backfill, self.institutions, day=first, last=last, confirmed=confirmed)

    def check(self) -> Iterator[tuple[str, list[Finding]]]:
        """Check whether each institution could be synced here and now; yields the findings as they come."""
        for name, answer in self._run(check, self.institutions):
            yield (
                name,
                [Finding("settings", Level.FAILED, answer.message)] if isinstance(answer, NightOutcome) else answer,
            )

    def watch(self, *, wait: bool = False) -> dict[str, datetime]:
        """Report late nights, once each, and send undelivered alerts; returns the newly late nights by institution.

        With `wait`, new messages wait for others that they can be sent with.
        """
        told = alerts_of(self.institutions, self.clock)
        found = self._report_late(told)
        alerts.deliver(told, wait=wait)
        return found

    # -- outcomes and alerts ---------------------------------------------------------------------------------------

    def _record(self, name: str, outcome: NightOutcome, own: Alerts | None) -> NightOutcome:
        """Store an institution's outcome and alert about it; returns it, with a note if Rollbook paused it now."""
        state = load_state(self.path, name)
        if (why := state.after(outcome).why_paused(name)) and not state.why_paused(name):
            message = f"{outcome.message} Rollbook has paused it now: {why}."
            outcome = msgspec.structs.replace(outcome, message=message)
        try:
            if own is not None:
                own.report(
                    alerts.Outcome(
                        f"fleet {uuid4()}", alerts.AlertKind[outcome.kind.name], outcome.day, outcome.message
                    )
                )
            record(self.path, name, outcome)
        except Exception as error:  # noqa: BLE001 - it costs neither this night nor the others
            log.warning("%s: its outcome could not be noted (%s)", name, type(error).__name__)
        return outcome

    def _report_late(self, told: Mapping[str, Alerts]) -> dict[str, datetime]:
        """Report each late night; returns the newly reported ones by institution. `alerts.deliver` sends the reports.

        A paused institution is not late.
        """
        late = {name: own.report_late(partial(self._has_ended, name, own)) for name, own in told.items()}
        return {name: night for name, night in late.items() if night is not None}

    def _has_ended(self, name: str, own: Alerts, since: datetime) -> bool:
        """Whether an institution is paused, or has ended a sync since."""
        state = load_state(self.path, name)
        try:
            last = last_sync(own.rollbook.raw, state)
        except (RollbookError, OSError):
            last = state.last
        return bool(state.why_paused(name)) or (last is not None and last.at >= since)

    # -- processes -------------------------------------------------------------------------------------------------

    def _run(
        self, job: Callable[..., WorkerResult], institutions: Iterable[str], **arguments: Any
    ) -> Iterator[tuple[str, Any]]:
        """Do a job for each institution in a process of its own; yields the answers as they come.

        The next one is from the host with the fewest running jobs, and on a tie from the one with the most waiting.
        """
        jobs = self.jobs or min(2 * (os.cpu_count() or 1), MAX_JOBS)
        context = get_context("forkserver")
        context.set_forkserver_preload(["rollbook.fleet.warm"])
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
                        own = self.registry[name]  # the worker reads secrets that are in files
                        names = own.variables() | (set() if "api_key" in own.values else {settings.API_KEY})
                        secrets = {n: environment[n] for n in names if n in environment and job is not backfill}
                        answers, answering = context.Pipe(duplex=False)
                        with answering:
                            given = (job, name, arguments, secrets, self.clock, answering)
                            process = context.Process(target=work, args=given, daemon=True)
                            process.start()
                        running[answers] = _Worker(name, process, time.monotonic() + self.max_seconds)
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

    def _answer(self, ended: _Worker, answers: Connection, day: date | None) -> WorkerResult:
        """A process's answer, or how it ended without one. The process has ended when this returns."""
        answer: WorkerResult | None = None
        with answers, suppress(EOFError, OSError):
            answer = answers.recv()
        code = _end(ended.process)
        if answer is not None:
            return answer
        how = {-known: known.name for known in signal.Signals}.get(code, f"exit code {code}")
        message = f"Its process was ended from outside ({how}), perhaps for lack of memory"
        if ended.until <= time.monotonic():
            message = "It was not done in time, and was ended"
        message += ". Nothing is lost: run `rollbook fleet sync` again."
        return NightOutcome(kind=NightKind.FAILED, at=self.clock(), day=day, message=message)


@contextmanager
def _without_keys(registry: Registry) -> Iterator[dict[str, str]]:
    """Take all keys out of the environment for as long as processes may be started; yields the environment before.

    Hides the main module as well, for multiprocessing would import the `rollbook` command again in every worker.
    """
    before, main = dict(os.environ), sys.modules["__main__"]
    secret = settings.key_variables() | registry.variables()
    keyless = {k: v for k, v in os.environ.items() if k not in secret} | machine.bare_environment()
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


# When memory runs out, Linux kills the process with the highest score: a worker, not the run.
_OOM_SCORE = Path("/proc/self/oom_score_adj")

WorkerResult = NightOutcome | list[Finding]


def work(
    job: Callable[..., WorkerResult],
    name: str,
    arguments: Mapping[str, Any],
    secrets: Mapping[str, str],
    clock: Callable[[], datetime],
    answers: Connection,
) -> None:
    """Do a job of this module for an institution, and answer. Ends the process."""
    with suppress(OSError):
        _OOM_SCORE.write_text("500")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run, which stops its workers
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    Thread(target=_end_with_the_run, daemon=True).start()
    files.keep_private(None)
    handler = logging.StreamHandler()
    handler.setFormatter(_Lines(f"{name}: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    began, book = time.monotonic(), None
    try:
        os.environ.update(secrets)  # only while the settings are read: no process that is started later inherits them
        own = settings.load(institution=name, fetches=job is not backfill)
        for secret in secrets:
            del os.environ[secret]
        book = assemble(own, clock=clock)
        answer = job(book, **arguments)
    except Exception as error:  # noqa: BLE001 - any error fails this institution only
        answer = NightOutcome(
            kind=NightKind.HELD if isinstance(error, HeldError) else NightKind.FAILED,
            at=clock(),
            day=arguments.get("day") or (book.today() if book is not None else None),
            message=_message(error, name),
            refused=isinstance(error, KeyRefusedError),
        )
    if isinstance(answer, NightOutcome):
        answer = msgspec.structs.replace(answer, at=clock(), seconds=round(time.monotonic() - began, 3))
    with suppress(BrokenPipeError):  # the run has been killed
        answers.send(answer)
    logging.shutdown()
    os._exit(0)  # the interpreter would take a tenth of a second to end


def alerts_of(institutions: Iterable[str], clock: Callable[[], datetime] = utc_now) -> dict[str, Alerts]:
    """The alerts of each institution that has an address to notify; without those whose settings are invalid."""
    found = {}
    for name in institutions:
        with suppress(RollbookError):
            own = Alerts(assemble(settings.load(fetches=False, institution=name)), clock=clock)
            if own.channels:
                found[name] = own
    return found


def sync(book: Rollbook, *, day: date | None, fresh: bool) -> NightOutcome:
    """Sync a day. If it is already synced, only finish what a killed process left undone."""
    day = book.partition(day or book.today())
    with book.fetching() as blocked:
        counted = [] if fresh else book.landings.counted(day)
        if counted:
            if blocked is not None:
                raise blocked
            done = outcome_of(counted[-1], asked=False)
        else:
            done = outcome_of(book.finish(book.land(day, fresh=fresh, blocked=blocked)).manifest)
    bound = book.bound_to() if len(book.raw.days()) == 1 else None
    # On its first day, another one may have begun at the same moment with the same key.
    if bound is not None and (refused := why_refused(book.settings, bound, bound)):
        raise OtherInstitutionError(refused)
    book.check_listeners()
    return done


def backfill(book: Rollbook, *, day: date, last: date, confirmed: bool) -> NightOutcome:
    """Rebuild the landed days of a range. Unless `confirmed`, it is held if it would remove too many rows."""
    try:
        done = past.backfill(book, day, last, confirm=always if confirmed else within_hold)
    except NothingLandedError as error:
        return NightOutcome(kind=NightKind.SKIPPED, at=book.clock(), message=error.message)
    return NightOutcome(kind=NightKind.REBUILT, at=book.clock(), days=tuple(done.rebuilt), skipped=done.skipped)


def check(book: Rollbook) -> list[Finding]:
    """Check whether the institution could be synced here and now."""
    with machine_errors(book.warehouse.root):
        return [replace(f, says=naming(book.settings.institution, f.says)) for f in examine(book)]


def _end_with_the_run() -> None:
    """End this process when the run is killed: nobody would receive its answer."""
    run = parent_process()
    if run is not None:
        run.join()
        os.kill(os.getpid(), signal.SIGTERM)


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        record.exc_info = record.exc_text = None  # a traceback might quote a record
        return printable(super().format(record))


def _message(error: Exception, name: str) -> str:
    """Say what happened and what to do. For an unexpected error, its type and place: its message may quote a record."""
    if isinstance(error, RollbookError):
        return naming(name, error.message)
    own = [frame for frame in extract_tb(error.__traceback__) if "pipelines" in Path(frame.filename).parts]
    place = f" in {Path(own[-1].filename).name}, line {own[-1].lineno}" if own else ""
    return unexpected_error(
        f"{type(error).__name__}{place}", "Other institutions are not affected; the next run retries this one"
    )


# -- how they stand ----------------------------------------------------------------------------------------------------
#
# Read from each institution's state and its newest day's manifests, and from no database, so that a thousand take
# seconds. Also as a page, and in the text format that node exporters collect from a folder (Prometheus, version 0.0.4).
#
# The page adds figures and where the contract drifts, from `fleet.duckdb` if there is one. It names institutions and no
# pupils; an undeclared field is named only if several records have it, since a single record's field name may be
# anything.

PAGE = "fleet-report.html"
# A field that this many records have in one sync comes from the service, and does not describe one pupil.
MIN_RECORDS = 5
_NO_FIGURES: dict[str, Any] = {"built_at": None, "schools": {}, "figures": (), "drift": (), "refused": ()}
# The most urgent come first.
URGENCY = (NightKind.FAILED, NightKind.HELD, "late", NEVER, NightKind.PAUSED, NightKind.SYNCED)


class InstitutionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One institution. Times are UTC; unknown values are null.

    `last` is its last sync, by a fleet's run or by itself; null before the first. `paused` says why it is paused, and
    is empty if it is not. `readers_see` is the newest day that was synced, at `synced_at`. `late_by` is the seconds
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
        """Whether it needs no attention."""
        return self.shown == NightKind.SYNCED

    @property
    def why(self) -> str:
        """Says what happened, and what to do."""
        if self.shown == "late" and self.due is not None:
            return f"the night of {self.due:%Y-%m-%d %H:%M} UTC was not synced: run `rollbook fleet sync`"
        return self.paused or (self.last.message if self.last else "")


class FleetStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The output of `rollbook fleet status`, also as JSON: counts by state, and each institution."""

    counts: dict[str, int]
    institutions: tuple[InstitutionStatus, ...]


def load_overview(fleet: Fleet) -> FleetStatus:
    """Read each institution's status. One that cannot be read is shown as failed, with the reason."""
    found = tuple(_look(fleet, name) for name in fleet.institutions)
    return FleetStatus(counts=dict(Counter(status.shown for status in found)), institutions=found)


def _look(fleet: Fleet, name: str) -> InstitutionStatus:
    state = load_state(fleet.path, name)
    known = InstitutionStatus(institution=name, paused=state.why_paused(name), refused_nights=len(state.refused))
    try:
        book = assemble(settings.load(fetches=False, institution=name), clock=fleet.clock)
        last, good, shown = last_sync(book.raw, state), book.newest(), book.warehouse.shown()
        due, late_by = freshness(book, good, shown)
    except (RollbookError, OSError) as error:
        message = naming(name, error.message) if isinstance(error, RollbookError) else type(error).__name__
        return msgspec.structs.replace(
            known, last=NightOutcome(kind=NightKind.FAILED, at=fleet.clock(), message=message)
        )
    return msgspec.structs.replace(
        known,
        last=last,
        readers_see=max((day for day, _ in shown), default=None),
        synced_at=good.finished_at if good else None,
        due=due.astimezone(UTC),
        late_by=late_by if last else None,  # one that was added only recently is not late
    )


def write_prometheus(path: Path, known: FleetStatus) -> None:
    """Write all metrics, each with its help text, atomically. Raises ArgumentError when the file cannot be written."""
    lines: list[str] = []
    for name, meaning, samples in _METRICS:
        lines += [f"# HELP rollbook_{name} {meaning}", f"# TYPE rollbook_{name} gauge"]
        for status in known.institutions:
            labelled = ((f'institution="{status.institution}"{more}', v) for more, v in samples(status).items())
            lines += [f"rollbook_{name}{{{labels}}} {value:.15g}" for labels, value in labelled if value is not None]
    try:
        with files.handing_out(path) as file:
            os.fchmod(file.fileno(), 0o644)  # the exporter runs under another account; it holds no pupils
            file.write(("\n".join(lines) + "\n").encode())
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise ArgumentError(f"{path} cannot be written ({reason}): name a file in an existing folder") from None


# A metric's samples of one institution, by their further labels; an unknown one is None. No label needs an escape.
_METRICS: tuple[tuple[str, str, Callable[[InstitutionStatus], Mapping[str, float | None]]], ...] = (
    (
        "sync_outcome",
        "1 for the outcome of the last sync, 0 for the others.",
        lambda s: {
            f',outcome="{outcome}"': s.outcome == outcome
            for outcome in (NightKind.SYNCED, NightKind.HELD, NightKind.FAILED, NEVER)
        },
    ),
    ("paused", "1 if the institution is paused.", lambda s: {"": bool(s.paused)}),
    ("late_seconds", "Seconds since a missed night was due; 0 if none was missed.", lambda s: {"": s.late_by or 0}),
    (
        "sync_ended_timestamp_seconds",
        "When the last sync ended, whatever its outcome.",
        lambda s: {"": s.last.at.timestamp() if s.last else None},
    ),
    (
        "good_sync_timestamp_seconds",
        "When the data that readers see was fetched.",
        lambda s: {"": s.synced_at.timestamp() if s.synced_at else None},
    ),
    ("sync_duration_seconds", "How long the last sync took.", lambda s: {"": s.last.seconds if s.last else None}),
    ("sync_requests", "How many requests the last sync took.", lambda s: {"": s.last.requests if s.last else None}),
    (
        "sync_records",
        "How many records the last sync received.",
        lambda s: {f',set="{name}"': count for name, count in s.last.received.items()} if s.last else {},
    ),
    (
        "sync_rejected_records",
        "How many records of the last sync were refused.",
        lambda s: {"": s.last.rejected if s.last else None},
    ),
    (
        "key_refused_nights",
        "On how many nights in a row the service has refused the key.",
        lambda s: {"": s.refused_nights},
    ),
)


def write_page(fleet: Fleet, out: Path) -> str:
    """Write the page to a file that only its owner can read; returns its summary in one sentence.

    Raises DamagedError for a fleet.duckdb that cannot be read.
    """
    status = load_overview(fleet)
    others = ", ".join(f"{status.counts[state]:,} {state}" for state in URGENCY[:-1] if status.counts.get(state))
    total = count_of(len(status.institutions), "institution")
    verdict = f"{status.counts.get(NightKind.SYNCED, 0):,} of {total} up to date{'; ' if others else ''}{others}."
    file = FleetFile(fleet.path).path
    page = pages.environment("rollbook.fleet", cell=_cell).get_template("page.html").render(
        at=fleet.clock(),
        verdict=verdict,
        institutions=sorted(status.institutions, key=lambda s: (URGENCY.index(s.shown), s.institution)),
        **(_figures(file) if file.is_file() else _NO_FIGURES),
    )  # fmt: skip
    files.write(out, page.encode())
    return verdict


def _figures(file: Path) -> dict[str, Any]:
    """The page's figures from fleet.duckdb; `built_at` is when that was built."""
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
    """A value as text; a dash if it is unknown."""
    if value is None:
        return "\N{EN DASH}"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.1f}" if isinstance(value, float) else printable(str(value))
