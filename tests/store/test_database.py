"""Opening DuckDB: what is used again, and what is made of its own errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from rollbook.errors import MachineError
from rollbook.store.database import translate_errors
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


def made(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The instances of DuckDB that are made from now on."""
    rows: list[object] = []
    connect_itself = duckdb.connect

    def noted(**arguments: Any) -> duckdb.DuckDBPyConnection:
        rows.append(arguments)
        return connect_itself(**arguments)

    monkeypatch.setattr(duckdb, "connect", noted)
    return rows
