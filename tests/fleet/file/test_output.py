"""The fleet's figures in an object store: versions that are whole, and one that counts."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import pytest

from pipelines.errors import MirrorError
from pipelines.fleet.file import output
from pipelines.fleet.file.output import KEPT, Pointer
from pipelines.mirror.bucket import Bucket

AT = datetime(2026, 11, 20, 3, 0, tzinfo=UTC)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"file://{tmp_path / 'store'}"


def rollups(tmp_path: Path, text: str) -> Path:
    """Some rollups that a build has computed."""
    folder = tmp_path / f"rollups-{text}"
    for name in ("institutions_daily", "fleet_daily"):
        (folder / name).mkdir(parents=True)
        (folder / name / "part-0.parquet").write_text(f"{name} {text}")
        (folder / name / "_SUCCESS").touch()
    return folder


def publish(tmp_path: Path, url: str, version: str) -> Pointer:
    return output.publish(url, rollups(tmp_path, version), version, AT)


def counted(url: str) -> tuple[str, dict[str, bytes]]:
    """What a reader finds: the version that counts, and its files, each as its pointer says."""
    pointer = output.current(url)
    assert pointer is not None
    bucket = Bucket(url, output.FOLDER)
    found = {name: bucket.read(f"versions/{pointer.version}/{name}") for name in pointer.files}
    assert {name: sha256(content).hexdigest() for name, content in found.items()} == pointer.files
    return pointer.version, found


def test_the_newest_version_counts_and_the_last_three_stay(tmp_path: Path, url: str) -> None:
    assert output.current(url) is None
    for number in range(1, KEPT + 3):
        assert publish(tmp_path, url, f"v{number}").number == number
        version, found = counted(url)
        assert version == f"v{number}"
        assert found["fleet_daily/part-0.parquet"] == f"fleet_daily v{number}".encode()
    objects = Bucket(url, output.FOLDER).sizes()
    assert {name.split("/")[1] for name in objects} == {"v3", "v4", "v5", *(f"{n:08d}.json" for n in (3, 4, 5))}
    assert len(objects) == KEPT * 3, "nothing but the files and a pointer each"


def test_of_two_builders_at_once_one_wins_and_the_other_leaves_nothing(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(tmp_path, url, "v0")
    both, create = threading.Barrier(2), Bucket.create
    ended: dict[str, Pointer | MirrorError] = {}

    def at_once(self: Bucket, name: str, content: bytes) -> None:
        both.wait(30)
        create(self, name, content)

    monkeypatch.setattr(Bucket, "create", at_once)

    def build(version: str) -> None:
        try:
            ended[version] = publish(tmp_path, url, version)
        except MirrorError as error:
            ended[version] = error

    builders = [threading.Thread(target=build, args=(version,)) for version in ("a", "b")]
    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join(60)
    lost, won = sorted(ended, key=lambda version: isinstance(ended[version], Pointer))
    assert "at the same time" in str(ended[lost])
    assert counted(url)[0] == won
    assert {name.split("/")[1] for name in Bucket(url, output.FOLDER).sizes("versions")} == {"v0", won}


@pytest.mark.parametrize("step", ["put", "create"])
def test_a_builder_that_ends_in_the_middle_leaves_the_version_before(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    publish(tmp_path, url, "v1")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Bucket, step, killed)
        with pytest.raises(KeyboardInterrupt):
            publish(tmp_path, url, "half")
    assert counted(url)[0] == "v1"
    publish(tmp_path, url, "v2")
    assert counted(url)[0] == "v2"
    assert {name.split("/")[1] for name in Bucket(url, output.FOLDER).sizes("versions")} == {"v1", "v2"}


def test_a_pointer_that_cannot_be_read_is_said(tmp_path: Path, url: str) -> None:
    publish(tmp_path, url, "v1")
    Bucket(url, output.FOLDER).create("current/00000002.json", b"not a pointer")
    with pytest.raises(MirrorError, match="00000002.json"):
        output.current(url)
