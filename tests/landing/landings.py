"""Landings made by hand, for tests of what is in raw/."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from rollbook.ingest import StagingWriter
from rollbook.landing.manifest import Absence, Manifest, Proof, Received, Walk
from rollbook.landing.raw import RawStore
from rollbook.source.pagination import Sink

DAY = date(2026, 11, 20)
AT = datetime(2026, 11, 20, 2, 15, 1, 123456, tzinfo=UTC)


def manifest(**over: Any) -> Manifest:
    ended = AT + timedelta(seconds=9)
    values: dict[str, Any] = {"snapshot_date": DAY, "landing": 0, "started_at": AT, "finished_at": ended}
    return Manifest(**(values | over))


def begin(raw: RawStore, day: date = DAY, **more: Any) -> StagingWriter:
    """Start a landing; the staged rows go beside raw/."""
    return StagingWriter(raw, raw.root.parent / "build" / "aside", day, **more)


def body(text: str) -> bytes:
    return ('{"data": "' + text + '"}').encode()


def add(writer: Sink, set_name: str, kind: Any, page: int, content: bytes, **more: Any) -> None:
    writer.add(Received(set=set_name, kind=kind, page=page, received_at=AT, records=1, **more), content)


def land(raw: RawStore, text: str = "x", day: date = DAY, **over: Any) -> Manifest:
    writer = begin(raw, day)
    add(writer, "auth", "auth", 1, body(text))
    return writer.finish(manifest(**over)).manifest


def folder(raw: RawStore, landing: int = 1, day: date = DAY) -> Path:
    return raw.root / f"snapshot_date={day}" / f"landing={landing}"


def full(raw: RawStore) -> tuple[Manifest, list[bytes]]:
    """A landing with every kind of body: students proven by walk 2, classes unproven after two walks."""
    bodies = [body(t) for t in ("auth", "s1.1", "s1.2", "s2.1", "s2.2", "c1.1", "c2.1", "7", "8", "9", "d")]
    writer = begin(raw)
    add(writer, "auth", "auth", 1, bodies[0])
    for content, number, page in zip(bodies[1:5], (1, 1, 2, 2), (1, 2, 1, 2), strict=True):
        add(writer, "students", "walk", page, content, walk=number)
    for content, number in zip(bodies[5:7], (1, 2), strict=True):
        add(writer, "classes", "walk", 1, content, walk=number)
    for content, sought in zip(bodies[7:10], (7, 8, 9), strict=True):
        add(writer, "students", "search", 1, content, sought=sought)
    add(writer, "details", "detail", 1, bodies[10], sought=3)
    proof = Proof(set="students", walk=2, total_count=2, unique_ids=2, pages=2, limit=1)
    done = writer.finish(
        manifest(
            walks=(
                Walk(set="students", walks=2, counted=(2,), proof=proof, spoiled=("walk 1, page 2: short",)),
                Walk(set="classes", walks=2, counted=(1, 2), spoiled=("a", "b")),
            ),
            absences=(
                *(Absence(set="students", id=student, answer="removed", asked_by=("email",)) for student in (7, 9)),
                Absence(set="students", id=8, answer="found_by_search", asked_by=("email",)),
            ),
        )
    )
    return done.manifest, bodies
