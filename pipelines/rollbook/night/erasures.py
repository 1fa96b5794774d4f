"""Keeps erased students out of the landings, the lake, the published files and what people wrote, whatever was
restored.

A landing, a day of the lake and a file each record how many erasures they include. Students are matched by keyed hash
(`landing.erased`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import msgspec

from rollbook.errors import DamagedError
from rollbook.landing.erased import Matcher, StudentTraces, clean_certificate, find, rewrite
from rollbook.night.place import Clock, Place
from rollbook.source.pagination import Progress
from rollbook.store import ops, schema, without
from rollbook.store.clean import clean
from rollbook.store.published import remove
from rollbook.store.warehouse import Warehouse
from rollbook.util import files
from rollbook.views import additions, catalog, contacted

# Returns the matcher for students erased after the first n erasures.
GoneSince = Callable[[int], Matcher]


class Erasures:
    """The erasures of one warehouse. Requires the writer lock."""

    def __init__(self, place: Place, clock: Clock, progress: Progress) -> None:
        self.place = place
        self.raw = place.raw
        self.warehouse = place.warehouse
        self.erasure_register = place.raw.erasure_register
        self.clock = clock
        self.progress = progress

    def clean(self, traces: Mapping[Path, StudentTraces]) -> None:
        """Remove all erased students from the landings, the lake and the published files that still hold a trace, and
        from what people wrote: contacted.csv, certificates, and the reasons of legal holds. `traces` has what was
        found of a student already, by landing.

        So a backup from before an erasure is cleaned before it is read. Raises DamagedError for a landing that cannot
        be read, or when private/erasures/ is older than the landings.
        """
        folders = list(self.raw.folders())
        self.erasure_register.check(max((f.manifest.erasures for f in folders), default=0))
        erasures = self.erasure_register.count
        if erasures:
            gone_since = cache(self.erasure_register.matcher)
            self._rewrite_landings(gone_since, erasures, traces)
            self._rewrite_days(gone_since, erasures)
            self._replace_files(gone_since)
            self._clean_words(gone_since(0))

    def _rewrite_landings(self, gone_since: GoneSince, erasures: int, known: Mapping[Path, StudentTraces]) -> None:
        """Rewrite the landings that include fewer erasures. All are read before the first is changed."""
        behind = [folder for folder in self.raw.folders() if folder.manifest.erasures < erasures]
        traces = []
        for number, folder in enumerate(behind, start=1):
            traces.append(known.get(folder.path) or find(folder, gone_since(folder.manifest.erasures)))
            self.progress("landings read", number, len(behind))
        for number, each in enumerate(traces, start=1):
            rewrite(each, gone_since(each.landing.manifest.erasures), erasures)
            self.progress("landings", number, len(traces))

    def _rewrite_days(self, gone_since: GoneSince, erasures: int) -> None:
        """Rewrite the days of the lake that include fewer erasures."""
        lake, aside = self.warehouse.lake, files.empty(self.warehouse.staged_lake)
        behind = [record for record in lake.days().values() if record.erasures < erasures]
        with self.warehouse.computing() as con:
            for number, record in enumerate(behind, start=1):
                paths: dict[str, Path] = {}
                left, erased = record, gone_since(record.erasures)
                try:
                    if students := without.gone_on_day(con, lake, record, erased.__contains__):
                        left, paths = without.day_without(con, lake, record, students, aside)
                except DamagedError:
                    lake.drop([record.snapshot_date])  # recovery recomposes it from the landings
                    continue
                lake.put(msgspec.structs.replace(left, erasures=erasures), paths)
                self.progress("days", number, len(behind))

    def _replace_files(self, gone_since: GoneSince) -> None:
        """Replace the published files that were written before the last erasure by copies without the students."""
        warehouse = self.warehouse
        behind = [path for path in (warehouse.published_file, *warehouse.kept()) if warehouse.own.lacks_erasures(path)]
        digests = {r.was: r.digest for r in warehouse.lake.days().values() if r.was}
        for number, path in enumerate(behind, start=1):
            erased = gone_since(warehouse.own.erasures_of(path) or 0)
            with warehouse.finishing(path) as con:
                schema.upgrade(con)
                schema.ensure(con, schema.declared(warehouse.declared))  # a kept file may be older than a declaration
                without.remove_from_file(con, erased.__contains__, digests)
                without.remove_lines(con, erased)
                ops.clean_reasons(con, erased.cleaned)
                ops.record_again(con, self.raw)
                # A new version: the files beside the published file are made again. The macros answer for this
                # version only.
                version = ops.stamp(con, self.clock())
                catalog.create_macros(con, catalog.macros(version, warehouse.declared))
                additions.fill(con, self.place.additions, additions.NextFile(version, warehouse.declared))
            clean(warehouse.next, warehouse.scratch)
            warehouse.replace(path)
            self.progress("published files", number, len(behind))

    def _clean_words(self, erased: Matcher) -> None:
        """Clean what people wrote. Nothing says how many erasures it includes, so it is read each time."""
        content = self.erasure_register.read()
        contacted.forget(self.warehouse.root, erased.knows, erased.cleaned)
        holds = tuple(msgspec.structs.replace(hold, reason=erased.cleaned(hold.reason)) for hold in content.holds)
        if holds != content.holds:
            self.erasure_register.write(msgspec.structs.replace(content, holds=holds))
        for path in self.erasure_register.certificates():
            text = path.read_bytes().decode(errors="surrogateescape")
            if (left := clean_certificate(text, erased)) != text:
                files.write(path, left.encode(errors="surrogateescape"))

    def finish(self) -> None:
        """Remove what cannot be cleaned: copies that somebody altered. Requires that the published files are clean."""
        content, erased = self.erasure_register.read(), self.erasure_register.matcher().__contains__
        for path in altered(self.warehouse):
            if content.pending is not None or (
                content.erased and without.may_hold(path, self.warehouse.scratch, erased)
            ):
                path.unlink()
        if content.pending is not None:
            for path in self.warehouse.kept():
                if not self.warehouse.own.is_unmodified(path):
                    remove(path)

    def close(self) -> None:
        """Record that the erasure under way is done."""
        self.erasure_register.write(msgspec.structs.replace(self.erasure_register.read(), pending=None))


def altered(warehouse: Warehouse) -> list[Path]:
    """Copies of published files that somebody altered, which may contain erased students."""
    return [path for path in warehouse.altered.glob("*") if path.is_file()]
