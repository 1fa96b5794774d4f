"""The published file as it was on a day, or would have been with what was known then.

Landings are never changed, so this is a filter over what counts, by the times of verdicts, approvals and discards.
Views, thresholds, terms and declarations are today's, and erasures always apply.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from pathlib import Path

import msgspec

from rollbook.errors import ArgumentError, BusyError, ExpiredError
from rollbook.export import check_target
from rollbook.landing.bodies import BODIES, PAGES, REJECTS, LandingFolder
from rollbook.landing.manifest import Manifest, Verdict
from rollbook.landing.raw import RawStore
from rollbook.night import past
from rollbook.night.past import Backfilled, always
from rollbook.night.policy import spans
from rollbook.night.rollbook import Rollbook
from rollbook.store.database import machine_errors
from rollbook.store.published import same_file
from rollbook.store.warehouse import Warehouse
from rollbook.util import files
from rollbook.views import catalog
from rollbook.views.editable import TERMS, THRESHOLDS


def rebuild_as_known_on(rollbook: Rollbook, day: date, out: Path) -> Backfilled:
    """Write the published file as it was at the end of a day (in ROLLBOOK_TIMEZONE), without its snapshots.

    It is built from `raw/` in a folder of its own in `build/`: the warehouse stays as it is, and may be synced at the
    same time. Raises ExpiredError with the days that it would lack, LostError, ArgumentError if nothing counted then
    or `out` cannot be written, and BusyError if a student is erased meanwhile.
    """
    check_target(out)
    if day > rollbook.today():
        raise ArgumentError(f"{day} has not begun, so nothing is known on it")
    given_up = rollbook.landings.expired_days() | (rollbook.raw.given_up() - {*rollbook.raw.days()})
    if lacking := sorted(d for d in given_up if d <= day):
        raise ExpiredError(
            f"What was landed on {spans(lacking)} has expired (ROLLBOOK_KEEP_DAYS), so the file of {day} cannot be made"
            " again. Put these days back into raw/ from a backup first"
        )
    rollbook.recovery.check_raw()
    erasures = rollbook.raw.erasure_register.count
    moment = datetime.combine(day + timedelta(days=1), time(), rollbook.settings.zone)
    with machine_errors(rollbook.warehouse.root), files.aside(rollbook.warehouse.build) as folder:
        for name in (THRESHOLDS, TERMS):
            with suppress(FileNotFoundError):
                shutil.copyfile(rollbook.warehouse.root / name, folder / name)
        raw = RawStore(folder / "raw", rollbook.raw.erasure_register)
        for landing in rollbook.raw.folders():
            _add_as_known(raw, landing, rollbook.raw, moment)
        settings, warehouse = rollbook.settings.model_copy(update={"keep_days": None}), Warehouse(folder)
        beside = Rollbook(settings, clock=rollbook.clock, progress=rollbook.progress, warehouse=warehouse, raw=raw)
        if not beside.landings.counted_days():
            raise ArgumentError(f"Nothing was known on {day}: no landing counted yet")
        done = past.rebuild(beside, confirm=always)
        with warehouse.finishing(warehouse.published_file) as con:
            catalog.create_snapshots(con, beside.lake, [])  # their files go with the folder
        if rollbook.raw.erasure_register.count != erasures:
            raise BusyError("A student was erased meanwhile, so nothing was written: run this again")
        with warehouse.next.open("rb") as source, files.handing_out(out) as file:
            shutil.copyfileobj(source, file)
    return done


def _add_as_known(raw: RawStore, landing: LandingFolder, of: RawStore, moment: datetime) -> None:
    """Add a landing to `raw` as it was known before a moment, if it was decided by then. Its bodies are links."""
    manifest = _as_known(landing.manifest, moment)
    if manifest is not None:
        _, partial = raw.reserve(manifest.snapshot_date)
        for name in filter(files.names(landing.path).__contains__, (BODIES, PAGES, REJECTS)):
            same_file(landing.path / name, partial / name)
        raw.commit(partial, manifest)
        for discard in of.discards(manifest):
            if discard.discarded_at < moment and (discard.undone_at is None or discard.undone_at >= moment):
                raw.discard(manifest, discard.reason, discard.discarded_at)


def _as_known(manifest: Manifest, moment: datetime) -> Manifest | None:
    """A landing with its verdict of then: held, if it was approved later; None if it had none yet."""
    given = tuple(each for each in manifest.approvals if each.approved_at < moment)
    if given != manifest.approvals:
        last, held = manifest.approvals[-1], Verdict.HELD
        manifest = msgspec.structs.replace(
            manifest, verdict=held, reason=last.held, judged_at=last.held_at, counts=last.counts, approvals=given
        )
    return manifest if manifest.judged_at is not None and manifest.judged_at < moment else None
