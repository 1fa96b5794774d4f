"""The copy in an object store: it follows every writer, belongs to one warehouse, and restores the same tables."""

from __future__ import annotations

import json
import logging
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rollbook.errors import ArgumentError, LostError, MirrorError, SettingError
from rollbook.features.mirror.mirror import Bucket, Mirror, restore
from rollbook.features.mirror.settings import MirrorSettings
from rollbook.reading import access
from rollbook.settings import load
from rollbook.util import machine
from tests.support.nights import House, new_house, night
from tests.support.records import classes, student, students
from tests.support.tiers import daily
from tests.support.warehouses.begun import begin, begin_changing
from tests.support.warehouses.copies import copied_days, copy_of, mirror_command
from tests.support.warehouses.erasures import erase
from tests.support.wire.storage import restored

pytestmark = pytest.mark.nights


@pytest.fixture
def copied_school(tmp_path: Path) -> Iterator[House]:
    with new_house(students(30), classes(2), lake=(tmp_path / "copy").as_uri()) as house:
        yield house


def test_a_night_copies_what_is_new_and_nothing_else(copied_school: House, monkeypatch: pytest.MonkeyPatch) -> None:
    begin_changing(copied_school, 2)
    put: list[str] = []
    real = Bucket.put

    def noted(self: Bucket, name: str, content: Path, digest: str) -> None:
        put.append(name)
        real(self, name, content, digest)

    monkeypatch.setattr(Bucket, "put", noted)
    copied_school.at(3).sync()
    days = {part for name in put for part in name.split("/") if part.startswith("snapshot_date=")}
    assert days == {f"snapshot_date={night(3)}"}
    put.clear()
    with copied_school.rollbook().writer().writing():
        pass
    assert put == []


def test_a_failed_copy_costs_a_warning_and_the_next_writer_catches_up(
    copied_school: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    begin(copied_school)
    with monkeypatch.context() as broken:
        broken.setattr(Bucket, "put", _refuse)
        with caplog.at_level(logging.WARNING):
            assert copied_school.night(2, students(31)).manifest.counts_for_its_day
    assert "could not take an object" in caplog.text
    mirror = copied_school.rollbook().listener(Mirror)
    assert mirror.state().failed
    assert copied_days(copied_school) == [night(1)]
    copied_school.night(3)
    assert copied_days(copied_school) == [night(1), night(2), night(3)]
    assert not mirror.state().failed


@pytest.mark.parametrize("after", daily([0, 1, 5, 9, 14], 9))
def test_an_interrupted_copy_leaves_the_last_whole_and_is_finished(
    copied_school: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    played = begin_changing(copied_school, 2)
    before = copied_school.tables()
    left = [after]

    def put(self: Bucket, name: str, content: Path, digest: str) -> None:
        if not left[0]:
            (copy_of(copied_school) / name).parent.mkdir(parents=True, exist_ok=True)
            (copy_of(copied_school) / name).write_bytes(b"cut")
            raise KeyboardInterrupt
        left[0] -= 1
        real(self, name, content, digest)

    real = Bucket.put
    with monkeypatch.context() as cut:
        cut.setattr(Bucket, "put", put)
        cut.setattr("rollbook.features.mirror.mirror.AT_ONCE", 1)
        with pytest.raises(KeyboardInterrupt):
            played.play(1)
    assert restored(copied_school, tmp_path / "last").tables() == before
    copied_school.rollbook().listener(Mirror).update(copied_school.now)
    assert copied_school.rollbook().listener(Mirror).verify() == []
    assert restored(copied_school, tmp_path / "new").tables() == copied_school.tables()


def test_an_object_that_is_lost_or_spoiled_is_found(copied_school: House, tmp_path: Path) -> None:
    begin(copied_school)
    mirror = copied_school.rollbook().listener(Mirror)
    (body,) = copy_of(copied_school).rglob("bodies.zst.*")
    body.write_bytes(body.read_bytes()[:-1] + b"!")
    assert mirror.verify() == [body.relative_to(copy_of(copied_school)).as_posix()]
    with pytest.raises(MirrorError, match="bodies.zst is missing in .*, or not what was copied"):
        restore(copied_school.over["lake"], "", tmp_path / "new")
    body.unlink()
    mirror.update(copied_school.now)
    assert mirror.verify() == []
    assert (
        restored(copied_school, tmp_path / "new").tables() == copied_school.tables()
    )  # it goes on from what it had fetched


@pytest.mark.slow
def test_another_warehouse_never_writes_over_a_copy(copied_school: House, tmp_path: Path) -> None:
    begin_changing(copied_school, 2)
    other = House(tmp_path / "other", copied_school.service, **copied_school.over)
    with pytest.raises(
        LostError,
        match=r"the copy of another warehouse, and this one lacks raw/snapshot_date=2026-11-20/landing=1, raw",
    ):
        other.at(2).sync()
    with pytest.raises(LostError, match="the copy of another warehouse"):
        other.rollbook().listener(Mirror).update(other.now, adopt=True)
    assert copied_school.rollbook().listener(Mirror).verify() == []
    again = restored(copied_school, tmp_path / "new")
    mirror = Mirror(again.settings(lake=copied_school.over["lake"]), lambda: None)
    with pytest.raises(MirrorError, match="rollbook mirror sync --adopt"):
        mirror.update(again.now)
    mirror.update(again.now, adopt=True)
    with pytest.raises(MirrorError, match="another warehouse of this institution"):
        copied_school.rollbook().listener(Mirror).update(copied_school.now)  # the old machine comes back


def test_the_copy_of_another_institution_is_refused(copied_school: House, tmp_path: Path) -> None:
    begin(copied_school)
    with pytest.raises(MirrorError, match="the copy of institution 41; this is institution 42"):
        Mirror(copied_school.settings(), lambda: 42).update(copied_school.now)


def test_of_two_at_once_one_wins(copied_school: House, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(copied_school)
    mirror = copied_school.rollbook().listener(Mirror)
    real = Bucket.create

    def late(self: Bucket, name: str, content: bytes) -> None:
        monkeypatch.setattr(Bucket, "create", real)
        another = json.loads(content) | {"rollbook": "another machine's"}
        real(self, name, json.dumps(another).encode())
        real(self, name, content)

    monkeypatch.setattr(Bucket, "create", late)
    with pytest.raises(MirrorError, match="at the same time"):
        mirror.update(copied_school.now, adopt=True)


def test_a_restore_goes_into_an_empty_folder_only(copied_school: House, tmp_path: Path) -> None:
    begin(copied_school)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letters.txt").touch()
    with pytest.raises(ArgumentError, match="is not empty"):
        restore(copied_school.over["lake"], "", tmp_path / "full")
    with pytest.raises(MirrorError, match="Nothing was ever copied"):
        restore((tmp_path / "elsewhere").as_uri(), "", tmp_path / "new")


@pytest.mark.parametrize(
    "name",
    [
        "../../evil",
        "/etc/cron.d/evil",
        "raw/../../evil.json",
        ".env",
        "rollbook.duckdb",
        "private/access-2026-11.jsonl",
        "private/erasures/run.sh",
        "raw/snapshot_date=2026-11-20/landing=1/bodies.zst\n",
        "raw/snapshot_date=2026-11-20/landing=1/deep/manifest.json",
        "build/alerts.json",
        "README.md",
    ],
)
def test_a_catalog_with_a_name_that_is_not_ours_is_not_followed(
    copied_school: House, tmp_path: Path, name: str
) -> None:
    begin(copied_school)
    (path,) = (copy_of(copied_school) / "_mirror").iterdir()
    catalog = json.loads(path.read_text())
    catalog["files"][name] = {"size": 1, "sha256": "0" * 64}
    path.write_text(json.dumps(catalog))
    with pytest.raises(MirrorError, match="names a file that Rollbook does not copy"):
        restore(copied_school.over["lake"], "", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_file_of_somebody_elses_in_raw_is_neither_copied_nor_missed(copied_school: House, tmp_path: Path) -> None:
    begin(copied_school)
    notes = copied_school.warehouse / "raw" / "notes of the office.txt"
    notes.write_text("call the service")
    copied_school.night(2)
    assert not list(copy_of(copied_school).rglob("*notes*"))
    notes.unlink()
    copied_school.night(3)
    assert restored(copied_school, tmp_path / "new").tables() == copied_school.tables()
    assert not (tmp_path / "new" / "raw" / notes.name).exists()


@pytest.mark.parametrize(
    ("lake", "says"),
    [
        ("bucket/prefix", "must be an object store's folder"),
        ("http://bucket", "must be an object store's folder"),
        ("s3://", "must be an object store's folder"),
        ("s3://key:secret@bucket/x", "must hold no user, key"),
    ],
)
def test_an_address_that_cannot_be_one_is_refused(copied_school: House, lake: str, says: str) -> None:
    with pytest.raises(SettingError, match=f"ROLLBOOK_LAKE {says}") as caught:
        copied_school.settings(lake=lake)
    assert "secret" not in caught.value.message


def test_records_go_unencrypted_to_this_machine_only(copied_school: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://storage.example")
    with pytest.raises(SettingError, match="AWS_ENDPOINT_URL, which must begin with https"):
        copied_school.settings(lake="s3://bucket/x")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")
    assert MirrorSettings.of(copied_school.settings(lake="s3://bucket/x")).lake == "s3://bucket/x"


def _refuse(*_: Any) -> None:
    raise MirrorError("The mirror could not take an object")


@pytest.mark.slow
def test_an_erased_student_leaves_the_copy_too(copied_school: House, tmp_path: Path) -> None:
    named = student(7, name="Xanthippe Quill", email="xq@school.example")
    copied_school.night(1, [*students(6), named, *students(6, first=10)])
    copied_school.night(2, [*students(6), named, *students(7, first=10)])
    assert _mentions(copied_school) > 0
    erase(copied_school, 7)
    assert _mentions(copied_school) == 0
    copied_school.night(3)
    assert _mentions(copied_school) == 0
    again = restored(copied_school, tmp_path / "new")
    assert again.tables() == copied_school.tables()
    copied_school.at(4)  # the service goes by its clock
    again.at(4).sync()  # the restored warehouse knows, too, whom it leaves out
    assert not again.query("SELECT * FROM history.students WHERE student_id = 7")


def _mentions(house: House) -> int:
    """How many objects hold the student's name, decompressed."""
    text, count = b"Xanthippe", 0
    for path in filter(Path.is_file, copy_of(house).rglob("*")):
        if path.suffix == ".parquet":
            count += text in str(pq.read_table(path).to_pylist()).encode()
        elif "bodies.zst" in path.name:
            bodies = pa.CompressedInputStream(pa.OSFile(str(path)), "zstd")
            count += text in bodies.read()
        else:
            count += text in path.read_bytes()
    return count


def test_the_commands_say_how_the_copy_is_doing(copied_school: House, tmp_path: Path) -> None:
    begin(copied_school)
    output = mirror_command(copied_school, "status")
    assert output.exit_code == 0
    assert "holds 1 landed day (2026-11-20 to 2026-11-20)" in output.stdout
    assert "Copied 0 files" in mirror_command(copied_school, "sync").stdout
    assert "is intact" in mirror_command(copied_school, "verify").stdout
    output = mirror_command(copied_school, "restore", "--into", str(tmp_path / "new"))
    assert f"ROLLBOOK_WAREHOUSE={tmp_path / 'new'} rollbook rebuild" in output.stdout
    (body,) = copy_of(copied_school).rglob("bodies.zst.*")
    body.unlink()
    message = f"Missing or damaged in the copy: {body.relative_to(copy_of(copied_school)).as_posix()}. Delete"
    assert message in str(mirror_command(copied_school, "verify").exception)
    assert "Copied 1 file" in mirror_command(copied_school, "sync").stdout
    lake = copied_school.over.pop("lake")
    erase(copied_school, 7)
    copied_school.over["lake"] = lake
    assert re.search(
        r"It is not as here in \d+ files, such as .* Run `rollbook mirror sync`", told_wrong(copied_school)
    )
    mirror_command(copied_school, "sync")
    assert mirror_command(copied_school, "status").exit_code == 0
    shutil.rmtree(copy_of(copied_school))
    assert "Nothing was ever copied" in str(mirror_command(copied_school, "status").exception)
    assert isinstance(mirror_command(copied_school, "status", lake="").exception, SettingError)


def told_wrong(house: House) -> str:
    """The answer of `mirror status` about a copy that is behind."""
    done = mirror_command(house, "status")
    assert done.exit_code == 1
    return str(done.exception)


@pytest.mark.parametrize("is_new", [False, True])
def test_a_restore_is_a_line_of_the_access_log(copied_school: House, tmp_path: Path, is_new: bool) -> None:
    begin(copied_school)
    into, here = tmp_path / "into", tmp_path / "nowhere" if is_new else copied_school.warehouse
    copied_school.rollbook().listener(Mirror).update(copied_school.now)
    done = mirror_command(copied_school, "restore", "--into", str(into), warehouse=here)
    assert done.exit_code == 0, done.output
    entries, _ = access.entries(into if is_new else copied_school.warehouse)
    assert [(entry.kind, entry.user) for entry in entries] == [("mirror restore", machine.account())]


@pytest.mark.parametrize(
    "variable", ["AWS_ENDPOINT_URL", "AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT", "GOOGLE_BASE_URL"]
)
def test_an_object_store_is_not_reached_without_encryption(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "http://store.example")
    with pytest.raises(SettingError, match=f"is reached by {variable}, which must begin with https://"):
        load(base_url="https://x.example", api_key="k", lake="s3://bucket/rollbook")
