"""The district's file without names: the institutions' own pseudonymous files side by side, and nothing that names anybody."""

from __future__ import annotations

import json
import stat
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from rollbook.errors import NothingLandedError
from rollbook.features.district import views as district_views
from rollbook.features.district.build import MAKES_NONE, Built
from rollbook.features.pseudonymous.contents import RELEASE
from rollbook.features.pseudonymous.pseudonymous import Pseudonymous
from rollbook.landing.formats import FORMAT
from rollbook.reading import access
from tests.support import reading
from tests.support.nights import night
from tests.support.processes import canary
from tests.support.warehouses.coded_district import (
    ASH,
    BIRCH,
    CEDAR,
    WITHOUT_NAMES,
    coded_district,
    codes,
    counts,
    file_of,
    reached,
    rows,
    run,
    texts,
    version,
    write,
)
from tests.support.warehouses.district import District
from tests.support.warehouses.erasures import erase
from tests.support.warehouses.pseudonyms import Secrets, declare_personal, ident

pytestmark = pytest.mark.nights


@pytest.fixture(scope="module")
def played(secrets: Secrets) -> Iterator[District]:
    """Three institutions, of which two make pseudonymous files, and the files of all of them. For copying."""
    with coded_district(secrets) as district:
        district.build()
        yield district


def test_queries_without_names_cover_all_institutions_with_such_a_file(
    district_copy: District, secrets: Secrets
) -> None:
    built = district_copy.build()
    assert (built.left_out, built.failed) == ({}, "")
    assert built.pseudonymous == Built(2, 15, night(2), {CEDAR: MAKES_NONE})
    assert counts(district_copy) == {ASH: 9, BIRCH: 6}
    assert rows(district_copy, "SELECT institution, newest_day, left_out FROM institutions") == [
        (ASH, night(2), None),
        (BIRCH, night(1), None),
        (CEDAR, None, MAKES_NONE),
    ]
    version = "SELECT id, published_at FROM spans.version"
    assert rows(district_copy, version) == reading.rows(district_copy.warehouse / "district.duckdb", version)

    # Nothing names anybody, in the file or in what it was made of; each code is its own institution's.
    assert secrets.in_bytes(file_of(district_copy)) == set()
    assert secrets.in_rows(file_of(district_copy)) == []
    assert set(canary.TEXTS) & texts(district_copy) <= {"Canary Algebra", "Canary Course"}
    assert district_copy.left_by_builds() == []
    for name in (ASH, BIRCH):
        codes_of_name = {
            code for (code,) in rows(district_copy, f"SELECT student_id FROM students WHERE institution = '{name}'")
        }
        assert codes_of_name == set(codes(district_copy, name).values())
    assert not set(codes(district_copy, ASH).values()) & set(codes(district_copy, BIRCH).values())

    # Others may read it, and nothing else of the district.
    assert stat.S_IMODE(file_of(district_copy).stat().st_mode) == 0o444
    assert reached(district_copy.warehouse) == {"district-pseudonymous.duckdb", "pseudonymous"}

    # An erased student is gone from both at once, and stays away.
    assert erase(district_copy.house(ASH)).counts["district"] == 4  # both files, of two builds
    assert not file_of(district_copy).exists()
    assert not (district_copy.warehouse / "pseudonymous").exists()
    assert district_copy.build().pseudonymous == Built(2, 14, night(2), {CEDAR: MAKES_NONE})
    assert texts(district_copy) == set()


# --- it is the same otherwise ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_each_table_and_view_equals_the_institutions_pseudonymous_files(district_copy: District) -> None:
    compared = 0
    tables = [f"{r.schema}.{r.name}" for r in district_views.tables((RELEASE,))]
    with duckdb.connect() as con:
        con.execute(f"ATTACH '{file_of(district_copy)}' AS district (READ_ONLY)")
        for name in (ASH, BIRCH):
            con.execute(
                f"ATTACH '{district_copy.warehouse / name / 'rollbook-pseudonymous.duckdb'}' AS own (READ_ONLY)"
            )
            for table in (*tables, *(f"main.{v.name}" for v in district_views.views())):
                here = con.sql(f"SELECT * EXCLUDE (institution) FROM district.{table} WHERE institution = '{name}'")
                own = con.sql(f"FROM own.{table}")
                assert (here.columns, here.types) == (own.columns, own.types)
                rows = own.fetchall()
                assert Counter(map(repr, here.fetchall())) == Counter(map(repr, rows)), table
                compared += bool(rows)
            con.execute("DETACH own")
    assert compared > 60


@pytest.mark.slow
def test_rollups_without_names_count_no_change_of_a_name(district_copy: District) -> None:
    """Two students were renamed on the second night, and of one of them two figures changed."""
    changed = (
        f"SELECT changed_fields FROM institutions_daily WHERE institution = 'ash' AND snapshot_date = '{night(2)}'"
    )
    assert (rows(district_copy, changed), reading.rows(district_copy.warehouse / "district.duckdb", changed)) == (
        [(2,)],
        [(10,)],
    )
    assert rows(district_copy, f"SELECT changed_fields FROM institutions_weekly WHERE institution = '{ASH}'") == [(2,)]


# --- what an institution says in words -------------------------------------------------------------------------------


@pytest.mark.slow
def test_reasons_of_failures_and_pauses_stay_out_of_the_file_without_names(
    district_copy: District, secrets: Secrets
) -> None:
    district_copy.pause(BIRCH, "until Zaphod is back")
    folder = district_copy.warehouse / "district" / "state"
    last = {"kind": "failed", "at": "2026-11-21T03:00:00Z", "message": f"student {ident(3)} is odd"}
    (folder / "ash.json").write_text(json.dumps({"format": FORMAT, "last": last}))
    district_copy.build()
    named = reading.rows(
        district_copy.warehouse / "district.duckdb", "SELECT description, paused FROM institutions ORDER BY institution"
    )
    assert named[:2] == [(f"student {ident(3)} is odd", None), (None, "until Zaphod is back")]
    assert rows(district_copy, "SELECT DISTINCT description, paused FROM institutions") == [(None, None)]
    assert rows(district_copy, "SELECT last_outcome FROM institutions WHERE institution = 'ash'") == [("failed",)]
    assert secrets.in_bytes(file_of(district_copy)) == set()


@pytest.mark.slow
def test_a_column_that_is_declared_personal_is_gone_with_the_next_build(
    district_copy: District, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before its institutions have made their own files again."""
    assert rows(district_copy, "SELECT COUNT(class_room) > 0 FROM history.classes") == [(True,)]
    declare_personal(monkeypatch, "classes", "class_room")
    district_copy.build()
    assert rows(district_copy, "SELECT COUNT(class_room) FROM history.classes") == [(0,)]
    assert rows(district_copy, "SELECT COUNT(class_title) > 0 FROM history.classes") == [(True,)]


# --- new codes -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_new_codes_at_one_institution_are_in_it_at_once(district_copy: District) -> None:
    before = {name: codes(district_copy, name) for name in (ASH, BIRCH)}
    house = district_copy.house(BIRCH)
    with house.rollbook().writer().writing():
        assert house.rollbook().listener(Pseudonymous).rotate(house.now) == 6
    assert not file_of(district_copy).exists(), "nobody keeps the old ones"
    assert not (district_copy.warehouse / "pseudonymous").exists()
    assert (district_copy.warehouse / "district.duckdb").exists()
    district_copy.build()
    printed = run("--institution", BIRCH, "codes", "rotate", "--yes")
    assert "Built. district-pseudonymous.duckdb holds 2 institutions" in printed
    now = {name: codes(district_copy, name) for name in (ASH, BIRCH)}
    assert now[ASH] == before[ASH]
    assert not set(now[BIRCH].values()) & set(before[BIRCH].values())
    listed = {code for (code,) in rows(district_copy, "SELECT student_id FROM students")}
    assert listed == {*now[ASH].values(), *now[BIRCH].values()}
    content = file_of(district_copy).read_bytes()
    assert not [c for c in before[BIRCH].values() if c.to_bytes(8, "little") in content]


# --- asking it -------------------------------------------------------------------------------------------------------


def test_it_is_asked_with_an_option_and_the_log_says_so(district_copy: District, tmp_path: Path) -> None:
    file_of(district_copy).unlink()
    with pytest.raises(NothingLandedError, match="set ROLLBOOK_PSEUDONYMOUS=1 for an institution"):
        run("district", "sql", "--pseudonymous", "FROM students")
    assert "Not included, for lack of a pseudonymous file: cedar." in run("district", "build")
    answer = run("district", "sql", "--pseudonymous", "SELECT COUNT(*), COUNT(name) FROM students")
    assert "15" in answer
    target = tmp_path / "roster.csv"
    assert "Wrote" in run("district", "export", "--pseudonymous", "roster", "--out", str(target))
    assert "Zaphod" not in target.read_text("utf-8-sig")
    assert "Zaphod" in run("district", "sql", "FROM roster")
    kinds = [entry.kind for entry in access.entries(district_copy.warehouse / "district")[0]]
    assert kinds == ["sql --pseudonymous", "export --pseudonymous", "sql"]


# --- who is in it, and who may read it -------------------------------------------------------------------------------


@pytest.mark.weekly
def test_an_institution_without_a_file_is_left_out_of_the_build(
    district_copy: District,
) -> None:
    district_copy.write({ASH: WITHOUT_NAMES[ASH]})
    write(district_copy, BIRCH)
    assert district_copy.build().pseudonymous == Built(1, 9, night(2), {BIRCH: MAKES_NONE, CEDAR: MAKES_NONE})
    assert counts(district_copy) == {ASH: 9}
    district_copy.write()
    write(district_copy, ASH)
    built = district_copy.build()
    assert (built.pseudonymous, built.failed) == (None, "")
    assert not [p.name for p in district_copy.warehouse.iterdir() if "pseudonymous" in p.name]


@pytest.mark.weekly
def test_its_mode_is_what_all_of_them_let(district_copy: District) -> None:
    for modes, expected in ((("644", "640"), 0o440), (("600", "644"), 0o400), (("644", "644"), 0o444)):
        given = zip((ASH, BIRCH), modes, strict=True)
        district_copy.write({n: {"pseudonymous": "true", "pseudonymous_mode": f'"{m}"'} for n, m in given})
        for name in (ASH, BIRCH):
            write(district_copy, name)
        district_copy.build()
        assert stat.S_IMODE(file_of(district_copy).stat().st_mode) == expected
        every = {stat.S_IMODE(p.stat().st_mode) for p in (district_copy.warehouse / "pseudonymous").iterdir()}
        assert every == {expected}, "the version before, too"
        assert bool(reached(district_copy.warehouse)) == (expected == 0o444)


# --- failures --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_institution_with_a_damaged_file_waits_for_its_next_sync(district_copy: District) -> None:
    (district_copy.warehouse / BIRCH / "rollbook-pseudonymous.duckdb").resolve().write_bytes(b"")
    printed = run("district", "build", exits=1)
    assert "birch was left out: its file is damaged" in printed
    assert counts(district_copy) == {ASH: 9}
    assert reading.rows(district_copy.warehouse / "district.duckdb", "SELECT COUNT(*) FROM students") == [(18,)]
    write(district_copy, BIRCH)
    run("district", "build")
    assert counts(district_copy) == {ASH: 9, BIRCH: 6}


@pytest.mark.slow
def test_a_failed_build_leaves_the_last_file_and_makes_the_other(
    district_copy: District, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = version(file_of(district_copy))

    def refused(*_: Any) -> None:
        raise duckdb.Error("Zaphod is odd")

    with monkeypatch.context() as patch:
        patch.setattr("rollbook.features.pseudonymous.contents.comment", refused)
        printed = run("district", "build", exits=1)
    assert "district-pseudonymous.duckdb was not built" in printed
    assert "Zaphod" not in printed
    assert version(file_of(district_copy)) == first != version(district_copy.warehouse / "district.duckdb")
    assert district_copy.left_by_builds() == []
    district_copy.build()
    assert version(file_of(district_copy)) == version(district_copy.warehouse / "district.duckdb")
