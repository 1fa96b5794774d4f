"""Changes to a warehouse's files from outside Rollbook."""

from __future__ import annotations

import hashlib
import json
import shutil
from contextlib import suppress
from datetime import date
from pathlib import Path
from random import Random
from typing import Any

import duckdb

from tests.campaign.ledger import Key
from tests.support.reading import writable

DIGEST = 16  # characters
EDITS = (
    "UPDATE main.students SET name = 'Edited By Hand' WHERE student_id % 3 = 0",
    "DELETE FROM main.students WHERE student_id % 2 = 0",
    "DELETE FROM history.students WHERE valid_to IS NOT NULL",
    "UPDATE history.student_summaries SET average_score = 100",
    "DELETE FROM main.classes",
)


def digest(path: Path) -> str:
    """The digest of a file; empty if there is no file."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def cut(path: Path, random: Random) -> None:
    """The end of a file is lost; an empty one has a byte instead."""
    content = path.read_bytes()
    writable(path).write_bytes(content[: random.randrange(len(content))] if content else b"0")


def scribble(path: Path, random: Random) -> None:
    """Bytes all over a file are changed."""
    content = bytearray(path.read_bytes())
    for place in range(random.randrange(min(300_000, len(content) // 2)), len(content) - 64, 50_000):
        content[place : place + 64] = random.randbytes(64)
    writable(path).write_bytes(content)


def replace_by_folder(path: Path, note: str) -> None:
    """Somebody has put a folder, with a note inside, where the file was."""
    if path.is_dir():
        return
    path.unlink(missing_ok=True)
    path.mkdir()
    (path / f"{note}.txt").write_text(note)


def remove(path: Path) -> None:
    """Delete a file or folder."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def edit(path: Path, random: Random) -> None:
    """An analyst opens the file for writing, and changes rows."""
    with duckdb.connect(path) as con:
        con.execute(random.choice(EDITS))


def spoil_snapshot(snapshots: Path, random: Random) -> str:
    """A file of a snapshot, or all of a day's, is lost or spoiled; returns what was done."""
    part = random.choice(sorted(snapshots.glob("*/snapshot_date=*/part-0.parquet")))
    match random.randrange(4):
        case 0:
            part.unlink()
            return f"{part.relative_to(snapshots)} lost"
        case 1:
            cut(part, random)
            return f"{part.relative_to(snapshots)} cut short"
        case 2:
            part.write_bytes(random.randbytes(part.stat().st_size))
            return f"{part.relative_to(snapshots)} spoiled"
        case _:
            for folder in snapshots.glob(f"*/{part.parent.name}"):
                shutil.rmtree(folder)
            return f"{part.parent.name} lost"


def manifests(raw: Path) -> dict[Key, dict[str, Any]]:
    """The manifests of the landings on disk that can be read."""
    manifests_by_key: dict[Key, dict[str, Any]] = {}
    for path in raw.glob("snapshot_date=*/landing=*/manifest.json"):
        with suppress(OSError, ValueError):
            manifests_by_key[key_of(path)] = json.loads(path.read_bytes())
    return manifests_by_key


def key_of(file: Path | str) -> Key:
    """The landing of a file."""
    day, number = (part.partition("=")[2] for part in Path(file).parts[-3:-1])
    return date.fromisoformat(day), int(number)


def landings(raw: Path) -> dict[Key, str]:
    """The landings on disk, with their verdicts."""
    return {key: str(manifest["verdict"]) for key, manifest in manifests(raw).items()}


def files_of(raw: Path) -> dict[str, str]:
    """All files of a warehouse's raw/, or of a copy, by place: the beginning of the digest."""
    paths = (p for p in raw.rglob("*") if p.is_file() and not p.name.startswith("."))
    return {str(p.relative_to(raw)): digest(p)[:DIGEST] for p in paths}


def files_of_copy(raw: Path) -> dict[str, str]:
    """The same of a copy in an object store, where the names end in the digests."""
    paths = (p for p in raw.rglob("*") if p.is_file())
    return {str(p.relative_to(raw).with_suffix("")): digest(p)[:DIGEST] for p in paths}


def flip(path: Path, random: Random) -> None:
    """A byte is another."""
    content = bytearray(path.read_bytes() or b"0")
    place = random.randrange(len(content))
    content[place] = 0xFF if content[place] != 0xFF else 0xFE
    writable(path).write_bytes(content)


def become_folder(path: Path, _: Random) -> None:
    """A folder is where the file was."""
    path.unlink()
    path.mkdir()


def delete(path: Path, _: Random) -> None:
    """A file is gone."""
    path.unlink()


def put_back(source: Path, target: Path) -> None:
    """The files of a folder are put back where the folder was, beside what has come since."""
    for path in sorted(p for p in source.rglob("*") if p.is_file()):
        place = target / path.relative_to(source)
        if not (place.exists() and place.parent.name.startswith("landing=")):
            place.parent.mkdir(parents=True, exist_ok=True)
            path.replace(place)
