"""Raw first (G4): bodies exactly as received, durable before counting, a verdict made once."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from contextlib import suppress
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from rollbook.landing.bodies import BodyWriter
from rollbook.landing.manifest import Body, Drift, LandedBody, TableCounts, Verdict, Walk
from rollbook.landing.raw import RawStore
from tests.campaign.disk import POWER_FAILS, Disk, PowerFailedError, Trouble
from tests.landing.landings import AT, DAY, add, begin, body, folder, full, land, manifest

# --- what is written -------------------------------------------------------------------------------------------------


def test_a_landing_says_where_each_body_is_and_what_it_is(raw: RawStore) -> None:
    done, bodies = full(raw)
    pages = list(raw.open(done).pages())
    assert [(p.set, p.kind, p.walk, p.page, p.sought) for p in pages] == [
        ("auth", "auth", 1, 1, None),
        ("students", "walk", 1, 1, None),
        ("students", "walk", 1, 2, None),
        ("students", "walk", 2, 1, None),
        ("students", "walk", 2, 2, None),
        ("classes", "walk", 1, 1, None),
        ("classes", "walk", 2, 1, None),
        ("students", "search", 1, 1, 7),
        ("students", "search", 1, 1, 8),
        ("students", "search", 1, 1, 9),
        ("details", "detail", 1, 1, 3),
    ]
    assert pages[1] == Body(
        set="students",
        kind="walk",
        page=1,
        walk=1,
        sought=None,
        received_at=AT,
        records=1,
        offset=pages[0].length,
        length=pages[1].length,
        size=len(bodies[1]),
        sha256=sha256(bodies[1]).hexdigest(),
    )
    assert sum(p.length for p in pages) == (folder(raw) / "bodies.zst").stat().st_size
    assert (done.snapshot_date, done.landing, done.bodies, done.verdict) == (DAY, 1, len(bodies), None)
    assert raw.manifests() == [done]


def test_files_are_the_owners_alone_whatever_the_umask(raw: RawStore) -> None:
    for umask in (0o000, 0o777):
        before = os.umask(umask)
        try:
            raw.record_verdict(land(raw), Verdict.SYNCED)
        finally:
            os.umask(before)
    modes = {
        str(path.relative_to(raw.root.parent)): stat.S_IMODE(path.stat().st_mode)
        for path in [raw.root, *raw.root.rglob("*")]
    }
    assert len(modes) == 2 + 2 * 4
    assert {mode for path, mode in modes.items() if "." in Path(path).name} == {0o600}
    assert {mode for path, mode in modes.items() if "." not in Path(path).name} == {0o700}


def test_everything_is_on_disk_before_the_folder_gets_its_name(raw: RawStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The order is what survives a power cut: bodies, index and manifest, the folder, the rename, the folder above."""
    steps: list[str] = []
    fsync, rename = os.fsync, Path.replace

    def noted_fsync(fd: int) -> None:
        steps.append("fsync " + Path(f"/proc/self/fd/{fd}").readlink().name)
        fsync(fd)

    def noted_rename(self: Path, target: Path) -> Path:
        steps.append(f"rename {self.name} {target.name}")
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(Path, "replace", noted_rename)
    land(raw)
    renamed = next(n for n, step in enumerate(steps) if step.endswith(" landing=1"))
    partial = steps[renamed].split()[1]
    assert partial.startswith(".landing=1.")
    assert partial.endswith(".partial")
    assert {"fsync bodies.zst", "fsync pages.jsonl", "fsync .manifest.json.partial"} < set(steps[:renamed])
    assert steps[renamed - 1] == f"fsync {partial}"
    assert steps[renamed + 1 :] == [f"fsync snapshot_date={DAY}", "fsync raw"]


def test_landings_are_numbered_days_sorted_and_strange_files_ignored(raw: RawStore) -> None:
    for day in (DAY, DAY - timedelta(days=3), *[DAY] * 10, DAY + timedelta(days=1)):
        land(raw, day=day)
    (raw.root / "snapshot_date=someday").mkdir()
    (raw.root / "notes.txt").write_text("restored on Monday")
    (folder(raw).parent / "landing=one").mkdir()
    (folder(raw).parent / "landing=1 (copy)").mkdir()
    assert raw.days() == [DAY - timedelta(days=3), DAY, DAY + timedelta(days=1)]
    assert [m.landing for m in raw.manifests(DAY)] == list(range(1, 12))
    assert [(m.snapshot_date, m.landing) for m in raw.manifests()][:2] == [(DAY - timedelta(days=3), 1), (DAY, 1)]


def test_two_writers_of_one_day_get_numbers_of_their_own(raw: RawStore) -> None:
    first, second = begin(raw), begin(raw)
    add(second, "auth", "auth", 1, body("second"))
    add(first, "auth", "auth", 1, body("first"))
    assert second.finish(manifest()).manifest.landing == 2
    assert first.finish(manifest()).manifest.landing == 1
    assert [next(raw.open(m).bodies("auth")).content for m in raw.manifests()] == [body("first"), body("second")]


# --- half-written landings
# -----------------------------------------------------------------------------------------------


def test_a_killed_writers_leftovers_are_swept_and_its_number_is_free_again(raw: RawStore, tmp_path: Path) -> None:
    landing = land(raw)
    script = """
import os, signal, sys
from datetime import date, datetime, UTC
from pathlib import Path
from rollbook.landing.manifest import Received
from rollbook.landing.raw import RawStore
from tests.campaign.disk import POWER_FAILS, Disk, PowerFailedError, Trouble
from tests.landing.landings import begin
for day in (20, 21):
    writer = begin(RawStore(Path(sys.argv[1])), date(2026, 11, day))
    writer.add(Received(set="auth", kind="auth", page=1, received_at=datetime.now(UTC), records=1), b"{}")
os.kill(os.getpid(), signal.SIGKILL)
"""
    killed = subprocess.run([sys.executable, "-c", script, str(raw.root)], timeout=60, check=False)
    assert killed.returncode == -9
    (folder(raw) / ".manifest.json.partial").write_bytes(b"half a verd")
    assert raw.manifests() == [landing]
    raw.sweep()
    left = sorted(str(p.relative_to(raw.root)) for p in raw.root.rglob("*"))
    assert left == [
        f"snapshot_date={DAY}",
        *(f"snapshot_date={DAY}/landing=1{f}" for f in ("", "/bodies.zst", "/manifest.json", "/pages.jsonl")),
    ]
    assert land(raw).landing == 2


def test_a_killed_syncs_second_process_never_writes_into_the_next_sync(raw: RawStore) -> None:
    """The second process may only now come to the bodies that were on the way."""
    number, killed = raw.reserve(DAY)
    raw.sweep()
    following = raw.reserve(DAY)
    with pytest.raises(FileNotFoundError):
        BodyWriter(killed)
    BodyWriter(following[1]).close()
    assert following[0] == number == 1


# --- what is read ----------------------------------------------------------------------------------------------------


def test_the_bodies_that_count_come_in_order(raw: RawStore) -> None:
    """Of students the proven walk and the only search that found; of classes, unproven, every walk."""
    done, bodies = full(raw)
    assert list(raw.open(done).bodies("students")) == [
        LandedBody(set="students", kind="walk", page=1, content=bodies[3], received_at=AT),
        LandedBody(set="students", kind="walk", page=2, content=bodies[4], received_at=AT),
        LandedBody(set="students", kind="search", page=1, content=bodies[8], sought=8, received_at=AT),
    ]
    assert [b.content for b in raw.open(done).bodies("classes")] == [bodies[5], bodies[6]]
    assert [b.content for b in raw.open(done).bodies("auth")] == [bodies[0]]
    assert list(raw.open(done).bodies("details")) == [
        LandedBody(set="details", kind="detail", page=1, content=bodies[10], sought=3, received_at=AT)
    ]


def test_half_a_surrogate_pair_is_replaced_in_a_single_record_only(raw: RawStore) -> None:
    page = rb'{"data": [{"id": 1, "name": "whole"}, {"id": 2, "name": "half \ud83d"}]}'
    writer = begin(raw)
    add(writer, "students", "walk", 1, page)
    add(writer, "details", "detail", 1, page, sought=2)
    done = writer.finish(manifest(walks=(Walk(set="students", walks=1, counted=(1,)),))).manifest
    assert next(raw.open(done).pages()).sha256 == sha256(page).hexdigest()
    (walked,) = raw.open(done).bodies("students")
    assert walked.content == page
    (single,) = raw.open(done).bodies("details")
    assert msgspec.json.decode(single.content)["data"][1]["name"] == "half \ufffd"


# --- the verdict -----------------------------------------------------------------------------------------------------


def test_a_verdict_is_written_with_its_reason_and_counts_once(raw: RawStore) -> None:
    fields: dict[str, Any] = {
        "counts": (TableCounts(table="students", before=10, added=1, changed=2, removed=0),),
        "rejected": {"students": 2},
        "drift": (Drift(set="students", field="house", type="string", count=4),),
    }
    done = land(raw)
    judged = raw.record_verdict(done, Verdict.SYNCED, "all well", at=AT, **fields)
    assert judged == msgspec.structs.replace(done, verdict=Verdict.SYNCED, reason="all well", judged_at=AT, **fields)
    for verdict in Verdict:
        with pytest.raises(ValueError, match="already has a verdict"):
            raw.record_verdict(done, verdict)
    assert raw.manifests() == [judged]


def test_only_held_landings_may_be_approved(raw: RawStore) -> None:
    held = raw.record_verdict(land(raw), Verdict.HELD)
    for verdict in (Verdict.SYNCED, Verdict.UNPROVEN, Verdict.FAILED):
        with pytest.raises(ValueError, match="already has a verdict: held"):
            raw.record_verdict(held, verdict)
    assert raw.record_verdict(held, Verdict.APPROVED).verdict is Verdict.APPROVED


@pytest.mark.parametrize("step", range(1, 40))
def test_a_power_failure_leaves_an_expiring_day_whole_or_gone(raw: RawStore, step: int) -> None:
    days = [DAY, DAY + timedelta(days=1)]
    for day in [*days, *days, DAY + timedelta(days=2)]:
        land(raw, day=day)
    disk = Disk(raw.root, look=lambda: None)
    with disk.installed(), suppress(PowerFailedError), disk.at_work(Trouble(POWER_FAILS, step, Random(step))):
        raw.expire(days, noted=days)
    raw.sweep()
    assert [day for day in days if raw.manifests(day) and [m.landing for m in raw.manifests(day)] != [1, 2]] == []
    assert len(raw.manifests(DAY + timedelta(days=2))) == 1
