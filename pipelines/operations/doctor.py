"""Whether a sync could run here and now, one question after the other, and what to do where it could not.

Nothing is written: of folders and files it is asked whether they could be, and the one page that is fetched is
flattened in memory and dropped. What Dagster says of itself is asked by the command, which knows Dagster.
"""

from __future__ import annotations

import errno
import os
import platform
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pipelines import __version__, machine
from pipelines.errors import RollbookError
from pipelines.flatten import flatten
from pipelines.landing.manifest import Landed
from pipelines.operations import capacity, status
from pipelines.settings import ROOT
from pipelines.source.client import LIMIT, Client
from pipelines.source.envelope import Institution, institution, page_of
from pipelines.source.fetch import apart
from pipelines.sync import Rollbook, too_many_rejected
from pipelines.tables import SETS, WALKED

# A doctor who is kept waiting says so; a sync has more patience (ROLLBOOK_RETRY_SECONDS).
RETRY_SECONDS = 10.0
SKEW_MOST = timedelta(minutes=5)
QUARTER = timedelta(minutes=15)
# Zones reach from 12 hours behind UTC to 14 ahead.
ZONES_MOST = timedelta(hours=14, minutes=15)
VERSIONS = ("dagster", "dagster-webserver", "duckdb", "pyarrow", "pandas", "httpx", "msgspec")


class Outcome(StrEnum):
    """What came of one question. Only what `failed` keeps a sync from running."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True)
class Finding:
    """One line: what was looked at, what came of it, and in words what was found and what to do."""

    what: str
    outcome: Outcome
    says: str


Question = Callable[[], Iterator[Finding]]


class Doctor:
    """All questions about one warehouse and its service, asked in order; an answer may need one from before."""

    def __init__(self, rollbook: Rollbook, *, run_bytes: int = capacity.RUN_BYTES) -> None:
        self.rollbook = rollbook
        self.settings = rollbook.settings
        self.root = rollbook.warehouse.root
        self.run_bytes = run_bytes
        self.bodies: float | None = None

    def examine(self) -> Iterator[Finding]:
        """Ask everything; one question that cannot be answered does not keep the others from being asked."""
        questions: tuple[tuple[str, Question], ...] = (
            ("settings", self._settings),
            ("versions", _versions),
            ("files", self._files),
            ("warehouse", self._warehouse),
            ("service", self._service),
            ("disk space", self._room),
        )
        for what, question in questions:
            try:
                with machine.translate_errors(self.root):
                    yield from question()
            except RollbookError as error:
                yield Finding(what, Outcome.FAILED, error.message)

    # -- here ------------------------------------------------------------------------------------------------------

    def _settings(self) -> Iterator[Finding]:
        settings = self.settings
        keep = "all days" if settings.keep_days is None else f"{settings.keep_days} days"
        yield Finding(
            "settings",
            Outcome.OK,
            f"{settings.base_url}, warehouse {self.root}, {settings.cron} in {settings.timezone}, keeping {keep}",
        )
        env = ROOT / ".env"
        with suppress(OSError):
            if env.stat().st_mode & 0o077:
                says = f"{env} holds the key and others may read it: chmod 600 {env}"
                yield Finding("settings", Outcome.WARNING, says)

    def _files(self) -> Iterator[Finding]:
        there = machine.existing(self.root)
        if not there.is_dir():
            yield Finding("files", Outcome.FAILED, f"{there} is no folder: set ROLLBOOK_WAREHOUSE to one, or move it")
            return
        refused = next(_refused(there, inside=there == self.root), None)
        if refused is not None:
            with machine.translate_errors(self.root):
                raise OSError(_reason(refused), "", str(refused))
        loose = next(self._loose(), None)
        if loose is not None:
            says = f"{loose} holds pupils' records and others may enter or read it: chmod -R go= {loose}"
            yield Finding("files", Outcome.WARNING, says)
        account = machine.account()
        made = f"{self.root} can be written to" if there == self.root else f"{self.root} can be made"
        yield Finding("files", Outcome.OK, f"{made} by this account ({account})")

    def _loose(self) -> Iterator[Path]:
        """What is the owner's alone and is open to others."""
        for path in (self.rollbook.raw.root, self.rollbook.warehouse.build):
            with suppress(OSError):
                if stat.S_IMODE(path.stat().st_mode) & 0o077:
                    yield path

    def _warehouse(self) -> Iterator[Finding]:
        """What of it is damaged, held or let go of."""
        known = status.load_status(self.rollbook)
        for problem in known.problems:
            yield Finding("warehouse", Outcome.FAILED, problem)
        for hold in known.holds:
            says = f"{hold.snapshot_date} is held ({hold.reason}); if it is right: {hold.approve}"
            yield Finding("warehouse", Outcome.WARNING, says)
        if known.last_good is None:
            yield Finding("warehouse", Outcome.OK, "empty: the first sync will fill it")
            return
        if known.late_by is not None:
            says = f"the night of {known.due:%Y-%m-%d %H:%M} was not synced: run `rollbook sync`, and see what it says"
            yield Finding("warehouse", Outcome.WARNING, says)
        days, thinned = known.history, known.expired
        gone = f", {thinned.count} of them in the history alone" if thinned.count else ""
        if not known.problems:
            says = f"institution {known.school_id}, {days.count} days from {days.first} to {days.last}{gone}"
            yield Finding("warehouse", Outcome.OK, says)

    def _room(self) -> Iterator[Finding]:
        night = capacity.last_night(self.rollbook)
        if night is None and self.bodies is not None:
            night = capacity.first_night(self.bodies)
        if night is None:
            yield Finding("disk space", Outcome.WARNING, "cannot be told before the service has shown a page")
            return
        need, free = capacity.predict(self.rollbook, night, run_bytes=self.run_bytes), machine.free(self.root)
        words = machine.in_bytes
        says = f"a sync needs {words(need.sync)} and leaves {words(need.night)}; {words(free)} are free"
        if free < need.sync:
            more = "make room, or let days go (`rollbook prune --dry-run`, ROLLBOOK_KEEP_DAYS)"
            yield Finding("disk space", Outcome.FAILED, f"{says}: {more}")
            return
        have = machine.size(self.root)
        year = f"in a year it all comes to {words(need.year)} at most, from {words(have)} now"
        if need.year - have > free:
            yield Finding(
                "disk space",
                Outcome.WARNING,
                f"{says}. {year}: more than there is. Set ROLLBOOK_KEEP_DAYS, or add room",
            )
        else:
            yield Finding("disk space", Outcome.OK, f"{says}; {year}")

    # -- there -----------------------------------------------------------------------------------------------------

    def _service(self) -> Iterator[Finding]:
        patience = min(RETRY_SECONDS, self.settings.retry_seconds)
        with Client(self.settings.model_copy(update={"retry_seconds": patience})) as client:
            answer = client.get("auth", read=institution)
            yield self._key(answer.said)
            yield clock(answer.said.timestamp, answer.received_at, self.rollbook)
            total = 0.0
            for name in WALKED:
                page = client.get(name, {"page": 1, "limit": LIMIT}, read=page_of(SETS[name]))
                yield _page(name, page.content, page.said.total_count)
                shown = len(page.said.ids)
                total += len(page.content) / shown * page.said.total_count if shown else 0
            self.bodies = total

    def _key(self, said: Institution) -> Finding:
        bound = self.rollbook.bound_to()
        if bound not in (None, said.school_id):
            says = (
                f"is accepted, but belongs to institution {said.school_id}, and this warehouse to {bound}: set"
                " ROLLBOOK_API_KEY to this institution's key, or ROLLBOOK_WAREHOUSE to another folder"
            )
            return Finding("key", Outcome.FAILED, says)
        return Finding("key", Outcome.OK, f"accepted by {self.settings.base_url}: institution {said.school_id}")


def clock(said: datetime, now: datetime, rollbook: Rollbook) -> Finding:
    """Compare the service's time, which names no zone, with ours. Contract: "Institution (auth check result)".

    A difference is a warning, as a sync is labelled with the date here, unless the dates are further apart than zones
    are: then nothing would be fetched.
    """
    utc = now.astimezone(UTC).replace(tzinfo=None)
    here = now.astimezone(rollbook.settings.zone).replace(tzinfo=None)
    for name, ours in (("UTC", utc), (rollbook.settings.timezone, here)):
        if abs(said - ours) <= SKEW_MOST:
            return Finding("clock", Outcome.OK, f"agrees with the service's, taken as {name}")
    off = said - utc
    words = f"the service's says {said:%Y-%m-%d %H:%M}, this machine's {utc:%Y-%m-%d %H:%M} UTC"
    to_do = "set this machine's clock (timedatectl), or tell the service"
    if apart(here.date(), said.date()):
        return Finding("clock", Outcome.FAILED, f"{words}, and a sync would fetch nothing: {to_do}")
    if abs(off) <= ZONES_MOST and abs(off - round(off / QUARTER) * QUARTER) <= SKEW_MOST:
        hours = off / timedelta(hours=1)
        guess = f"either the service is in another zone (UTC{hours:+.4g} h), or one of the clocks is wrong"
        return Finding("clock", Outcome.WARNING, f"{words}: {guess}")
    return Finding("clock", Outcome.WARNING, f"{words}: {to_do}")


def _page(name: str, content: bytes, total: int) -> Finding:
    """Flatten one page as a sync would, and say what of it would be refused."""
    landed = Landed(set=name, kind="walk", page=1, content=content)
    records = rejects = drift = 0
    for batch in flatten(name, iter([landed])):
        records += batch.records
        rejects += len(batch.rejects)
        drift += len(batch.drift)
    unknown = f", {drift} unknown fields (they are kept in raw/ and named in ops.drift)" if drift else ""
    says = f"{records} of {total:,} {name} read, {rejects} refused{unknown}"
    if too_many_rejected(rejects, records):
        more = "the service no longer says what its contract says, and a sync would fail; ask its representative"
        return Finding("one page", Outcome.FAILED, f"{says}: {more}")
    return Finding("one page", Outcome.WARNING if rejects or drift else Outcome.OK, says)


def _versions() -> Iterator[Finding]:
    found = {}
    for name in VERSIONS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            yield Finding("versions", Outcome.FAILED, f"{name} is not installed: run `make` to set up the environment")
    if found.get("dagster") != found.get("dagster-webserver"):
        pair = f"dagster {found.get('dagster')} and dagster-webserver {found.get('dagster-webserver')}"
        yield Finding("versions", Outcome.WARNING, f"{pair} do not go together: run `make` to set up the environment")
    listed = ", ".join(f"{name} {number}" for name, number in found.items())
    yield Finding("versions", Outcome.OK, f"Rollbook {__version__}, Python {platform.python_version()}, {listed}")


def _refused(there: Path, *, inside: bool) -> Iterator[Path]:
    """What a sync must write to and this account may not."""
    if not os.access(there, os.W_OK | os.X_OK):
        yield there
    if inside:
        for path in sorted(there.rglob("*")):
            wanted = os.R_OK | os.W_OK | os.X_OK if path.is_dir() else os.R_OK
            if not os.access(path, wanted):
                yield path


def _reason(path: Path) -> int:
    """Why it may not: the number of the error that writing there would raise."""
    read_only = os.statvfs(path).f_flag & os.ST_RDONLY
    return errno.EROFS if read_only else errno.EACCES
