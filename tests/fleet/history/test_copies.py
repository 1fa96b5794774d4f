"""Histories of the lakes' copies (ROLLBOOK_LAKE), which engines read where they are: in a folder, or an object store."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from pipelines.errors import NothingLandedError
from pipelines.fleet.engine import DUCKDB, SAIL
from pipelines.fleet.history.lakes import NEVER, NO_COPY
from pipelines.fleet.history.rebuild import OTHER_DAYS, FleetRebuild
from pipelines.mirror.bucket import Bucket, folder_of
from tests.fleet.file.test_build import LATER, ODD, OTHER, SHARING, SYNCED, played
from tests.fleet.history.test_rebuild import lose_and_make_again, opened, outcomes, restored
from tests.support.processes.commands import run_command
from tests.support.warehouses.district import District
from tests.support.wire.storage import CREDENTIALS, make_bucket, s3_server
from tests.views.test_scripted_school import NIGHTS

OTHERS = "holds other snapshots than its catalog lists"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def district() -> Iterator[District]:
    with played(NIGHTS, ODD) as district:
        yield district


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with s3_server() as url:
        yield url


@pytest.fixture
def in_folder(district: District, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """All institutions' copies, in a folder; returns its address."""
    return copied(tmp_path.joinpath("a disk elsewhere").as_uri(), monkeypatch)


@pytest.fixture
def in_bucket(district: District, server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """All institutions' copies, in an object store; returns its address."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    bucket = f"lakes-{uuid4().hex[:12]}"
    make_bucket(server, bucket)
    return copied(f"s3://{bucket}/of the district".replace(" ", "-"), monkeypatch)


@pytest.fixture(params=["folder", "bucket"])
def copies(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"in_{request.param}"))


def copied(url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("ROLLBOOK_LAKE", url)
    for name in SYNCED:
        book = opened(name)
        book.mirror.update(book.clock())
    return url


def rebuild(district: District, engine: str = DUCKDB, *only: str) -> FleetRebuild:
    return FleetRebuild(district.warehouse / "fleet", district.known, engine, only, copies=True)


def swap_days(bucket: Bucket, table: str) -> None:
    """Put a table's file of one day in the place of another day's."""
    first, *_, last = sorted(name for name in bucket.sizes(f"snapshots/{table}") if name.endswith(".parquet"))
    content = bucket.read(first)
    assert content != bucket.read(last)
    bucket._obstore.put(bucket._store, last, content)


@pytest.mark.parametrize("engine", [DUCKDB, SAIL])
def test_what_is_published_is_what_the_copies_say(district: District, copies: str, engine: str) -> None:
    found = rebuild(district, engine).verify()
    assert (set(found.compared), found.differences, found.left_out) == (set(SYNCED), (), {})


@pytest.mark.parametrize("engine", [DUCKDB, SAIL])
def test_it_is_the_copies_that_are_read(district: District, copies: str, engine: str) -> None:
    """The snapshots here are gone. A copy with a wrong file is left out."""
    mine, aside = district.warehouse / OTHER / "snapshots", district.warehouse / "aside"
    mine.rename(aside)
    try:
        found = rebuild(district, engine, OTHER).verify()
        assert (found.compared, found.differences, found.left_out) == ((OTHER,), (), {})
        swap_days(Bucket(copies, OTHER), "students")
        assert OTHERS in rebuild(district, engine).verify().left_out[OTHER]
    finally:
        aside.rename(mine)


def test_a_lost_file_is_made_again_from_a_copy(district: District, in_bucket: str) -> None:
    lose_and_make_again(district, rebuild(district, SAIL, OTHER))


def test_a_copy_of_other_days_is_neither_compared_nor_taken_over(district: District, in_folder: str) -> None:
    """As while a sync is copying, or where no copy was made since: a day's record differs."""
    root = folder_of(in_folder)
    days = sorted((root / LATER / "snapshots" / "observed").iterdir())
    record, noted = days[-1] / "_day.json", (days[-1] / "_day.json").read_bytes()
    record.write_bytes(noted.replace(b'"digest":"', b'"digest":"0'))
    found = rebuild(district, DUCKDB, LATER, OTHER).verify()
    assert found.compared == (OTHER,)
    assert OTHERS in found.left_out[LATER]
    mine = opened(LATER).lake.root / "observed" / days[-1].name / "_day.json"
    with restored(mine):
        with opened(LATER).writer():
            mine.write_bytes(mine.read_bytes().replace(b'"digest":"', b'"digest":"0'))
        book = opened(LATER)
        book.mirror.update(book.clock())
        assert rebuild(district, DUCKDB, LATER).verify().left_out == {LATER: OTHER_DAYS}
    assert "have changed since" in str(outcomes(rebuild(district, DUCKDB, LATER))[LATER])


def test_a_day_that_counts_no_longer_is_not_read(district: District, in_folder: str) -> None:
    """As when a mirror was killed before it removed the files of a discarded day."""
    lake = folder_of(in_folder) / OTHER / "snapshots"
    for table in lake.iterdir():
        shutil.copytree(min(table.iterdir()), table / "snapshot_date=2020-01-01")
    found = rebuild(district).verify()
    assert set(found.compared) == {LATER, SHARING}
    assert OTHERS in found.left_out[OTHER]
    book = opened(OTHER)
    book.mirror.update(book.clock())
    assert rebuild(district).verify().left_out == {}


def test_without_a_copy_it_says_so(district: District, in_folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(folder_of(in_folder) / SHARING)
    found = rebuild(district).verify()
    assert set(found.compared) == {OTHER, LATER}
    assert found.left_out == {SHARING: NEVER}
    monkeypatch.delenv("ROLLBOOK_LAKE")
    with pytest.raises(NothingLandedError, match=NO_COPY):
        rebuild(district).verify()


def test_an_object_store_that_is_gone_costs_a_message(
    district: District, in_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipelines.mirror.bucket.RETRY_SECONDS", 1)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(NothingLandedError, match=r"could not be listed .* no usable answer"):
        rebuild(district).verify()


def test_the_command_reads_the_copies(district: District, in_folder: str) -> None:
    done = run_command(
        "fleet", "rebuild", "--verify", "--mirror", env={**district.environment(), "ROLLBOOK_LAKE": in_folder}
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "Equal. The published files of 3 institutions match the snapshots.\n"
