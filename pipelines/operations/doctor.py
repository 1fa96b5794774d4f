"""Checks, one by one, whether a sync could run here and now, and says what to do if not.

Nothing is written: permissions are only read, and the one page fetched of each set is flattened in memory and dropped.
The checks of Dagster are in `cli.instance`.
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
from importlib.metadata import version
from pathlib import Path

from pipelines import __version__, machine
from pipelines.errors import RollbookError
from pipelines.flatten import flatten
from pipelines.landing.manifest import Landed
from pipelines.mirror.mirror import Mirror
from pipelines.operations import capacity, status
from pipelines.privacy.pseudonymous import Pseudonymous
from pipelines.settings import ROOT
from pipelines.source.claims import why_refused
from pipelines.source.client import LIMIT, Client
from pipelines.source.envelope import Institution, institution, page_of
from pipelines.source.fetch import apart
from pipelines.sync import Rollbook, too_many_rejected
from pipelines.tables import SETS, WALKED
from pipelines.text import count_of

# Fails fast: retries are capped at 10 s (a sync retries for ROLLBOOK_RETRY_SECONDS).
RETRY_SECONDS = 10.0
MAX_SKEW = timedelta(minutes=5)
VERSIONS = ("dagster", "dagster-webserver", "duckdb", "pyarrow", "pandas", "httpx", "msgspec", "apprise")


class Level(StrEnum):
    """The severity of a finding. Only `failed` keeps a sync from running."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True)
class Finding:
    """One line: what was checked, its level, and a sentence on what was found and what to do."""

    what: str
    level: Level
    says: str


Check = Callable[[], Iterator[Finding]]


class Doctor:
    """All checks of one warehouse and its service, in order; a later one may use what an earlier one found."""

    def __init__(self, rollbook: Rollbook) -> None:
        self.rollbook = rollbook
        self.settings = rollbook.settings
        self.root = rollbook.warehouse.root
        self.bodies: float | None = None

    def examine(self) -> Iterator[Finding]:
        """Run all checks. An error in one becomes its finding, and the others still run."""
        checks: tuple[tuple[str, Check], ...] = (
            ("settings", self._check_settings),
            ("versions", _check_versions),
            ("files", self._check_files),
            ("warehouse", self._check_warehouse),
            ("service", self._check_service),
            ("disk space", self._check_disk_space),
            ("mirror", self._check_mirror),
        )
        for what, check in checks:
            try:
                with machine.translate_errors(self.root):
                    yield from check()
            except RollbookError as error:
                yield Finding(what, Level.FAILED, error.message)

    # -- this machine ----------------------------------------------------------------------------------------------

    def _check_settings(self) -> Iterator[Finding]:
        settings = self.settings
        keep = "all days" if settings.keep_days is None else count_of(settings.keep_days, "day")
        yield Finding(
            "settings",
            Level.OK,
            f"{settings.base_url}, warehouse {self.root}, {settings.cron} in {settings.timezone}, keeping {keep}",
        )
        names = ", ".join(settings.notify_names)
        says = f"go to {names}; none was sent anything now" if names else "go to nobody: ROLLBOOK_NOTIFY is not set"
        yield Finding("alerts", Level.OK, says)
        env = ROOT / ".env"
        with suppress(OSError):
            if env.stat().st_mode & 0o077:
                says = f"{env} holds the key and others may read it: chmod 600 {env}"
                yield Finding("settings", Level.WARNING, says)

    def _check_files(self) -> Iterator[Finding]:
        found = machine.existing(self.root)
        if not found.is_dir():
            says = f"{found} is not a folder: set ROLLBOOK_WAREHOUSE to a folder, or move the file"
            yield Finding("files", Level.FAILED, says)
            return
        refused = next(_inaccessible(found, inside=found == self.root), None)
        if refused is not None:
            with machine.translate_errors(self.root):
                raise OSError(_errno(refused), "", str(refused))
        exposed = next(self._exposed(), None)
        if exposed is not None:
            says = f"{exposed} holds pupils' records and others may enter or read it: chmod -R go= {exposed}"
            yield Finding("files", Level.WARNING, says)
        account = machine.account()
        access = f"{self.root} can be written to" if found == self.root else f"{self.root} can be made"
        yield Finding("files", Level.OK, f"{access} by this account ({account})")

    def _exposed(self) -> Iterator[Path]:
        """The private folders that other accounts can open."""
        private = self.rollbook.listener(Pseudonymous).codes.path.parent
        for path in (self.rollbook.raw.root, self.rollbook.warehouse.build, private):
            with suppress(OSError):
                if stat.S_IMODE(path.stat().st_mode) & 0o077:
                    yield path

    def _check_warehouse(self) -> Iterator[Finding]:
        """Report what is damaged, held, late or expired."""
        known = status.load_status(self.rollbook)
        for problem in known.problems:
            yield Finding("warehouse", Level.FAILED, problem)
        for hold in known.holds:
            says = f"{hold.snapshot_date} is held ({hold.reason}); if it is right: {hold.approve}"
            yield Finding("warehouse", Level.WARNING, says)
        if known.last_good is None:
            yield Finding("warehouse", Level.OK, "empty: the first sync will fill it")
            return
        if known.late_by is not None:
            says = f"the night of {known.due:%Y-%m-%d %H:%M} was not synced: run `rollbook sync`, and see what it says"
            yield Finding("warehouse", Level.WARNING, says)
        days, count = known.history, known.expired.count
        expired = f", {count} of them only in the history" if count else ""
        if not known.problems:
            span = f"{count_of(days.count, 'day')} from {days.first} to {days.last}"
            says = f"institution {known.school_id}, {span}{expired}"
            yield Finding("warehouse", Level.OK, says)

    def _check_mirror(self) -> Iterator[Finding]:
        """A copy that is behind keeps no sync from running."""
        if not self.settings.lake:
            return
        try:
            catalog, state = self.rollbook.listener(Mirror).status()
        except RollbookError as error:
            yield Finding("mirror", Level.WARNING, error.message)
            return
        if catalog is None or state.failed:
            says = state.failed or f"nothing was copied to {self.settings.lake} yet: the next sync does it"
            yield Finding("mirror", Level.WARNING, says)
            return
        days = count_of(len(catalog.days()), "landed day")
        yield Finding(
            "mirror", Level.OK, f"{self.settings.lake} holds {days}, copied {catalog.made_at:%Y-%m-%d %H:%M} UTC"
        )

    def _check_disk_space(self) -> Iterator[Finding]:
        night = capacity.last_night(self.rollbook)
        if night is None and self.bodies is not None:
            night = capacity.first_night(self.bodies)
        if night is None:
            yield Finding("disk space", Level.WARNING, "cannot be estimated before the service has sent a page")
            return
        need, free = capacity.predict(self.rollbook, night), machine.free(self.root)
        size = machine.in_bytes
        says = f"a sync needs {size(need.sync)} and leaves {size(need.night)}; {size(free)} are free"
        if free < need.sync:
            advice = "make room, or delete old days (`rollbook prune --dry-run`, ROLLBOOK_KEEP_DAYS)"
            yield Finding("disk space", Level.FAILED, f"{says}: {advice}")
            return
        used = machine.size(self.root)
        year = f"in a year the warehouse takes {size(need.year)} at most, from {size(used)} now"
        if need.year - used > free:
            says = f"{says}. {year}: more than there is. Set ROLLBOOK_KEEP_DAYS, or add room"
            yield Finding("disk space", Level.WARNING, says)
        else:
            yield Finding("disk space", Level.OK, f"{says}; {year}")

    # -- the service -----------------------------------------------------------------------------------------------

    def _check_service(self) -> Iterator[Finding]:
        retry_seconds = min(RETRY_SECONDS, self.settings.retry_seconds)
        with Client(self.settings.model_copy(update={"retry_seconds": retry_seconds})) as client:
            auth = client.get(SETS["auth"].endpoint, read=institution)
            yield self._check_key(auth.said)
            yield _check_clock(auth.said.timestamp, auth.received_at, self.rollbook)
            total = 0.0
            for name in WALKED:
                page = client.get(name, {"page": 1, "limit": LIMIT}, read=page_of(SETS[name]))
                yield _check_page(name, page.content, page.said.total_count)
                records = len(page.said.ids)
                total += len(page.content) / records * page.said.total_count if records else 0
            self.bodies = total

    def _check_key(self, owner: Institution) -> Finding:
        if refused := why_refused(self.settings, owner.school_id, self.rollbook.bound_to()):
            return Finding("key", Level.FAILED, refused)
        return Finding("key", Level.OK, f"accepted by {self.settings.base_url}: institution {owner.school_id}")


def _check_clock(theirs: datetime, now: datetime, rollbook: Rollbook) -> Finding:
    """Compare the service's time, which has no zone, with ours. Contract: "Institution (auth check result)".

    A difference is a warning, since a sync is labelled with the local date; it fails if the dates are further apart
    than time zones can explain, because a sync would then fetch nothing.
    """
    utc = now.astimezone(UTC).replace(tzinfo=None)
    here = now.astimezone(rollbook.settings.zone).replace(tzinfo=None)
    for name, ours in (("UTC", utc), (rollbook.settings.timezone, here)):
        if abs(theirs - ours) <= MAX_SKEW:
            return Finding("clock", Level.OK, f"agrees with the service's, taken as {name}")
    says = f"the service's says {theirs:%Y-%m-%d %H:%M}, this machine's {utc:%Y-%m-%d %H:%M} UTC"
    if apart(here.date(), theirs.date()):
        advice = "set this machine's clock (timedatectl), or tell the service"
        return Finding("clock", Level.FAILED, f"{says}, and a sync would fetch nothing: {advice}")
    guess = "either the service is in another zone, or one of the clocks is wrong (see timedatectl)"
    return Finding("clock", Level.WARNING, f"{says}: {guess}")


def _check_page(name: str, content: bytes, total: int) -> Finding:
    """Flatten one page as a sync would, and report rejects and undeclared fields."""
    landed = Landed(set=name, kind="walk", page=1, content=content)
    records = rejects = drift = 0
    for batch in flatten(name, iter([landed])):
        records += batch.records
        rejects += len(batch.rejects)
        drift += len(batch.drift)
    unknown = f", {drift} unknown fields (they are kept in raw/ and named in ops.drift)" if drift else ""
    says = f"{records} of {total:,} {name} read, {rejects} refused{unknown}"
    if too_many_rejected(rejects, records):
        advice = "the service no longer follows its contract, and a sync would fail; ask its representative"
        return Finding("one page", Level.FAILED, f"{says}: {advice}")
    return Finding("one page", Level.WARNING if rejects or drift else Level.OK, says)


def _check_versions() -> Iterator[Finding]:
    listed = ", ".join(f"{name} {version(name)}" for name in VERSIONS)
    yield Finding("versions", Level.OK, f"Rollbook {__version__}, Python {platform.python_version()}, {listed}")


def _inaccessible(folder: Path, *, inside: bool) -> Iterator[Path]:
    """The paths that a sync needs but this account may not write to (folders) or read (files)."""
    if not os.access(folder, os.W_OK | os.X_OK):
        yield folder
    if inside:
        for path in sorted(folder.rglob("*")):
            needed = os.R_OK | os.W_OK | os.X_OK if path.is_dir() else os.R_OK
            if not os.access(path, needed):
                yield path


def _errno(path: Path) -> int:
    """The errno that writing there would raise."""
    read_only = os.statvfs(path).f_flag & os.ST_RDONLY
    return errno.EROFS if read_only else errno.EACCES
