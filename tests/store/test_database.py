"""Opening DuckDB: what is used again, and what is made of its own errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from rollbook.errors import MachineError
from rollbook.store.database import Limits, connect, reuse_instances, translate_errors
from rollbook.util import machine


def refused_memory(tmp_path: Path) -> str:
    with pytest.raises(MachineError) as caught, translate_errors(None, tmp_path):
        raise duckdb.OutOfMemoryException("Out of Memory Error: could not allocate block of size 47.6 MiB")
    return caught.value.message


def test_lack_of_memory_is_told_from_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "free", lambda path: 20 * 10**9)
    assert refused_memory(tmp_path) == (
        "A query needs more memory than DuckDB may use here, so some records are unusually large: look"
        " for the longest values in the newest landing below raw/ and tell the service's representative."
        f" {machine.NOTHING_LOST}"
    )
    monkeypatch.setattr(machine, "free", lambda path: 10 * 10**6)
    assert "10.0 MB are left. Make room" in refused_memory(tmp_path)


def test_a_small_and_a_large_school_write_the_same_bytes(tmp_path: Path) -> None:
    """A day's digest is of its files: one that is made again, by more threads, must be the same day."""
    rows = "SELECT n AS id, 'Pupil ' || n AS name, IF(n % 3 = 0, NULL, n) AS minutes FROM RANGE(1, 90) AS r(n)"
    written = []
    for threads in (1, 2):
        path = tmp_path / f"{threads}.parquet"
        with reuse_instances(tmp_path / "spill", Limits(threads)), connect(scratch=tmp_path / "spill") as con:
            con.execute(f"CREATE TABLE pupils AS {rows}")
            con.execute(f"COPY (FROM pupils WHERE id > 4 ORDER BY id) TO '{path}' (FORMAT parquet, COMPRESSION zstd)")
        written.append(path.read_bytes())
    assert written[0] == written[1]


def made(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The instances of DuckDB that are made from now on."""
    rows: list[object] = []
    connect_itself = duckdb.connect

    def noted(**arguments: Any) -> duckdb.DuckDBPyConnection:
        rows.append(arguments)
        return connect_itself(**arguments)

    monkeypatch.setattr(duckdb, "connect", noted)
    return rows


def opened(spill: Path, path: Path, **how: Any) -> list[int]:
    """The numbers in a file, to which another is added where it is opened to be written."""
    with connect(path, scratch=spill, **how) as con:
        if not how.get("read_only"):
            con.execute("CREATE TABLE IF NOT EXISTS numbers AS SELECT 0 AS n LIMIT 0")
            con.execute("INSERT INTO numbers SELECT COUNT(*) FROM numbers")
        return [n for (n,) in con.execute("FROM numbers ORDER BY n").fetchall()]


@pytest.mark.parametrize("threads", [1, 2])
def test_what_was_written_is_there_for_all_who_open_the_file_next(tmp_path: Path, threads: int) -> None:
    spill, path = tmp_path / "spill", tmp_path / "next.duckdb"
    with reuse_instances(spill, Limits(threads)):
        assert opened(spill, path, stays_open=True) == [0]
        with connect(scratch=spill) as con:  # another's work meanwhile
            con.execute("CREATE TABLE numbers AS SELECT 7 AS n")
        assert opened(spill, path, read_only=True) == [0]
        assert opened(spill, path, stays_open=True) == [0, 1]
        assert opened(spill, path) == [0, 1, 2]
        with duckdb.connect(path, read_only=True) as another:
            assert another.execute("SELECT COUNT(*) FROM numbers").fetchone() == (3,)
        opened(spill, path, stays_open=True)
    assert opened(spill, path, read_only=True) == [0, 1, 2, 3]


def test_a_file_that_takes_the_place_of_another_is_read_instead(tmp_path: Path) -> None:
    spill, path, published = tmp_path / "spill", tmp_path / "next.duckdb", tmp_path / "published.duckdb"
    with reuse_instances(spill, Limits(1)):
        opened(spill, published)
        opened(spill, published)
        assert opened(spill, published, read_only=True) == [0, 1]
        opened(spill, path, stays_open=True)
        path.unlink()
        assert opened(spill, path) == [0]
        path.replace(published)
        assert opened(spill, published, read_only=True) == [0]
        with connect(path, scratch=spill, published=published) as con:
            con.execute("CREATE TABLE numbers AS SELECT n + 5 AS n FROM published.numbers")
        assert opened(spill, path) == [1, 5]


def test_one_duckdb_opens_all_that_a_small_school_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To make one takes as long as a table's merge, and so does opening a file."""
    spill, path, published = tmp_path / "spill", tmp_path / "next.duckdb", tmp_path / "published.duckdb"
    opened(spill, published)
    instances = made(monkeypatch)
    with reuse_instances(spill, Limits(1)):
        opened(spill, published, read_only=True)
        with connect(scratch=spill):
            pass
        opened(spill, path, stays_open=True)
        with connect(path, scratch=spill, published=published) as con:
            assert con.execute("SELECT COUNT(*) FROM published.numbers").fetchone() == (1,)
    assert len(instances) == 1
