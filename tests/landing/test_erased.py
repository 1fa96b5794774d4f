"""Erased students are recognised by a keyed hash, and taken out of a page before the writing."""

from __future__ import annotations

import errno
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from rollbook.errors import DamagedError, MachineError
from rollbook.landing.bodies import swap
from rollbook.landing.erased import (
    Erased,
    ErasureRegister,
    Gate,
    Matcher,
    clean_certificate,
    keyed,
    name_hash,
    take_out,
    word_hashes,
)
from rollbook.landing.manifest import Received, Walk
from rollbook.landing.raw import RawStore
from tests.support.records import student, students

KEY, AT = b"key", datetime(2026, 11, 20, tzinfo=UTC)


def gone(*ids: int, **names: str) -> Matcher:
    hashes = tuple(name_hash(KEY, field, value) for field, value in names.items())
    return Matcher(KEY, [Erased(id=keyed(KEY, "id", str(i)), names=hashes, erased_at=AT) for i in ids])


def page(*records: Any) -> bytes:
    return msgspec.json.encode({"success": True, "data": records, "pagination": {"total_count": len(records)}})


def test_a_page_keeps_its_other_records_byte_for_byte() -> None:
    body = b'{ "success":true, "data" : [ {"id": 1 , "name":"\\u00e9"} ,{"id":2},\n{"id":3, "x": [1.0]}], "pagination":{"page":1}}'
    left, taken, _ = take_out(body, gone(2))
    assert taken == [2]
    assert (
        left == b'{"success":true,"data":[{"id": 1 , "name":"\\u00e9"},{"id":3, "x": [1.0]}],"pagination":{"page":1}}'
    )


@pytest.mark.parametrize("written", [b"7", b"7.0", b"70e-1", b"0.7E1", b"7e0"])
def test_an_id_is_read_however_it_is_written(written: bytes) -> None:
    left, taken, _ = take_out(
        b'{"data":[{"id":%s},{"id":70},{"id":"7"},{"i\\u0064":7},{"id":8,"id":7}]}' % written, gone(7)
    )
    assert taken == [7, 7, 7, 7]
    assert left == b'{"data":[{"id":70}]}'


@pytest.mark.parametrize("data", [b'"data":[],', b'"data":{},', b'"data":null,', b""])
def test_an_empty_page_in_any_form_is_left_as_it_is(data: bytes) -> None:
    body = b'{"success":true,%s"pagination":{"total_count":0}}' % data
    assert take_out(body, gone(2)) == (body, [], 0)


def test_a_list_with_gaps_is_left_as_a_list() -> None:
    left, taken, _ = take_out(b'{"data":{"0":{"id":1},"3":{"id":2},"4":{"id":3}}}', gone(2))
    assert (left, taken) == (b'{"data":[{"id":1},{"id":3}]}', [2])


def test_odd_records_are_left_as_unreadable_as_they_were() -> None:
    deep = b"[" * 2_000 + b"]" * 2_000
    body = b'{"data":[{"id":1,"name":"\\ud83d"},{"id":2},null,3,"x",{"id":4,"deep":%s}]}' % deep
    left, taken, _ = take_out(body, gone(2, 4))
    assert taken == [2, 4]
    assert left == b'{"data":[{"id":1,"name":[0     ]},null,3,"x"]}'


@pytest.mark.parametrize(
    ("other", "is_noticed"),
    [
        ({"email": " a.o'b@SCHOOL.example"}, True),
        ({"email": "a.o&#039;b@school.example"}, True),
        ({"reference_id": "47"}, True),
        ({"reference_id": 47}, True),
        ({"reference_id": True}, False),
        ({"reference_id": None}, False),
    ],
)
def test_another_record_with_an_erased_students_names_is_noticed(other: dict[str, Any], is_noticed: bool) -> None:
    names = gone(7, email="A.O'B@school.example", reference_id="47")
    assert take_out(page(student(1, **other), student(7)), names)[2] == is_noticed


def test_the_gate_counts_each_erased_student_once_for_the_proof(tmp_path: Path) -> None:
    gate = Gate(register_of(tmp_path, 2, 3).matcher())
    received: dict[str, Any] = {"set": "students", "kind": "walk", "received_at": AT, "records": 3}
    for walk in (1, 2):
        admitted = gate.admit(Received(**received, page=1, walk=walk), page(*students(3)))
        assert admitted is not None
        assert (admitted[0].erased, msgspec.json.decode(admitted[1])["data"]) == (2, [student(1)])
    read = Walk(set="students", walks=2, counted=(1, 2), repeated_ids=(1, 2))
    assert gate.without_erased(read) == msgspec.structs.replace(read, erased=2, repeated_ids=(1,))
    of_classes = msgspec.structs.replace(read, set="classes")
    assert gate.without_erased(of_classes) == of_classes
    detail: dict[str, Any] = {"set": "details", "kind": "detail", "page": 1, "received_at": AT, "records": 1}
    assert gate.admit(Received(**detail, sought=3), b"{}") is None
    assert gate.admit(Received(**detail, sought=1), b"{}") == (Received(**detail, sought=1), b"{}")
    classes = Received(set="classes", kind="walk", page=1, received_at=AT, records=1)
    assert gate.admit(classes, b'{"data":[{"class_id":2,"id":2}]}') == (classes, b'{"data":[{"class_id":2,"id":2}]}')


WORDS = Matcher(
    KEY,
    [
        Erased(
            id=keyed(KEY, "id", str(i)),
            words=tuple(word_hashes(KEY, [f"{first} {last}", email], [first, last])),
            erased_at=AT,
        )
        for i, first, last, email in [
            (12, "Zoë", "van der Berg", "z.berg@school.example"),
            (20, "Li", "Na", "REF-20/7"),
        ]
    ],
)


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ("asked for by Zoë van der Berg's mother", "asked for by (erased)'s mother"),
        ("ZOE\u0308 was missing; (van  der\nberg)", "(erased) was missing; ((erased))"),
        ("see z.berg@SCHOOL.example, or ref 20/7", "see (erased), or (erased)"),
        ("Li Na; Na, Li", "(erased); Na, Li"),
        ("student 12, 012, student-12 and 120", "student (erased), (erased), student-(erased) and 120"),
        ("12", "(erased)"),
        ("7,12", "7,(erased)"),
        (
            "on 2026-12-20 at 12:20, on 12.12.2026, 20.12. or 12/20/26",
            "on 2026-12-20 at 12:20, on 12.12.2026, 20.12. or 12/20/26",
        ),
        ("the clock of Bergen, van der Bergh, Zoës: 12a, x12, 1e12", None),
        ("9" * 5_000, None),
        ("", None),
    ],
)
def test_an_id_or_a_name_in_a_persons_words_is_replaced(given: str, left: str | None) -> None:
    assert WORDS.cleaned(given) == (given if left is None else left)
    assert Matcher(KEY, []).cleaned(given) == given


def test_a_readmitted_ids_lines_are_the_erased_students_until_then() -> None:
    ident = keyed(KEY, "id", "7")
    until = datetime(2026, 12, 24, tzinfo=UTC)
    first = Erased(id=ident, erased_at=AT, readmitted_at=until)
    readmitted, again = Matcher(KEY, [first]), Matcher(KEY, [first, Erased(id=ident, erased_at=until)])
    assert [readmitted.knows(7, day) for day in (date.min, date(2026, 12, 23), date(2026, 12, 24))] == [
        True,
        True,
        False,
    ]
    assert again.knows(7, date(2027, 1, 1))
    assert not readmitted.knows(8, date.min)


def test_a_certificate_names_no_deleted_file_and_nobody() -> None:
    table = "| what | count |\n|---|--:|\n| landings with the student, in raw/ | 12 |\n\n"
    files = "Deleted, since they may have held the student:\n\n- `exports/pages/all/students/12.html`\n- `exports/Zoë.csv`\n\n"
    end = "Still to do, by a person:\n\n- Backups 12\n"
    before = f"# Erasure 12\n\nReason: sister of Zoë,\nnumber 12\n\n{table}{files}{end}"
    after = f"# Erasure 12\n\nReason: sister of (erased),\nnumber (erased)\n\n{table}{end}"
    assert clean_certificate(before, WORDS) == after
    assert clean_certificate(after, WORDS) == after


def register_of(folder: Path, *ids: int) -> ErasureRegister:
    register = ErasureRegister(folder / "private" / "erasures")
    begun = register.begun()
    key = bytes.fromhex(begun.key)
    erased = tuple(Erased(id=keyed(key, "id", str(i)), erased_at=AT) for i in ids)
    register.write(msgspec.structs.replace(begun, erased=erased))
    return register


def test_the_register_names_nobody_and_is_the_owners_alone(tmp_path: Path) -> None:
    register = register_of(tmp_path, 739184620571)
    assert 739184620571 in register.matcher()
    assert b"739184620571" not in register.path.read_bytes()
    modes = [oct(p.stat().st_mode)[-3:] for p in (register.folder.parent, register.folder, register.path)]
    assert modes == ["700", "700", "600"]


@pytest.mark.parametrize("content", [b"", b"{", b'{"format": 1, "erased": []}', b'{"format": 1, "key": 5}'])
def test_an_unreadable_register_is_damage_and_not_empty(tmp_path: Path, content: bytes) -> None:
    register = register_of(tmp_path, 5)
    register.path.write_bytes(content)
    with pytest.raises(DamagedError, match=r"private/erasures/register\.json cannot be read"):
        register.read()


def test_a_register_that_this_account_may_not_read_is_not_damaged(tmp_path: Path) -> None:
    register = register_of(tmp_path, 5)
    refused = PermissionError(errno.EACCES, "Permission denied", str(register.path))
    with patch("builtins.open", side_effect=refused), pytest.raises(MachineError, match="Run Rollbook as the account"):
        register.read()


def test_a_register_older_than_what_was_landed_is_refused(tmp_path: Path) -> None:
    register = register_of(tmp_path, 5)
    register.check(1)
    with pytest.raises(DamagedError, match="lists 1 erasures, but a landing was made after 2"):
        register.check(2)


def test_a_writer_killed_at_any_moment_replaces_a_folder_whole(tmp_path: Path) -> None:
    """Each name that a killed swap may leave, and what the next writer makes of the folders."""
    for left, content in (
        ({"landing=1": "old", ".landing=1.new.partial": "half"}, "old"),
        ({".old-landing=1": "old", ".landing=1.new.partial": "new"}, "old"),
        ({"landing=1": "new", ".old-landing=1": "old"}, "new"),
    ):
        day = tmp_path / str(len(left)) / content / "-".join(sorted(left)) / "snapshot_date=2026-11-20"
        for name, text in left.items():
            (day / name).mkdir(parents=True)
            (day / name / "manifest.json").write_text(text)
        RawStore(day.parent).sweep()
        assert [p.name for p in day.iterdir()] == ["landing=1"]
        assert (day / "landing=1" / "manifest.json").read_text() == content
        swap(day / "landing=1", lambda aside: (aside / "manifest.json").write_text("swapped"))
        assert [p.name for p in day.iterdir()] == ["landing=1"]
        assert (day / "landing=1" / "manifest.json").read_text() == "swapped"
