"""Everything about one student, and nothing of any other: on nights of every kind, in every form."""

from __future__ import annotations

import csv
import io
import json
import re
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from rollbook.assembly import personal
from rollbook.errors import ArgumentError, DamagedError, HeldError
from rollbook.feature import relations
from rollbook.features.pseudonymous.pseudonymous import Codes, begin
from rollbook.night.discard import discard
from rollbook.reading import access
from rollbook.rights.subject import DAYS, INTERNAL, LEFT_OUT, NOW, VERSIONS, WORDS, Subject, contents, gather, write
from rollbook.store.schema import KEPT, OBSERVED
from rollbook.tables import TABLES
from rollbook.views import catalog, contacted
from tests.support.nights import House, new_house, night
from tests.support.processes.commands import run_at
from tests.support.records import MISSING, classes, student
from tests.support.warehouses.subjects import EVIL, ME, OTHERS, column, me, neighbour, section
from tests.support.wire import faults

# Ten whole syncs, once for all tests.
pytestmark = [pytest.mark.timeout(400), pytest.mark.nights, pytest.mark.every_feature]

DEEP: Any = "at the bottom"
for _ in range(70):
    DEEP = [DEEP]


MATES = me(
    classmates=[OTHERS[0], {"id": ME, "email": "my own"}, {"id": 7, "name": "A course"}],
    best_friend={"student_id": 1, "name": "NEIGHBOUR"},
)


@pytest.fixture(scope="module")
def eleven_nights() -> Iterator[House]:
    with new_house() as house:
        service = house.service
        service.details = {i: {"student_id": i, "seen": "MY DETAIL" if i == ME else "NEIGHBOUR"} for i in (ME, 1)}
        house.night(1, [*OTHERS[:10], student(ME, name="First Name"), *OTHERS[10:]], classes(2), details="all")
        house.night(2, [*OTHERS, MATES])
        # Night 3 was not landed. Night 4 is unproven, in three walks.
        service.on(faults.moved_total(1), path="students", page=1, times=None)
        house.night(4, [*OTHERS, me()], classes(2))
        service.mend()
        # Refused: without a name, then too deep to be read. Another record has no id that can be read.
        house.night(5, [*OTHERS, me(name=MISSING, first_name="Refused Once")], over={"hold_changed_percent": 100})
        house.night(6, [*OTHERS, me(deep=DEEP), neighbour("none")], over={"hold_changed_percent": 100})
        # Not listed, and found by name; then gone; then back.
        service.hide(ME)
        house.night(7, [*OTHERS, me()])
        service.mend()
        house.night(8, OTHERS)
        house.night(9, [me(classes=[]), *OTHERS])
        with pytest.raises(HeldError):
            house.night(10, [me(name="Held Name")])
        house.night(11, [me(name="Discarded Name"), *OTHERS])
        discard(house.rollbook().writer(), night(11), reason="for this test")
        for student_id in (ME, OTHERS[0]["id"]):
            contacted.add(house.warehouse, student_id, night(9), night(20))
        yield house


@pytest.fixture(scope="module")
def found(eleven_nights: House) -> Subject:
    return gather(eleven_nights.warehouse, ME, added=relations())


@pytest.fixture(scope="module")
def files(found: Subject, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("subject") / "me.zip"
    write(found, out)
    with ZipFile(out) as zipped:
        assert zipped.testzip() is None
        return {name: zipped.read(name) for name in zipped.namelist()}


def test_it_holds_each_row_about_the_student_of_every_table_and_view(eleven_nights: House, found: Subject) -> None:
    expected = {
        f"{schema}.{name}": f"SELECT * FROM {schema}.{name} WHERE student_id = {ME} ORDER BY ALL"
        for schema, name in eleven_nights.query(
            "SELECT schema_name, table_name FROM duckdb_columns() WHERE column_name = 'student_id' AND NOT internal"
        )
    }
    assert {
        "main.roster",
        "main.students",
        "history.students",
        "snapshots.students",
        "spans.students",
    } <= expected.keys()
    assert len(expected) > 25
    for table in ("ops.rejects", "ops.refused_values", "snapshots.observed"):
        expected[table] = f"SELECT * FROM {table} WHERE id = {ME} AND set_name IN ('students', 'details') ORDER BY ALL"
    held = {s.name: s for s in found.sections if not s.name.startswith(("raw.", "copies.", "private."))}
    assert held.keys() == expected.keys()
    for name, query in expected.items():
        rows = eleven_nights.query(query)
        if name != "ops.rejects":  # of which others' records were left out
            assert held[name].rows == rows, name
        assert len(held[name].rows) == len(rows), name
    assert all(held[name].rows for name in ("main.students", "main.changes", "ops.rejects", "snapshots.observed"))


def test_what_has_a_day_is_not_among_the_state_now(found: Subject) -> None:
    """Else a table or view has to declare what it `tells`."""
    days = {"snapshot_date", "week_begins", "joined_on", "valid_from", "first_day", "number"}
    dated = {s.name: s.part for s in found.sections if days & {column["name"] for column in s.columns}}
    assert [name for name, part in dated.items() if part == NOW] == []
    parts = ("main.changes", "main.enrollment_spans", "main.student_weekly", "snapshots.observed", "ops.feed")
    assert [dated[name] for name in parts] == [WORDS, VERSIONS, DAYS, INTERNAL, INTERNAL]


def test_it_says_when_somebody_noted_to_have_spoken_to_the_student(found: Subject) -> None:
    (section,) = (section for section in found.sections if section.name == "private.contacted")
    assert section.rows == [(night(9), night(20), "", "")]


def test_no_table_names_students_by_a_column_that_is_not_looked_at() -> None:
    """A column with a new name that holds students' ids must be added to `about_students.sql`."""
    names = {c.name for t in TABLES.values() for c in t.columns} | {
        c.name for r in (*KEPT, OBSERVED, *relations()) for c in r.columns
    }
    names |= {name for view in catalog.views() for name, _ in view.columns}
    ids = {name for name in names if re.search(r"(^|_)id$", name)}
    classes = {"class_id", "left_class_id", "joined_class_id"}
    assert ids == {"id", "student_id", "course_id", "teacher_id", "reference_id", "school_id"} | classes
    with_id = {r.name for r in (*KEPT, OBSERVED, *relations()) if any(c.name == "id" for c in r.columns)}
    assert with_id == {"rejects", "refused_values", "observed", "version"}  # the last is the published file's own


def test_it_holds_the_students_own_records_of_every_landing(found: Subject) -> None:
    got = column(found, "raw.records", "snapshot_date", "landing_is", "set_name", "kind", "walk")
    assert got.pop(1) == (night(1), "synced", "details", "detail", 1)
    assert got == [
        (night(1), "synced", "students", "walk", 1),
        (night(2), "synced", "students", "walk", 1),
        *[(night(4), "unproven", "students", "walk", n) for n in (1, 2, 3)],
        (night(5), "synced", "students", "walk", 1),
        *[(night(6), "unproven", "students", "walk", n) for n in (1, 2, 3)],
        (night(7), "synced", "students", "search", 1),
        (night(9), "synced", "students", "walk", 1),
        (night(10), "held", "students", "walk", 1),
        (night(11), "discarded", "students", "walk", 1),
    ]
    records = [json.loads(text) for (text,) in column(found, "raw.records", "record")]
    assert records[0] == student(ME, name="First Name")
    assert records[1]["data"] == {"student_id": ME, "seen": "MY DETAIL"}
    assert records[2] == MATES | {
        "classmates": [LEFT_OUT, {"id": ME, "email": "my own"}, {"id": 7, "name": "A course"}],
        "best_friend": LEFT_OUT,
    }
    assert records[6] == me(name=MISSING, first_name="Refused Once")
    assert [r["name"] for r in records[-2:]] == ["Held Name", "Discarded Name"]
    assert column(found, "raw.refused", "snapshot_date", "reason") == [
        (night(5), "object missing required field name"),
        (night(6), "it is nested more than 64 levels deep"),  # once, though three walks show it
    ]
    assert column(found, "raw.searches", "snapshot_date", "asked_by", "answer") == [
        (night(7), "reference_id", "found_by_search"),
        (night(8), "reference_id, email", "removed"),
    ]
    assert [remark for remark in found.remarks if "refused record" in remark and "no id that can be read" in remark]


def test_the_files_hold_what_was_found_and_nothing_of_a_neighbour(found: Subject, files: dict[str, bytes]) -> None:
    assert [name for name, content in files.items() if b"NEIGHBOUR" in content] == []
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
        assert [len(row) for row in rows] == [len(one.columns)] * (len(one.rows) + 1)
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


def test_the_command_writes_a_private_file_once_and_logs_it(eleven_nights: House, tmp_path: Path) -> None:
    out = tmp_path / "me.zip"
    done = run_at(eleven_nights.warehouse, "subject", str(ME), "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert f"rows about the student to {out}." in done.stdout
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    with ZipFile(out) as zipped:
        assert {info.external_attr >> 16 for info in zipped.infolist()} == {0o600}
    written = out.read_bytes()
    again = run_at(eleven_nights.warehouse, "subject", str(ME), "--out", str(out))
    assert (again.returncode, again.stdout) == (2, "")
    assert "is there already: name another file, or write over it with --replace" in " ".join(again.stderr.split())
    assert out.read_bytes() == written
    assert run_at(eleven_nights.warehouse, "subject", str(ME), "--out", str(out), "--replace").returncode == 0
    logged = [(e.kind, e.students, e.what) for e in access.entries(eleven_nights.warehouse)[0]]
    assert logged == [("subject", 1, "")] * 2
    assert str(ME) not in next((eleven_nights.warehouse / "private").glob("access-*.jsonl")).read_text()
    assert list(tmp_path.iterdir()) == [out]


# --- odd places --------------------------------------------------------------------------------------------------------


@pytest.fixture
def fresh() -> Iterator[House]:
    with new_house([me(), neighbour(1)], classes(1)) as house:
        yield house


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
    assert column(got, "copies.files", "file") == [
        ("exports/others.csv",),
        (str(version),),
        ("rollbook-pseudonymous.duckdb",),
    ]
    assert column(got, "copies.exports", "kind", "students", "question") == [
        ("export", 1, "FROM students WHERE student_id <> ?")
    ]


def test_the_students_code_is_in_it_and_nobody_elses(tmp_path: Path) -> None:
    codes = Codes(tmp_path)
    release = begin(datetime(2026, 11, 20, tzinfo=UTC)).covering([1, ME])
    codes.save(release)
    assert section(gather(tmp_path, ME, personal=personal(tmp_path)), "private.code").rows == [(release.codes[ME],)]
    codes.path.write_bytes(b"{")
    with pytest.raises(DamagedError, match=r"codes\.json.* cannot be read\. Put it back from a backup"):
        gather(tmp_path, ME, personal=personal(tmp_path))


def test_before_a_publish_the_landings_answer_and_damage_is_told(fresh: House) -> None:
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
def test_another_pupils_answer_to_a_request_for_this_one_is_left_out(fresh: House) -> None:
    fresh.service.details = {
        ME: {"student_id": 1, "name": "NEIGHBOUR"},
    }
    fresh.sync(details="all")
    got = gather(fresh.warehouse, ME)
    assert column(got, "main.student_details", "payload") == [(f'"{LEFT_OUT}"',)]
    (detail,) = [json.loads(text) for kind, text in column(got, "raw.records", "kind", "record") if kind == "detail"]
    assert detail["data"] == LEFT_OUT
    assert "NEIGHBOUR" not in "".join(content for _, content in contents(got))
