"""Erases one student from the whole warehouse, for good.

    find      count what holds the student; nothing is written
    begin     record the student's keyed hash, and that this erasure is under way
    clean     remove all erased students from the landings, the lake and the published files
    finish    remove what else holds the student, and write the certificate

From `begin` on, recovery does the rest (`sync.rollbook.Rollbook.recover`), also after a kill: `clean` and `finish` are
idempotent and work from what they find, not from recorded steps. Each landing, each day of the lake and each published
file records how many erasures it includes, so one restored from an old backup is found, too. Students are matched by
keyed hash only, so the journal names nobody.

Other modules that hold something about a student add a function to `holders.HOLDERS`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import duckdb
import msgspec

from pipelines import files
from pipelines.errors import ArgumentError, BusyError, DamagedError
from pipelines.export import exported
from pipelines.flatten import drift_of_student
from pipelines.landing.erased import Erased, LegalHold, Matcher, Pending, Remembered, keyed, name_hash
from pipelines.landing.raw import RawStore
from pipelines.landing.rewriting import Found, find, rewrite
from pipelines.privacy.erasure import dagster_home
from pipelines.privacy.erasure.certificate import Certificate
from pipelines.privacy.erasure.holders import HOLDERS
from pipelines.store import ops, without
from pipelines.store.database import connect, count
from pipelines.store.published import versions
from pipelines.store.published.clean_copy import clean
from pipelines.store.statements import statements
from pipelines.store.warehouse import Warehouse
from pipelines.tables import SETS
from pipelines.views import catalog

log = logging.getLogger(__name__)
sql = statements("pipelines.privacy")

ALERTS = "alerts.json"

Progress = Callable[[str, int, int], None]
# The reference id, email, name, first and last name.
Name = tuple[str | None, str | None, str | None, str | None, str | None]


@dataclass(frozen=True)
class Holdings:
    """What holds a student: counts by key (see `certificate.LABELS`), and all names that the student ever had.

    The first names are those that a student is searched by. `exports` are deleted, whatever they hold.
    """

    student: int
    counts: dict[str, int]
    exports: tuple[Path, ...] = ()
    names: tuple[Name, ...] = ()
    landings: dict[Path, Found] = field(default_factory=dict, repr=False)

    @property
    def anything(self) -> bool:
        """Whether anything in the warehouse is about the student."""
        return any(self.counts[key] for key in ("landings", "days", "rows"))


class Erasure:
    """The erasures of one warehouse. The caller holds the writer lock."""

    def __init__(self, raw: RawStore, warehouse: Warehouse, clock: Callable[[], datetime]) -> None:
        self.raw = raw
        self.warehouse = warehouse
        self.memory = raw.memory
        self.clock = clock
        self.progress: Progress | None = None
        # The result of `find`, so that `finish` need not search again.
        self._found: Holdings | None = None

    # -- before anything is written -----------------------------------------------------------------------------------

    def find(self, student: int) -> Holdings:
        """Count what holds a student. Reads every body of every landing; raises DamagedError."""
        rows, names, recognised = self._of_published(student)
        key = b"only in memory"
        gone = Matcher(key, [Erased(id=keyed(key, "id", str(student)), erased_at=self.clock())])
        folders = list(self.raw.folders())
        landings = {}
        for number, folder in enumerate(folders, start=1):
            found = find(folder, gone, [student])
            if found.anything:
                landings[folder.path] = found
            self._tell("landings read", number, len(folders))
        with self.warehouse.computing() as con:
            records = self.warehouse.lake.days().values()
            days = sum(bool(without.gone_on_day(con, self.warehouse.lake, r, gone.__contains__)) for r in records)
        exports = exported(self.warehouse.root)
        counts = {
            "landings": len(landings),
            "bodies": sum(len(f.bodies) for f in landings.values()),
            "records": sum(f.records for f in landings.values()),
            "rejects": sum(f.rejects for f in landings.values()),
            "searches": sum(f.absences for f in landings.values()),
            "days": days,
            "rows": rows,
            "expired": len(self.raw.expired() - set(self.raw.days())),
            "versions": len(self.warehouse.versions.all()),
            "altered": len(list(self._altered())),
            "exports": len(exports),
            "recognised": recognised,
        }
        self._found = Holdings(student, counts, tuple(exports), names, landings)
        return self._found

    def is_erased(self, student: int) -> bool:
        """Whether a student was erased."""
        return student in self.memory.matcher()

    def held(self, student: int) -> LegalHold | None:
        """The legal hold on a student, or None."""
        found = self.memory.read()
        key = bytes.fromhex(found.key)
        return next((hold for hold in found.holds if hold.id == keyed(key, "id", str(student))), None)

    def check_hold(self, student: int) -> None:
        """Raise ArgumentError for a student under a legal hold."""
        if (hold := self.held(student)) is not None:
            raise ArgumentError(
                f"This student has been under a legal hold since {hold.since:%Y-%m-%d} ({hold.reason}), so nothing was"
                " erased. Once it is over, lift it with `rollbook erase STUDENT --lift`"
            )

    def hold(self, student: int, reason: str) -> None:
        """Put a student under a legal hold. Raises ArgumentError for one who is erased already, or a reason that
        identifies the student.
        """
        if self.is_erased(student):
            raise ArgumentError("This student was erased already: there is nothing left to hold")
        _, names, _ = self._of_published(student)
        _check_reason(reason, student, names)
        found = self.memory.begun()
        ident = keyed(bytes.fromhex(found.key), "id", str(student))
        others = tuple(hold for hold in found.holds if hold.id != ident)
        added = LegalHold(id=ident, reason=reason, since=self.clock())
        self.memory.write(msgspec.structs.replace(found, holds=(*others, added)))

    def lift(self, student: int) -> None:
        """Lift the legal hold on a student. Raises ArgumentError if there is none."""
        hold = self.held(student)
        if hold is None:
            raise ArgumentError("This student is not under a legal hold: there is nothing to lift")
        found = self.memory.read()
        self.memory.write(msgspec.structs.replace(found, holds=tuple(h for h in found.holds if h.id != hold.id)))

    # -- the erasure --------------------------------------------------------------------------------------------------

    def begin(self, holdings: Holdings, reason: str, home: Path | None = None) -> None:
        """Record a student as erased, and the erasure as under way. From here on it can only be finished.

        `home` is Dagster's folder. Raises ArgumentError for a student under a legal hold, or a reason that identifies
        the student.
        """
        self.check_hold(holdings.student)
        _check_reason(reason, holdings.student, holdings.names)
        found, now = self.memory.begun(), self.clock()
        key = bytes.fromhex(found.key)
        names = {
            name_hash(key, of, value)
            for name in holdings.names
            for of, value in zip(SETS["students"].names, name, strict=False)
            if value
        }
        erased = Erased(id=keyed(key, "id", str(holdings.student)), names=tuple(sorted(names)), erased_at=now)
        pending = Pending(reason=reason, began_at=now, found=holdings.counts, home=str(home or ""))
        self.memory.write(msgspec.structs.replace(found, erased=(*found.erased, erased), pending=pending))

    def clean(self) -> None:
        """Remove all erased students from the landings, the lake and the published files that still hold them.

        So a backup from before an erasure is cleaned before it is read. Raises DamagedError for a landing that cannot
        be read, or when private/erasures/ is older than the landings.
        """
        folders = list(self.raw.folders())
        self.memory.check(max((f.manifest.erasures for f in folders), default=0))
        erasures = self.memory.count
        if erasures:
            gone = self.memory.matcher()
            self._rewrite_landings(gone, erasures)
            self._rewrite_days(gone, erasures)
            self._replace_files(gone)

    def _rewrite_landings(self, gone: Matcher, erasures: int) -> None:
        """Rewrite the landings that include fewer erasures. All are read before the first is changed."""
        behind = [folder for folder in self.raw.folders() if folder.manifest.erasures < erasures]
        found = []
        for number, folder in enumerate(behind, start=1):
            if self._found is not None and folder.manifest.erasures == erasures - 1:
                found.append(self._found.landings.get(folder.path) or Found(folder))
                continue
            found.append(find(folder, gone))
            self._tell("landings read", number, len(behind))
        for number, each in enumerate(found, start=1):
            rewrite(each, gone, erasures, drift_of_student)
            self._tell("landings", number, len(found))

    def _rewrite_days(self, gone: Matcher, erasures: int) -> None:
        """Rewrite the days of the lake that include fewer erasures."""
        lake, aside = self.warehouse.lake, files.empty(self.warehouse.staged_lake)
        behind = [record for record in lake.days().values() if record.erasures < erasures]
        with self.warehouse.computing() as con:
            for number, record in enumerate(behind, start=1):
                paths: dict[str, Path] = {}
                left = record
                try:
                    if students := without.gone_on_day(con, lake, record, gone.__contains__):
                        left, paths, _ = without.day_without(con, lake, record, students, aside)
                except DamagedError:
                    lake.drop([record.snapshot_date])  # recovery recomposes it from the landings
                    continue
                lake.put(msgspec.structs.replace(left, erasures=erasures), paths)
                self._tell("days", number, len(behind))

    def _replace_files(self, gone: Matcher) -> None:
        """Replace the published files that were written before the last erasure by copies without the students."""
        warehouse = self.warehouse
        there = (warehouse.published, *warehouse.kept())
        behind = [path for path in there if warehouse.own.lacks_erasures(path)]
        digests = {r.was: r.digest for r in warehouse.lake.days().values() if r.was}
        for number, path in enumerate(behind, start=1):
            warehouse.drop_next()
            warehouse.own.copy(path, warehouse.next)
            with warehouse.finishing() as con:
                without.remove_from_file(con, gone.__contains__, digests)
                ops.record(con, self.raw, full_refresh=True)
                # A new version: the files beside it are made again. The macros answer for this version only.
                catalog.create_macros(con, ops.stamp(con, self.clock()))
            clean(warehouse.next, warehouse.scratch)
            warehouse.replace(path)
            self._tell("published files", number, len(behind))

    def finish(self) -> Certificate | None:
        """Remove what cannot be cleaned: altered files, and what else holds the student.

        Requires that the published files are clean. Returns the certificate of the erasure that was under way, if any.
        """
        remembered = self.memory.read()
        for path in self._altered():
            if remembered.pending is not None or (remembered.erased and self._may_hold_erased(path)):
                path.unlink()
        if remembered.pending is None:
            return None
        for path in self.warehouse.kept():
            if not self.warehouse.own.is_unmodified(path):
                versions.remove(path)
        return self._certify(remembered, remembered.pending, self.memory.matcher())

    def _certify(self, remembered: Remembered, pending: Pending, gone: Matcher) -> Certificate:
        """Delete and clean what a publish does not replace; returns the certificate."""
        warehouse, counts, left_open = self.warehouse, dict(pending.found), []
        exports = exported(warehouse.root)
        counts["exports"] = len(exports)
        for path in exports:
            path.unlink()
        alerts = warehouse.build / ALERTS
        if alerts.is_file():
            text = alerts.read_text(encoding="utf-8")
            if (left := dagster_home.cleaned(text, gone.__contains__)) != text:
                files.write(alerts, left.encode())
        for name, holder in HOLDERS.items():
            if (number := holder(warehouse, gone.__contains__)) is not None:
                counts[name] = number
        if pending.home and (home := Path(pending.home)).is_dir():
            counts["dagster"], locked = dagster_home.take_out(home, gone.__contains__)
            if locked:
                left_open.append(
                    f"{locked} files below Dagster's folder were in use: stop `rollbook serve`, then look for the"
                    " student's id in them."
                )
        certificate = Certificate(
            number=len(remembered.erased),
            reason=pending.reason,
            began_at=pending.began_at,
            finished_at=self.clock(),
            counts=counts,
            exports=tuple(str(path.relative_to(warehouse.root)) for path in exports),
            left_open=tuple(left_open),
        )
        certificate.keep(self.memory.folder)
        self.memory.write(msgspec.structs.replace(remembered, pending=None))
        self._found = None
        return certificate

    def _of_published(self, student: int) -> tuple[int, tuple[Name, ...], int]:
        """From the published file: the rows, the student's names, and how many others share an identifier."""
        published, scratch = self.warehouse.published, self.warehouse.scratch
        if not published.is_file():
            return 0, (), 0
        rows = without.rows_in_file(published, scratch, [student])
        with connect(published, scratch=scratch, read_only=True) as con:
            known = con.execute(
                "SELECT DISTINCT reference_id, email, name, first_name, last_name FROM history.students"
                " WHERE student_id = $student",
                {"student": student},
            ).fetchall()
            recognised = count(con, sql("same_names"), {"student": student})
        return rows, tuple(known), recognised

    def _altered(self) -> Iterator[Path]:
        """Copies of published files that somebody altered: they may hold anybody."""
        return (path for path in self.warehouse.altered.glob("*") if path.is_file())

    def _may_hold_erased(self, path: Path) -> bool:
        """Whether an altered copy holds an erased student, or cannot be read."""
        gone = self.memory.matcher()
        try:
            with connect(path, scratch=self.warehouse.scratch, read_only=True) as con:
                return bool(without.gone_in_file(con, gone.__contains__))
        except BusyError:  # still open in another program: the next writer looks again
            return False
        except (DamagedError, duckdb.Error):
            return True

    def _tell(self, what: str, done: int, total: int) -> None:
        if self.progress is not None:
            self.progress(what, done, total)


def _check_reason(reason: str, student: int, names: Iterable[Name]) -> None:
    """Raise ArgumentError for a reason with the student's id, reference id, email or name, or first and last name."""

    def has(text: str | None) -> bool:
        word = (text or "").strip()
        return bool(word) and re.search(rf"(?<!\w){re.escape(word)}(?!\w)", reason, re.IGNORECASE) is not None

    if has(str(student)) or any(any(map(has, alone)) or (has(first) and has(last)) for *alone, first, last in names):
        raise ArgumentError("The reason identifies the student, and others will read it: write a case number")
