"""A pupil with a distinctive text in every field, and a scan of files for any such text."""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from multiprocessing.process import BaseProcess
from pathlib import Path

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from rollbook.assembly import assemble
from rollbook.landing.manifest import Body
from rollbook.rights import erasure as erasing
from rollbook.settings import load
from tests.support.processes.kills import die_at_step, forked, killed_or_done
from tests.support.records import Record, student

ID = 739184620571
EMAIL, REFERENCE = "zebedee.canarybird@pupils.example", "REF-CANARY-77"
TEXTS = (
    *("Zebedee", "Canarybird", EMAIL, REFERENCE),
    *("canary-picture", "Canary Algebra", "Canary Course", "canary-detail", "canary-drift", str(ID)),
)

# Each in lower case, in every encoding that a file here may have.
_SPELLINGS = {t: tuple(t.lower().encode(coding) for coding in ("utf-8", "utf-16-le", "utf-16-be")) for t in TEXTS}

# The filler of a small database. No spelling holds so many in a row: left out, there is little to search.
_NOTHING = bytes(64)

# The texts that were found in a file, by suffix, content and the content of the file beside.
_read: dict[tuple[str, bytes, bytes], set[str]] = {}


def canary(**over: object) -> Record:
    """The pupil's record."""
    return student(
        ID,
        name="Zebedee Canarybird",
        first_name="Zebedee",
        last_name="Canarybird",
        email=EMAIL,
        reference_id=REFERENCE,
        profile_image="https://img.school.example/canary-picture.png",
        classes=[{"class_id": 501, "class_title": "Canary Algebra", "course_name": "Canary Course"}],
        **({"house": {"deep": "canary-drift"}} | over),
    )


def erase(warehouse: Path, die_at: int | None = None) -> None:
    """Erase the pupil, in this process, which with `die_at` kills itself just before the n-th step."""
    if die_at is not None:
        die_at_step(die_at)
    settings = load(fetches=False, warehouse=warehouse, report_names=True, _env_file=None)
    erasing.erase(assemble(settings).writer(), ID, reason="a reason", confirm=lambda _: True)


def killed(warehouse: Path, die_at: int) -> bool:
    """Erase the pupil in a process of its own, which kills itself; returns whether that happened."""
    return killed_or_done(started(warehouse, die_at))


def started(warehouse: Path, die_at: int | None = None) -> BaseProcess:
    """Erase the pupil in a process of its own, which may be killed at any instant, or kills itself before a step."""
    return forked(erase, warehouse, die_at)


def found(*folders: Path) -> dict[str, list[str]]:
    """The texts in each file with any: in the name, the bytes, and the content."""
    there = {}
    for folder in folders:
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            if hits := _hits(path):
                there[str(path.relative_to(folder))] = sorted(hits)
    return there


def contents(path: Path) -> str:
    """All that a file says: the bytes, and the unpacked bytes."""
    return b"\n".join(_pieces(path, path.read_bytes())).decode(errors="replace")


def _hits(path: Path) -> set[str]:
    """The texts in one file. A file that was read once is not read again: most of a warehouse stays the same."""
    content, beside = path.read_bytes(), _beside(path)
    key = path.suffix, sha256(content).digest(), sha256(beside).digest()
    if key not in _read:
        # Each piece is made once for all texts: reading a database is what takes long.
        _read[key] = {text for piece in _pieces(path, content) for text in _texts(piece)}
    return _read[key] | _texts(str(path).encode())


def _texts(piece: bytes) -> set[str]:
    lower = piece.lower()
    return {text for text, spellings in _SPELLINGS.items() if any(s in lower for s in spellings)}


def _beside(path: Path) -> bytes:
    """The files beside a file that belong to the content: where the frames begin, and what a database has not taken in."""
    other = path.with_name("pages.jsonl") if path.suffix == ".zst" else path.with_name(f"{path.name}.wal")
    return other.read_bytes() if other.is_file() else b""


def _pieces(path: Path, content: bytes) -> Iterator[bytes]:
    """The bytes of a file, and the unpacked bytes; of a database and of Parquet, the rows as well."""
    yield _NOTHING.join(filter(None, content.split(_NOTHING)))
    with suppress(OSError, EOFError):
        yield gzip.decompress(content)
    if path.suffix == ".zst":
        yield from _frames(path, content)
    elif path.suffix == ".parquet":
        yield repr(pq.read_table(io.BytesIO(content)).to_pylist()).encode()
    elif path.suffix == ".duckdb":
        yield _rows(path)
    elif zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as rollbook:
            yield from (rollbook.read(name) for name in rollbook.namelist())


def _frames(path: Path, content: bytes) -> Iterator[bytes]:
    codec = pa.Codec("zstd")
    for line in path.with_name("pages.jsonl").read_bytes().splitlines():
        body = msgspec.json.decode(line, type=Body)
        frame = content[body.offset : body.offset + body.length]
        yield codec.decompress(frame, decompressed_size=body.size, asbytes=True)


def _rows(path: Path) -> bytes:
    with duckdb.connect(path, read_only=True) as con:
        names = con.execute("SELECT schema_name, table_name FROM duckdb_tables()").fetchall()
        rows = [repr(con.execute(f'SELECT * FROM {s}."{t}"').fetchall()) for s, t in names]
        views = con.execute("SELECT sql FROM duckdb_views() UNION ALL SELECT comment FROM duckdb_columns()").fetchall()
        return "\n".join((*rows, repr(views))).encode()
