"""Copies a database file in a fresh process, so that its unused bytes contain no earlier memory contents (G12).

DuckDB aligns what it writes and leaves the gaps as they are in memory: up to seven bytes each, of anything that the
process handled before, such as a name. In the process that copies, DuckDB's allocator clears all memory. In every
process, that would make a night a third slower, so only two kinds of files are copied this way: those without names,
and the published file after an erasure.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import duckdb

from rollbook.errors import MachineError
from rollbook.store.database import BLOCK_SIZE, STORAGE_VERSION, new_instance
from rollbook.store.published import COPY
from rollbook.util import files, machine

# Of jemalloc, in DuckDB's wheels for Linux on x86-64. Elsewhere the gaps hold what this process handled: no names.
_CLEARED = {"DUCKDB_JE_MALLOC_CONF": "zero:true"}
_COPY_SECONDS = 3600.0


def clean(path: Path, scratch: Path) -> None:
    """Replace a database file that nobody has open by a clean copy; DuckDB spills to `scratch`.

    Raises MachineError; the file is then as before.
    """
    copy = path.with_name(path.name + COPY)
    copy.unlink(missing_ok=True)
    command = [sys.executable, "-P", "-m", __name__, str(path), str(copy), str(files.folder(scratch))]
    try:
        # S603: this Python, and paths of ours.
        done = subprocess.run(  # noqa: S603
            command,
            env=machine.bare_environment() | _CLEARED,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_COPY_SECONDS,
            check=False,
        )
        # Only the error's kind: DuckDB's message may quote a value.
        kind = done.stdout.decode(errors="replace").strip() or f"it ended with {done.returncode}"
    except subprocess.TimeoutExpired:
        done, kind = None, f"not done within {_COPY_SECONDS:,.0f} s"
    if done is None or done.returncode:
        copy.unlink(missing_ok=True)
        raise MachineError(
            f"{path.name} could not be copied ({kind}): check the room on its disk, and run the command again"
        )
    files.move(copy, path)


def _copy(source: str, target: str, scratch: str) -> None:
    with new_instance(Path(scratch)) as con:
        con.execute("ATTACH $1 AS rollbook (READ_ONLY)", [source])
        con.execute(f"ATTACH $1 AS clean (STORAGE_VERSION '{STORAGE_VERSION}', BLOCK_SIZE {BLOCK_SIZE})", [target])
        con.execute("COPY FROM DATABASE rollbook TO clean")
        con.execute("CHECKPOINT clean")


if __name__ == "__main__":
    try:
        _copy(*sys.argv[1:])
    except (duckdb.Error, OSError) as error:
        sys.stdout.write(type(error).__name__)
        sys.exit(1)
