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
