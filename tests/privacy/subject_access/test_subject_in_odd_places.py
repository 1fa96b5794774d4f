"""One student's records in odd places: exports, the owner's own files, records that nobody can read, no file at all."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pipelines.errors import ArgumentError, DamagedError
from pipelines.privacy.codes import Codes, begin
from pipelines.privacy.subject_access.excerpts import LEFT_OUT
from pipelines.privacy.subject_access.subject import contents, gather
from tests.support.nights import House, new_house, night
from tests.support.processes.commands import run_at
from tests.support.records import Records, classes
from tests.support.warehouses.subjects import ME, OTHERS, column, me, neighbour, section
from tests.support.wire import faults


@pytest.fixture
def fresh() -> Iterator[House]:
    with new_house([me(), neighbour(1)], classes(1)) as made:
        yield made


def test_exports_are_named_as_files_that_may_hold_the_student(fresh: House) -> None:
    fresh.sync()
    folder = fresh.warehouse / "exports"
    folder.mkdir()
    done = run_at(
        fresh.warehouse, "export", f"FROM students WHERE student_id <> {ME}", "--out", str(folder / "others.csv")
    )
    assert done.returncode == 0, done.stderr
    (fresh.warehouse / "rollbook-pseudonymous.duckdb").write_bytes(b"")
    got = gather(fresh.warehouse, ME)
    version = fresh.published.resolve().relative_to(fresh.warehouse)
    assert column(got, "copies.files", "file", "holds_the_student") == [
        ("exports/others.csv", "not known: exports are not searched"),
        (str(version), "yes"),
        ("rollbook-pseudonymous.duckdb", "the same records, without names and under a code"),
    ]
    assert column(got, "copies.exports", "kind", "students", "question") == [
        ("export", 1, "FROM students WHERE student_id <> ?")
    ]


def test_the_students_code_is_in_it_and_nobody_elses(tmp_path: Path) -> None:
    codes = Codes(tmp_path)
    release = begin(datetime(2026, 11, 20, tzinfo=UTC)).covering([1, ME])
    codes.save(release)
    assert section(gather(tmp_path, ME), "private.code").rows == [(release.codes[ME],)]
    codes.path.write_bytes(b"{")
    with pytest.raises(DamagedError, match=r"codes\.json.* cannot be read\. Put it back from a backup"):
        gather(tmp_path, ME)


def test_before_anything_is_published_the_landings_answer_and_a_damaged_one_is_not_passed_over(fresh: House) -> None:
    fresh.sync()
    fresh.lose_published()
    got = gather(fresh.warehouse, ME)
    assert [s.name for s in got.sections if s.rows] == ["raw.records"]
    assert got.remarks[0] == "Nothing is published yet, so this holds only what was landed."
    with pytest.raises(ArgumentError, match="Nothing is held about a student 7"):
        gather(fresh.warehouse, 7)
    (bodies,) = fresh.warehouse.rglob("bodies.zst")
    content = bytearray(bodies.read_bytes())
    content[len(content) // 2] ^= 0xFF
    bodies.write_bytes(content)
    with pytest.raises(DamagedError, match="Restore raw/"):
        gather(fresh.warehouse, ME)


@pytest.mark.slow
def test_a_record_that_no_decoder_reads_is_found_by_its_id(fresh: House) -> None:
    """Half an emoji in the name, or bytes that are not UTF-8."""
    for number, odd in ((1, rb"half \ud83d"), (2, b"odd \xff\xfe"), (3, b"fine")):
        fresh.service.on(faults.rewritten({b"ODD NAME": odd}), path="students", times=None)
        records: Records = [me(name="ODD NAME"), *OTHERS]
        fresh.night(number, records, over={"hold_changed_percent": 100})
        fresh.service.mend()
    got = gather(fresh.warehouse, ME)
    texts = dict(column(got, "raw.records", "snapshot_date", "record"))
    assert r'"name":"half \ufffd"' in texts[night(1)]
    assert '"name":"odd \ufffd\ufffd"' in texts[night(2)]
    assert len(column(got, "raw.refused", "reason")) == 2
    assert "NEIGHBOUR" not in "".join(content for _, content in contents(got))


@pytest.mark.slow
def test_another_pupils_answer_to_a_request_for_this_one_is_left_out(fresh: House) -> None:
    fresh.service.details = {
        ME: {"student_id": 1, "name": "NEIGHBOUR"},
        1: {"student_id": 1, "with": {"student_id": ME}},
    }
    fresh.sync(details="all")
    got = gather(fresh.warehouse, ME)
    assert column(got, "main.student_details", "payload") == [(f'"{LEFT_OUT}"',)]
    details = [r for r in column(got, "raw.records", "set_name", "where", "record") if r[0] == "details"]
    assert details == [("details", "part of another answer of details", '{"student_id":4711}')]
    assert "NEIGHBOUR" not in "".join(content for _, content in contents(got))
