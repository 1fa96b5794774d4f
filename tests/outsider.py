"""Rebuilds the students of a day, and their classes, from `raw/` alone, without Rollbook.

Written from pipelines/rollbook/landing/README.md with the standard library and zstd, as somebody would who finds a
warehouse in ten years: `python outsider.py WAREHOUSE 2026-11-21`.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
import sys
import unicodedata
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import zstandard

COUNTED = {"synced", "unproven", "approved"}
STUDENT = ("email", "name", "first_name", "last_name", "reference_id", "registration_date", "is_registered")
IN_CLASS = ("class_title", "course_name")
DATES = {"registration_date"}

Record = dict[str, Any]


def main() -> None:
    """Print the students of a day."""
    students, classes = rebuild(Path(sys.argv[1]), date.fromisoformat(sys.argv[2]))
    for student, values in sorted(students.items()):
        print(student, *values, *sorted(c for s, c in classes if s == student))  # noqa: T201


def rebuild(warehouse: Path, day: date) -> tuple[dict[int, tuple[Any, ...]], dict[tuple[int, int], tuple[Any, ...]]]:
    """The students of a day by id, and their classes by student and class."""
    students: dict[int, tuple[Any, ...]] = {}
    of: dict[int, dict[int, tuple[Any, ...]]] = {}
    for folder in landings(warehouse / "raw", day):
        manifest = read_manifest(folder)
        if manifest["verdict"] not in COUNTED:
            continue
        for ident, copies in stated(folder, manifest).items():
            last = copies[-1]
            students[ident] = tuple(value(last.get(name), is_date=name in DATES) for name in STUDENT)
            told = [copy["classes"] for copy in copies if copy.get("classes") is not None]
            if told:
                listed = [entry for entries in told for entry in entries]
                of[ident] = {number(e["class_id"]): tuple(value(e.get(name)) for name in IN_CLASS) for e in listed}
        for ident in absent(manifest):
            students.pop(ident, None)
            of.pop(ident, None)
    return students, {(s, c): row for s, classes in of.items() for c, row in classes.items()}


def landings(raw: Path, day: date) -> list[Path]:
    """The landings up to a day: by date, then by number."""
    named = ((path, re.fullmatch(r"landing=(\d+)", path.name)) for path in raw.glob("snapshot_date=*/landing=*"))
    numbered = [
        (path.parent.name.removeprefix("snapshot_date="), int(match[1]), path) for path, match in named if match
    ]
    return [path for on, _, path in sorted(numbered) if date.fromisoformat(on) <= day]


def read_manifest(folder: Path) -> Record:
    """A landing's manifest, whose checksum is that of all before it."""
    content = (folder / "manifest.json").read_bytes()
    body, _, checksum = content.rpartition(b',\n  "checksum": "')
    assert hashlib.sha256(body).hexdigest().encode() == checksum[:64], f"{folder}: the manifest was changed"
    manifest: Record = json.loads(content)
    return manifest


def stated(folder: Path, manifest: Record) -> dict[int, list[Record]]:
    """The records of students that a landing states: of each, the copies of the last walk or search that has it."""
    walk = next((w for w in manifest["walks"] if w["set"] == "students"), None)
    counted = walk["counted"] if walk else []
    found = {a["id"] for a in manifest["absences"] if a["set"] == "students" and a["answer"] == "found_by_search"}
    records: dict[int, tuple[Any, list[Record]]] = {}
    for page, content in bodies(folder, manifest):
        is_walked = page["kind"] == "walk" and page["walk"] in counted
        is_found = page["kind"] == "search" and page["sought"] in found
        if page["set"] != "students" or not (is_walked or is_found):
            continue
        source = (page["kind"], page["walk"], page["sought"])
        for record in json.loads(content)["data"]:
            ident = number(record.get("id"))
            if not ident or value(record.get("name")) is None or (is_found and ident != page["sought"]):
                continue
            before = records.get(ident)
            copies = before[1] if before and before[0] == source else []
            records[ident] = (source, [*copies, record])
    return {ident: copies for ident, (_, copies) in records.items()}


def bodies(folder: Path, manifest: Record) -> Iterator[tuple[Record, bytes]]:
    """Each body of a landing, with its line of the index."""
    index = (folder / "pages.jsonl").read_bytes()
    assert hashlib.sha256(index).hexdigest() == manifest["bodies_sha256"], f"{folder}: the index was changed"
    frames = (folder / "bodies.zst").read_bytes()
    for line in index.splitlines():
        page = json.loads(line)
        frame = frames[page["offset"] : page["offset"] + page["length"]]
        content = zstandard.ZstdDecompressor().decompress(frame)
        assert hashlib.sha256(content).hexdigest() == page["sha256"], f"{folder}: a body was changed"
        yield page, content


def absent(manifest: Record) -> set[int]:
    """The students whom a landing states absent."""
    walk = next((w for w in manifest["walks"] if w["set"] == "students"), None)
    if not walk or not walk["proof"] or manifest["deferred"]:
        return set()
    removed = {a["id"] for a in manifest["absences"] if a["set"] == "students" and a["answer"] == "removed"}
    return (removed | {*manifest["unverified"].get("students", ())}) - {0}


def number(said: Any) -> int:
    """A whole number, also in quotes; 0 for anything else."""
    return int(said) if isinstance(said, (int, str)) and re.fullmatch(r"\s*\d+\s*", str(said)) else 0


def value(said: Any, *, is_date: bool = False) -> Any:
    """A value as the tables have it."""
    if isinstance(said, bool):
        return int(said)
    if not isinstance(said, str):
        return said
    text = unicodedata.normalize("NFC", html.unescape(said)).strip()
    if is_date:
        day = re.match(r"\d{4}-\d\d-\d\d", text)
        return date.fromisoformat(day[0]) if day and not text.startswith("0000") else None
    return text or None


if __name__ == "__main__":
    main()
