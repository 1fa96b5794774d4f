"""Opening DuckDB: what is used again, and what is made of its own errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from pipelines import machine
from pipelines.errors import MachineError
from pipelines.store.database import connect, reuse_instances, translate_errors


def refused_memory(tmp_path: Path) -> str:
    with pytest.raises(MachineError) as caught, translate_errors(None, tmp_path):
        raise duckdb.OutOfMemoryException("Out of Memory Error: could not allocate block of size 47.6 MiB")
    return caught.value.message


def test_memory_that_runs_out_is_called_a_full_disk_only_where_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "free", lambda path: 20 * 10**9)
    assert refused_memory(tmp_path) == (
        "A query needs more memory than the 256MB that DuckDB may use here, so some records are unusually large: look"
        " for the longest values in the newest landing below raw/ and tell the service's representative."
        f" {machine.NOTHING_LOST}"
    )
    monkeypatch.setattr(machine, "free", lambda path: 10 * 10**6)
    assert "10.0 MB are left. Make room" in refused_memory(tmp_path)


def made(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The instances of DuckDB that are made from now on."""
    found: list[object] = []
    connect_itself = duckdb.connect

    def noted(**arguments: Any) -> duckdb.DuckDBPyConnection:
        found.append(arguments)
        return connect_itself(**arguments)

    monkeypatch.setattr(duckdb, "connect", noted)
    return found


def left_in(scratch: Path) -> list[tuple[str, ...]]:
    """The databases and tables that a connection finds which has made none."""
    with connect(scratch=scratch) as con:
        attached = con.execute("SELECT database_name FROM duckdb_databases() WHERE NOT internal").fetchall()
        return attached + con.execute("SELECT database_name, table_name FROM duckdb_tables()").fetchall()


def test_an_instance_is_used_again_and_nothing_of_its_last_use_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = left_in(tmp_path)
    instances = made(monkeypatch)
    with reuse_instances(tmp_path):
        for number in range(3):
            with connect(tmp_path / f"{number}.duckdb", scratch=tmp_path) as con:
                con.execute("CREATE TABLE kept AS SELECT 1 AS i")
                con.execute("CREATE TEMP TABLE passing AS SELECT 1 AS i")
                con.execute("BEGIN")
                con.execute("CREATE TABLE half_done (i INTEGER)")
            with connect(scratch=tmp_path) as con:
                con.execute("CREATE TABLE of_memory AS SELECT 1 AS i")
                con.execute(f"ATTACH '{tmp_path / f'{number}.duckdb'}' AS other")
                assert con.execute(
                    "SELECT table_name FROM duckdb_tables() WHERE database_name = 'other'"
                ).fetchall() == [("kept",)]
            assert left_in(tmp_path) == alone
            assert not (tmp_path / f"{number}.duckdb.wal").exists()
    assert len(instances) == 1
    assert left_in(tmp_path) == alone
    assert len(instances) == 2, "outside of the block each use has its own"


def test_two_at_a_time_are_two_instances(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    instances = made(monkeypatch)
    with reuse_instances(tmp_path), connect(scratch=tmp_path) as one, connect(scratch=tmp_path) as another:
        one.execute("CREATE TABLE own AS SELECT 1 AS i")
        assert another.execute("SELECT COUNT(*) FROM duckdb_tables()").fetchone() == (0,)
    assert len(instances) == 2


def test_an_instance_that_saw_an_error_is_not_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    instances = made(monkeypatch)
    with reuse_instances(tmp_path):
        for _ in range(2):
            with pytest.raises(duckdb.ParserException), connect(scratch=tmp_path) as con:
                con.execute("SELEC 1")
        left_in(tmp_path)
    assert len(instances) == 3
