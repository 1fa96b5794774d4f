"""The staged rows equal the rows that flattening reads from `raw/` afterwards; and a second process does the same."""

from __future__ import annotations

import errno
import itertools
import logging
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from socket import SHUT_RDWR, socket
from typing import Any
from unittest.mock import Mock

import msgspec
import pyarrow.parquet as pq
import pytest

from rollbook.errors import MachineError
from rollbook.ingest import BodyWriterProcess, Flattened, Ingested, StagingWriter, stage_again, started_early
from rollbook.landing.manifest import Absence, Manifest, Proof, Received, Verdict, Walk
from rollbook.landing.raw import RawStore
from rollbook.tables import SETS, of_set
from tests.landing.landings import AT, add, begin, manifest
from tests.support.records import MISSING, school_class, student

HALF_A_PAIR = "half a pair"


@pytest.fixture(params=["in the same process", "in a second process", "once it is large", "where none can start"])
def _where(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    large = {"in the same process": 10**9, "once it is large": 4}
    monkeypatch.setattr("rollbook.ingest.LARGE", large.get(request.param, 0))
    if request.param == "where none can start":
        monkeypatch.setattr("subprocess.Popen", Mock(side_effect=OSError(errno.ENOMEM, "Cannot allocate memory")))


@pytest.fixture
def begun(raw: RawStore) -> Iterator[StagingWriter]:
    """A landing under way; the process ends with the test."""
    writer = begin(raw)
    yield writer
    writer.abandon()


def page(*records: Any) -> bytes:
    return msgspec.json.encode({"success": True, "data": records}).replace(HALF_A_PAIR.encode(), rb"\ud83d")


def messy(writer: StagingWriter) -> Manifest:
    """Three walks of the students, of which the last is proven; two unproven walks of the classes; searches; details."""
    auth = {"success": True, "data": {"school": {"id": 41}, "colour": "red"}}
    add(writer, "auth", "auth", 1, msgspec.json.encode(auth))
    add(writer, "students", "walk", 1, page(student(1), student(99)), walk=1)
    add(writer, "students", "walk", 1, page(student(1), student(1)), walk=2)
    nested = student(4, name=HALF_A_PAIR)
    add(writer, "students", "walk", 1, page(student(1, classes=MISSING), student(2, motto="Ad astra")), walk=3)
    add(writer, "students", "walk", 2, page(student(3, name=[7]), nested, student(5, classes=[])), walk=3)
    for number in (1, 2):
        add(writer, "classes", "walk", 1, page(school_class(501), school_class(501 + number, motto="x")), walk=number)
    for sought, others in ((7, [student(6), student(7)]), (8, [student(6)])):
        add(writer, "students", "search", 1, page(*others), sought=sought)
    add(writer, "details", "detail", 1, msgspec.json.encode({"success": True, "data": {"id": 1}}), sought=1)
    proof = Proof(set="students", walk=3, total_count=5, unique_ids=5, pages=2, limit=5)
    return manifest(
        landing=1,
        walks=(
            Walk(set="students", walks=3, counted=(3,), proof=proof, total_count=5, received=5),
            Walk(set="classes", walks=2, counted=(1, 2), total_count=2, received=4, spoiled=("a", "b")),
        ),
        absences=(
            Absence(set="students", id=7, answer="found_by_search", asked_by=("email",)),
            Absence(set="students", id=8, answer="removed", asked_by=("email",)),
        ),
    )


def rows(flattened: Flattened) -> dict[str, list[dict[str, Any]]]:
    """All staged rows per set and table; each record's position counted over all parts of the set."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for name in SETS:
        staged = {
            table: [
                row | {"seq": (number, row["seq"])}
                for number, part in enumerate(flattened.of(name))
                for row in pq.read_table(Path(part.folder) / f"{table}.parquet").to_pylist()
            ]
            for table in (*(t.name for t in of_set(name)), "observed")
        }
        order = sorted({row["seq"] for row in staged["observed"]})
        for table, listed in staged.items():
            counted = [row | {"seq": order.index(row["seq"])} for row in listed]
            rows[f"{name} {table}"] = sorted(counted, key=lambda row: (row["seq"], repr(row)))
    return rows


@pytest.mark.usefixtures("_where")
def test_rows_staged_during_the_fetch_equal_rows_read_from_raw(
    raw: RawStore, begun: StagingWriter, tmp_path: Path
) -> None:
    done = begun.finish(messy(begun))
    staged = done.flattened
    assert staged is not None
    again = stage_again(raw.open(done.manifest), tmp_path / "again")
    assert rows(staged) == rows(again)
    assert (staged.values, staged.rejected(), staged.oddities) == (again.values, again.rejected(), again.oddities)
    assert (staged.rejects, staged.drift) == (again.rejects, again.drift)
    # And not everything is empty.
    assert [r["student_id"] for r in rows(staged)["students students"]] == [1, 2, 5, 7]
    assert staged.rejected() == {"students": 2}
    assert {(d.set, d.field, d.count) for d in staged.drift} == {
        ("students", "motto", 1),
        ("classes", "motto", 1),  # in each of two walks
        ("auth", "colour", 1),
    }


@pytest.mark.usefixtures("_where")
def test_a_landing_under_way_is_readable_and_an_abandoned_one_leaves_nothing(
    raw: RawStore, begun: StagingWriter
) -> None:
    draft = messy(begun)
    assert [b.page for b in begun.bodies(draft, "students")] == [1, 2, 1]
    begun.abandon()
    assert list(raw.root.iterdir()) == []


@pytest.mark.usefixtures("_where")
def test_a_failed_landing_is_kept_and_nothing_of_it_staged(raw: RawStore, begun: StagingWriter) -> None:
    failed = begun.finish(msgspec.structs.replace(messy(begun), verdict=Verdict.FAILED))
    (kept,) = raw.manifests()
    assert failed == Ingested(kept)


@pytest.mark.usefixtures("_where")
def test_bodies_are_landed_though_staging_fails(raw: RawStore, caplog: pytest.LogCaptureFixture) -> None:
    brought = list[Callable[[], Ingested]]()
    writer = begin(raw, walks_over=brought.append)
    (raw.root.parent / "build" / "aside" / f"landing=1-{os.getpid()}" / "students-1").write_text("in the way")
    with caplog.at_level(logging.WARNING):
        landing = messy(writer)
        writer.walked(landing, lambda: landing)
        done = writer.finish(landing)
    assert done.flattened is None
    assert [walked().flattened for walked in brought] in ([], [None])
    assert len(list(raw.open(done.manifest).pages())) == 10
    assert [r.getMessage() for r in caplog.records if "second process" not in r.getMessage()] == [
        "Staging during the fetch failed (FileExistsError); reading the landing again"
    ]


def test_a_large_landing_gives_its_walked_rows_ahead_of_the_searches(
    raw: RawStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rollbook.ingest.LARGE", 1)
    brought = list[Callable[[], Ingested]]()
    writer = begin(raw, walks_over=brought.append)
    add(writer, "students", "walk", 1, page(student(1)), walk=1)
    walk = Walk(set="students", walks=1, counted=(1,), total_count=1, received=1)
    draft, presumed = manifest(landing=1, walks=(walk,)), manifest(landing=1, walks=(walk,), requests=3)
    writer.walked(draft, lambda: presumed)
    add(writer, "students", "search", 1, page(student(7)), sought=7)
    found = Absence(set="students", id=7, answer="found_by_search", asked_by=("email",))
    done = writer.finish(msgspec.structs.replace(draft, absences=(found,)))
    ahead = brought[0]()
    assert ahead.manifest == presumed
    for ingested, ids in ((ahead, [1]), (done, [1, 7])):
        assert ingested.flattened is not None
        assert [row["student_id"] for row in rows(ingested.flattened)["students students"]] == ids


def test_a_process_that_is_started_early_takes_the_landing_or_ends(
    raw: RawStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rollbook.ingest.LARGE", 100)
    listed = Path(f"/proc/self/task/{os.getpid()}/children")
    earlier = set(listed.read_text().split())  # of other tests: Python's own tracker may be running

    def children() -> set[str]:
        return set(listed.read_text().split()) - earlier

    with started_early(99) as process:
        assert process is None
        assert not children()
    with started_early(100) as process:
        (child,) = children()
        writer = begin(raw, process=process)
        done = writer.finish(messy(writer))
        assert not children()
        assert done.flattened is not None
    with started_early(100):
        (other,) = children()
        assert other != child
    assert not children()


# --- the second process ----------------------------------------------------------------------------------------------


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BodyWriterProcess]:
    monkeypatch.setenv("ROLLBOOK_API_KEY", "k3y")
    monkeypatch.setenv("LINDEN_VALE", "k3y")  # as a registry may name a school
    (tmp_path / "partial").mkdir()
    with closing(BodyWriterProcess()) as started:
        started.open(tmp_path / "partial", tmp_path / "aside")
        yield started


def one(process: BodyWriterProcess, content: bytes = b"{}") -> None:
    process.add(Received(set="students", kind="walk", page=1, received_at=AT, records=1), content)


def test_a_second_process_that_is_killed_ends_the_landing_in_words(process: BodyWriterProcess) -> None:
    one(process)
    process.flush()
    os.kill(process._process.pid, signal.SIGKILL)
    process._process.wait(10)
    many = itertools.repeat(bytes(2**20), 100)  # the fault is noticed while pages still come
    with pytest.raises(MachineError, match=r"ended unexpectedly \(signal 9\).*Nothing of this sync counts"):
        list(map(partial(one, process), many))


def test_an_error_of_the_machine_is_the_same_in_the_first_process(process: BodyWriterProcess, tmp_path: Path) -> None:
    one(process)
    process.flush()
    (tmp_path / "partial" / "bodies.zst").unlink()
    with pytest.raises(FileNotFoundError) as caught:
        process.seal()
    assert caught.value.filename == str(tmp_path / "partial" / "bodies.zst")


def test_another_error_is_told_without_its_words(process: BodyWriterProcess) -> None:
    process.seal()
    one(process, b"Pupil Canary")  # the files are closed
    with pytest.raises(RuntimeError, match=r"^the second process failed: ValueError in bodies\.py, line \d+$"):
        process.flush()


def test_it_has_no_key_and_ends_when_the_first_process_is_gone(process: BodyWriterProcess) -> None:
    one(process)
    process.flush()
    about = Path(f"/proc/{process._process.pid}")
    assert b"k3y" not in (about / "environ").read_bytes()
    assert b"k3y" not in (about / "cmdline").read_bytes()
    with socket(fileno=os.dup(process._pipe.fileno())) as pipe:
        pipe.shutdown(SHUT_RDWR)  # as the system does for a process that is gone
    assert process._process.wait(10) == 0


def test_undelivered_messages_wait_and_all_arrive(process: BodyWriterProcess, tmp_path: Path) -> None:
    for _ in range(40):
        one(process, os.urandom(2**18))
    process.seal()
    lines = (tmp_path / "partial" / "pages.jsonl").read_text().splitlines()
    assert [msgspec.json.decode(line)["size"] for line in lines] == [2**18] * 40
