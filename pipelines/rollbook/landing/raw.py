"""The raw folder: exactly what the service sent, with a manifest per landing that says what it proves (G4).

    raw/snapshot_date=D/landing=N/bodies.zst     the bodies, one zstd frame each: `zstd -dc` prints them all
                                  pages.jsonl    the index of the bodies, one `manifest.Body` per line
                                  manifest.json  `manifest.Manifest`
                                  rejects.jsonl  the records that flattening refused, if any
    raw/snapshot_date=D/discarded=N/             a discarded landing: as above, and discard.json says why and by whom
    raw/expired.json                             the expired days, and whether the history still holds each

A landing is written in a hidden folder next to its final one, fsynced, and renamed: half-written bodies never look like
a landing. Afterwards only the manifest changes, when the landing gets a verdict; the erasure of a student replaces the
whole folder (`erased`). `bodies` writes and reads the bodies.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime
from pathlib import Path

import msgspec

from rollbook.errors import DamagedError
from rollbook.landing import formats
from rollbook.landing.bodies import DISCARD, MANIFEST, OLD, REJECTS, LandingFolder, damaged, decode, encode, name
from rollbook.landing.erased import ERASURES, PRIVATE, ErasureRegister
from rollbook.landing.manifest import Approval, Discard, Drift, Manifest, Reject, TableCounts, Verdict
from rollbook.util import files, machine

EXPIRED = "expired.json"
_DAY, _LANDING, _DISCARDED = "snapshot_date=", "landing=", "discarded="
_OF_A_DAY = re.compile(rf"{_DAY}(\d{{4}}-\d\d-\d\d)")
# Also a landing that is being written.
_NUMBERED = re.compile(rf"\.?(?:{_LANDING}|{_DISCARDED})(\d+)")


class Expired(formats.Stored, frozen=True, kw_only=True):
    """The content of `expired.json`: the expired days, and whether the history still holds each."""

    days: dict[date, bool]


class RawStore:
    """All landings of a warehouse. Only the holder of the writer lock may write."""

    def __init__(self, root: Path, erasure_register: ErasureRegister | None = None) -> None:
        """`erasure_register` lists the erased students (default: the register of the warehouse which owns `root`)."""
        self.root = root
        # A night reads every manifest several times.
        self._manifests = files.Decoded(decode)
        self.erasure_register = erasure_register or ErasureRegister(root.parent / PRIVATE / ERASURES)

    def reserve(self, snapshot_date: date, recorded: int = 0) -> tuple[int, Path]:
        """Return the number of the day's next landing, and a new folder for the landing.

        A number is never given twice: not even the number of a landing which is lost here, but `recorded` elsewhere.
        """
        day = files.folder(self.root / f"{_DAY}{snapshot_date}")
        number = max((int(match[1]) for match in map(_NUMBERED.match, files.names(day)) if match), default=0)
        number = max(number, recorded) + 1
        # A unique name: the second process of a killed sync may live a moment longer than the sweep.
        partial = Path(tempfile.mkdtemp(files.PARTIAL, f".{_LANDING}{number}.", day))
        files.set_mode(partial, files.PRIVATE_FOLDER)
        return number, partial

    def commit(self, partial: Path, manifest: Manifest) -> LandingFolder:
        """Turn a folder of durable bodies into a landing."""
        files.write(partial / MANIFEST, encode(manifest))  # moving fsyncs the folder, too
        folder = files.move(partial, partial.with_name(f"{_LANDING}{manifest.landing}"))
        files.sync(folder.parent)
        files.sync(self.root)
        return LandingFolder(folder, manifest)

    def abandon(self, partial: Path) -> None:
        """Remove a landing that is being written."""
        shutil.rmtree(partial, ignore_errors=True)
        _drop_if_empty(partial.parent)

    def days(self) -> list[date]:
        """Return the days with a landing, whatever the verdict, in order."""
        return sorted({day for day, _, _ in self._each(_LANDING)})

    def newest_day(self) -> date | None:
        """Return the newest day with a landing, whatever the verdict; None if there is none."""
        landed = (
            day for day, folder in reversed(self._days()) if any(n.startswith(_LANDING) for n in files.names(folder))
        )
        return next(landed, None)

    def discarded_days(self) -> list[date]:
        """Return the days with a discarded landing, in order."""
        return sorted({day for day, _, _ in self._each(_DISCARDED)})

    def all_days(self) -> frozenset[date]:
        """Return the days with a landing, including expired days if the list can be read, but not discarded
        landings.
        """
        expired: Iterable[date] = ()
        with suppress(DamagedError):  # recovery reads the list, too, and reports the damage
            expired = self._expired().days
        return frozenset((*self.days(), *expired))

    def began(self) -> dict[tuple[date, int], datetime | None]:
        """Return when each landing's sync began, discarded or not, by day and number; None where that cannot be
        read.
        """
        began: dict[tuple[date, int], datetime | None] = {}
        for day, number, folder in self._each(_LANDING, _DISCARDED):
            began[day, number] = None
            with suppress(DamagedError):
                began[day, number] = self._manifest(folder).started_at
        return began

    def manifests(self, day: date | None = None) -> list[Manifest]:
        """Return the manifests of all landings, or of a day's landings, in the order of landing. Raises
        DamagedError.
        """
        return [self._manifest(folder) for _, _, folder in self._each(_LANDING, day=day)]

    def readable(self, day: date) -> list[Manifest]:
        """Return the manifests of one day that can be read, in the order of landing."""
        readable = []
        for _, _, folder in self._each(_LANDING, day=day):
            with suppress(DamagedError):
                readable.append(self._manifest(folder))
        return readable

    def school_id(self) -> int | None:
        """Return the institution of the first counted landing that can be read; None if there is none."""
        readable = (m for day in self.days() for m in self.readable(day) if m.counts_for_its_day)
        return next((m.school_id for m in readable if m.school_id is not None), None)

    def open(self, manifest: Manifest) -> LandingFolder:
        """Return a landing's folder, to read the bodies and rejects."""
        return LandingFolder(self._folder(manifest), manifest)

    def folders(self) -> Iterator[LandingFolder]:
        """Yield every landing, including discarded landings and landings that do not count. Raises DamagedError."""
        return (
            LandingFolder(Path(folder), self._manifest(folder)) for _, _, folder in self._each(_LANDING, _DISCARDED)
        )

    def record_verdict(
        self,
        manifest: Manifest,
        verdict: Verdict,
        reason: str = "",
        *,
        counts: Iterable[TableCounts] = (),
        rejected: Mapping[str, int] | None = None,
        drift: Iterable[Drift] = (),
        oddities: Mapping[str, int] | None = None,
        at: datetime | None = None,
        approval: Approval | None = None,
    ) -> Manifest:
        """Write a landing's verdict into the manifest, durably; returns the manifest as written.

        Raises ValueError if the landing already has a verdict; only a held landing may still be approved.
        """
        folder = self._folder(manifest)
        landed = self._manifest(folder)
        if landed.verdict is not None and not (landed.verdict is Verdict.HELD and verdict is Verdict.APPROVED):
            raise ValueError(f"{name(folder)} already has a verdict: {landed.verdict}, not {verdict}")
        updated = msgspec.structs.replace(
            landed,
            approval=approval,
            verdict=verdict,
            reason=reason,
            counts=tuple(counts),
            rejected=dict(rejected or {}),
            drift=tuple(drift),
            oddities=landed.oddities | dict(oddities or {}),
            judged_at=at or datetime.now(UTC),
        )
        files.write(folder / MANIFEST, encode(updated))
        return updated

    def discard(self, manifest: Manifest, reason: str, at: datetime, by: str = "") -> None:
        """Move a landing aside: still readable, but no longer counted. The reason is written first."""
        folder = self._folder(manifest)
        discard = Discard(reason=reason, discarded_at=at, by=by or machine.person())
        files.write(folder / DISCARD, msgspec.json.encode([*_discards(folder), discard]))
        files.move(folder, folder.with_name(f"{_DISCARDED}{manifest.landing}"))
        files.sync(folder.parent)

    def undo_discard(self, manifest: Manifest, at: datetime) -> None:
        """Restore a discarded landing with the verdict. `discard.json` stays, and says since when the landing
        is back.
        """
        aside = self._folder(manifest)
        *earlier, last = _discards(aside)
        back = msgspec.structs.replace(last, undone_at=at, undone_by=machine.person())
        files.write(aside / DISCARD, msgspec.json.encode([*earlier, back]))
        files.move(aside, aside.with_name(f"{_LANDING}{manifest.landing}"))
        files.sync(aside.parent)

    def discarded(self, day: date | None = None) -> list[tuple[Manifest, Discard]]:
        """Return the discarded landings of all days, or of one day, each with the reason. Raises DamagedError."""
        return [
            (self._manifest(folder), _discards(Path(folder))[-1]) for _, _, folder in self._each(_DISCARDED, day=day)
        ]

    def discards(self, manifest: Manifest) -> list[Discard]:
        """Return how a landing was discarded, in order, also when a person put the landing back. Raises
        DamagedError.
        """
        return _discards(self._folder(manifest))

    def keep_rejects(self, manifest: Manifest, refused: Iterable[Reject]) -> None:
        """Write a landing's refused records into the landing's folder, replacing any earlier file."""
        path = self._folder(manifest) / REJECTS
        lines = b"".join(msgspec.json.encode(reject) + b"\n" for reject in refused)
        if lines or path.exists():
            files.write(path, lines)

    def expired(self) -> frozenset[date]:
        """Return the expired days that the history holds. Raises DamagedError."""
        return frozenset(day for day, is_held in self._expired().days.items() if is_held)

    def has_expired(self, day: date) -> bool:
        """Whether a day has expired, even if no landing of the day counted. Raises DamagedError."""
        return day in self._expired().days

    def _expired(self) -> Expired:
        path = self.root / EXPIRED
        if not path.exists():
            return Expired(days={})
        try:
            return formats.decode(path.read_bytes(), Expired, path)
        except (OSError, ValueError) as error:
            raise DamagedError(
                f"raw/{EXPIRED} cannot be read ({type(error).__name__}). It lists the days that have expired:"
                " restore it from a backup of raw/; without it, a `rollbook rebuild` would forget them"
            ) from None

    def expire(self, days: Iterable[date], *, noted: Container[date]) -> None:
        """Delete everything landed on some days. The days are listed as expired first; the history holds the days in
        `noted`.

        A day is first renamed as a whole, durably: a half-deleted day would look like a damaged landing.
        """
        days = sorted(days)
        before = self._expired()
        self._write_expired(msgspec.structs.replace(before, days=before.days | {day: day in noted for day in days}))
        there = [folder for day in days if (folder := self.root / f"{_DAY}{day}").exists()]
        aside = [files.move(folder, folder.with_name(f".{folder.name}{files.PARTIAL}")) for folder in there]
        files.sync(self.root)
        for folder in aside:
            shutil.rmtree(folder)

    def forget_expired(self, days: Container[date]) -> None:
        """Record that the history no longer holds some expired days: the loss was accepted."""
        before = self._expired().days
        self._write_expired(Expired(days={day: is_held and day not in days for day, is_held in before.items()}))

    def _write_expired(self, expired: Expired) -> None:
        files.write(self.root / EXPIRED, msgspec.json.encode(expired))

    def sweep(self) -> None:
        """Remove or complete killed writers' leftovers. Requires the writer lock."""
        for aside in self.root.glob(f".*{files.PARTIAL}"):
            shutil.rmtree(aside) if aside.is_dir() else aside.unlink()
        for old in self.root.glob(f"{_DAY}*/{OLD}*"):
            landing = old.with_name(old.name.removeprefix(OLD))
            shutil.rmtree(old) if landing.exists() else files.move(old, landing)
        for unfinished in self.root.glob(f"{_DAY}*/.*{files.PARTIAL}"):
            # Renamed first: a killed sync's second process may still create a file in the folder.
            shutil.rmtree(files.move(unfinished, unfinished.with_suffix(f".swept{files.PARTIAL}")))
        for half_written in self.root.glob(f"{_DAY}*/{_LANDING}*/.*{files.PARTIAL}"):
            half_written.unlink()
        for _, day in self._days():
            _drop_if_empty(Path(day))

    def _days(self) -> list[tuple[date, str]]:
        matches = map(_OF_A_DAY.fullmatch, files.names(self.root))
        return sorted((date.fromisoformat(match[1]), f"{self.root}/{match[0]}") for match in matches if match)

    def _each(self, *prefixes: str, day: date | None = None) -> Iterator[tuple[date, int, str]]:
        """Yield the landings of all days, or of one day, that have one of the prefixes: day, number, folder."""
        # Each day is looked at several times a night: a str costs a tenth of a Path.
        for on, folder in self._days() if day is None else [(day, f"{self.root}/{_DAY}{day}")]:
            here = files.names(folder)
            for prefix in prefixes:
                numbers = (n.removeprefix(prefix) for n in here if n.startswith(prefix))
                for number in sorted(int(n) for n in numbers if n.isdecimal()):
                    yield on, number, f"{folder}/{prefix}{number}"

    def _manifest(self, folder: Path | str) -> Manifest:
        try:
            return self._manifests.read(f"{folder}/{MANIFEST}")
        except (OSError, ValueError) as error:  # msgspec's errors are ValueErrors
            raise damaged(Path(folder), MANIFEST, type(error).__name__) from None

    def _folder(self, manifest: Manifest) -> Path:
        """Return the folder of a landing, discarded or not: a number is never reused."""
        folder = self.root / f"{_DAY}{manifest.snapshot_date}" / f"{_LANDING}{manifest.landing}"
        aside = folder.with_name(f"{_DISCARDED}{manifest.landing}")
        return aside if aside.exists() and not folder.exists() else folder


def newest_landed(*warehouses: Path) -> date | None:
    """Return the newest landed day of any of these warehouses; None before the first.

    No wrong clock of this machine makes one: a day is only landed if the service's clock says about the same (G8).
    """
    return max((day for root in warehouses if (day := RawStore(root / "raw").newest_day()) is not None), default=None)


def _drop_if_empty(day: Path) -> None:
    """Remove a day's folder if no landing is left."""
    with suppress(OSError):  # it does
        day.rmdir()


def _discards(folder: Path) -> list[Discard]:
    """How a landing was discarded, in order. The folder's name says whether the last discard, or the undoing, was done:
    a writer may have been killed after the note.
    """
    try:
        *earlier, last = msgspec.json.decode((folder / DISCARD).read_bytes(), type=list[Discard])
        if folder.name.startswith(_LANDING):
            return [*earlier, last] if last.undone_at else earlier
        return [*earlier, msgspec.structs.replace(last, undone_at=None, undone_by="")]
    except (OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError) and folder.name.startswith(_LANDING):
            return []
        raise damaged(folder, DISCARD, type(error).__name__) from None
