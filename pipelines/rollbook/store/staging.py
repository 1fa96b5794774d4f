"""Staged rows: flattened, but not composed into a day yet. `lake` composes the day."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rollbook.util import files


class Staging:
    """Writes flattened rows to one Parquet file per table in `folder`, which is emptied first.

    A thread writes each batch while the next one is flattened: Parquet is encoded without Python's lock.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = files.empty(folder)
        self._writers: dict[str, pq.ParquetWriter] = {}
        self._files: list[pa.NativeFile] = []
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="staging")
        self._under_way: Future[None] | None = None

    def add(self, tables: Mapping[str, pa.Table]) -> None:
        """Append rows per table name (including `observed`), in flattening's schema. Raises the last batch's error."""
        self._settle()
        self._under_way = self._thread.submit(self._write, tables)

    def _write(self, tables: Mapping[str, pa.Table]) -> None:
        for name, rows in tables.items():
            writer = self._writers.get(name)
            if writer is None:
                path = staged_file(self.folder, name)
                path.touch(files.PRIVATE_FILE)
                # The file is read once and dropped: a dictionary would cost more time than it saves.
                # It is opened here, so that it can be closed even if the writer fails.
                self._files.append(pa.OSFile(str(path), "wb"))
                writer = pq.ParquetWriter(self._files[-1], rows.schema, compression="lz4", use_dictionary=False)
                self._writers[name] = writer
            if rows.num_rows:
                writer.write_table(rows)

    def _settle(self) -> None:
        """Wait for the batch being written, and raise its error, such as a full disk."""
        if self._under_way is not None:
            self._under_way.result()

    def abandon(self) -> None:
        """Close all files, ignoring I/O errors: a full disk has no room for the files' footers."""
        self._thread.shutdown()
        for writer in self._writers.values():
            with suppress(OSError):
                writer.close()
            writer.is_open = False  # else it closes again when garbage-collected, where no error can be handled
        for file in self._files:
            with suppress(OSError):
                file.close()

    def close(self) -> None:
        """Finish the files. No more may be added."""
        try:
            self._settle()
        finally:
            self._thread.shutdown()
            for writer in self._writers.values():
                writer.close()
            for file in self._files:
                file.close()


def staged_file(folder: Path, table: str) -> Path:
    """Return the file of a table's staged rows."""
    return folder / f"{table}.parquet"
