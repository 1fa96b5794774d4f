"""What a writer sweeps up in the warehouse's folder before it begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollbook.store.warehouse import Warehouse


def test_a_half_written_file_that_is_finished_meanwhile_stops_no_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse, unlink = Warehouse(tmp_path), Path.unlink
    warehouse.prepare()
    aside, file = tmp_path / ".contacted.csv.partial", tmp_path / "contacted.csv"
    aside.write_text("student_id,spoken_to,until\n")

    def finished(path: Path, missing_ok: bool = False) -> None:
        if path == aside:
            aside.rename(file)  # by a reader's process
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", finished)
    warehouse.sweep()
    assert file.is_file()
