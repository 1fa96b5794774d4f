"""Checks, one by one, whether a sync could run here and now, and says what to do if not.

Nothing is written: permissions are only read, and the one page fetched of each set is flattened in memory and dropped.
The checks of Dagster are in `cli.data`.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rollbook.errors import RollbookError
from rollbook.flatten.rows import Flattener
from rollbook.health import status
from rollbook.health.finding import Finding, Level
from rollbook.landing.erased import PRIVATE
from rollbook.landing.formats import FORMAT
from rollbook.landing.manifest import LandedBody
from rollbook.night.place import Place
from rollbook.night.policy import check_reject_rate
from rollbook.settings import Settings, misspelt, secret_files, secrets_in_environment
from rollbook.source.client import LIMIT, Client
from rollbook.source.envelope import Page, institution, page_of
from rollbook.source.fetch import dates_differ_beyond_time_zones, why_refused
from rollbook.store.database import machine_errors
from rollbook.tables import SETS, WALKED
from rollbook.util import machine
from rollbook.util.text import count_of, listed

# Fails fast: retries are capped at 10 s (a sync retries for ROLLBOOK_RETRY_SECONDS).
RETRY_SECONDS = 10.0
MAX_SKEW = timedelta(minutes=5)


@dataclass(frozen=True)
class Examined:
    """What is checked: an institution's folders and its settings."""

    place: Place
    settings: Settings
    now: datetime


def examine(place: Place, settings: Settings, now: datetime) -> Iterator[Finding]:
    """Run all checks of a warehouse and its service. An error in one becomes its finding, and the others still run."""
    examined = Examined(place, settings, now)
    for what, check in CHECKS.items():
        try:
            with machine_errors(place.warehouse.root):
                yield from check(examined)
        except RollbookError as error:
            yield Finding(what, Level.FAILED, error.message)


def _check_settings(at: Examined) -> Iterator[Finding]:
    settings, root = at.settings, at.place.warehouse.root
    keep = "all days" if settings.keep_days is None else count_of(settings.keep_days, "day")
    says = f"{settings.base_url}, warehouse {root}, {settings.cron} in {settings.timezone}, keeping {keep}"
    yield Finding("settings", Level.OK, says)
    for says in misspelt():
        yield Finding("settings", Level.FAILED, says)
    for path in filter(_is_open, secret_files()):
        yield Finding("settings", Level.WARNING, f"{path} holds a secret and others may read it: chmod 600 {path}")
    if shown := sorted(secrets_in_environment()):
        says = (
            f"the environment holds {listed(shown)}, which every program started here gets: put what Rollbook needs"
            " into private files, as in ROLLBOOK_API_KEY_FILE=/path/of/the/file, and leave out the rest"
        )
        yield Finding("settings", Level.WARNING, says)


def _check_files(at: Examined) -> Iterator[Finding]:
    root = at.place.warehouse.root
    folder = machine.existing(root)
    if not folder.is_dir():
        says = f"{folder} is not a folder: set ROLLBOOK_WAREHOUSE to a folder, or move the file"
        yield Finding("files", Level.FAILED, says)
        return
    if (refused := _inaccessible(folder, inside=folder == root)) is not None:
        read_only = os.statvfs(refused).f_flag & os.ST_RDONLY
        raise OSError(errno.EROFS if read_only else errno.EACCES, "", str(refused))  # as writing there would
    private = root / PRIVATE
    for path in filter(_is_open, (at.place.raw.root, at.place.warehouse.build, private)):
        says = f"{path} holds pupils' records and others may enter or read it: chmod -R go= {path}"
        yield Finding("files", Level.WARNING, says)
    access = "can be written to" if folder == root else "can be made"
    yield Finding("files", Level.OK, f"{root} {access} by this account ({machine.account()})")


def _check_warehouse(at: Examined) -> Iterator[Finding]:
    """Report what is damaged, held, late or expired."""
    report = status.load_status(at.place, at.settings, at.now)
    for problem in report.problems:
        yield Finding("warehouse", Level.FAILED, problem)
    for hold in report.holds:
        says = f"{hold.snapshot_date} is held ({hold.reason}); if it is right: {hold.command}"
        yield Finding("warehouse", Level.WARNING, says)
    if report.last_good is None:
        yield Finding("warehouse", Level.OK, "empty: the first sync will fill it")
        return
    if report.late_by is not None:
        why = status.why_late(report.due, [hold.snapshot_date for hold in report.holds], at.settings)
        yield Finding("warehouse", Level.WARNING, f"the night of {report.due:%Y-%m-%d %H:%M} {why}")
    if not report.problems:
        days, count = report.history, report.expired.count
        expired = f", {count} of them only in the history" if count else ""
        says = (
            f"institution {report.school_id}, {count_of(days.count, 'day')} from {days.first} to {days.last}{expired},"
            f" in format {FORMAT}"
        )
        yield Finding("warehouse", Level.OK, says)


def _check_service(at: Examined) -> Iterator[Finding]:
    settings = at.settings
    retry_seconds = min(RETRY_SECONDS, settings.retry_seconds)
    with closing(Client(settings.model_copy(update={"retry_seconds": retry_seconds}))) as client:
        auth = client.get(SETS["auth"].endpoint, read=institution)
        owner = auth.parsed.school_id
        accepted = f"accepted by {settings.base_url}: institution {owner}"
        refused = why_refused(settings, owner, at.place.bound_to())
        yield Finding("key", Level.FAILED if refused else Level.OK, refused or accepted)
        yield _check_clock(auth.parsed.timestamp, auth.received_at, at)
        for name in WALKED:
            page = client.get(SETS[name].endpoint, {"page": 1, "limit": LIMIT}, read=page_of(SETS[name]))
            yield from _check_page(name, page.content, page.parsed)
        newest = at.place.landings.newest()
        if seen := client.oddities + Counter(newest.oddities if newest else {}):
            says = f"answers in its own way, which was read all the same, now or in the last sync: {_kinds(seen)}"
            yield Finding("service", Level.OK, says)


def _check_disk_space(at: Examined) -> Iterator[Finding]:
    night, root, size = status.last_night(at.place), at.place.warehouse.root, machine.in_bytes
    if night is None:
        yield Finding("disk space", Level.OK, "what a sync and a year need is estimated from the first sync on")
        return
    need, free = status.predict(at.place, at.settings, night), machine.free(root)
    says = f"a sync needs {size(need.sync)} and leaves {size(need.night)}; {size(free)} are free"
    if free < need.sync:
        advice = "make room, or delete old days (`rollbook prune --dry-run`, ROLLBOOK_KEEP_DAYS)"
        yield Finding("disk space", Level.FAILED, f"{says}: {advice}")
        return
    used = machine.size(root)
    year = f"in a year the warehouse takes {size(need.year)} at most, from {size(used)} now"
    too_much = need.year - used > free
    advice = ", more than there is: set ROLLBOOK_KEEP_DAYS, or add room" if too_much else ""
    yield Finding("disk space", Level.WARNING if too_much else Level.OK, f"{says}; {year}{advice}")


# In the order in which they run; each is named as its error is shown.
CHECKS = {
    "settings": _check_settings,
    "files": _check_files,
    "warehouse": _check_warehouse,
    "service": _check_service,
    "disk space": _check_disk_space,
}


def _check_clock(theirs: datetime, now: datetime, at: Examined) -> Finding:
    """Compare the service's time, which has no zone, with ours. Contract: "Institution (auth check result)".

    A difference is a warning, since a sync is labelled with the local date; it fails if the dates are further apart
    than time zones can explain, because a sync would then fetch nothing.
    """
    utc = now.astimezone(UTC).replace(tzinfo=None)
    here = now.astimezone(at.settings.zone).replace(tzinfo=None)
    for name, ours in (("UTC", utc), (at.settings.timezone, here)):
        if abs(theirs - ours) <= MAX_SKEW:
            return Finding("clock", Level.OK, f"agrees with the service's, taken as {name}")
    says = f"the service's says {theirs:%Y-%m-%d %H:%M}, this machine's {utc:%Y-%m-%d %H:%M} UTC"
    if dates_differ_beyond_time_zones(here.date(), theirs.date()):
        advice = "set this machine's clock (timedatectl), or tell the service"
        return Finding("clock", Level.FAILED, f"{says}, and a sync would fetch nothing: {advice}")
    guess = "either the service is in another zone, or one of the clocks is wrong (see timedatectl)"
    return Finding("clock", Level.WARNING, f"{says}: {guess}")


def _check_page(name: str, content: bytes, page: Page) -> Iterator[Finding]:
    """Flatten one page as a sync would, and report rejects and undeclared fields; also which counts are missing."""
    if page.not_stated:
        says = (
            f"the service does not state {listed(page.not_stated)} of {name}, so no walk can be proven complete and"
            " nobody who leaves is removed: ask its representative to state that"
        )
        yield Finding("one page", Level.WARNING, says)
    flattener = Flattener(name)
    flattener.add(LandedBody(set=name, kind="walk", page=1, content=content))
    batch = flattener.last()
    records, drift = batch.records, len(batch.drift)
    rejects, values = (sum(bool(r.column) is is_value for r in batch.rejects) for is_value in (False, True))
    unknown = f", {drift} unknown fields (they are kept in raw/ and named in ops.drift)" if drift else ""
    odd = f", {values} of their values refused" if values else ""
    if batch.oddities:
        odd += f", and read all the same: {_kinds(batch.oddities)}"
    of = "" if page.total_count is None else f" of {page.total_count:,}"
    says = f"{records}{of} {name} read, {rejects} refused{odd}{unknown}"
    if check_reject_rate(batch.rejects, Counter({name: records}), batch.values()):
        advice = "the service no longer follows its contract, and a sync would fail; ask its representative"
        yield Finding("one page", Level.FAILED, f"{says}: {advice}")
        return
    yield Finding("one page", Level.WARNING if rejects or values or drift else Level.OK, says)


def _kinds(oddities: Counter[str]) -> str:
    return listed([f"{kind} ({n:,})" for kind, n in oddities.most_common()])


def _inaccessible(folder: Path, *, inside: bool) -> Path | None:
    """The first path that a sync needs but this account may not write to (folders) or read (files)."""
    paths = (folder, *sorted(folder.rglob("*"))) if inside else (folder,)
    writable = os.R_OK | os.W_OK | os.X_OK
    return next((p for p in paths if not os.access(p, writable if p.is_dir() else os.R_OK)), None)


def _is_open(path: Path) -> bool:
    """Whether other accounts may read or enter a path; False if it is missing or cannot be looked at."""
    with suppress(OSError):
        return bool(path.stat().st_mode & 0o077)
    return False
