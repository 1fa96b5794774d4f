"""One student erased: found by a scan of every file before, and in none after."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pytest

from rollbook.errors import ArgumentError, DamagedError, HeldError
from rollbook.landing.manifest import Verdict
from rollbook.night import discard as discards
from rollbook.night import past
from rollbook.night.past import always
from rollbook.night.restore import restore
from rollbook.reading.formats import Format
from rollbook.reading.query import export
from rollbook.rights import erasure as erasing
from rollbook.rights.erasure import Holdings
from rollbook.store.clean import clean
from rollbook.store.database import BLOCK_SIZE
from rollbook.views import contacted
from tests.support.nights import House, asked, folder, new_house, night, status_of
from tests.support.processes import canary
from tests.support.reading import rows, writable
from tests.support.records import student
from tests.support.tiers import daily
from tests.support.warehouses.erasures import MADE, catalog, erase, everybody, live
from tests.support.wire import faults

pytestmark = [pytest.mark.nights, pytest.mark.every_feature]

PLACES = ("raw", "snapshots", "rollbook.duckdb", "published")
REASON = "asked for by the family, case 12"
# The columns of what the record of the work must still say.
SYNCS = "snapshot_date, landing, outcome, proven, verdict, walks, repeated, verified, found_by_search, removed, rows_added, requests"


@pytest.fixture(scope="module")
def lived_school() -> Iterator[House]:
    """A house that lived, to be copied."""
    with new_house(report_names=True) as house:
        live(house)
        exports = house.warehouse / "exports"
        exports.mkdir()
        for form in Format:
            export(house.published, "roster", form, exports / f"roster.{form}", scratch=exports)
        export(house.published, "SELECT class_id FROM classes", Format.CSV, exports / "classes.csv", scratch=exports)
        yield house


@contextmanager
def copied(house: House) -> Iterator[House]:
    """A copy of a house, with the same service."""
    house.service.mend()
    house.service.students = everybody(6)
    with folder() as root:
        shutil.copytree(house.warehouse, root / "warehouse", symlinks=True)
        yield House(root / "warehouse", house.service, **house.over).at(6)


@pytest.fixture
def lived_copy(lived_school: House) -> Iterator[House]:
    """A copy of its own."""
    with copied(lived_school) as house:
        yield house


@pytest.fixture(scope="module")
def erasure(lived_school: House) -> Iterator[SimpleNamespace]:
    """The student's erasure from a copy: the house after it, to be copied and not changed, the certificate and the
    copies that it made; the exports, the rows of all others and the finds of a search that there were before.
    """
    copies = []

    def cleaned(path: Path, scratch: Path) -> None:
        clean(path, scratch)
        copies.append(path.read_bytes())

    with copied(lived_school) as house, pytest.MonkeyPatch.context() as patch:
        exports = house.warehouse / "exports"
        (exports / "sent").mkdir()
        (exports / "sent" / "list.zip").write_bytes(b"whatever is in it")
        names = [str(p.relative_to(house.warehouse)) for p in sorted(exports.rglob("*.*"))]
        before, there = (others(house), catalog(house)), canary.found(house.warehouse)
        patch.setattr("rollbook.night.erasures.clean", cleaned)
        certificate = erase(house, reason=REASON)
        yield SimpleNamespace(
            house=house, certificate=certificate, copies=copies, exports=names, before=before, there=there
        )


@pytest.fixture
def erased(erasure: SimpleNamespace) -> Iterator[House]:
    """A copy of the house from which the student is erased."""
    with copied(erasure.house) as house:
        yield house


def others(house: House) -> dict[str, list[Any]]:
    """All rows of the published file about anybody else, sorted."""
    rows = {}
    with duckdb.connect(house.published, read_only=True) as con:
        names = con.execute("SELECT schema_name, table_name FROM duckdb_tables() ORDER BY ALL").fetchall()
        for schema, name in names:
            if (schema, name) in MADE:
                continue
            columns = [c[0] for c in con.execute(f"SELECT * FROM {schema}.{name} LIMIT 0").description or ()]
            column = (
                "id" if name in ("rejects", "refused_values") else "student_id" if "student_id" in columns else "NULL"
            )
            rows[f"{schema}.{name}"] = con.execute(
                f"SELECT * FROM {schema}.{name} WHERE {column} IS DISTINCT FROM {canary.ID} ORDER BY ALL"
            ).fetchall()
        rows["syncs"] = con.execute(f"SELECT {SYNCS} FROM ops.syncs ORDER BY ALL").fetchall()
    return rows


def assert_gone(house: House) -> None:
    assert canary.found(house.warehouse) == {}
    assert {k: v for k, v in house.examined().items() if v} == {}


BLOCKS = "SELECT block_size FROM pragma_database_size() WHERE database_name = current_database()"


def test_the_published_files_are_clean_copies_byte_for_byte(erasure: SimpleNamespace) -> None:
    """Else a gap among what is written after the copy could hold a piece of a name (`store.clean`)."""
    files = [erasure.house.published, *erasure.house.rollbook().warehouse.kept()]
    for file, copy in zip(files, erasure.copies, strict=True):
        whole = file.read_bytes()
        assert whole.startswith(copy)
        assert len(whole) - len(copy) < 100  # the mark, which says nothing of anybody
        assert rows(file, BLOCKS) == [(BLOCK_SIZE,)]


@pytest.mark.story
def test_an_erased_student_is_in_no_file_and_nobody_else_changes(erasure: SimpleNamespace) -> None:
    assert {p.split("/")[0] for p in erasure.there} >= {*PLACES, "report.html", "exports"}
    assert {t for hits in erasure.there.values() for t in hits} == set(canary.TEXTS)
    house, certificate = erasure.house, erasure.certificate
    assert_gone(house)
    assert (others(house), catalog(house)) == erasure.before
    assert [*(house.warehouse / "exports").iterdir()] == []
    assert not any(Path(name).name in certificate.text for name in erasure.exports)
    assert (certificate.counts["landings"], certificate.counts["exports"]) == (6, 5)
    assert certificate.path.read_text() == certificate.text
    assert REASON in certificate.text


def test_the_student_stays_out_of_all_that_comes_after(erased: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restore; a night that still lists the student; a rebuild, a backfill, a discard undone."""
    restore(erased.rollbook().writer(), erased.rollbook().warehouse.kept()[-1])
    assert_gone(erased)
    erased.service.requests.clear()
    with monkeypatch.context() as patch:
        patch.setattr("rollbook.ingest.LARGE", 1)  # a second process files what comes
        erased.night(7, everybody(7), details="all")
    assert_gone(erased)
    manifest = erased.landings(night(7))[-1]
    assert manifest.verdict is Verdict.SYNCED
    assert [(w.proof is not None, w.erased) for w in manifest.walks] == [(True, 1), (True, 0)]
    assert [a for a in asked(erased.service.requests) if str(canary.ID) in a or "anary" in a.lower()] == []
    before = erased.tables()
    past.rebuild(erased.rollbook().writer(), confirm=always)
    past.backfill(erased.rollbook().writer(), night(1), night(7), confirm=always)
    assert_gone(erased)
    assert erased.tables() == before
    discards.undo_discard(erased.rollbook().writer(), night(5), confirm=always)
    assert_gone(erased)


@pytest.mark.parametrize("die_at", daily([2, 9, 40, 70], 40))
def test_an_erasure_that_was_killed_is_finished_by_the_next_writer(lived_copy: House, die_at: int) -> None:
    before = others(lived_copy)
    canary.killed(lived_copy.warehouse, die_at)
    assert others(lived_copy) == before
    begun = lived_copy.rollbook().raw.erasure_register.count == 1
    with lived_copy.rollbook().writer().writing():
        pass
    if not begun:  # nothing was written yet, so there is nothing to finish
        assert canary.found(lived_copy.warehouse)
        return
    assert_gone(lived_copy)
    assert others(lived_copy) == before
    assert lived_copy.rollbook().raw.erasure_register.read().pending is None
    assert len(list((lived_copy.warehouse / "private" / "erasures").glob("certificate-1.md"))) == 1
    assert list((lived_copy.warehouse / "raw").rglob(".*")) == []


def test_the_next_writer_removes_erased_students_from_restored_backups(lived_school: House, erased: House) -> None:
    """Of raw/, of snapshots/ and of the published files, restored from before the erasure."""
    before = others(erased)
    for part in ("raw", "snapshots", "published"):
        shutil.copytree(lived_school.warehouse / part, erased.warehouse / part, dirs_exist_ok=True, symlinks=True)
    oldest = min((erased.warehouse / "published").glob("*.duckdb"))
    erased.published.unlink()
    erased.published.symlink_to(Path("published", oldest.name))
    assert canary.found(erased.warehouse)
    with erased.rollbook().writer().writing():
        pass
    assert_gone(erased)
    assert others(erased) == before


@pytest.fixture(scope="module")
def with_expired_days(lived_school: House) -> Iterator[House]:
    """A house whose first days are in the published files alone. To be copied, not changed."""
    with copied(lived_school) as house:
        house.over["keep_days"] = 2
        for number in (7, 8, 9, 10):
            house.night(number, everybody(number))
        assert len(house.rollbook().landings.expired_days()) >= 3
        yield house


@pytest.fixture
def expiring(with_expired_days: House) -> Iterator[House]:
    """A copy of it, on the night of its last sync."""
    with copied(with_expired_days) as house:
        house.service.students = everybody(10)
        yield house.at(10)


@pytest.mark.slow
def test_expired_days_that_a_backup_brings_back_are_read_without_the_student(expiring: House, tmp_path: Path) -> None:
    """Nobody reads the student in a copy of the published files from before, once a sync or a restore has passed."""
    house = expiring
    shutil.copytree(house.warehouse / "published", tmp_path / "backup")
    newest = house.published.readlink()
    erase(house)
    before = others(house)
    for restored in (False, True):
        shutil.rmtree(house.warehouse / "published")
        shutil.copytree(tmp_path / "backup", house.warehouse / "published")
        house.published.unlink()
        house.published.symlink_to(newest)
        assert canary.found(house.warehouse)
        if restored:
            restore(house.rollbook().writer(), house.rollbook().warehouse.kept()[-1])
        else:
            house.sync()
        assert canary.found(house.warehouse) == {}
    with house.rollbook().writer().writing():
        pass
    assert_gone(house)
    assert others(house) | {"syncs": []} == before | {"syncs": []}  # one more sync than before


def test_a_service_whose_lists_have_gaps_is_synced_after_an_erasure(erased: House) -> None:
    for path in ("students", "classes"):
        erased.service.on(faults.gapped(), path=path, search=None, times=None)
    everyone = everybody(7)
    done = erased.night(7, [everyone[0], *everyone[2:]])  # one whom no search finds
    assert (done.manifest.proven, done.manifest.verdict) == (True, Verdict.SYNCED)
    assert erased.query("SELECT COUNT(*) FROM students") == [(len(everyone) - 2,)]
    assert_gone(erased)


def test_expired_days_stay_in_as_many_files_as_before_an_erasure(expiring: House) -> None:
    """Then somebody who writes to the published file destroys nothing."""
    house = expiring
    before, versions = others(house), len(house.rollbook().warehouse.kept())
    erase(house)
    assert_gone(house)
    assert others(house) == before
    assert len(house.rollbook().warehouse.kept()) == versions == 3
    with duckdb.connect(writable(house.published)) as con:
        con.execute("DELETE FROM history.students")
    with house.rollbook().writer().writing():
        pass
    assert others(house) == before


def test_counting_and_refusing_change_nothing(lived_copy: House) -> None:
    def state() -> dict[str, bytes]:
        skipped = ("build/writer.txt",)
        there = {str(p.relative_to(lived_copy.warehouse)): p for p in lived_copy.warehouse.rglob("*") if p.is_file()}
        return {name: p.read_bytes() for name, p in there.items() if name not in skipped}

    with lived_copy.rollbook().writer().writing():
        pass
    before = state()
    holdings = erasing.holdings(lived_copy.rollbook().writer(), canary.ID)
    assert {k: holdings.counts[k] for k in ("landings", "records", "rejects", "days", "exports")} == {
        "landings": 6,
        "records": 6,
        "rejects": 2,
        "days": 5,
        "exports": 4,
    }
    with pytest.raises(HeldError, match="not confirmed. Nothing was changed"):
        erase(lived_copy, confirm=lambda _: False)
    with pytest.raises(ArgumentError, match="Say why"):
        erase(lived_copy, reason=" ")
    for reason in (f"for {canary.ID}", "Zebedee's sister: Canarybird, zebedee", f"of {canary.EMAIL}"):
        with pytest.raises(ArgumentError, match="identifies the student"):
            erase(lived_copy, reason=reason)
    with pytest.raises(ArgumentError, match="whole number from 1"):
        erase(lived_copy, 0)
    assert state() == before


def test_a_student_under_a_legal_hold_is_not_erased(lived_copy: House) -> None:
    with pytest.raises(ArgumentError, match="The reason identifies the student"):
        erasing.hold(lived_copy.rollbook().writer(), canary.ID, reason=f"lawsuit of {canary.EMAIL}")
    erasing.hold(lived_copy.rollbook().writer(), canary.ID, reason="court, case 3")
    there = canary.found(lived_copy.warehouse)
    assert not any(path.startswith("private/") for path in there)
    with pytest.raises(ArgumentError, match=r"under a legal hold since 2026-11-25 \(court, case 3\)"):
        erase(lived_copy)
    assert canary.found(lived_copy.warehouse) == there
    erasing.lift(lived_copy.rollbook().writer(), canary.ID)
    with pytest.raises(ArgumentError, match="not under a legal hold"):
        erasing.lift(lived_copy.rollbook().writer(), canary.ID)
    with pytest.raises(HeldError, match="not confirmed"):
        erase(lived_copy, confirm=lambda _: False)


@pytest.mark.slow
def test_a_student_of_whom_nothing_is_here_can_be_kept_out(lived_copy: House) -> None:
    shown: list[bool] = []

    def confirm(holdings: Holdings) -> bool:
        shown.append(holdings.anything)
        return True

    certificate = erase(lived_copy, 77, confirm=confirm)
    assert (shown, certificate.counts["landings"]) == ([False], 0)
    lived_copy.night(7, [*everybody(7), student(77)])
    assert lived_copy.query("SELECT COUNT(*) FROM history.students WHERE student_id = 77") == [(0,)]
    with pytest.raises(ArgumentError, match="erased before"):
        erase(lived_copy, 77)


def test_an_erased_student_cannot_be_held_nor_the_register_lost(erased: House) -> None:
    with pytest.raises(ArgumentError, match="erased already"):
        erasing.hold(erased.rollbook().writer(), canary.ID, reason="too late")
    shutil.rmtree(erased.warehouse / "private")
    erased.service.requests.clear()
    for number in (7, 8):
        with pytest.raises(DamagedError, match=r"restore private/erasures/ from its newest backup"):
            erased.night(number, everybody(number))
    assert erased.service.requests == []
    assert canary.found(erased.warehouse) == {}


def test_a_damaged_body_stops_an_erasure_before_anything_is_changed(lived_copy: House) -> None:
    path = lived_copy.warehouse / "raw" / f"snapshot_date={night(3)}" / "landing=1" / "bodies.zst"
    body = next(
        b for b in lived_copy.rollbook().raw.open(lived_copy.landings(night(3))[0]).pages() if b.set == "students"
    )
    content = bytearray(path.read_bytes())
    content[body.offset + body.length // 2] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(DamagedError, match=r"landing=1/bodies\.zst cannot be used"):
        erase(lived_copy)
    assert lived_copy.rollbook().raw.erasure_register.count == 0


@pytest.mark.slow
def test_the_same_email_under_another_id_only_warns(lived_copy: House, caplog: pytest.LogCaptureFixture) -> None:
    lived_copy.night(7, [*everybody(7), student(800, email=canary.EMAIL.upper())])
    certificate = erase(lived_copy)
    assert certificate.counts["recognised"] == 1
    assert lived_copy.query("SELECT COUNT(*) FROM students WHERE student_id = 800") == [(1,)]
    caplog.clear()
    lived_copy.night(8, [*everybody(8), student(800, email=canary.EMAIL.upper())])
    assert [m for m in caplog.messages if "1 records have the email or reference id of an erased student" in m]
    assert lived_copy.query("SELECT COUNT(*) FROM students WHERE student_id = 800") == [(1,)]


@pytest.mark.slow
def test_who_was_spoken_to_is_forgotten_with_the_student(lived_copy: House) -> None:
    for student_id in (canary.ID, 1):
        contacted.add(lived_copy.warehouse, student_id, night(6), night(20))
    certificate = erase(lived_copy)
    assert "| lines of contacted.csv, removed | 1 |" in certificate.text
    assert [each.student_id for each in contacted.read(lived_copy.warehouse)] == [1]


def test_an_erasure_shows_its_progress_where_a_night_would(erased: House) -> None:
    shown = set[str]()
    writer = erased.rollbook().writer(lambda what, _done, _of: shown.add(what))  # as the command does
    erasing.erase(writer, everybody(6)[0]["id"], reason="case 13", confirm=lambda _: True)
    assert shown == {"landings read", "landings", "days", "published files"}


def test_two_students_erased_one_after_the_other_are_both_out(lived_copy: House) -> None:
    erase(lived_copy, 5)
    certificate = erase(lived_copy)
    assert certificate.path.name == "certificate-2.md"
    assert_gone(lived_copy)
    lived_copy.night(7, everybody(7))
    assert lived_copy.query("SELECT COUNT(*) FROM history.students WHERE student_id IN (5, 739184620571)") == [(0,)]
    assert [w.erased for w in lived_copy.landings(night(7))[-1].walks] == [2, 0]


def test_an_edited_file_from_before_an_erasure_is_not_kept(lived_school: House, erased: House) -> None:
    shutil.copyfile(lived_school.published, writable(erased.published))
    with duckdb.connect(writable(erased.published)) as con:
        con.execute("CREATE TABLE mine AS SELECT 1")
    with erased.rollbook().writer().writing():
        pass
    assert_gone(erased)


def test_a_readmitted_id_is_a_new_person_and_the_erased_stays_out(
    lived_school: House, erased: House, caplog: pytest.LogCaptureFixture
) -> None:
    other = student(canary.ID, name="New Pupil", email="new.pupil@school.example", reference_id="N-1")
    tonight = [*(s for s in everybody(7) if s["id"] != canary.ID), other]
    with caplog.at_level("INFO"):
        erased.night(7, tonight)
    there = f"SELECT name, valid_from FROM history.students WHERE student_id = {canary.ID}"
    assert erased.query(there) == []
    assert any(m.startswith("1 record left out: the id is an erased student's") for m in caplog.messages)
    assert status_of(erased.rollbook()).last_sync.kept_out == 1  # type: ignore[union-attr]
    erasing.readmit(erased.rollbook().writer(), canary.ID)
    with pytest.raises(ArgumentError, match="there is nobody to readmit"):
        erasing.readmit(erased.rollbook().writer(), canary.ID)
    erased.night(8, tonight)
    assert erased.query(there) == [("New Pupil", night(8))]
    assert status_of(erased.rollbook()).last_sync.kept_out == 0  # type: ignore[union-attr]
    # A backup from before the erasure, and the erasure of somebody else, bring neither the one back nor the other out.
    for part in ("raw", "snapshots"):
        shutil.copytree(lived_school.warehouse / part, erased.warehouse / part, dirs_exist_ok=True, symlinks=True)
    erase(erased, 5)
    past.rebuild(erased.rollbook().writer(), confirm=always)
    assert erased.query(there) == [("New Pupil", night(8))]
    left = {text for texts in canary.found(erased.warehouse).values() for text in texts}
    assert left == {str(canary.ID)}, "the new person has the id, and nothing else of the erased one is left"
    # And the new person can be erased, too.
    erase(erased)
    assert erased.query(there) == []
    erased.night(9, tonight)
    assert erased.query(there) == []
