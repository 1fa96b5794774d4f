"""Building the fleet's file without names: who is in it, who may read it, and what a failure leaves."""

from __future__ import annotations

import shutil
import stat
from typing import Any

import duckdb
import pytest

from pipelines.fleet.file import pseudonymous
from pipelines.fleet.file.build import Built
from pipelines.operations.discard import discard
from pipelines.store.parts import Given
from pipelines.store.published import versions
from pipelines.sync import always
from tests.support import reading
from tests.support.nights import night
from tests.support.processes import canary
from tests.support.tiers import daily
from tests.support.warehouses.coded_district import (
    ASH,
    BIRCH,
    CEDAR,
    WITHOUT_NAMES,
    counts,
    file_of,
    reached,
    rows,
    run,
    version,
    write,
)
from tests.support.warehouses.district import District
from tests.support.warehouses.pseudonyms import pupils

# --- who is in it, and who may read it -------------------------------------------------------------------------------


@pytest.mark.slow
def test_who_stops_making_a_file_is_out_of_it_with_the_next_build_and_the_last_takes_it_along(
    district: District,
) -> None:
    district.build()
    district.write({ASH: WITHOUT_NAMES[ASH]})
    write(district, BIRCH)
    assert district.build().pseudonymous == Built(1, 9, night(2), {}, makes_none=(BIRCH, CEDAR))
    assert counts(district) == {ASH: 9}
    district.write()
    write(district, ASH)
    built = district.build()
    assert (built.pseudonymous, built.failed) == (None, "")
    assert not [p.name for p in district.warehouse.iterdir() if "pseudonymous" in p.name]


@pytest.mark.slow
def test_who_left_the_registry_and_is_forgotten_is_out_of_it(district: District) -> None:
    district.rename(BIRCH, "dogwood")
    district.build()
    assert counts(district) == {ASH: 9, BIRCH: 6}
    run("fleet", "forget", BIRCH)
    district.build()
    assert counts(district) == {ASH: 9}


@pytest.mark.slow
def test_its_mode_is_what_all_of_them_let(district: District) -> None:
    for modes, expected in ((("644", "640"), 0o640), (("600", "644"), 0o600), (("644", "644"), 0o644)):
        given = zip((ASH, BIRCH), modes, strict=True)
        district.write({n: {"pseudonymous": "true", "pseudonymous_mode": f'"{m}"'} for n, m in given})
        for name in (ASH, BIRCH):
            write(district, name)
        district.build()
        assert stat.S_IMODE(file_of(district).stat().st_mode) == expected
        every = {stat.S_IMODE(p.stat().st_mode) for p in (district.warehouse / "pseudonymous").iterdir()}
        assert every == {expected}, "the version before, too"
        assert bool(reached(district.warehouse)) == (expected == 0o644)


# --- failures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("harm", daily(["scrambled", "empty", "lost", "another database"], "scrambled"))
def test_an_institution_whose_file_is_damaged_is_left_out_until_its_next_sync(district: District, harm: str) -> None:
    district.build()
    link = district.warehouse / BIRCH / "rollbook-pseudonymous.duckdb"
    file = link.resolve()
    if harm == "lost":
        file.unlink()
    elif harm == "another database":
        shutil.copyfile(district.warehouse / BIRCH / "rollbook.duckdb", file)
    else:
        content = file.read_bytes()
        file.write_bytes(content[:20_000] + bytes(len(content) - 20_000) if harm == "scrambled" else b"")
    said = run("fleet", "build", exits=1)
    assert "birch was left out: its pseudonymous file is damaged" in said
    assert counts(district) == {ASH: 9}
    assert reading.rows(district.warehouse / "fleet.duckdb", "SELECT COUNT(*) FROM students") == [(18,)]
    write(district, BIRCH)
    run("fleet", "build")
    assert counts(district) == {ASH: 9, BIRCH: 6}


@pytest.mark.slow
def test_where_none_can_be_read_the_last_one_stays_and_says_that_it_is_older(district: District) -> None:
    district.build()
    first = version(file_of(district))
    for name in (ASH, BIRCH):
        (district.warehouse / name / "rollbook-pseudonymous.duckdb").resolve().write_bytes(b"")
    assert "fleet-pseudonymous.duckdb was not built: No institution" in run("fleet", "build", exits=1)
    assert version(file_of(district)) == first != version(district.warehouse / "fleet.duckdb")


def test_a_build_of_it_that_fails_leaves_the_last_one_and_the_other_is_made(
    district: District, monkeypatch: pytest.MonkeyPatch
) -> None:
    district.build()
    first = version(file_of(district))

    def refused(*_: Any) -> None:
        raise duckdb.Error("Zaphod is odd")

    with monkeypatch.context() as patch:
        patch.setattr("pipelines.views.pseudonymous.comment", refused)
        said = run("fleet", "build", exits=1)
    assert "fleet-pseudonymous.duckdb was not built" in said
    assert "Zaphod" not in said
    assert version(file_of(district)) == first != version(district.warehouse / "fleet.duckdb")
    assert district.left_by_builds() == []
    district.build()
    assert version(file_of(district)) == version(district.warehouse / "fleet.duckdb")


@pytest.mark.slow
def test_an_institution_that_publishes_meanwhile_is_taken_as_it_was(
    district: District, monkeypatch: pytest.MonkeyPatch
) -> None:
    house, written = district.house(ASH), pseudonymous._written
    nights = iter([3, 4])  # after the second, what was opened is removed

    def meanwhile(*arguments: Any) -> Given:
        for number in nights:
            house.night(number, [*pupils(20), canary.canary()])
        return written(*arguments)

    monkeypatch.setattr(pseudonymous, "_written", meanwhile)
    assert district.build().left_out == {}
    assert counts(district) == {ASH: 9, BIRCH: 6}
    assert rows(district, "SELECT newest_day FROM institutions WHERE institution = 'ash'") == [(night(2),)]
    assert rows(district, "SELECT COUNT(*) FROM student_summaries WHERE institution = 'ash'") == [(9,)]


@pytest.mark.slow
def test_a_version_that_is_removed_before_it_is_opened_is_looked_for_again(
    district: District, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, gone = versions.target, iter([district.warehouse / "gone.duckdb", district.warehouse / "gone.duckdb"])
    monkeypatch.setattr(versions, "target", lambda *paths: next(gone, None) or found(*paths))
    assert district.build().left_out == {}
    assert counts(district) == {ASH: 9, BIRCH: 6}


# --- days ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_is_discarded_or_expires_is_followed_by_the_next_build(district: District) -> None:
    house = district.house(ASH)
    discard(house.rollbook(), night(2), reason="Zaphod's file", confirm=always)
    district.build()
    days = "SELECT MAX(snapshot_date) FROM spans.days WHERE institution = 'ash'"
    assert rows(district, days) == [(night(1),)]
    assert counts(district) == {ASH: 9, BIRCH: 6}
    house.night(3, pupils(4), over={"keep_days": 1, "hold_removed_percent": 100})
    district.build()
    assert counts(district) == {ASH: 4, BIRCH: 6}
    assert rows(district, "SELECT COUNT(*) FROM history.students WHERE institution = 'ash'") == [(9,)]
