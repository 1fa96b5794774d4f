"""Publishing the next file: the institution's own CSV files, views, checks, the swap (G10), and the morning page.

`store.warehouse` swaps files and `views` defines their views; this module joins the two.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path

from pipelines import report
from pipelines.errors import CheckError
from pipelines.privacy import access
from pipelines.privacy.pseudonymous import Pseudonymous
from pipelines.report import Report
from pipelines.settings import Settings
from pipelines.store import checks, ops
from pipelines.store.database import transaction
from pipelines.store.warehouse import Warehouse
from pipelines.sync.landings import Landings
from pipelines.views import catalog, terms, thresholds


class Publisher:
    """Makes everything for readers: the published file, the pseudonymous file if set, and the morning page."""

    def __init__(
        self, settings: Settings, warehouse: Warehouse, landings: Landings, clock: Callable[[], datetime]
    ) -> None:
        self.settings = settings
        self.warehouse = warehouse
        self.landings = landings
        self.clock = clock
        self.thresholds = warehouse.root / thresholds.FILE
        self.terms = warehouse.root / terms.FILE
        self.pseudonymous = Pseudonymous(warehouse, wanted=settings.pseudonymous)

    def publish(self, *, shown_from: date | None = None, merged_since: date | None = None) -> Report | None:
        """Check the next file, then swap it in; its views show the lake from the day `shown_from` on (None: all of it).

        `merged_since` is the first day that the merge changed in a file that was checked before (None: all of it).

        If the pseudonymous file cannot be made, the published file is still swapped in, with a warning in the log.
        Returns the morning page, or None if none could be made. Raises CheckError, or SettingError for a malformed
        thresholds.csv or terms.csv; the published file then stays in place.
        """
        warehouse, lake = self.warehouse, self.warehouse.lake
        thresholds.ensure(self.thresholds, warehouse.mode)
        terms.ensure(self.terms, warehouse.mode)
        days = lake.days()
        with warehouse.finishing() as con:
            with transaction(con):  # a few hundred comments would else be written one by one
                thresholds.fill(con, thresholds.read(self.thresholds))
                terms.fill(con, terms.read(self.terms))
                if shown_from is not None:
                    ops.expire_rejects(con, shown_from)
                shown = [r for d, r in days.items() if shown_from is None or d >= shown_from]
                catalog.create(con, lake, shown, ops.stamp(con, self.clock()))
            found = checks.examine(con, lake, days, merged_since)
            if broken := [sentence for sentences in found.values() for sentence in sentences]:
                raise CheckError(f"{'; '.join(broken)}. Nothing was published; run `rollbook rebuild`", found)
        self.pseudonymous.prepare(warehouse.next, self.clock())
        warehouse.swap()
        self.pseudonymous.show()  # prepared before the first swap, so that the two swaps are only a moment apart
        if shown_from is not None:
            warehouse.expire_rejects(shown_from)
        return self.write_report()

    def restore(self, kept: Path) -> None:
        """Publish a kept file again; of the lake, its views show the days that are left. Raises DamagedError."""
        lake, merged = self.warehouse.lake, self.warehouse.merged_days(kept)
        shown = [record for day, record in lake.days().items() if day in merged]
        self.warehouse.restore(kept, lambda con: catalog.create_snapshots(con, lake, shown))

    def keep_up(self) -> None:
        """Rebuild the files beside the published one that a killed writer left at an older version.

        Also deletes access log entries older than their setting.
        """
        self.pseudonymous.keep_up(self.clock())
        access.keep_up(self.warehouse.root, self.settings.access_log_days, self.clock())

    def renew(self) -> None:
        """Make everything beside the published file again after an erasure. A morning page that cannot be made is
        removed: the old one may name the student.
        """
        self.keep_up()
        if self.write_report() is None:
            (self.warehouse.root / report.FILE).unlink(missing_ok=True)

    def write_report(self, trouble: str = "") -> Report | None:
        """Make the morning page from the published file, with later `trouble` at its top. None if that fails."""
        at, names = self.clock(), self.settings.report_names
        unproven = [u.description for u in self.landings.long_unproven()]
        return report.write_report(self.warehouse, at=at, names=names, trouble=trouble, unproven=unproven)
