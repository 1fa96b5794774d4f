"""The pseudonymous file: made or not as the setting says, read by whom its mode lets, and of odd schools."""

from __future__ import annotations

import errno
import os
import stat
from unittest.mock import Mock

import pytest

from rollbook.night.restore import restore
from tests.support.nights import House, line_of
from tests.support.processes.machines import reached
from tests.support.tiers import weekly
from tests.support.warehouses.pseudonyms import (
    codes,
    current,
    declare_personal,
    pseudonymous,
    rows,
)


@pytest.mark.slow
def test_turned_off_the_file_goes_and_the_codes_stay(coded_school: House, caplog: pytest.LogCaptureFixture) -> None:
    coded_school.night(1)
    assigned = codes(coded_school)
    assert (line_of(coded_school.rollbook(pseudonymous=False), "codes") or "").endswith("the next sync removes it")
    coded_school.night(2, over={"pseudonymous": False})
    assert "ROLLBOOK_PSEUDONYMOUS is not set" in caplog.text
    assert not {p.name for p in coded_school.warehouse.iterdir() if "pseudonymous" in p.name}
    coded_school.night(3)
    assert current(coded_school) == set(assigned.values())


OF_IT = {"rollbook-pseudonymous.duckdb", "pseudonymous"}


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "others"), [("644", OF_IT), weekly("640", set()), weekly("600", set())])
def test_a_wider_group_reads_it_and_nothing_else(coded_school: House, mode: str, others: set[str]) -> None:
    umask = os.umask(0)
    try:
        coded_school.night(1, over={"pseudonymous_mode": mode})
        assert reached(coded_school.warehouse, 0o004) == others
        assert reached(coded_school.warehouse, 0o040) == (set() if mode == "600" else OF_IT)
        assert stat.S_IMODE(pseudonymous(coded_school).stat().st_mode) == int(mode, 8) & ~0o222
        coded_school.night(2, over={"pseudonymous_mode": mode, "published_mode": "640"})
        assert reached(coded_school.warehouse, 0o004) == others
        # A file opened to all is closed again by the next writer.
        coded_school.night(3)
        assert reached(coded_school.warehouse, 0o044) == set()
        assert stat.S_IMODE(coded_school.warehouse.stat().st_mode) == 0o700
    finally:
        os.umask(umask)


# --- odd schools -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_column_that_becomes_personal_is_gone_after_the_next_night(
    coded_school: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From its history, too."""
    coded_school.night(1)
    assert rows(coded_school, "SELECT COUNT(class_room) > 0 FROM history.classes") == [(True,)]
    lake = {k: v for k, v in coded_school.state().items() if k.startswith("snapshots")}
    declare_personal(monkeypatch, "classes", "class_room")
    coded_school.night(2)
    assert rows(coded_school, "SELECT COUNT(class_room) FROM history.classes") == [(0,)]
    assert coded_school.query("SELECT COUNT(class_room) > 0 FROM history.classes") == [(True,)]
    # Nothing was flattened again for it.
    assert lake.items() <= coded_school.state().items()


@pytest.mark.nights
def test_a_file_whose_making_fails_is_never_shown(coded_school: House, monkeypatch: pytest.MonkeyPatch) -> None:
    coded_school.night(1)
    coded_school.night(2)
    shown = pseudonymous(coded_school).resolve()
    monkeypatch.setattr("rollbook.features.pseudonymous.pseudonymous.clean", Mock(side_effect=OSError(errno.EIO, "")))
    rollbook = coded_school.rollbook()
    restore(rollbook.writer(), rollbook.warehouse.kept()[0])
    assert pseudonymous(coded_school).resolve() == shown
    assert not rollbook.warehouse.next_pseudonymous.exists()
