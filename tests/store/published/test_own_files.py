"""The database files of this warehouse, by their registered digests."""

import shutil
from pathlib import Path

import pytest

from rollbook.landing.erased import ErasureRegister
from rollbook.store.published import OwnFiles

CONTENT = b"as Rollbook wrote it"


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "rollbook.duckdb"
    path.write_bytes(CONTENT)
    return path


def own(folder: Path) -> OwnFiles:
    return OwnFiles(ErasureRegister(folder / "private" / "erasures"))


def test_a_registered_file_and_its_copies_are_recognised_and_no_other(tmp_path: Path, written: Path) -> None:
    assert not own(tmp_path).is_unmodified(written)
    own(tmp_path).register(written)
    copy = Path(shutil.copyfile(written, tmp_path / "copy"))
    assert own(tmp_path).is_unmodified(written)
    assert own(tmp_path).is_unmodified(copy)
    assert written.read_bytes() == CONTENT
    (tmp_path / "next").write_bytes(b"of another warehouse")
    own(tmp_path / "another").register(tmp_path / "next")
    assert not own(tmp_path).is_unmodified(tmp_path / "next")
    for changed in (b"A" + CONTENT[1:], CONTENT[:-1], CONTENT + b"x", b""):
        written.write_bytes(changed)
        assert not own(tmp_path).is_unmodified(written)
    shutil.rmtree(tmp_path / "private")
    assert not own(tmp_path).is_unmodified(copy)


def test_damage_behind_equal_time_and_size_is_found_by_reading_again(tmp_path: Path, written: Path) -> None:
    files = own(tmp_path)
    files.register(written)
    assert files.is_unmodified(written)
    with written.open("r+b") as opened:
        opened.write(b"X")
    files.forget()
    assert not files.is_unmodified(written)
