"""Playing a cell of the matrix: night 2 with a fault or two, and everything that is then asserted."""

from __future__ import annotations

from functools import partial
from typing import Any

import httpx
import pytest

from pipelines.errors import RollbookError
from pipelines.landing.manifest import Verdict
from pipelines.source.fetch import fetch
from tests.fault_matrix.expected import CLASSES_1, CLASSES_2, STUDENTS_1, STUDENTS_2, NoConnection
from tests.support.nights import Expected, House, asked, night
from tests.support.wire.service import Bend


class Cell:
    """Night 2, with a fault or two to come."""

    def __init__(self, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
        self.house = house
        self.service = house.service
        self.before = house.state()
        self._monkeypatch = monkeypatch

    def on(self, bend: Bend | NoConnection, *, path: str = "students", page: int | None = None, **plan: Any) -> None:
        """Have the fault, at a page of a list, with the arguments of `Service.on`."""
        if isinstance(bend, NoConnection):
            self._disconnect(bend.error, path, page, plan.get("times", 1))
        else:
            self.service.on(bend, path=path, page=page, **plan)

    def _disconnect(self, error: type[httpx.TransportError], path: str, page: int | None, times: int | None) -> None:
        real, left = httpx.HTTPTransport.handle_request, [times]

        def handle(transport: httpx.HTTPTransport, request: httpx.Request) -> httpx.Response:
            here = request.url.path.endswith(f"/{path}") and request.url.params.get("page") in (None, str(page))
            if here and left[0] != 0:
                left[0] = left[0] and left[0] - 1
                raise error("not today", request=request)
            return real(transport, request)

        self._monkeypatch.setattr(httpx.HTTPTransport, "handle_request", handle)

    def impatient(self) -> None:
        """Wait a moment for an answer, not a minute."""
        quick = httpx.Timeout(connect=5, read=0.3, write=5, pool=5)
        self._monkeypatch.setattr("pipelines.sync.rollbook.fetch", partial(fetch, timeouts=quick))

    def asked(self) -> list[str]:
        return asked(self.service.requests)

    def expected(self, hidden: tuple[int, ...] = (), more: tuple[dict[str, Any], ...] = (), **night_2: Any) -> Expected:
        """Both nights, when the service hid some students in the second, or showed more."""
        shown = [s for s in STUDENTS_2 if s["id"] not in hidden]
        return Expected().night(1, STUDENTS_1, CLASSES_1).night(2, [*shown, *more], CLASSES_2, **night_2)

    def synced(self, requests: list[str], expected: Expected | None = None, *, unseen: int = 0, **counts: int) -> None:
        """Sync, proven; the tables are as expected, by default as if there had been no fault.

        `unseen` are the requests that never reached the service; `counts` are what `ops.syncs` says of the night.
        """
        done = self.house.sync()
        assert (done.manifest.verdict, done.manifest.proven, done.manifest.reason) == (Verdict.SYNCED, True, "")
        assert self.asked() == requests
        assert self.house.tables() == (expected or self.expected()).tables()
        self._recorded(("synced", True, "synced", "", len(requests) + unseen), counts)

    def unproven(self, requests: list[str], expected: Expected, *sets: str, **counts: int) -> None:
        """Sync without removing anything from these sets; the sync says so."""
        done = self.house.sync()
        manifest = done.manifest
        assert (manifest.verdict, manifest.proven) == (Verdict.UNPROVEN, False)
        assert [w.set for w in manifest.walks if manifest.proof(w.set) is None] == list(sets)
        for name in sets:
            assert f"{name} could not be proven complete" in manifest.reason
        assert manifest.reason.count("nothing was removed from them") == len(sets)
        assert self.asked() == requests
        assert self.house.tables() == expected.tables()
        self._recorded(("synced", False, "unproven", manifest.reason, len(requests)), counts)

    def failed(self, error: type[RollbookError], requests: list[str]) -> RollbookError:
        """Fail with exit 1; readers keep night 1, byte by byte; the landing says that it failed, and why."""
        with pytest.raises(error) as caught:
            self.house.sync()
        assert (type(caught.value), caught.value.exit_code) == (error, 1)
        assert self.asked() == requests
        self.as_it_was()
        (manifest,) = self.house.landings(night(2))
        assert (manifest.verdict, manifest.reason) == (Verdict.FAILED, caught.value.message)
        assert manifest.requests >= len(requests)
        return caught.value

    def as_it_was(self) -> None:
        """Readers see night 1, and not a byte of the published file or the lake is another."""
        assert self.house.state() == self.before
        assert self.house.tables() == Expected().night(1, STUDENTS_1, CLASSES_1).tables()

    def _recorded(self, outcome: tuple[Any, ...], counts: dict[str, int]) -> None:
        counts = {"verified": 2, "removed": 2, "slipped": 0, "rejected": 0} | counts
        columns = ", ".join(counts)
        (row,) = self.house.query(
            f"SELECT outcome, proven, verdict, reason, requests, {columns} FROM ops.syncs"
            f" WHERE snapshot_date = DATE '{night(2)}'"
        )
        assert row[:5] == outcome
        assert dict(zip(counts, row[5:], strict=True)) == counts
