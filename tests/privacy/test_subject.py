"""Everything about one student, and nothing of any other: on nights of every kind, in every form."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from pipelines.errors import ArgumentError, DamagedError, HeldError
from pipelines.operations.discard import discard
from pipelines.privacy import access, bundle, subject, traces
from pipelines.privacy.excerpts import LEFT_OUT
from pipelines.privacy.subject import Subject, gather
from pipelines.store.relations import KEPT, OBSERVED
from pipelines.tables import TABLES
from pipelines.views import catalog
from tests.support import faults
from tests.support.commands import run_command
from tests.support.nights import House, new_house, night
from tests.support.records import MISSING, Record, Records, classes, entry, school_class, student

pytestmark = pytest.mark.timeout(400)  # ten whole syncs, once for all tests

ME = 4711
EVIL = '=HYPERLINK("http://x.example")<script>alert(1)</script> O\'Hara & "Sons" \u202eback'
DEEP: Any = "at the bottom"
for _ in range(70):
    DEEP = [DEEP]


def neighbour(ident: Any, **over: Any) -> Record:
    """A student of whom nothing may be handed out: every text says so."""
    return student(
        ident, name=f"NEIGHBOUR {ident}", first_name="NEIGHBOUR", last_name=f"NEIGHBOUR{ident}",
        email=f"NEIGHBOUR.{ident}@school.example", reference_id=f"NEIGHBOUR-{ident}",
        profile_image=f"https://img.school.example/NEIGHBOUR{ident}.png",
        classes=[entry(), entry(class_id=502, class_title="NEIGHBOURS only")], **over,
    )  # fmt: skip


def me(**over: Any) -> Record:
    return student(ME, **{"name": EVIL, "reference_id": "+ME", **over})


# My own id is among those of the first page.
OTHERS = [neighbour(i) for i in (1, 2, 47, 471, 47110, 11471, *range(5000, 5014))]
TELLTALE = neighbour(3, friends=[{"student_id": ME, "nickname": "BEST FRIEND"}, {"student_id": 1, "is": "NEIGHBOUR"}])
ROSTER = [
    {"student_id": ME, "seat": "MY SEAT"},
    {"student_id": 1, "seat": "NEIGHBOUR"},
    {"id": 2, "seat": "by no name"},
]
MATES = me(
    classmates=[OTHERS[0], {"id": ME, "email": "my own"}, {"id": 7, "name": "A course"}],
    best_friend={"student_id": 1, "name": "NEIGHBOUR"},
)


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with new_house() as made:
        service = made.service
        service.details = {i: {"student_id": i, "seen": "MY DETAIL" if i == ME else "NEIGHBOUR"} for i in (ME, 1, 3)}
        made.night(1, [*OTHERS[:10], student(ME, name="First Name"), *OTHERS[10:]], classes(2), details="all")
        made.night(2, [*OTHERS, MATES, TELLTALE], [school_class(501, roster=ROSTER), school_class(502)])
        # Night 3 was not landed. Night 4 is unproven, in three walks.
        service.on(faults.moved_total(1), path="students", page=1, times=None)
        made.night(4, [*OTHERS, me()], classes(2))
        service.mend()
        # Refused: without an address, then too deep to be read. Another record has no id that can be read.
        made.night(5, [*OTHERS, me(email=MISSING, name="Refused Once")], over={"hold_changed_percent": 100})
        made.night(6, [*OTHERS, me(deep=DEEP), neighbour("none")], over={"hold_changed_percent": 100})
        # Not listed, and found by name; then gone; then back.
        service.hide(ME)
        made.night(7, [*OTHERS, me()])
        service.mend()
        made.night(8, OTHERS)
        made.night(9, [me(classes=[]), *OTHERS])
        with pytest.raises(HeldError):
            made.night(10, [me(name="Held Name")])
        made.night(11, [me(name="Discarded Name"), *OTHERS])
        discard(made.rollbook(), night(11), reason="for this test")
        yield made


@pytest.fixture(scope="module")
def found(house: House) -> Subject:
    return gather(house.warehouse, ME)


@pytest.fixture(scope="module")
def files(found: Subject, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("subject") / "me.zip"
    bundle.write(found, out)
    with ZipFile(out) as zipped:
        assert zipped.testzip() is None
        return {name: zipped.read(name) for name in zipped.namelist()}


def section(found: Subject, name: str) -> subject.Section:
    (one,) = [s for s in found.sections if s.name == name]
    return one


def column(found: Subject, name: str, *wanted: str) -> list[tuple[Any, ...]]:
    of = section(found, name)
    at = [[c.name for c in of.columns].index(w) for w in wanted]
    return [tuple(row[n] for n in at) for row in of.rows]


def test_it_holds_each_row_about_the_student_of_every_table_and_view(house: House, found: Subject) -> None:
    asked = {
        f"{schema}.{name}": f"SELECT * FROM {schema}.{name} WHERE student_id = {ME} ORDER BY ALL"
        for schema, name in house.query(
            "SELECT schema_name, table_name FROM duckdb_columns() WHERE column_name = 'student_id' AND NOT internal"
        )
    }
    assert {"main.roster", "main.students", "history.students", "snapshots.students", "spans.students"} <= asked.keys()
    assert len(asked) > 25
    for table in ("ops.rejects", "snapshots.observed"):
        asked[table] = f"SELECT * FROM {table} WHERE id = {ME} AND set_name IN ('students', 'details') ORDER BY ALL"
    held = {s.name: s for s in found.sections if not s.name.startswith(("raw.", "copies.", "private."))}
    assert held.keys() == asked.keys()
    for name, query in asked.items():
        rows = house.query(query)
        if name != "ops.rejects":  # of which others' records were left out
            assert held[name].rows == rows, name
        assert len(held[name].rows) == len(rows), name
    assert all(held[name].rows for name in ("main.students", "main.changes", "ops.rejects", "snapshots.observed"))


def test_no_table_names_students_by_a_column_that_is_not_looked_at() -> None:
    """A column of a new name that holds students' ids must be told to `about_students.sql`."""
    names = {c.name for t in TABLES.values() for c in t.columns} | {
        c.name for r in (*KEPT, OBSERVED) for c in r.columns
    }
    names |= {name for view in catalog.views() for name, _ in view.columns}
    ids = {name for name in names if re.search(r"(^|_)id$", name)}
    assert ids == {"id", "student_id", "class_id", "course_id", "teacher_id", "reference_id", "school_id"}
    with_id = {r.name for r in (*KEPT, OBSERVED) if any(c.name == "id" for c in r.columns)}
    assert with_id == {"rejects", "observed", "version"}  # the last is the published file's own


def test_it_holds_the_students_own_records_of_every_landing(found: Subject) -> None:
    got = column(found, "raw.records", "snapshot_date", "landing_is", "set_name", "kind", "walk", "where")
    assert got == [
        (night(1), "synced", "students", "walk", 1, ""),
        (night(1), "synced", "details", "detail", 1, ""),
        (night(2), "synced", "students", "walk", 1, ""),
        (night(2), "synced", "students", "walk", 1, "part of a record of students"),
        (night(2), "synced", "classes", "walk", 1, "part of a record of classes"),
        *[(night(4), "unproven", "students", "walk", n, "") for n in (1, 2, 3)],
        (night(5), "synced", "students", "walk", 1, ""),
        *[(night(6), "unproven", "students", "walk", n, "") for n in (1, 2, 3)],
        (night(7), "synced", "students", "search", 1, ""),
        (night(9), "synced", "students", "walk", 1, ""),
        (night(10), "held", "students", "walk", 1, ""),
        (night(11), "discarded", "students", "walk", 1, ""),
    ]
    records = [json.loads(text) for (text,) in column(found, "raw.records", "record")]
    assert records[0] == student(ME, name="First Name")
    assert records[1] == {"student_id": ME, "seen": "MY DETAIL"}
    assert records[2] == MATES | {
        "classmates": [LEFT_OUT, {"id": ME, "email": "my own"}, {"id": 7, "name": "A course"}],
        "best_friend": LEFT_OUT,
    }
    assert records[3] == {"student_id": ME, "nickname": "BEST FRIEND"}
    assert records[4] == {"student_id": ME, "seat": "MY SEAT"}
    assert records[8] == me(email=MISSING, name="Refused Once")
    assert [r["name"] for r in records[-2:]] == ["Held Name", "Discarded Name"]


def test_it_says_what_was_refused_searched_and_could_not_be_told(found: Subject) -> None:
    assert column(found, "raw.refused", "snapshot_date", "reason") == [
        (night(5), "object missing required field email"),
        *[(night(6), "it is nested more than 64 levels deep")] * 3,
    ]
    assert column(found, "raw.searches", "snapshot_date", "asked_by", "answer") == [
        (night(7), "reference_id", "slipped"),
        (night(8), "reference_id, email", "removed"),
    ]
    assert any("3 refused records of students have no id that can be read" in remark for remark in found.remarks)


def test_nothing_of_a_neighbour_is_in_any_file(files: dict[str, bytes]) -> None:
    for name, content in files.items():
        assert b"NEIGHBOUR" not in content, name


def test_the_files_hold_what_was_found(found: Subject, files: dict[str, bytes]) -> None:
    names = [s.name for s in found.sections]
    assert set(files) == {
        "index.html", "contents.json", *(f"json/{n}.json" for n in names), *(f"csv/{n}.csv" for n in names),
    }  # fmt: skip
    contents = json.loads(files["contents.json"])
    assert {s["name"]: s["rows"] for s in contents["sections"]} == {s.name: len(s.rows) for s in found.sections}
    assert contents["student_id"] == ME
    (now,) = json.loads(files["json/main.students.json"])
    assert (now["student_id"], now["name"], now["registration_date"]) == (ME, EVIL, "2025-09-01")
    for one in found.sections:
        rows = list(csv.reader(io.StringIO(files[f"csv/{one.name}.csv"].decode("utf-8-sig"), newline="")))
        assert rows[0] == [c.name for c in one.columns]
        assert len(rows) == len(one.rows) + 1
        assert all(len(row) == len(rows[0]) for row in rows)
        numbers = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?")
        for row in rows:
            assert not [c for c in row if c.startswith(("=", "+", "-", "@", "\t", "\r")) and not numbers.fullmatch(c)]
    (mine,) = list(csv.DictReader(io.StringIO(files["csv/main.students.csv"].decode("utf-8-sig"))))
    assert (mine["name"], mine["reference_id"]) == (f"'{EVIL}", "'+ME")


def test_the_page_shows_names_as_text_and_loads_nothing(files: dict[str, bytes]) -> None:
    page = files["index.html"].decode()
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; O&#39;Hara &amp; &#34;Sons&#34; \\u202eback" in page
    assert "\u202e" not in page
    assert "default-src 'none'" in page
    assert not re.search(r'(src|href)=(?!"data:)', page)
    assert "no longer listed" in page
    assert f"All that is held about student {ME}" in page


# --- the file --------------------------------------------------------------------------------------------------------


@pytest.fixture
def run(house: House) -> Callable[..., subprocess.CompletedProcess[str]]:
    def command(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        own = {"ROLLBOOK_WAREHOUSE": str(house.warehouse), "COLUMNS": "250"}
        return run_command(*arguments, env=own | env, cwd=Path("/"))

    return command


Run = Callable[..., "subprocess.CompletedProcess[str]"]


def test_the_command_writes_a_private_file_once_and_logs_it(house: House, run: Run, tmp_path: Path) -> None:
    out = tmp_path / "me.zip"
    done = run("subject", str(ME), "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert f"rows about the student to {out}." in done.stdout
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    with ZipFile(out) as zipped:
        assert {info.external_attr >> 16 for info in zipped.infolist()} == {0o600}
    written = out.read_bytes()
    again = run("subject", str(ME), "--out", str(out))
    assert (again.returncode, again.stdout) == (2, "")
    assert "is there already: name another file, or write over it with --replace" in " ".join(again.stderr.split())
    assert out.read_bytes() == written
    assert run("subject", str(ME), "--out", str(out), "--replace").returncode == 0
    logged = [(e.kind, e.students, e.what) for e in access.entries(house.warehouse).entries]
    assert logged == [("subject", 1, "")] * 2
    assert str(ME) not in (house.warehouse / "private" / "access.jsonl").read_text()
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("ident", ["999", "4712", "9223372036854775807"])
def test_an_unknown_student_is_an_error_and_leaves_no_file(run: Run, tmp_path: Path, ident: str) -> None:
    done = run("subject", ident, "--out", str(tmp_path / "f.zip"))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"Nothing is held about a student {ident}" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("out", "said"), [("no/f.zip", "is not a folder: make it first"), (".", "is a folder")])
def test_a_file_that_cannot_be_written_is_refused_before_anything_is_read(
    run: Run, tmp_path: Path, out: str, said: str
) -> None:
    done = run("subject", str(ME), "--out", str(tmp_path / out))
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())


def test_a_failure_in_the_middle_leaves_no_file_and_keeps_an_older_one(
    found: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "f.zip"
    out.write_bytes(b"older")

    def broken(_: object) -> bytes:
        raise OSError("no room")

    monkeypatch.setattr(bundle, "_csv", broken)
    with pytest.raises(OSError, match="no room"):
        bundle.write(found, out, replace=True)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"f.zip": b"older"}


# --- other warehouses ------------------------------------------------------------------------------------------------


@pytest.fixture
def fresh() -> Iterator[House]:
    with new_house([me(), neighbour(1)], classes(1)) as made:
        yield made


def test_exports_that_hold_the_student_are_named_and_others_are_said_to_be_unknown(fresh: House) -> None:
    fresh.sync()
    env = {"ROLLBOOK_WAREHOUSE": str(fresh.warehouse)}
    folder = fresh.warehouse / "exports"
    for question, name in [
        ("students", "students.csv"), ("students", "s.parquet"), ("students", "s.xlsx"), ("classes", "classes.csv"),
        (f"FROM students WHERE student_id <> {ME}", "others.csv"),
        (f"FROM students WHERE student_id <> {ME}", "others.parquet"),
    ]:  # fmt: skip
        folder.mkdir(exist_ok=True)
        done = run_command("export", question, "--out", str(folder / name), env=env, cwd=Path("/"))
        assert done.returncode == 0, done.stderr
    (folder / "damaged.parquet").write_bytes(b"PAR1")
    (folder / "odd.csv").write_bytes(b"student_id\n\xff\xfe\n")
    (folder / "empty.csv").write_bytes(b"")
    (fresh.warehouse / "rollbook-pseudonymous.duckdb").write_bytes(b"")
    got = gather(fresh.warehouse, ME)
    held = {Path(file).name: said for file, said in column(got, "copies.files", "file", "holds_the_student")}
    version = fresh.published.resolve().name
    assert held == {
        "students.csv": "yes", "s.parquet": "yes", "s.xlsx": "not known: only CSV and Parquet files are looked into",
        "classes.csv": "not known: it has no column student_id", "others.csv": "no", "others.parquet": "no",
        "damaged.parquet": "not known: it cannot be read", "odd.csv": "not known: it cannot be read",
        "empty.csv": "not known: it has no column student_id", version: "yes",
        "rollbook-pseudonymous.duckdb": "the same records, without names and under a code",
    }  # fmt: skip
    assert column(got, "copies.exports", "kind", "students", "question") == [
        *[("export", 2, "FROM students")] * 3,
        ("export", None, "FROM classes"),
        *[("export", 1, "FROM students WHERE student_id <> ?")] * 2,
    ]


def test_what_the_owners_own_files_know_is_found_and_no_other_pupil_with_it(tmp_path: Path) -> None:
    private = tmp_path / "private"
    (private / "aggregates").mkdir(parents=True)
    codes = {"release": {"name": "a1", "codes": {"1": 99, str(ME): 123456789012345}}, "sha256": str(ME) * 2}
    (private / "codes.json").write_text(json.dumps(codes))
    cohorts = [["score", "class", 501, "2026-11-16", 10, [1, ME, 7]], ["score", "class", 502, "2026-11-16", 10, [1]]]
    released = {"k": ME, "rows": [{"id": ME, "students": 12}], "cohorts": cohorts}
    (private / "aggregates" / "2026-W47.json.gz").write_bytes(gzip.compress(json.dumps(released).encode()))
    (private / "list.json").write_text(f"[{ME}, 8]")
    (private / "access.jsonl").write_text(f"[{ME}]")
    assert [(t.file, t.where, t.says) for t in traces.find(tmp_path, ME)] == [
        ("private/aggregates/2026-W47.json.gz", "cohorts", "score, class, 501, 2026-11-16, 10"),
        ("private/codes.json", "release.codes", "123456789012345"),
        ("private/list.json", "", ""),
    ]
    assert traces.find(tmp_path, 12345) == []
    got = section(gather(tmp_path, ME), "private.traces")
    assert len(got.rows) == 3
    (private / "list.json").write_bytes(b"[\xff")
    with pytest.raises(DamagedError, match=r"list\.json cannot be read .*: put it back from a backup"):
        gather(tmp_path, ME)


def test_before_anything_is_published_the_landings_answer(fresh: House) -> None:
    fresh.sync()
    fresh.lose_published()
    got = gather(fresh.warehouse, ME)
    assert [s.name for s in got.sections if s.rows] == ["raw.records"]
    assert got.remarks[0] == "Nothing is published yet, so this is what the landings hold."
    with pytest.raises(ArgumentError, match="Nothing is held about a student 7"):
        gather(fresh.warehouse, 7)


def test_without_a_warehouse_nothing_is_held(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="Nothing is held about a student 4711"):
        gather(tmp_path / "w", ME)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_landing_is_not_passed_over(fresh: House) -> None:
    fresh.sync()
    (bodies,) = fresh.warehouse.rglob("bodies.zst")
    content = bytearray(bodies.read_bytes())
    content[len(content) // 2] ^= 0xFF
    bodies.write_bytes(content)
    with pytest.raises(DamagedError, match="Restore raw/"):
        gather(fresh.warehouse, ME)


def odd_bytes(record: Record, old: bytes, new: bytes) -> Callable[..., Any]:
    return faults.rewritten({old: new})


def test_a_record_that_no_decoder_reads_is_found_by_its_id(fresh: House) -> None:
    """Half an emoji in the name, or bytes that are no UTF-8."""
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
    assert b"NEIGHBOUR" not in b"".join(content for _, content in bundle._files(got))


@pytest.mark.parametrize("ident", ["4711.0", "4.711e3", "47110e-1"])
def test_an_id_is_read_as_it_is_everywhere(fresh: House, ident: str) -> None:
    fresh.service.on(faults.rewritten({b'"id":4711,': f'"id":{ident},'.encode()}), path="students", times=None)
    fresh.sync()
    assert fresh.query("SELECT COUNT(*) FROM students WHERE student_id = 4711") == [(1,)]
    assert len(column(gather(fresh.warehouse, ME), "raw.records", "record")) == 1


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
    assert b"NEIGHBOUR" not in b"".join(content for _, content in bundle._files(got))
