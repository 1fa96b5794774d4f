"""Flattened rows on their way into a day: Parquet files in the writer's own folder. Composing the day is in `lake`."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines import files


class Staging:
    """Flattened rows on their way into a day: a Parquet file a table, in a folder of its own.

    Rows are written one batch behind: Parquet is encoded outside of Python's lock, so that the next batch is flattened
    meanwhile.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = files.empty(folder)
        self._writers: dict[str, pq.ParquetWriter] = {}
        self._files: list[pa.NativeFile] = []
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="staging")
        self._under_way: Future[None] | None = None

    def add(self, tables: Mapping[str, pa.Table]) -> None:
        """Append rows per table name (`observed` among them), in the schema that flattening gives them."""
        self._settle()
        self._under_way = self._thread.submit(self._write, tables)

    def _write(self, tables: Mapping[str, pa.Table]) -> None:
        for name, rows in tables.items():
            writer = self._writers.get(name)
            if writer is None:
                path = staged_file(self.folder, name)
                path.touch(files.PRIVATE_FILE)
                # Read once and dropped: what a dictionary would save is not worth the time it takes.
                # The file is opened here, so that it can be closed whatever becomes of the writer.
                self._files.append(pa.OSFile(str(path), "wb"))
                writer = pq.ParquetWriter(self._files[-1], rows.schema, compression="lz4", use_dictionary=False)
                self._writers[name] = writer
            if rows.num_rows:
                writer.write_table(rows)

    def _settle(self) -> None:
        """Let the batch under way end; what it raised is raised here, a full disk for one."""
        if self._under_way is not None:
            self._under_way.result()

    def abandon(self) -> None:
        """Close what is still open, whatever becomes of it: a disk that is full has no room for the files' ends."""
        self._thread.shutdown()
        for writer in self._writers.values():
            with suppress(OSError):
                writer.close()
            writer.is_open = False  # else it tries again when it is collected, where no error can be handled
        for file in self._files:
            with suppress(OSError):
                file.close()

    def close(self) -> None:
        """End the files. Nothing may be added afterwards."""
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
