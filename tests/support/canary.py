"""A pupil with a distinctive text in every field, and a scan of whatever files there are for any of them."""

from __future__ import annotations

import gzip
import io
import multiprocessing
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.landing.manifest import Body
from pipelines.operations import erase as erasing
from pipelines.settings import load
from pipelines.sync import Rollbook
from tests.support.kills import die_at_step, killed_or_done
from tests.support.records import Record, student

ID = 739184620571
EMAIL, REFERENCE = "zebedee.canarybird@pupils.example", "REF-CANARY-77"
TEXTS = (
    *("Zebedee", "Canarybird", EMAIL, REFERENCE),
    *("canary-picture", "Canary Algebra", "Canary Course", "canary-detail", "canary-drift", str(ID)),
)


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
        **({"canary-drift": {"deep": "canary-drift"}} | over),
    )


def erase(warehouse: Path, die_at: int | None = None) -> None:
    """Erase the pupil, in this process; with `die_at`, it kills itself just before its n-th step."""
    if die_at is not None:
        die_at_step(die_at)
    settings = load(fetches=False, warehouse=warehouse, report_names=True, _env_file=None)
    erasing.erase(Rollbook(settings), ID, reason="a reason", confirm=lambda _: True)


def killed(warehouse: Path, die_at: int) -> bool:
    """Erase the pupil in a process of its own, which kills itself; returns whether it came to that."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.support.canary"])
    process = context.Process(target=erase, args=(warehouse, die_at), daemon=True)
    process.start()
    return killed_or_done(process)


def found(*folders: Path) -> dict[str, list[str]]:
    """The texts in each file that holds any of them: in its name, its bytes, and whatever it says when it is read."""
    there = {}
    for folder in folders:
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            hits = sorted({text for text in TEXTS for piece in _pieces(path) if _is_in(text, piece)})
            if hits:
                there[str(path.relative_to(folder))] = hits
    return there


def _is_in(text: str, piece: bytes) -> bool:
    lower = piece.lower()
    return any(text.lower().encode(coding) in lower for coding in ("utf-8", "utf-16-le", "utf-16-be"))


def _pieces(path: Path) -> Iterator[bytes]:
    """The bytes of a file, and what they are when they are unpacked; of a database and of Parquet, the rows as well."""
    content = path.read_bytes()
    yield str(path).encode()
    yield content
    with suppress(OSError, EOFError):
        yield gzip.decompress(content)
    if path.suffix == ".zst":
        yield from _frames(path, content)
    elif path.suffix == ".parquet":
        yield repr(pq.read_table(io.BytesIO(content)).to_pylist()).encode()
    elif path.suffix == ".duckdb":
        yield _rows(path)
    elif zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as book:
            yield from (book.read(name) for name in book.namelist())


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
