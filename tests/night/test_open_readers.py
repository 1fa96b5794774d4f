"""A process that stays open and a newer night, and a warehouse that was moved (G10)."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from rollbook.night.restore import restore
from rollbook.store.lake import LAKE
from tests.support.nights import House, new_house
from tests.support.processes.accounts import NOBODY
from tests.support.processes.commands import Program, program
from tests.support.records import classes, students
from tests.support.warehouses.begun import begin

pytestmark = pytest.mark.nights

# A notebook or a dashboard: it keeps a connection, and makes another when told.
STAYS_OPEN = """
import sys, duckdb
path, kept = sys.argv[1], []
for _ in sys.stdin:
    kept.append(duckdb.connect(path, read_only=True))
    print([con.execute("SELECT COUNT(*) FROM students").fetchone()[0] for con in kept], flush=True)
"""


@pytest.fixture
def school_of_5() -> Iterator[House]:
    with new_house(students(5), classes(2)) as house:
        yield house


@pytest.fixture
def reader(school_of_5: House) -> Iterator[Program]:
    """A process that stays open over the published file."""
    begin(school_of_5)
    with program("-c", STAYS_OPEN, school_of_5.published) as running:
        yield running


def connects(reader: Program) -> list[int]:
    """How many students each connection sees, the newest last."""
    return [int(n) for n in reader.ask("again").strip("[]").split(",")]


def test_an_open_process_sees_the_newer_night_on_its_next_connection(school_of_5: House, reader: Program) -> None:
    """Also an older file that is put back, and the night after that."""
    assert connects(reader) == [5]
    school_of_5.night(2, students(7))
    assert connects(reader) == [5, 7]
    restore(school_of_5.rollbook().writer(), school_of_5.rollbook().warehouse.kept()[0])
    assert connects(reader) == [5, 7, 5]
    school_of_5.night(3, students(8))
    assert connects(reader) == [5, 7, 5, 8]


def test_who_forgets_read_only_is_refused_and_locks_nobody_out(school_of_5: House) -> None:
    """Also its owner: nobody may write to a version."""
    if os.geteuid() != 0:
        pytest.skip("the superuser alone can be another account: run this test as root")
    begin(school_of_5)
    version = school_of_5.published.resolve()
    with tempfile.TemporaryDirectory(dir="/tmp") as shared:  # others must reach it
        mine = Path(shutil.copy(version, shared))
        os.chown(mine, NOBODY, NOBODY)
        Path(shared).chmod(0o755)
        os.seteuid(NOBODY)
        try:
            with pytest.raises(duckdb.IOException, match="Permission denied"):
                duckdb.connect(mine)
            with duckdb.connect(mine, read_only=True) as con:
                assert con.execute("SELECT COUNT(*) FROM students").fetchall() == [(5,)]
        finally:
            os.seteuid(0)


def test_a_published_file_becomes_a_link_and_keeps_its_content(school_of_5: House) -> None:
    """As a copy from a backup is: a plain file."""
    begin(school_of_5)
    plain = school_of_5.published.read_bytes()
    shutil.rmtree(school_of_5.warehouse / "published")
    school_of_5.published.unlink()
    school_of_5.published.write_bytes(plain)
    school_of_5.night(2, students(7))
    assert school_of_5.published.is_symlink()
    versions = school_of_5.rollbook().warehouse.kept()
    assert [path.read_bytes() for path in versions] == [plain]
    assert school_of_5.query("SELECT COUNT(*) FROM students") == [(7,)]


SNAPSHOTS = "SELECT snapshot_date, COUNT(*) FROM snapshots.students GROUP BY ALL ORDER BY ALL"


def test_a_connection_finds_the_snapshots_of_a_moved_warehouse_where_it_says(
    school_of_5: House, tmp_path: Path
) -> None:
    begin(school_of_5)
    school_of_5.night(2, students(7))
    moved = House(
        Path(shutil.move(school_of_5.warehouse, tmp_path / "moved")), school_of_5.service, **school_of_5.over
    ).at(2)
    with duckdb.connect(moved.published, read_only=True) as con:
        with pytest.raises(duckdb.IOException, match="No files found"):
            con.execute(SNAPSHOTS)
        con.execute(f"SET VARIABLE {LAKE} = '{moved.warehouse}/snapshots'")
        assert [count for _, count in con.execute(SNAPSHOTS).fetchall()] == [5, 7]
        assert con.execute("SELECT COUNT(*) FROM snapshots.observed").fetchone() is not None
        (comment,) = con.execute(
            "SELECT comment FROM duckdb_views() WHERE schema_name = 'snapshots' AND view_name = 'students'"
        ).fetchone() or ("",)
        assert comment.endswith(f"If the lake was moved: SET VARIABLE {LAKE} = '/new/place/snapshots'.")
    moved.night(3)  # which leads the views to the new place
    assert [count for _, count in moved.query(SNAPSHOTS)] == [5, 7, 7]
